package retryhttp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// A growing reader has said that it ends after five bytes.
type growing struct{ *bytes.Reader }

func (g growing) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		return 5, nil
	}
	return g.Reader.Seek(offset, whence)
}

func TestSetBody(t *testing.T) {
	file := func(t *testing.T, text string, offset int64) *os.File {
		path := filepath.Join(t.TempDir(), "body")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		f, err := os.Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		_, err = f.Seek(offset, io.SeekStart)
		require.NoError(t, err)
		return f
	}
	stream := func(text string) io.Reader { return io.MultiReader(strings.NewReader(text)) }
	for _, tt := range []struct {
		name  string
		body  func(*testing.T) io.Reader
		limit int64
		want  string
	}{
		{"a file", func(t *testing.T) io.Reader { return file(t, "0123456789", 0) }, 0, "0123456789"},
		{"a file at its position", func(t *testing.T) io.Reader { return file(t, "0123456789", 4) }, 0, "456789"},
		{"a file at its end", func(t *testing.T) io.Reader { return file(t, "0123456789", 10) }, 0, ""},
		{"a file beyond its end", func(t *testing.T) io.Reader { return file(t, "0123456789", 99) }, 0, ""},
		{"a file that grows meanwhile", func(t *testing.T) io.Reader { return growing{bytes.NewReader([]byte("0123456789"))} }, 0, "01234"},
		{"a part of a file", func(t *testing.T) io.Reader { return io.NewSectionReader(file(t, "0123456789", 0), 2, 5) }, 0, "23456"},
		{"a reader that is half read", func(*testing.T) io.Reader {
			r := bytes.NewReader([]byte("0123456789"))
			_, _ = r.ReadByte()
			return r
		}, 0, "123456789"},
		{"a pipe, which has a method Seek", func(t *testing.T) io.Reader {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			t.Cleanup(func() { r.Close() })
			_, err = w.WriteString("piped")
			require.NoError(t, err)
			require.NoError(t, w.Close())
			return r
		}, 5, "piped"},
		{"a stream", func(*testing.T) io.Reader { return stream("0123456789") }, 11, "0123456789"},
		{"a stream as long as the limit", func(*testing.T) io.Reader { return stream("0123456789") }, 10, "0123456789"},
		{"a stream and the highest limit", func(*testing.T) io.Reader { return stream("0123456789") }, math.MaxInt64, "0123456789"},
		{"an empty stream, no limit", func(*testing.T) io.Reader { return stream("") }, 0, ""},
		{"nothing", func(*testing.T) io.Reader { return nil }, 0, ""},
		{"http.NoBody", func(*testing.T) io.Reader { return http.NoBody }, -1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			server := serve(t, func(w http.ResponseWriter, req *http.Request) {
				text, err := io.ReadAll(req.Body)
				got = append(got, fmt.Sprint(req.ContentLength, " bytes: ", string(text), err))
				w.WriteHeader(503)
			})
			req, err := http.NewRequest("PUT", server.URL, nil)
			require.NoError(t, err)
			require.NoError(t, retryhttp.SetBody(req, tt.body(t), tt.limit))
			assert.Equal(t, tt.want == "", req.Body == http.NoBody)

			resp := send(t, &retryhttp.Transport{Base: server.Client().Transport, Policy: retry.Policy{MaxAttempts: 3}}, req)
			require.NoError(t, resp.Body.Close())
			want := fmt.Sprint(len(tt.want), " bytes: ", tt.want, error(nil))
			assert.Equal(t, []string{want, want, want}, got)
		})
	}
}

// A stream that is longer than the limit, or that cannot be read, is an error.
// No data is lost: the request can be sent once.
func TestSetBodyThatIsTooLong(t *testing.T) {
	boom := errors.New("boom")
	tooLong := "it cannot seek, and is longer than the limit of %d bytes"
	for _, tt := range []struct {
		name  string
		end   error // of the body
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
			assert.False(t, b.closed)
			text, err := io.ReadAll(req.Body)
			assert.Equal(t, "0123456789", string(text))
			assert.Equal(t, tt.end == boom, err == boom)
			require.NoError(t, req.Body.Close())
			assert.True(t, b.closed)
		})
	}
}

func TestSetBodyClosesWhatItHasRead(t *testing.T) {
	b := &body{Reader: strings.NewReader("data")}
	req := request(t, "PUT")
	require.NoError(t, retryhttp.SetBody(req, b, 100))
	assert.True(t, b.closed)

	f, err := os.Open("body_test.go")
	require.NoError(t, err)
	require.NoError(t, retryhttp.SetBody(req, f, 0))
	require.NoError(t, req.Body.Close())
	_, err = f.Read(make([]byte, 1))
	assert.NoError(t, err, "a file is left open")
	require.NoError(t, f.Close())
}

// A RoundTripper may still read after it has returned. It must not read what
// the next attempt needs.
func TestBodyOfTheAttemptBeforeReadsNothing(t *testing.T) {
	req := request(t, "PUT")
	require.NoError(t, retryhttp.SetBody(req, bytes.NewReader([]byte("0123456789")), 0))
	first := req.Body
	_, err := io.CopyN(io.Discard, first, 3)
	require.NoError(t, err)
	second, err := req.GetBody()
	require.NoError(t, err)

	_, err = first.Read(make([]byte, 1))
	assert.Equal(t, http.ErrBodyReadAfterClose, err)
	require.NoError(t, first.Close())
	text, err := io.ReadAll(second)
	require.NoError(t, err)
	assert.Equal(t, "0123456789", string(text))
	require.NoError(t, second.Close())
	_, err = second.Read(make([]byte, 1))
	assert.Equal(t, http.ErrBodyReadAfterClose, err)
}

func TestSetBodyThatCannotBeRewound(t *testing.T) {
	gone := errors.New("the file is gone")
	set := func(rewinds int) (*http.Request, error) {
		req := request(t, "PUT")
		return req, retryhttp.SetBody(req, &forgetful{Reader: bytes.NewReader([]byte("0123456789")), rewinds: rewinds, err: gone}, 0)
	}
	_, err := set(0)
	assert.EqualError(t, err, "retryhttp: cannot rewind the request body: the file is gone")
	req, err := set(1)
	require.NoError(t, err)
	_, err = req.GetBody()
	assert.Equal(t, gone, err)
}

// forgetful can be rewound a limited number of times.
type forgetful struct {
	*bytes.Reader
	rewinds int
	err     error
}

func (f *forgetful) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekStart {
		if f.rewinds--; f.rewinds < 0 {
			return 0, f.err
		}
	}
	return f.Reader.Seek(offset, whence)
}
