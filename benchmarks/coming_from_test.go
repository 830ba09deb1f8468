package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	avastretry "github.com/avast/retry-go/v5"
	"github.com/cenkalti/backoff/v5"
	backoff7 "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/hashicorp/go-retryablehttp"
	jpillora "github.com/jpillora/backoff"
	sethvargoretry "github.com/sethvargo/go-retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// These tests check what docs/coming-from.md says about other libraries.

func TestComingFromCenkalti(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log.SetOutput(&out)
		defer log.SetOutput(os.Stderr)
		ctx, url, calls := t.Context(), "http://example.test", 0
		fetch := func(context.Context, string) (string, error) {
			if calls++; calls < 3 {
				return "", errFailed
			}
			return "200 OK", nil
		}

		b := backoff.NewExponentialBackOff()
		b.InitialInterval = 50 * time.Millisecond
		status, err := backoff.Retry(ctx, func() (string, error) { return fetch(ctx, url) },
			backoff.WithBackOff(b), backoff.WithMaxTries(4),
			backoff.WithNotify(func(err error, d time.Duration) { log.Println(err, "again in", d) }))

		require.NoError(t, err)
		assert.Equal(t, "200 OK", status)
		assert.Equal(t, 2, strings.Count(out.String(), errFailed.Error()+" again in"))
		assert.Equal(t, []any{1.5, 0.5, time.Minute}, []any{b.Multiplier, b.RandomizationFactor, b.MaxInterval}, "as in the policy")
		assert.Equal(t, 15*time.Minute, backoff.DefaultMaxElapsedTime)
		assert.Equal(t, 15*time.Minute, backoff7.DefaultMaxElapsedTime)
	})
}

// The libraries make their attempts at different times, as the page says.
func TestComingFromAttempts(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	exponential := func() *backoff.ExponentialBackOff {
		b := backoff.NewExponentialBackOff()
		b.InitialInterval, b.Multiplier, b.RandomizationFactor = s, 2, 0
		return b
	}
	within := func(ctx context.Context, d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(ctx, d)
		time.AfterFunc(d, cancel)
		return ctx
	}
	ended := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx
	}
	// These functions turn an operation into the forms that the libraries need.
	value := func(op func() error) func() (int, error) { return func() (int, error) { return 0, op() } }
	marked := func(op func() error) func(context.Context) error {
		return func(context.Context) error { return sethvargoretry.RetryableError(op()) }
	}
	condition := func(op func() error) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) { return op() == nil, nil }
	}
	only := func(n int, err error) func(int) error { // attempt n fails with err, and every other attempt with errFailed
		return func(attempt int) error {
			if attempt == n {
				return err
			}
			return errFailed
		}
	}
	plain := only(0, nil)

	for _, row := range []struct {
		name string
		fail func(attempt int) error
		call func(ctx context.Context, op func() error)
		want []time.Duration // when the attempts are made, and when the call returns
	}{
		{"a canceled context: cenkalti v5 makes an attempt", plain, func(ctx context.Context, op func() error) {
			_, _ = backoff.Retry(ended(ctx), value(op))
		}, []time.Duration{0, 0}},
		{"a canceled context: failsafe makes an attempt", plain, func(ctx context.Context, op func() error) {
			_ = failsafe.With(retrypolicy.NewWithDefaults[any]()).WithContext(ended(ctx)).Run(op)
		}, []time.Duration{0, 0}},
		{"a canceled context: retry makes none", plain, func(ctx context.Context, op func() error) {
			_ = retry.Do(ended(ctx), retry.Policy{}, func(context.Context) error { return op() })
		}, []time.Duration{0}},

		{"a deadline in the wait: cenkalti v5 waits for it", plain, func(ctx context.Context, op func() error) {
			_, _ = backoff.Retry(within(ctx, 2*s), value(op), backoff.WithBackOff(exponential()))
		}, []time.Duration{0, s, 2 * s}},
		{"a deadline in the wait: avast waits for it", plain, func(ctx context.Context, op func() error) {
			_ = avastretry.New(avastretry.Context(within(ctx, 2*s)), avastretry.Delay(3*s)).Do(op)
		}, []time.Duration{0, 2 * s}},
		{"a deadline in the wait: sethvargo waits for it", plain, func(ctx context.Context, op func() error) {
			_ = sethvargoretry.Do(within(ctx, 2*s), sethvargoretry.NewExponential(s), marked(op))
		}, []time.Duration{0, s, 2 * s}},
		{"a deadline in the wait: k8s waits for it", plain, func(ctx context.Context, op func() error) {
			_ = wait.ExponentialBackoffWithContext(within(ctx, 2*s), wait.Backoff{Steps: 5, Duration: s, Factor: 2}, condition(op))
		}, []time.Duration{0, s, 2 * s}},
		{"a deadline in the wait: failsafe waits for it", plain, func(ctx context.Context, op func() error) {
			_ = failsafe.With(retrypolicy.NewBuilder[any]().WithDelay(3 * s).Build()).WithContext(within(ctx, 2*s)).Run(op)
		}, []time.Duration{0, 2 * s}},
		{"a deadline in the wait: retry returns at once", plain, func(ctx context.Context, op func() error) {
			p := retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: s}}
			_ = retry.Do(within(ctx, 2*s), p, func(context.Context) error { return op() })
		}, []time.Duration{0, s, s}},

		{"Retry-After: cenkalti v5 starts its curve again", only(2, backoff.RetryAfter(10)), func(ctx context.Context, op func() error) {
			_, _ = backoff.Retry(ctx, value(op), backoff.WithBackOff(exponential()), backoff.WithMaxTries(4))
		}, []time.Duration{0, s, 11 * s, 12 * s, 12 * s}},
		{"Retry-After: retry goes on with its curve", only(2, retry.After(10*s, errFailed)), func(ctx context.Context, op func() error) {
			p := retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: s}}
			_ = retry.Do(ctx, p, func(context.Context) error { return op() })
		}, []time.Duration{0, s, 11 * s, 15 * s, 15 * s}},

		{"sethvargo retries only what is marked", plain, func(ctx context.Context, op func() error) {
			_ = sethvargoretry.Do(ctx, sethvargoretry.NewConstant(s), func(context.Context) error { return op() })
		}, []time.Duration{0, 0}},
		{"avast stops at Unrecoverable", only(2, avastretry.Unrecoverable(errFailed)), func(ctx context.Context, op func() error) {
			_ = avastretry.New(avastretry.Attempts(4), avastretry.Delay(s), avastretry.DelayType(avastretry.FixedDelay)).Do(op)
		}, []time.Duration{0, s, s}},
		{"avast does not with a RetryIf", only(2, avastretry.Unrecoverable(errFailed)), func(ctx context.Context, op func() error) {
			_ = avastretry.New(avastretry.Attempts(4), avastretry.Delay(s), avastretry.DelayType(avastretry.FixedDelay), avastretry.RetryIf(func(error) bool { return true })).Do(op)
		}, []time.Duration{0, s, 2 * s, 3 * s, 3 * s}},
		{"avast does with a RetryIf and Attempts(0)", only(2, avastretry.Unrecoverable(errFailed)), func(ctx context.Context, op func() error) {
			_ = avastretry.New(avastretry.Attempts(0), avastretry.Delay(s), avastretry.DelayType(avastretry.FixedDelay), avastretry.RetryIf(func(error) bool { return true })).Do(op)
		}, []time.Duration{0, s, s}},

		{"Fibonacci of sethvargo starts d, 2d, 3d", plain, func(ctx context.Context, op func() error) {
			_ = sethvargoretry.Do(ctx, sethvargoretry.WithMaxRetries(3, sethvargoretry.NewFibonacci(s)), marked(op))
		}, []time.Duration{0, s, 3 * s, 6 * s, 6 * s}},
		{"Fibonacci of retry starts d, d, 2d", plain, func(ctx context.Context, op func() error) {
			_ = retry.Do(ctx, retry.Policy{MaxAttempts: 4, Backoff: retry.Fibonacci(s)}, func(context.Context) error { return op() })
		}, []time.Duration{0, s, 2 * s, 4 * s, 4 * s}},
		{"a Factor of 0 is a constant delay with k8s", plain, func(ctx context.Context, op func() error) {
			_ = wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Steps: 3, Duration: s}, condition(op))
		}, []time.Duration{0, s, 2 * s, 2 * s}},
		{"a Cap of k8s also stops, after the wait", plain, func(ctx context.Context, op func() error) {
			_ = wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Steps: 9, Duration: s, Factor: 2, Cap: 3 * s}, condition(op))
		}, []time.Duration{0, s, 3 * s}},
		{"MaxElapsed of sethvargo shortens the last wait", plain, func(ctx context.Context, op func() error) {
			_ = sethvargoretry.Do(ctx, sethvargoretry.WithMaxDuration(2*s, sethvargoretry.NewExponential(s)), marked(op))
		}, []time.Duration{0, s, 2 * s, 2 * s}},
		{"MaxDuration of failsafe shortens the last wait", plain, func(ctx context.Context, op func() error) {
			_ = failsafe.With(retrypolicy.NewBuilder[any]().WithMaxAttempts(-1).WithBackoff(s, time.Minute).WithMaxDuration(2 * s).Build()).Run(func() error { time.Sleep(ms); return op() })
		}, []time.Duration{ms, s + 2*ms, 2*s + ms, 2*s + ms}},
		{"MaxElapsed of retry stops before it", plain, func(ctx context.Context, op func() error) {
			p := retry.Policy{MaxAttempts: 9, MaxElapsed: 2 * s, Backoff: retry.Exponential{Base: s}}
			_ = retry.Do(ctx, p, func(context.Context) error { return op() })
		}, []time.Duration{0, s, s}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, attempts := time.Now(), 0
				var got []time.Duration
				row.call(t.Context(), func() error {
					attempts++
					got = append(got, time.Since(began))
					return row.fail(attempts)
				})
				assert.Equal(t, row.want, append(got, time.Since(began)))
			})
		})
	}
}

// For two attempts, avast's OnRetry gets the numbers 0 and 1.
func TestComingFromOnRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []uint
		_ = avastretry.New(avastretry.Attempts(2), avastretry.OnRetry(func(n uint, _ error) { got = append(got, n) })).Do(func() error { return errFailed })
		assert.Equal(t, []uint{0, 1}, got)
	})
}

// retry.Unwrap returns the same error as cenkalti v5 and avast.
func TestComingFromUnwrap(t *testing.T) {
	shutdown := errors.New("shutdown")
	canceled := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(time.Second, func() { cancel(shutdown) })
		return ctx
	}
	late := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		time.AfterFunc(time.Minute, cancel)
		return ctx
	}
	for _, row := range []struct {
		name string
		ctx  func(context.Context) context.Context
		want error
	}{
		{"canceled in its wait", canceled, shutdown},
		{"a deadline in its wait", late, context.DeadlineExceeded},
		{"all attempts failed", func(ctx context.Context) context.Context { return ctx }, errFailed},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fail := func() error { return errFailed }
				_, five := backoff.Retry(row.ctx(t.Context()), func() (int, error) { return 0, fail() },
					backoff.WithBackOff(backoff.NewConstantBackOff(time.Minute)), backoff.WithMaxTries(2))
				only := []avastretry.Option{avastretry.Attempts(2), avastretry.Delay(time.Minute), avastretry.LastErrorOnly(true)}
				avast := avastretry.New(append(only, avastretry.Context(row.ctx(t.Context())))...).Do(fail)
				ours := retry.Do(row.ctx(t.Context()), retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Minute)},
					func(context.Context) error { return fail() })
				assert.Equal(t, []error{row.want, row.want, row.want}, []error{five, avast, retry.Unwrap(ours)})
			})
		})
	}
}

// The libraries return different values after a failed call.
func TestComingFromValue(t *testing.T) {
	seven := func() (int, error) { return 7, errFailed }
	five, _ := backoff.Retry(t.Context(), seven, backoff.WithMaxTries(1))
	latest, _ := backoff7.Retry(t.Context(), seven, backoff7.WithMaxTries(1))
	ours, _ := retry.DoValue(t.Context(), retry.Policy{}, func(context.Context) (int, error) { return seven() })
	assert.Equal(t, []int{7, 7, 0}, []int{five, latest, ours})
}

// go-retryablehttp does not shorten a long Retry-After.
func TestComingFromServersWait(t *testing.T) {
	header := http.Header{"Retry-After": {"864000"}}
	got := retryablehttp.DefaultBackoff(time.Second, 30*time.Second, 0, &http.Response{StatusCode: http.StatusTooManyRequests, Header: header})
	assert.Equal(t, 240*time.Hour, got)
}

// Each error of cenkalti v7 corresponds to a Reason of this library.
func TestComingFromErrors(t *testing.T) {
	fail := func(err error) func() (int, error) { return func() (int, error) { return 0, err } }
	do := func(ctx context.Context, p retry.Policy, err error) error {
		return retry.Do(ctx, p, func(context.Context) error { return err })
	}
	synctest.Test(t, func(t *testing.T) {
		canceled := func() context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			return ctx
		}
		wait := backoff7.WithBackOff(&backoff7.ConstantBackOff{Interval: time.Minute})
		second := retry.Fixed(time.Minute)
		for _, row := range []struct {
			name   string
			theirs func() (int, error)
			is     error
			ours   error
			reason retry.Reason
		}{
			{"ErrExhausted", func() (int, error) { return backoff7.Retry(t.Context(), fail(errFailed), backoff7.WithMaxTries(1)) },
				backoff7.ErrExhausted, do(t.Context(), retry.Policy{MaxAttempts: 1}, errFailed), retry.ReasonExhausted},
			{"ErrMaxElapsedTime", func() (int, error) {
				return backoff7.Retry(t.Context(), fail(errFailed), wait, backoff7.WithMaxElapsedTime(time.Second))
			}, backoff7.ErrMaxElapsedTime, do(t.Context(), retry.Policy{MaxElapsed: time.Second, Backoff: second}, errFailed), retry.ReasonElapsed},
			{"ErrPermanent", func() (int, error) { return backoff7.Retry(t.Context(), fail(backoff7.Permanent(errFailed))) },
				backoff7.ErrPermanent, do(t.Context(), retry.Policy{MaxAttempts: 2}, retry.Permanent(errFailed)), retry.ReasonPermanent},
			{"context.Canceled", func() (int, error) { return backoff7.Retry(canceled(), fail(errFailed), wait) },
				context.Canceled, do(canceled(), retry.Policy{MaxAttempts: 2, Backoff: second}, errFailed), retry.ReasonCanceled},
		} {
			_, err := row.theirs()
			assert.ErrorIs(t, err, row.is, row.name)
			assert.Equal(t, errFailed, backoff7.AsRetryError(err).LastErr, row.name)
			assert.Equal(t, row.reason, retry.ReasonOf(row.ours), row.name)
			want := errFailed
			if row.is == context.Canceled {
				want = context.Canceled // the cause of the cancellation, not the failure before it
			}
			assert.Equal(t, want, retry.Unwrap(row.ours), row.name)
		}
	})
}

// An error that a function of another library wraps is retried like any other error.
func TestComingFromWrappedErrors(t *testing.T) {
	for _, wrapped := range []error{avastretry.Unrecoverable(errFailed), backoff.Permanent(errFailed), backoff7.Permanent(errFailed)} {
		attempts := 0
		_ = retry.Do(t.Context(), retry.Policy{MaxAttempts: 3}, func(context.Context) error { attempts++; return wrapped })
		assert.Equal(t, 3, attempts, "%T", wrapped)
	}
}

func TestComingFromJpillora(t *testing.T) {
	zero := new(jpillora.Backoff)
	assert.Equal(t, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 10 * time.Second},
		[]time.Duration{zero.ForAttempt(0), zero.ForAttempt(1), zero.ForAttempt(99)})
	policy := retry.Policy{Backoff: retry.Exponential{Base: 100 * time.Millisecond}, MaxDelay: 10 * time.Second}
	for range 2 {
		for n := 1; n < 20; n++ {
			assert.Equal(t, zero.Duration(), policy.Next(retry.Attempt{Number: n}).Delay)
		}
		zero.Reset()
	}
	for range 100 {
		d := (&jpillora.Backoff{Min: time.Second, Jitter: true}).ForAttempt(2)
		assert.GreaterOrEqual(t, d, time.Second)
		assert.LessOrEqual(t, d, 4*time.Second)
	}
}

// A Permanent error of an inner call ends the outer loop here, and does not in cenkalti.
func TestComingFromInnerPermanent(t *testing.T) {
	for _, row := range []struct {
		name string
		loop func(inner func() error) (attempts int) // the attempts of the outer loop, which may make two
		want int
	}{
		{"cenkalti v5", func(inner func() error) (attempts int) {
			_, _ = backoff.Retry(t.Context(), func() (int, error) {
				attempts++
				return backoff.Retry(t.Context(), func() (int, error) { return 0, backoff.Permanent(inner()) })
			}, backoff.WithBackOff(&backoff.ZeroBackOff{}), backoff.WithMaxTries(2))
			return attempts
		}, 2},
		{"cenkalti v7", func(inner func() error) (attempts int) {
			_, _ = backoff7.Retry(t.Context(), func() (int, error) {
				attempts++
				_, err := backoff7.Retry(t.Context(), func() (int, error) { return 0, backoff7.Permanent(inner()) })
				return 0, err
			}, backoff7.WithBackOff(&backoff7.ZeroBackOff{}), backoff7.WithMaxTries(2))
			return attempts
		}, 2},
		{"here", func(inner func() error) (attempts int) {
			p := retry.Policy{MaxAttempts: 2}
			_ = retry.Do(t.Context(), p, func(ctx context.Context) error {
				attempts++
				return retry.Do(ctx, p, func(context.Context) error { return retry.Permanent(inner()) })
			})
			return attempts
		}, 1},
		{"here, with Unwrap", func(inner func() error) (attempts int) {
			p := retry.Policy{MaxAttempts: 2}
			_ = retry.Do(t.Context(), p, func(ctx context.Context) error {
				attempts++
				return retry.Unwrap(retry.Do(ctx, p, func(context.Context) error { return retry.Permanent(inner()) }))
			})
			return attempts
		}, 2},
	} {
		assert.Equal(t, row.want, row.loop(func() error { return errFailed }), row.name)
	}
}

// go-retryablehttp retries other requests than this library does, and its caller gets an error
// after the last attempt.
func TestComingFromRetryableHTTP(t *testing.T) {
	for _, row := range []struct {
		name, method, key string
		body              io.Reader // nil: the request has no body
		status            int       // the status of each answer; 0: the connection breaks
		there, here       int       // how often each of the two libraries sends the request
		err               bool      // whether go-retryablehttp returns an error; in this library, Result returns the error
	}{
		{"a GET that gets a 503", "GET", "", nil, 503, 2, 2, true},
		{"a GET that is lost", "GET", "", nil, 0, 2, 2, true},
		{"a POST that gets a 503", "POST", "", nil, 503, 2, 1, true},
		{"a POST that is lost", "POST", "", nil, 0, 2, 1, true},
		{"a POST with a key", "POST", "k", nil, 503, 2, 2, true},
		{"a POST that gets a 429", "POST", "", nil, 429, 2, 2, true},
		{"a PUT whose body has no GetBody", "PUT", "", io.MultiReader(strings.NewReader("data")), 503, 2, 1, true},
		{"408", "GET", "", nil, 408, 1, 2, false},
		{"501", "GET", "", nil, 501, 1, 1, false},
		{"507", "GET", "", nil, 507, 2, 1, true},
		{"404", "GET", "", nil, 404, 1, 1, false},
		{"a POST with a key that gets a 409", "POST", "k", nil, 409, 1, 2, false},
		{"a GET that gets a 409", "GET", "", nil, 409, 1, 1, false},
		{"a 403 with a Retry-After", "GET", "", nil, 403, 1, 2, false},
		{"a POST that gets a 413 with a Retry-After", "POST", "", nil, 413, 1, 2, false},
	} {
		send := func(rt func(http.RoundTripper) http.RoundTripper) (sent int, resp *http.Response, err error) {
			base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
				if sent++; row.status == 0 {
					return nil, errFailed
				}
				header := http.Header{}
				if row.status == 403 || row.status == 413 {
					header.Set("Retry-After", "0")
				}
				return &http.Response{StatusCode: row.status, Header: header, Body: http.NoBody, Request: req}, nil
			})
			req, err := http.NewRequestWithContext(t.Context(), row.method, "http://example.test", row.body)
			require.NoError(t, err)
			if row.key != "" {
				req.Header.Set("Idempotency-Key", row.key)
			}
			resp, err = (&http.Client{Transport: rt(base)}).Do(req)
			return sent, resp, err
		}
		sent, _, err := send(twiceThere)
		assert.Equal(t, []any{row.there, row.err}, []any{sent, err != nil}, "%s, there: %v", row.name, err)
		sent, resp, err := send(twiceHere)
		assert.Equal(t, []any{row.here, row.status == 0}, []any{sent, err != nil}, "%s, here: %v", row.name, err)
		_, err = retryhttp.Result(resp, err)
		assert.Error(t, err, row.name)
	}
}

// twiceThere and twiceHere return a RoundTripper of each library that makes two attempts.
func twiceThere(base http.RoundTripper) http.RoundTripper {
	c := retryablehttp.NewClient()
	c.HTTPClient.Transport, c.Logger, c.RetryMax = base, nil, 1
	c.RetryWaitMin, c.RetryWaitMax = 1, 1
	return c.StandardClient().Transport
}

func twiceHere(base http.RoundTripper) http.RoundTripper {
	return &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}}
}

// go-retryablehttp reads a file again from its offset 0, and reads a body that cannot seek into
// memory. SetBody sends a file from its present offset.
func TestComingFromRetryableHTTPBody(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "body"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, file.Close()) }()
	_, err = file.WriteString("0123456789")
	require.NoError(t, err)
	for _, row := range []struct {
		name        string
		body        io.ReadCloser
		there, here string // what each of two attempts sends
		memory      bool   // the body is read before the first attempt of go-retryablehttp
	}{
		{"a file", file, "0123456789", "456789", false},
		{"a body that cannot seek", io.NopCloser(file), "456789", "456789", true},
	} {
		send := func(
			setBody func(*http.Request) error, rt func(http.RoundTripper) http.RoundTripper,
		) (sent []string, memory bool) {
			_, err := file.Seek(4, io.SeekStart)
			require.NoError(t, err)
			base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
				offset, err := file.Seek(0, io.SeekCurrent)
				require.NoError(t, err)
				memory = memory || len(sent) == 0 && offset == 10
				text, err := io.ReadAll(req.Body)
				require.NoError(t, err)
				sent = append(sent, string(text))
				return &http.Response{StatusCode: 503, Body: http.NoBody, Request: req}, nil
			})
			req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://example.test", nil)
			require.NoError(t, err)
			require.NoError(t, setBody(req))
			_, _ = (&http.Client{Transport: rt(base)}).Do(req)
			return sent, memory
		}
		sent, memory := send(func(req *http.Request) error {
			req.Body = row.body
			return nil
		}, twiceThere)
		assert.Equal(t, []string{row.there, row.there}, sent, "%s, there", row.name)
		assert.Equal(t, row.memory, memory, row.name)
		sent, _ = send(func(req *http.Request) error { return retryhttp.SetBody(req, row.body, 100) }, twiceHere)
		assert.Equal(t, []string{row.here, row.here}, sent, "%s, here", row.name)
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
