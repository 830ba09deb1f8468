package retryhttp

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"
)

// A response is discarded by reading its body, so that its connection can be used again. These
// limits apply, because a new connection is cheaper than reading the rest of a long body.
const (
	discardBytes = 64 << 10
	discardTime  = 100 * time.Millisecond
	// The attempt is canceled discardGrace before the end of discardTime, so 90 ms after the start.
	discardGrace = 10 * time.Millisecond
)

// emptyReads is how many calls of Read may return neither a byte nor an error. Package bufio has
// the same limit.
const emptyReads = 100

// discard discards the response of the last attempt, if there is one.
func (x *exchange) discard() {
	if resp := x.resp; resp != nil {
		x.resp = nil
		x.last.discard(resp, 0)
	}
}

// discard reads and closes the unread body of a response. It returns the first bytes of the body,
// at most keep bytes. If reading fails, the connection cannot be used again, and nothing else
// happens.
//
// A body of net/http is read in the caller's goroutine, because a Read that hangs ends when the
// attempt is canceled. The attempt is canceled discardGrace before the end of discardTime. Over
// HTTP/1, canceling closes the connection. There is one exception. If the user's own DialContext
// returns a connection whose Close does not end a Read, the caller waits for the Read.
//
// Any other body may ignore its context, and would block the caller forever. So such a body is read
// in a new goroutine, and discard returns after discardTime even if this goroutine is still
// reading. The goroutine closes the body after its last Read. If it closed the body earlier, a Base
// that pools its readers might use the reader for another response.
func (a *attempt) discard(resp *http.Response, keep int) []byte {
	defer a.cancel(nil)
	if resp.Body == nil || resp.Body == http.NoBody {
		return nil
	}
	limit := discardBytes
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		limit = 0 // the body is the connection, and only Close ends a Read of it
	case resp.ContentLength > discardBytes:
		limit = keep // the body is too long to be read to its end
	}
	var text *kept
	if keep > 0 {
		text = &kept{free: keep}
	}
	late := time.AfterFunc(discardTime-discardGrace, a.end)
	defer late.Stop()
	if a.ends {
		a.drain(resp.Body, limit, text)
		return text.soFar()
	}
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }() // so that a panic does not crash the program
		a.drain(resp.Body, limit, text)
	}()
	timer := time.NewTimer(discardTime)
	defer timer.Stop()
	select {
	case panicked := <-done:
		if panicked != nil {
			panic(panicked)
		}
	case <-timer.C: // the goroutine goes on reading
	}
	return text.soFar()
}

// end cancels the context of the attempt.
func (a *attempt) end() { a.cancel(nil) }

// drain reads at most limit bytes of a body, adds them to kept, and closes the body. It stops early
// if the attempt is canceled.
func (a *attempt) drain(rc io.ReadCloser, limit int, kept *kept) {
	defer func() { _ = rc.Close() }()
	if limit < discardBytes {
		defer a.cancel(nil) // canceled before Close, which could read the rest of the body
	}
	buf := new([1 << 10]byte)
	if kept == nil {
		buf = unread.Get().(*[1 << 10]byte)
		defer unread.Put(buf)
	}
	for rest, empty := limit, 0; rest > 0 && empty < emptyReads && a.Err() == nil; {
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

// unread contains buffers for bytes that are thrown away. Bytes that are kept are read into a new
// buffer. The reason is that a faulty Read may report more bytes than it has written, and a used
// buffer would then reveal bytes of another response.
var unread = sync.Pool{New: func() any { return new([1 << 10]byte) }}

// kept stores the beginning of a body. One goroutine calls add while another may call soFar. A nil
// kept stores nothing.
type kept struct {
	mu   sync.Mutex
	text []byte
	free int // how many more bytes can be stored
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

// soFar returns the bytes that were added. Bytes that are added later are not stored.
func (k *kept) soFar() []byte {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = 0
	return k.text
}

// attemptFor returns a new attempt for a response that does not belong to an attempt. The new
// attempt is needed to discard the response. When the attempt ends, the body is closed, because
// nothing else ends a Read that hangs. A body of net/http may be closed during a Read.
func attemptFor(resp *http.Response) *attempt {
	ctx, cancel := context.WithCancelCause(context.Background())
	if rc := resp.Body; rc != nil && rc != http.NoBody {
		once := &closing{rc, sync.OnceValue(rc.Close)}
		resp.Body = once
		context.AfterFunc(ctx, func() {
			defer func() { _ = recover() }() // drain also calls Close, and passes its panic on
			_ = once.Close()
		})
	}
	return &attempt{Context: ctx, cancel: cancel}
}

// isOfNetHTTP reports whether an http.Transport itself has made a body. The name of the package is
// not enough. A protocol that was added with RegisterProtocol may return a body that ignores its
// context, and http.MaxBytesReader and http.ReadResponse put a type of net/http around any reader.
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
	default: // another release of Go may use other names; then a goroutine reads the body
		return false
	}
}
