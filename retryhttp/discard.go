package retryhttp

import (
	"context"
	"io"
	"net/http"
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
// A goroutine reads the body and then closes it: a body that ignores its context
// would hold the caller forever. A timer must not close a body that is still being
// read, because a Base may pool its readers, and would give this one to another
// response.
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
	kept := &kept{free: keep}
	done := make(chan any, 1)
	go a.drain(resp.Body, most, kept, done)
	timer := time.NewTimer(discardTime - discardGrace)
	defer timer.Stop()
	for range 2 { // then the goroutine goes on without us
		select {
		case panicked := <-done:
			if panicked != nil {
				panic(panicked)
			}
			return kept.soFar()
		case <-timer.C:
			a.cancel(nil)
			timer.Reset(discardGrace)
		}
	}
	return kept.soFar()
}

// drain reads most bytes of a body, or until the attempt has ended, and closes it. It reports
// a panic, which would end the program here, where nothing can recover it.
func (a *attempt) drain(rc io.ReadCloser, most int, kept *kept, done chan<- any) {
	defer func() { done <- recover() }()
	defer func() { _ = rc.Close() }()
	if most < discardBytes {
		defer a.cancel(nil) // before Close
	}
	var buf [1 << 10]byte
	for rest, empty := most, 0; rest > 0 && empty < emptyReads && a.ctx.Err() == nil; {
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

// kept is the beginning of a body, which one goroutine reads while another may have stopped
// waiting for it.
type kept struct {
	mu   sync.Mutex
	text []byte
	free int // how many bytes more are kept
}

func (k *kept) add(p []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p = p[:min(len(p), k.free)]
	k.text, k.free = append(k.text, p...), k.free-len(p)
}

// soFar returns what there is, and ends that.
func (k *kept) soFar() []byte {
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
	return &attempt{ctx: ctx, cancel: cancel}
}
