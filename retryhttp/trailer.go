package retryhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A trailer is the Trailer of one attempt, and what fills it in. The caller fills in
// the map of the request while the body is read, which net/http may do for longer
// than RoundTrip takes: an answer can come before the end of the body. So each
// attempt has a map of its own, and the next one begins when nothing reads the body
// of the last any more. Else two goroutines would use a map at once, which ends the
// program.
type trailer struct {
	from http.Header // of the caller, to be read at the end of a body

	mu   sync.Mutex
	to   http.Header   // of the attempt
	used int           // bodies that are to be closed, and calls that are under way; below 0: nothing can be used any more
	idle chan struct{} // gets a value when used becomes 0
}

// ownTrailer gives the request of an attempt its own Trailer.
func (a *attempt) ownTrailer() {
	t := &trailer{from: a.x.req.Trailer, to: a.x.req.Trailer.Clone(), idle: make(chan struct{}, 1)}
	a.trailer, a.req.Trailer = t, t.to
	if !a.x.hasBody() {
		return
	}
	b := &trailedBody{rc: a.req.Body, t: t}
	b.count()
	a.req.Body = b
	if a.req.GetBody != nil { // http.Transport calls it after a connection that was dead
		a.req.GetBody = func() (io.ReadCloser, error) { return t.open(a.x.req.GetBody) }
	}
}

func (t *trailer) open(getBody func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	if !t.use(1) {
		return nil, http.ErrBodyReadAfterClose
	}
	defer t.use(-1)
	rc, err := opened(getBody())
	if err != nil {
		return nil, err
	}
	return &trailedBody{rc: rc, t: t}, nil
}

// A trailedBody is a body of an attempt with a trailer. It is counted as one to be
// closed once it is used: http.Transport forgets some of those that it opens.
type trailedBody struct {
	rc      io.ReadCloser
	t       *trailer
	counted sync.Once
	closed  atomic.Bool
}

func (b *trailedBody) count() { b.counted.Do(func() { b.t.use(1) }) }

func (b *trailedBody) Read(p []byte) (int, error) {
	if !b.t.use(1) {
		return 0, http.ErrBodyReadAfterClose
	}
	defer b.t.use(-1)
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	b.count()
	n, err := b.rc.Read(p)
	if err == io.EOF {
		b.t.fill()
	}
	return n, err
}

func (b *trailedBody) Close() error {
	b.count()
	if b.closed.Swap(true) {
		return nil
	}
	defer b.t.use(-1)
	return b.rc.Close()
}

// use counts n uses more, or less, and reports whether it may.
func (t *trailer) use(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.used < 0 {
		return false
	}
	if t.used += n; t.used == 0 {
		select {
		case t.idle <- struct{}{}:
		default:
		}
	}
	return true
}

func (t *trailer) fill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, values := range t.from {
		t.to[name] = slices.Clone(values)
	}
}

// end ends the trailer if nothing uses a body. From then on no other can be opened.
func (t *trailer) end() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.used == 0 {
		t.used = -1
	}
	return t.used < 0
}

var errStillRead = errors.New("the RoundTripper has not closed the body, so a request with a Trailer cannot be sent again")

// await returns once every body is closed and in no call. It waits for as long as
// discarding a response may take, and then returns an error.
func (t *trailer) await(ctx context.Context) error {
	timer := time.NewTimer(discardTime)
	defer timer.Stop()
	for !t.end() {
		select {
		case <-t.idle:
		case <-timer.C:
			return errStillRead
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
