package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryhttp"
)

func TestStallTimeout(t *testing.T) {
	const s = time.Second
	const text = "retryhttp: no byte of the body within StallTimeout (10s)"
	for _, tt := range []struct {
		name  string
		stall time.Duration
		reads []time.Duration // how long each Read takes; negative: this Read returns no byte
		last  error           // the result after these reads; nil: the body hangs until its context is done
		pause time.Duration   // how long the caller waits before each Read
		want  string
		took  time.Duration
		err   string
	}{
		{"in time", 10 * s, []time.Duration{9 * s, 9 * s}, io.EOF, 0, "xx", 18 * s, "EOF"},
		{"a stall at once", 10 * s, nil, nil, 0, "", 10 * s, text},
		{"a stall later", 10 * s, []time.Duration{9 * s}, nil, 0, "x", 19 * s, text},
		{"a Read without a byte does not restart the timeout", 10 * s, []time.Duration{9 * s, -6 * s, -3 * s}, nil, 0, "x", 19 * s, text},
		{"the time of the reader does not count", 10 * s, []time.Duration{s, s}, io.EOF, time.Hour, "xx", 3*time.Hour + 2*s, "EOF"},
		{"another error", 10 * s, nil, errReset, 0, "", 0, errReset.Error()},
		{"no timeout", 0, []time.Duration{time.Hour}, io.EOF, 0, "x", time.Hour, "EOF"},
		{"a negative timeout", -1, []time.Duration{time.Hour}, io.EOF, 0, "x", time.Hour, "EOF"},
		{"a body that ends after the timeout may be incomplete", 10 * s, []time.Duration{-time.Minute}, io.EOF, 0, "", time.Minute, text},
		{"a body with a method Write need not be a connection", 10 * s, nil, nil, 0, "", 10 * s, text},
		{"a connection may be silent", 10 * s, []time.Duration{time.Hour}, io.EOF, 0, "x", time.Hour, "EOF"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := script(func(req *http.Request) (*http.Response, error) {
				read := reads(func(p []byte) (n int, err error) {
					assert.True(t, tt.pause == 0 || req.Context().Err() == nil, "while the reader pauses, nothing ends")
					switch {
					case len(p) == 0:
					case len(tt.reads) > 0:
						takes := tt.reads[0]
						tt.reads = tt.reads[1:]
						time.Sleep(max(takes, -takes))
						n = copy(p, "x"[:min(1, max(0, takes))])
					case tt.last == nil:
						return stalled{req.Context()}.Read(p)
					default:
						err = tt.last
					}
					return n, err
				})
				switch tt.name {
				case "a connection may be silent":
					return responseWith(101, &connection{body: body{Reader: read}}), nil
				case "a body with a method Write need not be a connection":
					return responseWith(200, &connection{body: body{Reader: read}}), nil
				}
				return responseWith(200, read), nil
			})
			resp := send(t, &retryhttp.Transport{StallTimeout: tt.stall, Base: base})
			start := time.Now()
			var got strings.Builder
			var err error
			for err == nil {
				_, err = resp.Body.Read(nil)
				require.NoError(t, err)
				time.Sleep(tt.pause)
				_, err = io.CopyN(&got, resp.Body, 1)
			}
			assert.Equal(t, tt.want, got.String())
			assert.Equal(t, tt.took, time.Since(start))
			assert.EqualError(t, err, tt.err)
			assert.Equal(t, tt.err == text, os.IsTimeout(err) && errors.Is(err, context.DeadlineExceeded))
			assert.Error(t, base.sent[0].Context().Err())
		})
	}
}
