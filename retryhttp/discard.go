package retryhttp

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"
)

// What discarding a response may cost, so that its connection can be used again:
// a new connection is soon cheaper than the rest of a long body.
const (
	discardBytes = 64 << 10
	discardTime  = 100 * time.Millisecond
	discardGrace = 10 * time.Millisecond // the last part of discardTime, for a body to notice that it is canceled
)

const emptyReads = 100 // that bring neither a byte nor an error, as many as package io allows

// discard reads and closes the response of the last attempt, if there is one.
func (x *exchange) discard() {
	if resp := x.resp; resp != nil {
		x.resp = nil
		x.last.discard(resp, 0)
	}
}

// discard reads and closes the response of the attempt, which is unread, and returns up to
// keep of its first bytes. An error of its body costs the connection and nothing else.
//
// A Read that hangs ends when the attempt is canceled after most of discardTime, if the body is
// one of net/http: then the caller's goroutine reads. Another body may ignore its context, and
// would hold the caller forever: a goroutine reads that one, and goes on alone after discardTime.
// Nobody closes a body while it is read, because a Base may pool its readers, and would give
// this one to another response.
func (a *attempt) discard(resp *http.Response, keep int) []byte {
	defer a.cancel(nil)
	if resp.Body == nil || resp.Body == http.NoBody {
		return nil
	}
	most := discardBytes
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		most = 0 // the body is the connection, and Close alone ends a Read of it
	case resp.ContentLength > discardBytes:
		most = keep // there is nothing to gain from reading the rest
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
		defer func() { done <- recover() }() // a panic would end the program here
		a.drain(resp.Body, most, text)
	}()
	timer := time.NewTimer(discardTime)
	defer timer.Stop()
	select {
	case panicked := <-done:
		if panicked != nil {
			panic(panicked)
		}
	case <-timer.C: // the goroutine goes on without us
	}
	return text.soFar()
}

// end ends the attempt, and so a Read of its body that notices.
func (a *attempt) end() { a.cancel(nil) }

// drain reads most bytes of a body, or until the attempt has ended, and closes it.
func (a *attempt) drain(rc io.ReadCloser, most int, kept *kept) {
	defer func() { _ = rc.Close() }()
	if most < discardBytes {
		defer a.cancel(nil) // before Close
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

// unread are buffers that nobody looks into. What is kept is read into a new one: the Read of a
// body may say that it has filled bytes that it has not, and those are of another response.
var unread = sync.Pool{New: func() any { return new([1 << 10]byte) }}

// kept is the beginning of a body, which one goroutine reads while another may have stopped
// waiting for it. nil keeps nothing.
type kept struct {
	mu   sync.Mutex
	text []byte
	free int // how many bytes more are kept
}

func (k *kept) add(p []byte) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p = p[:min(len(p), k.free)]
	k.text, k.free = append(k.text, p...), k.free-len(p)
}

// soFar returns what there is, and ends that.
func (k *kept) soFar() []byte {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = 0
	return k.text
}

// attemptFor returns an attempt for a response that no Transport got, so that it can be
// discarded. Nothing but Close ends a Read of it that hangs, and the body of net/http can be
// closed while it is read.
func attemptFor(resp *http.Response) *attempt {
	ctx, cancel := context.WithCancelCause(context.Background())
	if rc := resp.Body; rc != nil && rc != http.NoBody {
		once := &closing{rc, sync.OnceValue(rc.Close)}
		resp.Body = once
		context.AfterFunc(ctx, func() {
			defer func() { _ = recover() }() // drain has it too
			_ = once.Close()
		})
	}
	return &attempt{Context: ctx, cancel: cancel}
}

// isOfNetHTTP reports whether package net/http made a body, and not a protocol that is
// registered with an http.Transport.
func isOfNetHTTP(rc io.ReadCloser) bool {
	of := reflect.TypeOf(rc)
	if of == nil {
		return false
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of.PkgPath() == "net/http"
}
