package retryhttp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/goretry/retry/internal/wait"
)

// What discarding a response may cost, so that its connection can be used again:
// a new connection is soon cheaper than the rest of a long body.
const (
	discardBytes = 64 << 10
	discardTime  = 100 * time.Millisecond
	discardGrace = 10 * time.Millisecond // the last part of discardTime, for a body to notice that it is canceled
)

// discardAndWait is the Wait of every exchange. It discards the response that is
// not to be returned, so that its connection is free for other requests, and then
// waits for what is left of d.
func discardAndWait(ctx context.Context, d time.Duration) (skipped time.Duration, err error) {
	x := ctx.Value(exchangeKey{}).(*exchange)
	left := d
	if x.resp != nil {
		began := time.Now()
		x.discard()
		left = max(0, d-time.Since(began))
	}
	waits := x.policy.Wait
	if waits == nil {
		waits = wait.For
	}
	return waits(ctx, left)
}

// discard reads and closes the response of the last attempt. An error of its
// body costs the connection and nothing else.
//
// One goroutine reads the body and then closes it. It is the caller's only if the
// body is in memory: any other could ignore the context and hold the caller for
// ever. A timer must not close a body that is still being read, because a Base may
// pool its readers, and would give this one to another response.
func (x *exchange) discard() {
	resp, a := x.resp, x.last
	x.resp = nil
	if resp == nil {
		return
	}
	defer a.cancel(nil) // Check may have replaced the body that does so itself
	if resp.Body == nil || resp.Body == http.NoBody {
		return
	}
	if resp.ContentLength > discardBytes || a.Err() != nil {
		a.cancel(nil) // there is nothing to gain from reading
	}
	if inMemory(resp.Body) {
		a.drain(resp.Body)
		return
	}
	if x.discarded == nil {
		x.discarded = make(chan any, 1)
	}
	go a.discard(resp.Body, x.discarded)
	runtime.Gosched() // to where most bodies are done with: a timer and a select cost more
	select {
	case panicked := <-x.discarded:
		rethrow(panicked)
		return
	default:
	}
	end := time.NewTimer(discardTime - discardGrace)
	defer end.Stop()
	select {
	case panicked := <-x.discarded:
		rethrow(panicked)
		return
	case <-end.C:
	case <-x.Done():
	}
	a.cancel(nil)
	end.Reset(discardGrace)
	select {
	case panicked := <-x.discarded:
		rethrow(panicked)
	case <-end.C:
		x.discarded = nil // the body heeds no context, and its goroutine goes on without us
	}
}

func rethrow(panicked any) {
	if panicked != nil {
		panic(panicked)
	}
}

// inMemory reports whether a body is one of bytes that are there already, as fakes,
// caches and Checks make them. It cannot block, and a goroutine would take longer
// than reading it.
func inMemory(rc io.ReadCloser) bool {
	if b, ok := rc.(*bodyTo); ok {
		rc = b.rc
	}
	body := reflect.ValueOf(rc)
	if body.Type() != nopCloser {
		return false
	}
	switch body.Field(0).Interface().(type) {
	case *bytes.Buffer, *bytes.Reader, *strings.Reader:
		return true
	default:
		return false
	}
}

// nopCloser is what io.NopCloser makes of a reader with a WriteTo, as those three
// have.
var nopCloser = reflect.TypeOf(io.NopCloser((*bytes.Reader)(nil)))

// discard drains a body. It reports a panic, which would end the program here,
// where nothing can recover it.
func (a *attempt) discard(rc io.ReadCloser, done chan<- any) {
	defer func() { done <- recover() }()
	a.drain(rc)
}

// drain reads a body until the attempt has ended, and closes it.
func (a *attempt) drain(rc io.ReadCloser) {
	defer func() { _ = rc.Close() }()
	buf := discardBuffers.Get().(*[8 << 10]byte)
	for rest := discardBytes; rest > 0 && a.Err() == nil; {
		n, err := rc.Read(buf[:min(rest, len(buf))])
		if err != nil {
			break
		}
		rest -= n
	}
	discardBuffers.Put(buf)
}

var discardBuffers = sync.Pool{New: func() any { return new([8 << 10]byte) }}
