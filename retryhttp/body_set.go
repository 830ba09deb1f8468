package retryhttp

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
)

// SetBody sets the Body, GetBody and ContentLength of req. A [Transport] can then send the body
// again, and so can http.Client after a redirect.
//
// If `body` can seek, as an *os.File can, SetBody notes its position, and each attempt sends the
// bytes from this position on. Close such a body yourself after the request. Any other body, such
// as a pipe, is read into memory and closed. `limit` is the largest number of bytes in memory. If
// the body is longer than `limit`, SetBody returns an error, and req can still be sent once. If
// `limit` is 0 or less, a body that cannot seek must be empty. If a Read of `body` hangs in an
// attempt, the RoundTrip of the Transport waits for the Read.
//
// Do not pass the body to http.NewRequest as well: pass nil there. http.NewRequest would hide the
// method Seek of a body that has no method Close.
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

// setBody sets the fields of req. getBody returns a body of `size` bytes.
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

// The function `measure` returns the present position of `seeker` as `start`, and the number of
// bytes after this position as `size`. ok is false if Seek fails, as it does for the *os.File of a
// pipe.
func measure(seeker io.Seeker) (size, start int64, ok bool) {
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, 0, false
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	return max(0, end-start), start, err == nil
}

// readAll reads a body of at most limit bytes. If the body is longer, or if reading fails, readAll
// returns an error. In both cases it sets req.Body to a reader of the bytes that are already read,
// followed by the rest of the body. So the request can still be sent once.
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
	_ = closer.Close() // all bytes are read, so the error does not matter
	return data, nil
}

// A sharedSeeker is the source of the bodies of all attempts. A RoundTripper may go on reading a
// body after it has returned. So only the newest body may read from the seeker: a Read of an older
// body would move the position for the newest body.
type sharedSeeker struct {
	mu     sync.Mutex
	seeker io.ReadSeeker
	start  int64       // the position from which each body is sent
	size   int64       // the length of each body; bytes that are appended later are not sent
	turn   *seekerBody // the only body that may read; nil: no body may read
}

// The method `rewind` seeks to the position `start`, which SetBody noted, and returns the body for
// the next attempt.
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
