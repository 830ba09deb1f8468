package retryhttp

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
)

// SetBody gives req a body that can be sent again by a [Transport], and by
// http.Client after a redirect. It sets Body, GetBody and ContentLength.
//
// If body is an io.Seeker that can seek, such as an *os.File, each attempt sends it from its
// present position. SetBody leaves it open: close it after the request. Any other body, such as a
// pipe, is read into memory and closed if it has at most limit bytes. If it is longer,
// SetBody returns an error, and req can still be sent once. Under a limit of 0 or less, only a
// body that can seek or is empty is accepted.
//
// Give the body to SetBody and not to http.NewRequest, which hides the method Seek of a body that
// has no method Close.
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

// setBody sets the fields of req for a body of size bytes that getBody returns.
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

// measure returns the present position and the number of bytes after it. ok is false if seeker
// cannot seek: the *os.File of a pipe has a method Seek that fails.
func measure(seeker io.Seeker) (size, start int64, ok bool) {
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, 0, false
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	return max(0, end-start), start, err == nil
}

// readAll reads a body of at most limit bytes. If the body is longer, or reading fails, readAll
// returns an error, and req gets the whole body.
func readAll(req *http.Request, body io.Reader, limit int64) ([]byte, error) {
	limit = min(max(0, limit), math.MaxInt64-1)
	closer, ok := body.(io.Closer)
	if !ok {
		closer = http.NoBody
	}
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("the body cannot seek, and is longer than the limit of %d bytes", limit)
	}
	if err != nil {
		req.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(data), body), closer}
		req.GetBody, req.ContentLength = nil, -1
		return nil, fmt.Errorf("retryhttp: cannot make the request body repeatable: %w", err)
	}
	_ = closer.Close() // its error means nothing after its end; http.Transport ignores it too
	return data, nil
}

// A sharedSeeker is read by one body at a time. A RoundTripper may go on reading a body after it
// has returned, until it has closed the body. So only the newest body may read: a Read of an older
// body would move the position of the newest one.
type sharedSeeker struct {
	mu     sync.Mutex
	seeker io.ReadSeeker
	start  int64       // the position from which each body is sent
	size   int64       // of each body; bytes that are appended later are not sent
	turn   *seekerBody // the body that may read; nil: none
}

// rewind seeks to the start, and returns the body for the next attempt.
func (s *sharedSeeker) rewind() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.seeker.Seek(s.start, io.SeekStart); err != nil {
		return nil, err
	}
	s.turn = &seekerBody{s, io.LimitReader(s.seeker, s.size)}
	return s.turn, nil
}

// A seekerBody is the body of one attempt. Its Read fails when a later attempt has begun.
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
