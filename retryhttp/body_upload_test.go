package retryhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// If an upload goes on after an answer that is accepted, its context ends with the upload. If the
// answer has a body, net/http itself ends the upload when this body is closed.
func TestUploadThatGoesOn(t *testing.T) {
	const size, long = 5, 64<<10 + 1
	for _, tt := range []struct {
		name, scheme string
		length       int64
		answer       *http.Response
		edit         edit
		want         int // how many bytes of the upload are read before its context ends
	}{
		{"202 without a body", "https", long, responseWith(202, http.NoBody), nil, size},
		{"204", "https", long, responseWith(204, http.NoBody), nil, size},
		{"202 without a body, which Check rejects", "https", long, responseWith(202, http.NoBody), check(func(*http.Request, *http.Response, error) error { return retry.Permanent(errReset) }), 2},
		{"400 without a body", "https", long, responseWith(400, http.NoBody), nil, 2},
		{"202 with an empty body, as over HTTP/2", "https", long, textResponse(202, ""), nil, size},
		{"400 with an empty body, as over HTTP/2", "https", long, textResponse(400, ""), nil, 2},
		{"202 without a body, and an upload of unknown length", "https", -1, responseWith(202, http.NoBody), nil, size},
		{"202 without a body, and a short upload", "https", 64 << 10, responseWith(202, http.NoBody), nil, 2},
		{"202 without TLS", "http", long, responseWith(202, http.NoBody), nil, 2},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			read, ended := 0, make(chan struct{})
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: uploader(func(req *http.Request) (*http.Response, error) {
				go func() {
					for ; req.Context().Err() == nil; read++ {
						if _, err := req.Body.Read(make([]byte, 1)); err != nil {
							assert.Equal(t, io.EOF, err)
							break
						}
					}
					assert.NoError(t, req.Body.Close())
					assert.Error(t, req.Context().Err(), "the context ends with the upload")
					close(ended)
				}()
				time.Sleep(time.Second + 1)
				return tt.answer, nil
			})}
			req := request(t, "POST")
			req.URL.Scheme, req.ContentLength = tt.scheme, tt.length
			left := size
			req.Body = io.NopCloser(reads(func(p []byte) (int, error) {
				if left == 0 {
					return 0, io.EOF
				}
				time.Sleep(time.Second)
				left--
				return 1, nil
			}))
			tt.edit.apply(tr, req)
			resp, err := tr.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			<-ended
			assert.Equal(t, tt.want, read)
		})
	}
}

// If net/http repeats the request, the upload goes on with a body of GetBody. A body that a
// RoundTripper gets from GetBody before that, to sign the request, need not be closed.
func TestUploadThatIsRepeated(t *testing.T) {
	for _, repeats := range []bool{true, false} {
		bubble(t, fmt.Sprint("repeats: ", repeats), func(t *testing.T) {
			var ctx context.Context
			var body io.ReadCloser
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: uploader(func(req *http.Request) (*http.Response, error) {
				signed, err := req.GetBody()
				require.NoError(t, err)
				assert.Equal(t, "data", textOf(t, responseWith(200, signed)))
				ctx, body = req.Context(), req.Body
				if repeats {
					require.NoError(t, body.Close())
					body, err = req.GetBody()
					require.NoError(t, err)
				}
				return responseWith(202, http.NoBody), nil
			})}
			req := request(t, "POST")
			req.URL.Scheme = "https"
			rewindable(req, "data")
			req.ContentLength = -1
			send(t, tr, req)
			assert.NoError(t, ctx.Err())
			require.NoError(t, body.Close())
			assert.Error(t, ctx.Err())
		})
	}
}

// Close ends a Read of the answer that hangs, even if the upload goes on. The Close of a compressed
// body waits for the Read.
func TestCloseDuringAnUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reading := make(chan struct{}, 1)
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: uploader(func(req *http.Request) (*http.Response, error) {
			read := reads(func(p []byte) (int, error) {
				reading <- struct{}{}
				defer func() { <-reading }()
				return stalled{req.Context()}.Read(p)
			})
			return responseWith(200, &body{Reader: read, onClose: func() { reading <- struct{}{} }}), nil
		})}
		req := request(t, "POST")
		req.URL.Scheme = "https"
		rewindable(req, "data")
		req.ContentLength = -1
		resp := send(t, tr, req)
		go func() {
			_, err := resp.Body.Read(make([]byte, 1))
			assert.Equal(t, context.Canceled, err)
		}()
		synctest.Wait()
		require.NoError(t, resp.Body.Close())
	})
}

// An uploader is a RoundTripper that returns before it has closed the body of the request.
type uploader func(*http.Request) (*http.Response, error)

func (f uploader) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
