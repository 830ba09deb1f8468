package retryhttp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func TestSetBody(t *testing.T) {
	const digits = "0123456789"
	file := func(t *testing.T, offset int64) *os.File {
		f, err := os.CreateTemp(t.TempDir(), "")
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		_, err = f.WriteString(digits)
		require.NoError(t, err)
		_, err = f.Seek(offset, io.SeekStart)
		require.NoError(t, err)
		return f
	}
	pipe := func(t *testing.T) *os.File {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { r.Close() })
		_, err = w.WriteString(digits)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return r
	}
	half := bytes.NewReader([]byte(digits))
	_, _ = half.ReadByte()
	stream := func(text string) io.Reader { return io.MultiReader(strings.NewReader(text)) }
	for _, tt := range []struct {
		name  string
		body  io.Reader
		limit int64
		want  string
	}{
		{"a file", file(t, 0), 0, digits},
		{"a file at its position", file(t, 4), 0, "456789"},
		{"a file at its end", file(t, 10), 0, ""},
		{"a file beyond its end", file(t, 99), 0, ""},
		{"a file that grows meanwhile", seeker{strings.NewReader(digits), 5}, 0, "01234"},
		{"a part of a file", io.NewSectionReader(file(t, 0), 2, 5), 0, "23456"},
		{"a reader that is half read", half, 0, "123456789"},
		{"a pipe, which has a method Seek", pipe(t), 10, digits},
		{"a stream as long as the limit", stream(digits), 10, digits},
		{"a stream and the highest limit", stream(digits), math.MaxInt64, digits},
		{"an empty stream, no limit", stream(""), 0, ""},
		{"nothing", nil, 0, ""},
		{"http.NoBody", http.NoBody, -1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			req := request(t, "PUT")
			require.NoError(t, retryhttp.SetBody(req, tt.body, tt.limit))
			assert.Equal(t, tt.want == "", req.Body == http.NoBody)
			send(t, &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				text, err := io.ReadAll(req.Body)
				got = append(got, fmt.Sprint(req.ContentLength, " bytes: ", string(text), err))
				return response(503), nil
			})}, req)
			assert.Equal(t, slices.Repeat([]string{fmt.Sprint(len(tt.want), " bytes: ", tt.want, error(nil))}, 3), got)
		})
	}
}

// SetBody returns an error if a stream is longer than the limit or cannot be read. No data is lost,
// and the request can still be sent once.
func TestSetBodyThatIsTooLong(t *testing.T) {
	boom := errors.New("boom")
	tooLong := "the body cannot seek, and is longer than the limit of %d bytes"
	for _, tt := range []struct {
		name  string
		end   error // the error at the end of the body
		limit int64
		text  string
	}{
		{"a byte too long", io.EOF, 9, fmt.Sprintf(tooLong, 9)},
		{"no limit", io.EOF, 0, fmt.Sprintf(tooLong, 0)},
		{"a limit below zero", io.EOF, -5, fmt.Sprintf(tooLong, 0)},
		{"it cannot be read", boom, 100, "boom"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &body{Reader: io.MultiReader(strings.NewReader("0123456789"), iotest.ErrReader(tt.end))}
			req := request(t, "PUT")
			rewindable(req, "another")
			assert.EqualError(t, retryhttp.SetBody(req, b, tt.limit), "retryhttp: cannot make the request body repeatable: "+tt.text)
			assert.Nil(t, req.GetBody)
			assert.EqualValues(t, -1, req.ContentLength)
			assert.False(t, b.closed())
			text, err := io.ReadAll(req.Body)
			assert.Equal(t, "0123456789", string(text))
			assert.Equal(t, tt.end == boom, err == boom)
			require.NoError(t, req.Body.Close())
			assert.True(t, b.closed())
		})
	}
	b := &body{Reader: strings.NewReader("data")}
	require.NoError(t, retryhttp.SetBody(request(t, "PUT"), b, 4))
	assert.True(t, b.closed(), "SetBody closes a body that it has read to its end")
}

// The bodies of a file are independent of each other, as those of a string are. A RoundTripper may
// still read a body after it has returned, and a Prepare may read a body of its own to sign the
// request. A file stays open after the request, and seeking in it may fail.
func TestBodiesOfAFile(t *testing.T) {
	for name, wrap := range map[string]func(*os.File) io.Reader{
		"file": func(f *os.File) io.Reader { return f }, "wrapped file": func(f *os.File) io.Reader { return struct{ *os.File }{f} },
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open("body_set_test.go")
			require.NoError(t, err)
			req := request(t, "PUT")
			require.NoError(t, retryhttp.SetBody(req, wrap(f), 0))
			whole, err := os.ReadFile(f.Name())
			require.NoError(t, err)
			first := req.Body
			beginning := make([]byte, 9)
			_, err = io.ReadFull(first, beginning)
			require.NoError(t, err)
			second, err := req.GetBody()
			require.NoError(t, err)
			require.NoError(t, iotest.TestReader(second, whole))
			rest, err := io.ReadAll(first)
			require.NoError(t, err)
			assert.Equal(t, string(whole), string(beginning)+string(rest))
			require.NoError(t, second.Close())
			_, err = second.Read(make([]byte, 1))
			assert.Equal(t, name == "wrapped file", err == http.ErrBodyReadAfterClose)
			_, err = first.Read(make([]byte, 1))
			assert.Equal(t, io.EOF, err)

			require.NoError(t, f.Close())
			_, err = req.GetBody()
			assert.ErrorIs(t, err, os.ErrClosed)
		})
	}
	assert.EqualError(t, retryhttp.SetBody(request(t, "PUT"), seeker{strings.NewReader("0123456789"), -1}, 0), "retryhttp: cannot rewind the request body: connection reset by peer")
}

// A file can be the body of several requests at the same time. Even if they are sent in turn,
// net/http may still be reading the body of the first request when the second request is sent. A
// type that contains a file may have a Read of its own, which must be called.
func TestBodyOfSeveralRequests(t *testing.T) {
	f, err := os.Open("body_set_test.go")
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	whole, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	for name, body := range map[string]io.ReadSeeker{
		"*os.File": f, "*bytes.Reader": bytes.NewReader(whole), "*strings.Reader": strings.NewReader(string(whole)),
		"*io.SectionReader": io.NewSectionReader(strings.NewReader("."+string(whole)), 1, int64(len(whole))),
	} {
		t.Run(name, func(t *testing.T) {
			start := []byte{0}
			_, err := io.ReadFull(body, start)
			require.NoError(t, err)
			var bodies sync.WaitGroup
			for range 4 {
				bodies.Go(func() {
					req := request(t, "PUT")
					for range 20 {
						assert.NoError(t, retryhttp.SetBody(req, body, 0))
						assert.EqualValues(t, len(whole)-1, req.ContentLength)
					}
					got, err := io.ReadAll(req.Body)
					assert.NoError(t, err)
					assert.Equal(t, string(whole[1:]), string(got))
				})
			}
			bodies.Wait()
			at, err := body.Seek(0, io.SeekCurrent)
			require.NoError(t, err)
			assert.EqualValues(t, 1, at, "the position is where it was")
		})
	}
	req := request(t, "PUT")
	require.NoError(t, retryhttp.SetBody(req, upperCase{strings.NewReader("data")}, 0))
	got, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	assert.Equal(t, "DATA", string(got))
}

// The type upperCase has a Read of its own, and the ReadAt of a strings.Reader.
type upperCase struct{ *strings.Reader }

func (u upperCase) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	copy(p, bytes.ToUpper(p[:n]))
	return n, err
}

// A seeker reports that its end is at the position in the field `end`. If `end` is negative, the
// seeker cannot be rewound.
type seeker struct {
	*strings.Reader
	end int64
}

func (s seeker) Seek(offset int64, whence int) (int64, error) {
	switch {
	case s.end < 0 && whence == io.SeekStart:
		return 0, errReset
	case s.end >= 0 && whence == io.SeekEnd:
		return s.end, nil
	default:
		return s.Reader.Seek(offset, whence)
	}
}
