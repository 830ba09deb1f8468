package retryhttp

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"sync"
)

// SetBody sets the Body, GetBody and ContentLength of req. A [Transport] can then send the body
// again, and so can http.Client after a redirect.
//
// If `body` can seek, as an *os.File can, SetBody notes its position, and each attempt sends the
// bytes from this position on. Close the body yourself after the request. If a server may send a
// success over HTTP/2 before it has read the body, do not close the body before it has. An
// *os.File, bytes.Reader, strings.Reader or io.SectionReader keeps its position, so it can be the
// body of several requests. Do not use any other body that can seek for a second request, because
// net/http may still be reading it when the first call has returned. The length of the body is what
// Seek says. For a file that has no size, such as those of /proc, Seek says 0. Pass such a file as
// io.MultiReader(file).
//
// A body that cannot seek, such as a pipe, is read into memory and closed. `limit` is the largest
// number of bytes in memory. If the body is longer than `limit`, SetBody returns an error, and req
// can still be sent once. If `limit` is 0 or less, such a body must be empty.
//
// If a Read of `body` hangs in an attempt, the RoundTrip of the Transport waits for the Read.
//
// A request that a server got over HTTP/2 always has a Body and no GetBody. Before you forward such
// a request without a body, set Body to nil, as httputil.ReverseProxy does. There is no body if
// ContentLength is 0.
//
// Do not pass the body to http.NewRequest as well: pass nil there. http.NewRequest would hide the
// method Seek of a body that has no method Close.
func SetBody(req *http.Request, body io.Reader, limit int64) error {
	if rest := restOf(body); rest != nil {
		return setBody(req, rest.Size(), func() (io.ReadCloser, error) {
			if file, ok := body.(*os.File); ok {
				if _, err := file.Seek(0, io.SeekCurrent); err != nil { // the file is closed
					return nil, err
				}
			}
			return io.NopCloser(io.NewSectionReader(rest, 0, rest.Size())), nil
		})
	}
	if seeker, ok := body.(io.ReadSeeker); ok {
		if size, start, ok := measure(seeker); ok {
			shared := &sharedSeeker{seeker: seeker, start: start, size: size}
			return setBody(req, size, shared.open)
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

// restOf returns the bytes from the position of `body` on. It does not change the position, so
// several goroutines may call restOf with the same body, and may read what it returns. restOf
// returns nil for a body of any other type. A type that embeds an *os.File may have a Read of its
// own, so the ReadAt of the file may return other bytes.
func restOf(body io.Reader) *io.SectionReader {
	switch body := body.(type) {
	case *os.File:
		info, err := body.Stat()
		start, noSeek := body.Seek(0, io.SeekCurrent)
		if err == nil && noSeek == nil && info.Mode().IsRegular() {
			return io.NewSectionReader(body, start, max(0, info.Size()-start))
		}
	case *bytes.Reader:
		return io.NewSectionReader(body, body.Size()-int64(body.Len()), int64(body.Len()))
	case *strings.Reader:
		return io.NewSectionReader(body, body.Size()-int64(body.Len()), int64(body.Len()))
	case *io.SectionReader:
		moved := *body // Seek writes to its receiver, even if it changes nothing
		start, err := moved.Seek(0, io.SeekCurrent)
		if err == nil {
			return io.NewSectionReader(body, start, max(0, body.Size()-start))
		}
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

// A sharedSeeker is the source of the bodies of all attempts. Two of these bodies may be read in
// turn: a RoundTripper may go on reading a body after it has returned, and a Prepare may read a
// body to compute its signature. So each body has its own position.
type sharedSeeker struct {
	mu     sync.Mutex
	seeker io.ReadSeeker
	start  int64 // the position from which each body is sent
	size   int64 // the length of each body; bytes that are appended later are not sent
}

// The method `open` returns a new body. It seeks, so that a file that is closed fails here and not
// while a request is sent.
func (s *sharedSeeker) open() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.seeker.Seek(s.start, io.SeekStart); err != nil {
		return nil, err
	}
	return &seekerBody{shared: s}, nil
}

// A seekerBody is the body of one attempt.
type seekerBody struct {
	shared *sharedSeeker
	read   int64 // how many bytes were read
	closed bool
}

func (b *seekerBody) Read(p []byte) (int, error) {
	s := b.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	switch left := s.size - b.read; {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case left == 0:
		return 0, io.EOF
	default:
		p = p[:min(int64(len(p)), left)]
	}
	if _, err := s.seeker.Seek(s.start+b.read, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := s.seeker.Read(p)
	b.read += int64(n)
	return n, err
}

func (b *seekerBody) Close() error {
	b.shared.mu.Lock()
	defer b.shared.mu.Unlock()
	b.closed = true
	return nil
}
