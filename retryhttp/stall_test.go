package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryhttp"
)

// slowBody brings a byte after each of these times, and then hangs until its
// context is done. A time below 0 is for a Read without a byte.
type slowBody struct {
	ctx   context.Context
	times []time.Duration
	last  error // after the last; nil: it hangs
}

func (b *slowBody) Close() error { return nil }

func (b *slowBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(b.times) == 0 && b.last != nil {
		return 0, b.last
	}
	next := 24 * time.Hour
	if len(b.times) > 0 {
		next, b.times = b.times[0], b.times[1:]
	}
	if next < 0 {
		time.Sleep(-next)
		return 0, nil
	}
	select {
	case <-time.After(next):
		return copy(p, "x"), nil
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

func TestStallTimeout(t *testing.T) {
	const text = "retryhttp: no byte of the body within StallTimeout (10s)"
	for _, tt := range []struct {
		name  string
		code  int
		stall time.Duration
		times []time.Duration // of the bytes
		last  error
		pause time.Duration // of the caller, before each Read
		want  string
		took  time.Duration
		err   string // "": io.EOF
	}{
		{"in time", 200, 10 * time.Second, []time.Duration{9 * time.Second, 9 * time.Second}, io.EOF, 0, "xx", 18 * time.Second, ""},
		{"a stall at once", 200, 10 * time.Second, nil, nil, 0, "", 10 * time.Second, text},
		{"a stall later", 200, 10 * time.Second, []time.Duration{9 * time.Second}, nil, 0, "x", 19 * time.Second, text},
		{"a Read without a byte brings none", 200, 10 * time.Second, []time.Duration{9 * time.Second, -6 * time.Second, -3 * time.Second}, nil, 0, "x", 19 * time.Second, text},
		{"the time of the reader does not count", 200, 10 * time.Second, []time.Duration{time.Second, time.Second}, io.EOF, time.Hour, "xx", 3*time.Hour + 2*time.Second, ""},
		{"another error", 200, 10 * time.Second, nil, errBroke, 0, "", 0, errBroke.Error()},
		{"none", 200, 0, []time.Duration{time.Hour}, io.EOF, 0, "x", time.Hour, ""},
		{"less than none", 200, -1, []time.Duration{time.Hour}, io.EOF, 0, "x", time.Hour, ""},
		{"what comes late is whole", 200, 10 * time.Second, []time.Duration{-time.Minute}, io.EOF, 0, "", time.Minute, ""},
		{"a connection may be silent", 101, 10 * time.Second, []time.Duration{time.Hour}, io.EOF, 0, "x", time.Hour, ""},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var ctx context.Context
			tr := &retryhttp.Transport{StallTimeout: tt.stall, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				ctx = req.Context()
				slow := &slowBody{ctx: ctx, times: tt.times, last: tt.last}
				if tt.code == 101 {
					return responseWith(101, &connection{body: body{Reader: slow}}), nil
				}
				return responseWith(200, slow), nil
			})}
			resp := send(t, tr)
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
			if tt.err == "" {
				assert.Equal(t, io.EOF, err)
			} else {
				assert.EqualError(t, err, tt.err)
			}
			var timeout interface{ Timeout() bool }
			assert.Equal(t, tt.err == text, errors.As(err, &timeout) && timeout.Timeout() && errors.Is(err, context.DeadlineExceeded))
			assert.Error(t, ctx.Err())
		})
	}
}
