package retryhttp

import (
	"io"
	"net/http"
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
		x.last.discard(resp)
	}
}

// discard reads and closes the response of the attempt, which is unread. An error
// of its body costs the connection and nothing else.
//
// A goroutine reads the body and then closes it: a body that ignores its context
// would hold the caller forever. A timer must not close a body that is still being
// read, because a Base may pool its readers, and would give this one to another
// response.
func (a *attempt) discard(resp *http.Response) {
	defer a.cancel(nil)
	if resp.Body == nil || resp.Body == http.NoBody {
		return
	}
	if resp.ContentLength > discardBytes {
		a.cancel(nil) // there is nothing to gain from reading
	}
	done := make(chan any, 1)
	go a.drain(resp.Body, done)
	timer := time.NewTimer(discardTime - discardGrace)
	defer timer.Stop()
	for range 2 { // then the goroutine goes on without us
		select {
		case panicked := <-done:
			if panicked != nil {
				panic(panicked)
			}
			return
		case <-timer.C:
			a.cancel(nil)
			timer.Reset(discardGrace)
		}
	}
}

// drain reads a body until the attempt has ended, and closes it. It reports a
// panic, which would end the program here, where nothing can recover it.
func (a *attempt) drain(rc io.ReadCloser, done chan<- any) {
	defer func() { done <- recover() }()
	defer func() { _ = rc.Close() }()
	var buf [1 << 10]byte
	for rest, empty := discardBytes, 0; rest > 0 && empty < emptyReads && a.ctx.Err() == nil; {
		n, err := rc.Read(buf[:min(rest, len(buf))])
		if err != nil {
			break
		}
		if rest -= n; n == 0 {
			empty++
		}
	}
}
