package retryhttp

import (
	"context"
	"fmt"
	"io"
	"time"
)

// A stallError is the error of a Read that StallTimeout ended.
type stallError struct{ timeoutError }

func (e *stallError) Error() string {
	return fmt.Sprintf("retryhttp: no byte of the body within StallTimeout (%v)", e.after)
}

// A watchedBody is the body of a response. It cancels its attempt if a Read gets no byte within
// StallTimeout. The time between two calls of Read does not count.
type watchedBody struct {
	io.ReadCloser
	a       *attempt
	timer   *time.Timer // cancels the attempt
	waiting bool        // the timer is running
}

// The method `watched` returns a body that reads rc under the StallTimeout of the Transport.
func (a *attempt) watched(rc io.ReadCloser) io.ReadCloser {
	stall := &stallError{timeoutError{after: a.x.t.StallTimeout}}
	timer := time.AfterFunc(stall.after, func() { a.cancel(stall) })
	timer.Stop()
	return &watchedBody{ReadCloser: rc, a: a, timer: timer}
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if !b.waiting && len(p) > 0 {
		b.waiting = true
		b.timer.Reset(b.a.x.t.StallTimeout)
	}
	n, err := b.ReadCloser.Read(p)
	if n > 0 || err != nil {
		b.waiting = false
		b.timer.Stop()
	}
	// io.EOF does not prove that the body is complete. Over TLS, the Close of a connection sends an
	// alert first. A server may then end the body, and the end may arrive before the Close is done.
	if stall, ok := context.Cause(b.a).(*stallError); ok && err != nil {
		err = stall
	}
	return n, err
}
