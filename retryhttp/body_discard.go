package retryhttp

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"
)

// A response is discarded by reading its body, so that its connection can be used again. These are
// the bounds, because a new connection is cheaper than the rest of a long body.
const (
	discardBytes = 64 << 10
	discardTime  = 100 * time.Millisecond
	// discardGrace is the end of discardTime. When it begins, the attempt is canceled.
	discardGrace = 10 * time.Millisecond
)

// emptyReads is how many calls of Read may return neither a byte nor an error, as in package io.
const emptyReads = 100

// discard discards the response of the last attempt, if there is one.
func (x *exchange) discard() {
	if resp := x.resp; resp != nil {
		x.resp = nil
		x.last.discard(resp, 0)
	}
}

// discard reads and closes the unread response of an attempt, and returns its first bytes, at most
// keep. If reading fails, the connection is lost, and nothing else happens.
//
// A body of net/http is read in the caller's goroutine: a Read that hangs ends when the attempt is
// canceled, which happens when discardGrace begins. Over HTTP/1 that closes the connection, and
// only a connection of the user's own DialContext may go on reading then. Another body may ignore
// its context, and would hold the caller forever. So another goroutine reads such a body, and
// discard returns after discardTime even if that goroutine still reads. It closes the body itself
// when it has stopped reading: a Base that pools its readers would give a reader that is closed too
// early to another response.
func (a *attempt) discard(resp *http.Response, keep int) []byte {
	defer a.cancel(nil)
	if resp.Body == nil || resp.Body == http.NoBody {
		return nil
	}
	most := discardBytes
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		most = 0 // the body is the connection, and only Close ends a Read of it
	case resp.ContentLength > discardBytes:
		most = keep // the body is too long to be read to its end
	}
	var text *kept
	if keep > 0 {
		text = &kept{free: keep}
	}
	late := time.AfterFunc(discardTime-discardGrace, a.end)
	defer late.Stop()
	if a.ends {
		a.drain(resp.Body, most, text)
		return text.soFar()
	}
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }() // in this goroutine a panic would crash the program
		a.drain(resp.Body, most, text)
	}()
	timer := time.NewTimer(discardTime)
	defer timer.Stop()
	select {
	case panicked := <-done:
		if panicked != nil {
			panic(panicked)
		}
	case <-timer.C: // the goroutine goes on
	}
	return text.soFar()
}

// end ends the attempt.
func (a *attempt) end() { a.cancel(nil) }

// drain reads at most most bytes of a body, stops when the attempt has ended, and closes the body.
// It adds the bytes to kept.
func (a *attempt) drain(rc io.ReadCloser, most int, kept *kept) {
	defer func() { _ = rc.Close() }()
	if most < discardBytes {
		defer a.cancel(nil) // before Close, which could otherwise read the rest of the body
	}
	buf := new([1 << 10]byte)
	if kept == nil {
		buf = unread.Get().(*[1 << 10]byte)
		defer unread.Put(buf)
	}
	for rest, empty := most, 0; rest > 0 && empty < emptyReads && a.Err() == nil; {
		n, err := rc.Read(buf[:min(rest, len(buf))])
		kept.add(buf[:n])
		if err != nil {
			break
		}
		if rest -= n; n == 0 {
			empty++
		}
	}
}

// unread has buffers whose bytes are thrown away. Bytes that are kept are read into a new buffer: a
// wrong Read may report more bytes than it has filled, and in a buffer of unread these would be the
// bytes of another response.
var unread = sync.Pool{New: func() any { return new([1 << 10]byte) }}

// kept is the beginning of a body. One goroutine adds to it, and another may stop waiting for it. A
// nil kept keeps nothing.
type kept struct {
	mu   sync.Mutex
	text []byte
	free int // how many more bytes are kept
}

// add adds the bytes of p, until kept is full.
func (k *kept) add(p []byte) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p = p[:min(len(p), k.free)]
	k.text, k.free = append(k.text, p...), k.free-len(p)
}

// soFar returns the bytes that were added. Later bytes are not kept.
func (k *kept) soFar() []byte {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = 0
	return k.text
}

// attemptFor returns an attempt for a response that no attempt owns, so that the response can be
// discarded. When the attempt ends, the body is closed, because nothing else ends a Read that
// hangs. The body of net/http may be closed while it is read.
func attemptFor(resp *http.Response) *attempt {
	ctx, cancel := context.WithCancelCause(context.Background())
	if rc := resp.Body; rc != nil && rc != http.NoBody {
		once := &closing{rc, sync.OnceValue(rc.Close)}
		resp.Body = once
		context.AfterFunc(ctx, func() {
			defer func() { _ = recover() }() // drain calls Close too, and gets the same panic
			_ = once.Close()
		})
	}
	return &attempt{Context: ctx, cancel: cancel}
}

// isOfNetHTTP reports whether an http.Transport itself has made a body. A protocol that is
// registered with it may make a body that heeds nothing, even of another type of package net/http:
// http.MaxBytesReader and http.ReadResponse put such a type around any reader.
func isOfNetHTTP(rc io.ReadCloser) bool {
	of := reflect.TypeOf(rc)
	if of == nil {
		return false
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch of.Name() {
	case "bodyEOFSignal", "gzipReader", "http2transportResponseBody", "http2gzipReader":
		return of.PkgPath() == "net/http"
	default: // another release of Go may have other names: such a body gets a goroutine
		return false
	}
}
