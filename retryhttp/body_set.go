package retryhttp

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
)

// SetBody gives req a body that can be sent again: by a [Transport], and by
// http.Client after a redirect. It sets Body, GetBody and ContentLength.
//
// An io.Seeker, such as an *os.File, is sent from its present position each time, and
// is left open: close it after the request. Anything else, such as a pipe, is read
// into memory and closed, if it is no longer than limit bytes. If it is longer,
// SetBody returns an error, and req can be sent once. A limit of 0 or less allows an
// io.Seeker only, and what is empty.
//
// http.NewRequest hides the method Seek of a body without a method Close: give it no body,
// and the body to SetBody.
func SetBody(req *http.Request, body io.Reader, limit int64) error {
	if seeker, ok := body.(io.ReadSeeker); ok {
		if size, start, ok := measure(seeker); ok {
			shared := &sharedSeeker{seeker: seeker, start: start, size: size}
			return setBody(req, size, shared.rewind)
		}
	}
	if body == nil {
		body = http.NoBody
	}
	data, err := readAll(req, body, limit)
	if err != nil {
		return err
	}
	return setBody(req, int64(len(data)), func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	})
}

func setBody(req *http.Request, size int64, getBody func() (io.ReadCloser, error)) (err error) {
	if size == 0 {
		getBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
	}
	req.GetBody, req.ContentLength = getBody, size
	if req.Body, err = getBody(); err != nil {
		return fmt.Errorf("retryhttp: cannot rewind the request body: %w", err)
	}
	return nil
}

// measure returns how much there is from the present position. The *os.File of a
// pipe has a method Seek too, and cannot seek.
func measure(seeker io.Seeker) (size, start int64, ok bool) {
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, 0, false
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	return max(0, end-start), start, err == nil
}

// readAll reads a body of at most limit bytes. Of a longer one nothing is lost:
// it becomes the body of req.
func readAll(req *http.Request, body io.Reader, limit int64) ([]byte, error) {
	limit = min(max(0, limit), math.MaxInt64-1)
	closer, ok := body.(io.Closer)
	if !ok {
		closer = http.NoBody
	}
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it cannot seek, and is longer than the limit of %d bytes", limit)
	}
	if err != nil {
		req.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(data), body), closer}
		req.GetBody, req.ContentLength = nil, -1
		return nil, fmt.Errorf("retryhttp: cannot make the request body repeatable: %w", err)
	}
	_ = closer.Close() // it has been read to its end; http.Transport does not ask either
	return data, nil
}

// A sharedSeeker is read by one body at a time. A RoundTripper may go on reading
// a body after it has returned, until it has closed it: then the body before
// must not move the position of the one after.
type sharedSeeker struct {
	mu     sync.Mutex
	seeker io.ReadSeeker
	start  int64
	size   int64 // what has been appended since is not sent
	turn   *seekerBody
}

func (s *sharedSeeker) rewind() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.seeker.Seek(s.start, io.SeekStart); err != nil {
		return nil, err
	}
	s.turn = &seekerBody{s, io.LimitReader(s.seeker, s.size)}
	return s.turn, nil
}

type seekerBody struct {
	shared *sharedSeeker
	rest   io.Reader
}

func (b *seekerBody) Read(p []byte) (int, error) {
	b.shared.mu.Lock()
	defer b.shared.mu.Unlock()
	if b.shared.turn != b {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.rest.Read(p)
}

func (b *seekerBody) Close() error {
	b.shared.mu.Lock()
	defer b.shared.mu.Unlock()
	if b.shared.turn == b {
		b.shared.turn = nil
	}
	return nil
}
