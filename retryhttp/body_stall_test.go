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

	"github.com/goretry/retry"
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

// If the context of the request that a Check gets is canceled, the caller has given up. The timeouts
// of this package do not look like the caller.
func TestTheContextOfACheckThatReads(t *testing.T) {
	whole := retryhttp.WholeBody(nil, 1<<20)
	llm := retryhttp.LLM(retry.Policy{})
	for _, row := range []struct {
		name   string
		status int
		tr     *retryhttp.Transport
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		want   error
	}{
		{"StallTimeout", 200, &retryhttp.Transport{Check: whole, StallTimeout: time.Second}, nil, context.DeadlineExceeded},
		{"AttemptTimeout", 200, &retryhttp.Transport{Check: whole, Policy: retry.Policy{AttemptTimeout: time.Second}}, nil, context.DeadlineExceeded},
		{"the 1s of LLM", 503, llm, nil, context.DeadlineExceeded},
		{"the caller", 200, &retryhttp.Transport{Check: whole}, context.WithCancel, context.Canceled},
		{"the caller, whose cause is a timeout", 200, &retryhttp.Transport{Check: whole}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(os.ErrDeadlineExceeded) }
		}, context.Canceled},
		{"the caller, whose cause is the StallTimeout of another call", 200, &retryhttp.Transport{Check: whole}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			tr := &retryhttp.Transport{StallTimeout: 1, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				return responseWith(200, stalled{req.Context()}), nil
			})}
			_, stall := io.ReadAll(send(t, tr, request(t, "GET").WithContext(ctx)).Body)
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(stall) }
		}, context.Canceled},
		{"the caller's deadline", 200, &retryhttp.Transport{Check: whole}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, context.DeadlineExceeded},
	} {
		bubble(t, row.name, func(t *testing.T) {
			check, ended := row.tr.Check, []error{}
			row.tr.Check = func(req *http.Request, resp *http.Response, err error) error {
				failure := check(req, resp, err)
				if resp != nil {
					ended = append(ended, req.Context().Err())
				}
				return failure
			}
			row.tr.Base = roundTrip(func(req *http.Request) (*http.Response, error) {
				return responseWith(row.status, stalled{req.Context()}, "Content-Type", "application/json"), nil
			})
			ctx := t.Context()
			if row.ctx != nil {
				var cancel context.CancelFunc
				ctx, cancel = row.ctx(ctx)
				defer cancel()
				time.AfterFunc(2*time.Second, cancel)
			}
			_, err := retryhttp.Result(row.tr.RoundTrip(request(t, "GET").WithContext(ctx)))
			assert.Error(t, err)
			assert.Equal(t, []error{row.want}, ended)
		})
	}
}
