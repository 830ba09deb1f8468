package retryhttp

import (
	"cmp"
	"io"
	"net/http"
	"sync"
	"time"
)

// A response is discarded by reading its body, so that its connection can be used again. These
// limits apply, because a new connection is cheaper than reading the rest of a long body.
const (
	discardBytes = 64 << 10
	discardTime  = 100 * time.Millisecond
	// The attempt is canceled after discardTime - discardGrace, which is 90 ms.
	discardGrace = 10 * time.Millisecond
)

// keepBody discards the last response if err contains a StatusError, because the caller does not
// get the response. Before that, keepBody copies the beginning of the body into the StatusError, as
// Result does. Without a StatusError, keepBody does nothing.
func (x *exchange) keepBody(err error) {
	if e := statusErrorIn(err); x.resp != nil && e != nil {
		resp := x.resp
		x.resp = nil
		e.keep(x.last.discard(resp, keptBytes), x.last.given, cmp.Or(resp.Request, x.req))
	}
}

// The method `discard` reads and closes the unread body of a response. It returns the first bytes
// of the body. The parameter `keep` is the largest number of bytes that it returns. If reading
// fails, the connection cannot be used again, and nothing else happens.
//
// If the response came over HTTP/1 without TLS from an http.Transport, and no function of the user
// gets the request or the response (see Transport.plain), the body is read in the caller's
// goroutine. If a Read hangs, canceling the attempt closes the connection, and this ends the Read.
// The attempt is canceled after discardTime - discardGrace. In two cases, canceling does not end
// the Read, and the caller waits for the Read. In the first case, a DialContext or Dial of the
// user's own made the connection, and the Close of this connection does not end a Read. In the
// second case, the body comes from a protocol that the user has registered for http or https, and
// ignores the context of the request. `discard` cannot recognize the second case, because the types
// of net/http's bodies are not exported.
//
// Any other body may ignore its context, and would block the caller forever. Over HTTP/2, a Read
// and a Close can wait for a write that hangs. So such a body is read in a new goroutine, and
// `discard` returns after discardTime even if this goroutine is still reading. The goroutine closes
// the body after its last Read. If it closed the body earlier, a Base that pools its readers might
// use the reader for another response.
func (a *attempt) discard(resp *http.Response, keep int) []byte {
	defer a.cancel(nil)
	if resp.Body == nil || resp.Body == http.NoBody {
		return nil
	}
	limit := max(discardBytes, keep+1) // keep+1, so that the end of a body of `keep` bytes is seen
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		limit = 0 // the body is the connection: do not read, because only Close would end a Read
	case resp.ContentLength > discardBytes:
		limit = keep // the body is too long to be read to its end
	}
	var text *kept
	if keep > 0 {
		text = &kept{free: keep}
	}
	late := time.AfterFunc(discardTime-discardGrace, a.end)
	defer late.Stop()
	body := resp.Body // the goroutine below may begin after the caller has set another body
	if a.readEnds {
		a.drain(body, limit, text)
		return text.soFar()
	}
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }() // so that a panic does not crash the program
		a.drain(body, limit, text)
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

// The method `drain` reads at most limit bytes of a body, adds them to the parameter `kept`, and
// closes the body. It stops early if the attempt is canceled.
func (a *attempt) drain(rc io.ReadCloser, limit int, kept *kept) {
	defer func() { _ = rc.Close() }()
	if limit < discardBytes {
		defer a.cancel(nil) // before Close, because Close could read the rest of the body
	}
	var buf *[1 << 10]byte
	if kept == nil {
		buf = unread.Get().(*[1 << 10]byte)
		defer unread.Put(buf)
	} else {
		buf = new([1 << 10]byte)
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

// The variable `unread` contains buffers for bytes that are thrown away. Bytes that are kept are
// read into a new buffer. The reason is that a faulty Read may report more bytes than it has
// written, and a used buffer would then reveal bytes of another response.
var unread = sync.Pool{New: func() any { return new([1 << 10]byte) }}

// The type `kept` stores the beginning of a body. One goroutine calls `add`, and another goroutine
// may call soFar at the same time. A nil *kept stores nothing.
type kept struct {
	mu   sync.Mutex
	text []byte
	free int // how many more bytes can be stored
}

// The method `add` stores the bytes of p, but no more than k.free bytes.
func (k *kept) add(p []byte) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p = p[:min(len(p), k.free)]
	k.text, k.free = append(k.text, p...), k.free-len(p)
}

// soFar returns the bytes that are stored. After the call, `add` stores nothing more.
func (k *kept) soFar() []byte {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = 0
	return k.text
}
