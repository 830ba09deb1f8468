package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

// The rows contain texts that ExampleError does not show.
func TestErrorText(t *testing.T) {
	doubling := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: 200 * time.Millisecond}}
	with := func(change func(*retry.Policy)) retry.Policy {
		p := doubling
		change(&p)
		return p
	}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		ctx    func(context.Context) context.Context
		fail   error
		want   string
	}{
		{"attempts exhausted, without a wait", retry.Policy{MaxRetries: 2}, nil, errBoom, "attempts exhausted after 3 attempts: boom"},
		{"attempts exhausted, a cap but no limit", retry.Policy{AttemptCap: 5}, nil, errBoom,
			"gave up after 1 attempt (no limit is set, so there is no retry): boom"},
		{"retry after too long for MaxRetryAfter", with(func(p *retry.Policy) { p.MaxRetryAfter = time.Second }), nil, retry.After(math.MaxInt64, errBoom),
			"gave up after 1 attempt (Retry-After is 292 years, MaxRetryAfter is 1s): boom"},
		{"the wait failed", with(func(p *retry.Policy) {
			p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, errShutdown }
		}), nil, errBoom,
			"the wait failed after 1 attempt (the next delay is 200ms, the server shuts down): boom"},
		{"elapsed, after a retry that started exactly at MaxElapsed", with(func(p *retry.Policy) { p.MaxElapsed = 200 * time.Millisecond }), nil, errBoom,
			"out of time after 2 attempts (200ms waited, the next delay of 400ms would exceed MaxElapsed 200ms): boom"},
		{"deadline ahead", doubling, endingIn(500*time.Millisecond, nil), errBoom,
			"deadline too close after 2 attempts (200ms waited, the next delay is 400ms, 300ms are left): boom"},
		{"deadline passed in the wait", doubling, hiddenIn(500*time.Millisecond, nil), errBoom,
			"deadline exceeded after 2 attempts (200ms waited, the next delay is 400ms, context deadline exceeded): boom"},
		{"deadline passed in the wait, with a cause", doubling, hiddenIn(500*time.Millisecond, errShutdown), errBoom,
			"deadline exceeded after 2 attempts (200ms waited, the next delay is 400ms, context deadline exceeded: the server shuts down): boom"},
		{"canceled before", doubling, canceledBy(nil), errBoom, "canceled before the first attempt (context canceled)"},
		{"borrowed budget exhausted", with(func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1, Borrowed: true}; p.Budget.Take() }), nil, errBoom,
			"borrowed retry budget exhausted after 1 attempt (a retry would have waited 200ms): boom"},
		{"invalid before the first attempt", retry.Policy{MaxAttempts: -2}, canceledBy(errShutdown), errBoom,
			"invalid policy before the first attempt (MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited; context canceled: the server shuts down)"},
		{"an error of many lines", retry.Policy{MaxAttempts: 1}, nil, errors.Join(errBoom, errShutdown),
			"attempts exhausted after 1 attempt: boom; the server shuts down"},
		{"a cause of many lines", doubling, canceledBy(errors.Join(errShutdown, errBoom)), errBoom,
			"canceled before the first attempt (context canceled: the server shuts down; boom)"},
		{"an Error in an Error in an Error", retry.Policy{MaxAttempts: 1}, nil,
			&retry.Error{Reason: retry.ReasonBudget, Attempts: 2, Err: &retry.Error{Reason: retry.ReasonExhausted, Attempts: 3, Err: errBoom}},
			"attempts exhausted after 1 attempt: retry budget exhausted after 2 attempts: attempts exhausted after 3 attempts: boom"},
		{"an Error that is wrapped in an Error", retry.Policy{MaxAttempts: 1}, nil,
			fmt.Errorf("get: %w", &retry.Error{Reason: retry.ReasonBudget, Attempts: 2, Err: errBoom}),
			"attempts exhausted after 1 attempt: get: retry: retry budget exhausted after 2 attempts: boom"},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx := t.Context()
			if row.ctx != nil {
				ctx = row.ctx(ctx)
			}
			assert.EqualError(t, call(ctx, row.policy, failWith(row.fail)), "retry: "+row.want)
		})
	}
	t.Run("durations are rounded for reading", func(t *testing.T) {
		for d, want := range map[time.Duration]string{
			1:                     "1ns",
			999_999:               "999.999µs",
			1_234_567:             "1.235ms",
			999_999_999:           "1s",
			1_234_567_890:         "1.235s",
			time.Hour + 1_499_999: "1h0m0.001s",
			math.MaxInt64:         "292 years",
			math.MaxInt64 - 5e6:   "292 years",
		} {
			err := &retry.Error{Reason: retry.ReasonBudget, Attempts: 2, Waited: d, Delay: d, Err: errBoom}
			assert.EqualError(t, err, "retry: retry budget exhausted after 2 attempts ("+want+" waited, a retry would have waited "+want+"): boom")
		}
	})
	for want, e := range map[string]*retry.Error{
		"<nil>": nil,
		"retry: attempts exhausted after 2 attempts: <nil>":      {Reason: retry.ReasonExhausted, Attempts: 2, Err: (*retry.Error)(nil)},
		"retry: attempts exhausted after 2 attempts: a; b; c; d": {Reason: retry.ReasonExhausted, Attempts: 2, Err: errors.New("a\r\nb\nc\rd")},
		"retry: quota_of_the_tenant after 2 attempts: boom":      {Reason: "quota_of_the_tenant", Attempts: 2, Err: errBoom},
		"retry: stopped before the first attempt":                {},
		"retry: two; lines after 1 attempt":                      {Reason: "two\nlines", Attempts: 1},
	} {
		t.Run("an Error that was not made by a call/"+want, func(t *testing.T) { assert.EqualError(t, e, want) })
	}
}

func TestUnwrap(t *testing.T) {
	call := func(ctx context.Context, p retry.Policy, err error) error { return retry.Do(ctx, p, failWith(err)) }
	one := func(err error) error { return call(t.Context(), retry.Policy{}, err) }
	canceled := func(err error) error {
		ctx, cancel := context.WithCancelCause(t.Context())
		return retry.Do(ctx, everySecond, func(context.Context) error { cancel(errShutdown); return err })
	}
	ended := canceledBy(errShutdown)(t.Context())
	soon := within(t.Context(), time.Minute, nil)
	hourly := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour)}
	waitFails := retry.Policy{MaxAttempts: 2, Wait: func(context.Context, time.Duration) (time.Duration, error) { return 0, errShutdown }}
	inner, innerCanceled := one(errDial), canceled(errDial)
	wrapped, below := fmt.Errorf("get: %w", inner), fmt.Errorf("get: %w", retry.Permanent(errDial))
	joined, beside := errors.Join(errDial, errShutdown), errors.Join(inner, errShutdown)
	invalid := call(ended, retry.Policy{MaxAttempts: -2}, errDial)
	bad := call(t.Context(), retry.Policy{MaxAttempts: -2}, errDial)
	badInner := retry.Do(t.Context(), everySecond, nil)
	nilContext, nilFunction := call(noContext, retry.Policy{}, errDial), retry.Do(t.Context(), retry.Policy{}, nil)
	for _, row := range []struct {
		name string
		err  error
		want error
	}{
		{"nil", nil, nil},
		{"the tree has no Error", errDial, errDial},
		{"the tree has no Error, but Permanent", retry.Permanent(errDial), retry.Permanent(errDial)},
		{"exhausted", inner, errDial},
		{"an Error that is wrapped", wrapped, errDial},
		{"wrapped by Permanent", one(retry.Permanent(errDial)), errDial},
		{"wrapped by Permanent and After, twice", one(retry.After(1, retry.Permanent(retry.After(2, errDial)))), errDial},
		{"Permanent below a wrapper is unchanged", one(below), below},
		{"joined", one(joined), joined},
		{"nested calls", one(inner), errDial},
		{"nested calls, the inner call is canceled", one(innerCanceled), errShutdown},
		{"nested calls, the inner call is invalid", one(badInner), badInner},
		{"nested calls, the outer call is canceled", canceled(inner), errShutdown},
		{"a nested call joined with another failure: Unwrap returns both", one(beside), beside},
		{"canceled before the first attempt: the cause", call(ended, retry.Policy{}, errDial), errShutdown},
		{"canceled without a cause", call(canceledBy(nil)(t.Context()), retry.Policy{}, errDial), context.Canceled},
		{"canceled in an attempt", innerCanceled, errShutdown},
		{"canceled in an attempt that failed for good", canceled(retry.Permanent(errDial)), errDial},
		{"canceled in an attempt that failed for good, below a wrapper", canceled(below), below},
		{"a deadline too close to wait", call(soon, hourly, errDial), context.DeadlineExceeded},
		{"the wait failed: the error of the attempt", call(t.Context(), waitFails, errDial), errDial},
		{"an invalid policy whose attempt failed", bad, bad},
		{"no attempt: an invalid policy in a canceled context", invalid, invalid},
		{"no attempt: nil context", nilContext, nilContext},
		{"no attempt: nil function", nilFunction, nilFunction},
		{"an invalid call that is wrapped", fmt.Errorf("get: %w", nilFunction), nilFunction},
		{"an empty Error", &retry.Error{}, &retry.Error{}},
		{"a typed nil", (*retry.Error)(nil), (*retry.Error)(nil)},
	} {
		t.Run(row.name, func(t *testing.T) { assert.Equal(t, row.want, retry.Unwrap(row.err)) })
	}
	t.Run("it is == the error that fn returned", func(t *testing.T) { assert.True(t, retry.Unwrap(inner) == errDial) })
}

// The outer loop retries after a failed inner loop, as after any other failure. It stops if the
// inner error is Permanent, or if the inner call was invalid.
func TestOuterCallRetriesAfterAnInnerCall(t *testing.T) {
	outer := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute)}
	twice := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}
	exhausted, permanent := retry.ReasonExhausted, retry.ReasonPermanent
	for _, row := range []struct {
		name    string
		policy  retry.Policy                          // the policy of the inner loop
		ctx     func(context.Context) context.Context // returns the context of the inner loop; nil: the inner loop gets the context of the outer attempt
		fail    error
		inner   retry.Reason
		outer   retry.Reason
		runs    int
		elapsed time.Duration
	}{
		{"inner Permanent", twice, nil, retry.Permanent(errDial), permanent, permanent, 1, 0},
		{"inner Permanent, whatever stopped the inner loop", retry.Policy{NonRetryable: true}, nil, retry.Permanent(errDial),
			permanent, permanent, 1, 0},
		{"inner After applies to the outer loop", twice, nil, retry.After(20*time.Second, errDial),
			exhausted, exhausted, 6, 2*time.Minute + 3*20*time.Second}, // the outer delay is longer than 20s
		{"inner After applies if it is longer", retry.Policy{MaxAttempts: 2, MaxRetryAfter: time.Second}, nil,
			retry.After(time.Minute-1, errDial), retry.ReasonRetryAfter, exhausted, 3, 2 * time.Minute},
		{"inner After that is too long for both", twice, nil, retry.After(time.Hour, errDial),
			retry.ReasonRetryAfter, retry.ReasonRetryAfter, 1, 0},
		{"inner exhausted", twice, nil, errDial, exhausted, exhausted, 6, 2*time.Minute + 3*time.Second},
		{"inner deadline ahead", twice, endingIn(time.Second, nil), errDial, retry.ReasonDeadline, exhausted, 3, 2 * time.Minute},
		{"inner deadline", twice, hiddenIn(time.Second/2, nil), errDial, retry.ReasonDeadline, exhausted, 3, 2*time.Minute + 3*time.Second/2},
		{"inner cancellation", twice, canceledBy(errShutdown), errDial, retry.ReasonCanceled, exhausted, 0, 2 * time.Minute},
		{"inner cancellation for a Permanent cause", twice, canceledBy(retry.Permanent(errShutdown)), errDial,
			retry.ReasonCanceled, exhausted, 0, 2 * time.Minute},
		{"inner cancellation for a cause with After", twice, canceledBy(retry.After(time.Hour, errShutdown)), errDial,
			retry.ReasonCanceled, exhausted, 0, 2 * time.Minute},
		{"inner invalid", retry.Policy{MaxAttempts: -2}, nil, errDial, retry.ReasonInvalid, permanent, 1, 0},
		{"inner invalid, even if the context is done", retry.Policy{MaxAttempts: -2}, canceledBy(errShutdown), errDial,
			retry.ReasonInvalid, permanent, 0, 0},
		{"inner nil context", twice, func(context.Context) context.Context { return nil }, errDial, retry.ReasonInvalid, permanent, 0, 0},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			start, runs := time.Now(), 0
			err := call(t.Context(), outer, func(ctx context.Context) error {
				if row.ctx != nil {
					ctx = row.ctx(ctx)
				}
				return fmt.Errorf("wrapped: %w", call(ctx, row.policy, func(context.Context) error { runs++; return row.fail }))
			})
			e := stopped(t, err)
			assert.Equal(t, row.outer, retry.ReasonOf(err), "ReasonOf says why the outer loop stopped")
			assert.Equal(t, row.inner, retry.ReasonOf(e.Err), "ReasonOf(e.Err) says why the inner loop stopped")
			assert.Equal(t, row.runs, runs)
			assert.Equal(t, row.elapsed, time.Since(start))
			if runs > 0 {
				assert.ErrorIs(t, err, row.fail)
			}
			assert.NoError(t, e.Cause)
		})
	}
}

// A line says what one attempt of a script does. The attempt runs for a time, or until its context
// is done, and then fails.
type line struct {
	takes time.Duration
	hangs bool
	err   error // the error of the attempt; nil: the error of its context
}

// A status is an error whose method Is reports a timeout, as the errors of some clients do.
type status string

func (s status) Error() string        { return string(s) }
func (s status) Is(target error) bool { return target == context.DeadlineExceeded }

// The function `play` returns a function that does what the lines of a script say. After the last
// line, it repeats the last line.
func play(script []line) func(context.Context) error {
	return func(ctx context.Context) error {
		l := script[0]
		script = script[min(1, len(script)-1):]
		if l.hangs {
			<-ctx.Done()
		}
		time.Sleep(l.takes)
		if l.err == nil {
			return ctx.Err()
		}
		return l.err
	}
}

// timedOut wraps an error as retryhttp does if a call ended by a deadline.
type timedOut struct{ error }

func (e timedOut) Unwrap() error { return e.error }
func (timedOut) Timeout() bool   { return true }

// The text of an Error says how a call ended: the last error, why there is no further attempt, and
// which timeout ended the attempt. If the last error is only a timeout, the text also shows the
// last error before it.
func TestErrorTextSaysHowACallEnded(t *testing.T) {
	quota, eof := line{err: errors.New("403 quota exhausted")}, line{err: io.ErrUnexpectedEOF}
	hangs, busy := line{hangs: true}, line{err: errors.New("503 Service Unavailable")}
	get := func(err error) error { return &url.Error{Op: "Get", URL: "/x", Err: err} }
	second := retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Second)}
	impatient := with(second, func(p *retry.Policy) { p.AttemptTimeout = 2 * time.Second })
	inner := func(ctx context.Context) error { // the function of the rows without a script
		return fmt.Errorf("orders: %w", retry.Do(ctx, retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Minute)}, play([]line{busy})))
	}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		ctx    func(context.Context) context.Context
		script []line
		want   string
	}{
		{"three 403, and then the deadline", second, endingIn(10*time.Second, nil), []line{quota, quota, quota, line{takes: 10 * time.Second, err: get(context.DeadlineExceeded)}},
			`deadline exceeded after 4 attempts (3s waited, context deadline exceeded): Get "/x": context deadline exceeded; before that: 403 quota exhausted`},
		{"each attempt runs into AttemptTimeout", impatient, nil, []line{hangs},
			"attempts exhausted after 4 attempts (3s waited, attempt 4 ran out of its 2s): context deadline exceeded"},
		{"a 403, and then each attempt runs into AttemptTimeout", impatient, nil, []line{quota, hangs},
			"attempts exhausted after 4 attempts (3s waited, attempt 4 ran out of its 2s): context deadline exceeded; before that: 403 quota exhausted"},
		{"a cut connection after a 403", second, nil, []line{quota, eof}, "attempts exhausted after 4 attempts (3s waited): unexpected EOF"},
		{"timeouts of the operation's own, after a cut connection", second, nil, []line{eof, line{err: os.ErrDeadlineExceeded}},
			"attempts exhausted after 4 attempts (3s waited): i/o timeout; before that: unexpected EOF"},
		{"the last error that is not a timeout is shown", second, nil, []line{quota, eof, line{err: &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}}},
			"attempts exhausted after 4 attempts (3s waited): read tcp: i/o timeout; before that: unexpected EOF"},
		{"a shutdown while it waits", second, canceledIn(1500*time.Millisecond, errShutdown), []line{busy},
			"canceled after 2 attempts (1s waited, the next delay is 1s, context canceled: the server shuts down): 503 Service Unavailable"},
		{"a shutdown in an attempt, after a 503", second, canceledIn(1500*time.Millisecond, errShutdown), []line{busy, hangs},
			"canceled after 2 attempts (1s waited, context canceled: the server shuts down): context canceled; before that: 503 Service Unavailable"},
		{"an inner call that is canceled", second, canceledIn(30*time.Second, errShutdown), nil,
			"canceled after 1 attempt (context canceled: the server shuts down): orders: retry: canceled after 1 attempt " +
				"(the next delay is 1m0s, context canceled: the server shuts down): 503 Service Unavailable"},
		{"an inner call under AttemptTimeout", impatient, nil, nil,
			"attempts exhausted after 4 attempts (3s waited): orders: retry: deadline too close after 1 attempt (the next delay is 1m0s, 2s are left): 503 Service Unavailable"},
		{"a timeout joined with another error is not only a timeout", second, nil, []line{quota, line{err: errors.Join(context.DeadlineExceeded, errBoom)}},
			"attempts exhausted after 4 attempts (3s waited): context deadline exceeded; boom"},
		{"a wrapped context.Canceled", second, nil, []line{quota, line{err: fmt.Errorf("lost: %w", context.Canceled)}},
			"attempts exhausted after 4 attempts (3s waited): lost: context canceled; before that: 403 quota exhausted"},
		{"an error whose method Is reports a timeout", second, nil, []line{quota, line{err: status("DeadlineExceeded")}},
			"attempts exhausted after 4 attempts (3s waited): DeadlineExceeded; before that: 403 quota exhausted"},
		{"an Error without an Err is not a timeout", second, nil, []line{quota, line{err: &retry.Error{Reason: "quota_of_the_tenant", Attempts: 1}}},
			"attempts exhausted after 4 attempts (3s waited): quota_of_the_tenant after 1 attempt"},
		{"a wait that ends after the deadline", second, endingIn(1500*time.Millisecond, nil), []line{quota, hangs},
			"deadline exceeded after 2 attempts (1s waited, context deadline exceeded): context deadline exceeded; before that: 403 quota exhausted"},
		{"an empty Budget after a timeout", second, func(ctx context.Context) context.Context { return retry.WithBudget(ctx, &retry.Budget{Size: 1}) }, []line{quota, line{err: os.ErrDeadlineExceeded}},
			"retry budget exhausted after 2 attempts (1s waited, a retry would have waited 1s): i/o timeout; before that: 403 quota exhausted"},
		{"an Error that has a Before", second, nil, []line{line{err: get(&retry.Error{Reason: retry.ReasonDeadline, Attempts: 1, Err: os.ErrDeadlineExceeded, Before: busy.err})}, line{err: os.ErrDeadlineExceeded}},
			`attempts exhausted after 4 attempts (3s waited): i/o timeout; before that: Get "/x": retry: deadline exceeded after 1 attempt: i/o timeout; before that: 503 Service Unavailable`},
		{"an Error whose Before is only a timeout", second, nil, []line{quota, line{err: get(&retry.Error{Reason: retry.ReasonDeadline, Attempts: 2, Err: os.ErrDeadlineExceeded, Before: os.ErrDeadlineExceeded})}, line{err: os.ErrDeadlineExceeded}},
			"attempts exhausted after 4 attempts (3s waited): i/o timeout; before that: 403 quota exhausted"},
		{"an Error whose Err is more than a timeout, in an error that is a timeout", second, nil, []line{line{err: timedOut{&retry.Error{Reason: retry.ReasonDeadline, Attempts: 1, Err: busy.err}}}, line{err: os.ErrDeadlineExceeded}},
			"attempts exhausted after 4 attempts (3s waited): i/o timeout; before that: retry: deadline exceeded after 1 attempt: 503 Service Unavailable"},
		{"failures before an attempt that ran past HealthyAfter are not shown", with(second, func(p *retry.Policy) { p.HealthyAfter, p.MaxAttempts = time.Minute, 2 }), nil,
			[]line{quota, line{takes: time.Minute, err: os.ErrDeadlineExceeded}, line{err: os.ErrDeadlineExceeded}},
			"attempts exhausted after 3 attempts (2s waited, 2 count, because attempt 2 ran past HealthyAfter): i/o timeout"},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx := t.Context()
			if row.ctx != nil {
				ctx = row.ctx(ctx)
			}
			fn := inner
			if row.script != nil {
				fn = play(row.script)
			}
			assert.EqualError(t, call(ctx, row.policy, fn), "retry: "+row.want)
		})
	}
}

func TestReasonOf(t *testing.T) {
	inner := &retry.Error{Reason: retry.ReasonBudget, Err: errDial}
	for name, row := range map[string]struct {
		err  error
		want retry.Reason
	}{
		"nil is success":                    {nil, retry.ReasonSuccess},
		"the tree has no Error":             {errDial, ""},
		"an Error":                          {inner, retry.ReasonBudget},
		"an Error that is wrapped":          {fmt.Errorf("get /: %w", inner), retry.ReasonBudget},
		"an Error that is joined":           {errors.Join(errDial, inner), retry.ReasonBudget},
		"the outermost of two":              {&retry.Error{Reason: retry.ReasonExhausted, Err: inner}, retry.ReasonExhausted},
		"the outermost, wrapped":            {fmt.Errorf("get /: %w", &retry.Error{Reason: retry.ReasonExhausted, Err: inner}), retry.ReasonExhausted},
		"a typed nil *Error":                {(*retry.Error)(nil), ""},
		"a typed nil *Error that is joined": {errors.Join((*retry.Error)(nil), errDial), ""},
		"a Permanent error":                 {retry.Permanent(errDial), ""},
		"Permanent around an Error":         {retry.Permanent(inner), retry.ReasonBudget},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, retry.ReasonOf(row.err)) })
	}
}
