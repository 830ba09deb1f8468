package retryhttp_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
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
	const size = 5
	toGet := ofRequest(func(req *http.Request) { req.Method = "GET" })
	silent := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {}, WroteRequest: func(httptrace.WroteRequestInfo) {}}
	for _, tt := range []struct {
		name   string
		answer *http.Response
		edit   edit
		proto  int
		trace  *httptrace.ClientTrace // what the RoundTripper reports to; nil: the trace of the request
		want   int                    // how many bytes of the upload are read before its context ends
	}{
		{"202 without a body", responseWith(202, http.NoBody), nil, 2, nil, size},
		{"204", responseWith(204, http.NoBody), nil, 2, nil, size},
		{"202 without a body, which Check rejects", responseWith(202, http.NoBody), check(func(*http.Request, *http.Response, error) error { return retry.Permanent(errReset) }), 2, nil, 2},
		{"400 without a body", responseWith(400, http.NoBody), nil, 2, nil, 2},
		{"202 with an empty body, as over HTTP/2", textResponse(202, ""), nil, 2, nil, size},
		{"400 with an empty body, as over HTTP/2", textResponse(400, ""), nil, 2, nil, 2},
		{"202 to a GET", responseWith(202, http.NoBody), toGet, 2, nil, size},
		{"202 from a RoundTripper that does not report to httptrace", responseWith(202, http.NoBody), nil, 2, silent, 2},
		{"202, and a Check that sends another request in the context of the attempt", responseWith(202, http.NoBody), check(func(req *http.Request, _ *http.Response, _ error) error {
			if trace := httptrace.ContextClientTrace(req.Context()); trace != nil {
				trace.WroteRequest(httptrace.WroteRequestInfo{})
			}
			return nil
		}), 2, nil, size},
		{"202 over HTTP/1", responseWith(202, http.NoBody), nil, 1, nil, 2},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			read, ended := 0, make(chan struct{})
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: uploader(func(req *http.Request) (*http.Response, error) {
				trace := cmp.Or(tt.trace, httptrace.ContextClientTrace(req.Context()))
				trace.GotConn(httptrace.GotConnInfo{})
				go func() {
					for ; req.Context().Err() == nil; read++ {
						if _, err := req.Body.Read(make([]byte, 1)); err != nil {
							assert.Equal(t, io.EOF, err)
							break
						}
					}
					trace.WroteRequest(httptrace.WroteRequestInfo{})
					assert.Error(t, req.Context().Err(), "the context ends with the upload")
					close(ended)
				}()
				time.Sleep(time.Second + 1)
				tt.answer.ProtoMajor = tt.proto
				return tt.answer, nil
			})}
			req := request(t, "POST")
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

// If net/http repeats the request, the context ends with the upload of the repeat.
func TestUploadThatIsRepeated(t *testing.T) {
	var ctx context.Context
	tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: uploader(func(req *http.Request) (*http.Response, error) {
		ctx = req.Context()
		trace := httptrace.ContextClientTrace(ctx)
		trace.GotConn(httptrace.GotConnInfo{})
		trace.WroteRequest(httptrace.WroteRequestInfo{Err: errReset})
		trace.GotConn(httptrace.GotConnInfo{})
		return overHTTP2(responseWith(202, http.NoBody)), nil
	})}
	req := request(t, "POST")
	rewindable(req, "data")
	send(t, tr, req)
	assert.NoError(t, ctx.Err())
	httptrace.ContextClientTrace(ctx).WroteRequest(httptrace.WroteRequestInfo{})
	assert.Error(t, ctx.Err())
}

// A server accepts uploads over HTTP/2 before it has their bodies. The first 65,535 bytes of a
// connection are for all its streams, so even small uploads may have to wait for the server.
func TestUploadsAreWhole(t *testing.T) {
	for _, tt := range []struct{ uploads, length int }{{1, 65_535}, {1, 65_536}, {1, 1_000_000}, {3, 40_000}, {50, 2_000}} {
		t.Run(fmt.Sprintf("%d of %d bytes", tt.uploads, tt.length), func(t *testing.T) {
			var calls, ends sync.WaitGroup
			ends.Add(tt.uploads)
			got, whole, ended := 0, 0, map[uint32]bool{}
			var to h2conn
			streams := []uint32{0} // 0 is the connection
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: http2Frames(t, func(c h2conn, f http2Frame) {
				const data, headers, reset, endStream = 0x0, 0x1, 0x3, 0x1
				switch {
				case f.kind == headers:
					to, streams = c, append(streams, f.stream)
					c.answer(f.stream)
				case f.kind == data && !ended[f.stream]:
					got += f.length
					if f.flags == endStream {
						whole++
						ended[f.stream] = true
						ends.Done()
					}
				case f.kind == reset && !ended[f.stream]:
					ended[f.stream] = true
					ends.Done()
				}
			})}
			for range tt.uploads {
				calls.Go(func() {
					req, err := http.NewRequestWithContext(t.Context(), "POST", "http://api.example/", bytes.NewReader(make([]byte, tt.length)))
					assert.NoError(t, err)
					resp, err := tr.RoundTrip(req)
					if assert.NoError(t, err) {
						assert.NoError(t, resp.Body.Close())
					}
				})
			}
			calls.Wait()
			for _, stream := range streams {
				to.frame(0x8, 0, stream, binary.BigEndian.AppendUint32(nil, 1<<20)) // WINDOW_UPDATE
			}
			ends.Wait()
			assert.Equal(t, tt.uploads*tt.length, got)
			assert.Equal(t, tt.uploads, whole)
		})
	}
}

// Close ends a Read of the answer that hangs, even if the upload goes on. The Close of a compressed
// body waits for the Read.
func TestCloseDuringAnUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reading := make(chan struct{}, 1)
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: uploader(func(req *http.Request) (*http.Response, error) {
			httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{})
			read := reads(func(p []byte) (int, error) {
				reading <- struct{}{}
				defer func() { <-reading }()
				return stalled{req.Context()}.Read(p)
			})
			return overHTTP2(responseWith(200, &body{Reader: read, onClose: func() { reading <- struct{}{} }})), nil
		})}
		req := request(t, "POST")
		rewindable(req, "data")
		resp := send(t, tr, req)
		go func() {
			_, err := resp.Body.Read(make([]byte, 1))
			assert.Equal(t, context.Canceled, err)
		}()
		synctest.Wait()
		require.NoError(t, resp.Body.Close())
	})
}

func overHTTP2(resp *http.Response) *http.Response {
	resp.ProtoMajor = 2
	return resp
}

// An uploader is a RoundTripper that returns before it has closed the body of the request.
type uploader func(*http.Request) (*http.Response, error)

func (f uploader) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
