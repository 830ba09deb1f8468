package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

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
		{"attempts exhausted", doubling, nil, errDial,
			"retry: attempts exhausted after 3 attempts (600ms waited): dial tcp: connection refused"},
		{"attempts exhausted, nothing waited", retry.Policy{MaxAttempts: 3}, nil, errDial,
			"retry: attempts exhausted after 3 attempts: dial tcp: connection refused"},
		{"attempts exhausted, a limit of one", retry.Policy{MaxAttempts: 1}, nil, errDial,
			"retry: attempts exhausted after 1 attempt: dial tcp: connection refused"},
		{"attempts exhausted, no limit", retry.Policy{Backoff: retry.Fixed(time.Second)}, nil, errDial,
			"retry: gave up after 1 attempt (no limit is set, so there is no retry): dial tcp: connection refused"},
		{"attempts exhausted, a cap but no limit", retry.Policy{AttemptCap: 5}, nil, errDial,
			"retry: gave up after 1 attempt (no limit is set, so there is no retry): dial tcp: connection refused"},
		{"not retryable", with(func(p *retry.Policy) { p.NonRetryable = true }), nil, errDial,
			"retry: not retryable after 1 attempt: dial tcp: connection refused"},
		{"permanent error", doubling, nil, retry.Permanent(errDial),
			"retry: permanent error after 1 attempt: dial tcp: connection refused"},
		{"rejected", with(func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }), nil, errDial,
			"retry: rejected by RetryIf after 1 attempt: dial tcp: connection refused"},
		{"retry after too long", doubling, nil, retry.After(2*time.Minute, errDial),
			"retry: gave up after 1 attempt (Retry-After is 2m0s, MaxRetryAfter is 1m0s): dial tcp: connection refused"},
		{"retry after too long for MaxRetryAfter", with(func(p *retry.Policy) { p.MaxRetryAfter = time.Second }), nil, retry.After(math.MaxInt64, errDial),
			"retry: gave up after 1 attempt (Retry-After is 2562047h47m16.854775807s, MaxRetryAfter is 1s): dial tcp: connection refused"},
		{"retry after too long for the class", with(func(p *retry.Policy) {
			p.Classify = unnamed(&retry.Policy{MaxRetryAfter: 2 * time.Second})
		}), nil, retry.After(time.Minute, errDial),
			"retry: gave up after 1 attempt (Retry-After is 1m0s, MaxRetryAfter is 2s): dial tcp: connection refused"},
		{"exhausted by a class that has a name", with(func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class {
				return &retry.Class{Name: "unauthorized", Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}}
			}
		}), nil, errDial,
			`retry: attempts exhausted after 2 attempts (1s waited, 2 of "unauthorized"): dial tcp: connection refused`},
		{"exhausted by a class without a name", with(func(p *retry.Policy) { p.Classify = unnamed(&retry.Policy{MaxAttempts: 2}) }), nil, errDial,
			"retry: attempts exhausted after 2 attempts: dial tcp: connection refused"},
		{"exhausted by the policy, in a class that has a name", with(func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class { return &retry.Class{Name: "busy", Policy: &retry.Policy{MaxAttempts: 3}} }
		}), nil, errDial,
			"retry: attempts exhausted after 3 attempts: dial tcp: connection refused"},
		{"not retryable by its class, which says why", with(func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class {
				return &retry.Class{Policy: &retry.Policy{NonRetryable: true}, Cause: errors.New("not a transient database error")}
			}
		}), nil, errDial,
			"retry: not retryable after 1 attempt (not a transient database error): dial tcp: connection refused"},
		{"not retryable by its class", with(func(p *retry.Policy) { p.Classify = unnamed(&retry.Policy{NonRetryable: true}) }), nil, errDial,
			"retry: not retryable after 1 attempt: dial tcp: connection refused"},
		{"the wait failed", with(func(p *retry.Policy) {
			p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, errShutdown }
		}), nil, errDial,
			"retry: the wait failed after 1 attempt (the next delay is 200ms, the server shuts down): dial tcp: connection refused"},
		{"elapsed", with(func(p *retry.Policy) { p.MaxElapsed = 500 * time.Millisecond }), nil, errDial,
			"retry: out of time after 2 attempts (200ms waited, the next delay of 400ms would exceed MaxElapsed 500ms): dial tcp: connection refused"},
		{"elapsed, to the last moment", with(func(p *retry.Policy) { p.MaxElapsed = 200 * time.Millisecond }), nil, errDial,
			"retry: out of time after 2 attempts (200ms waited, the next delay of 400ms would exceed MaxElapsed 200ms): dial tcp: connection refused"},
		{"deadline ahead", doubling, func(ctx context.Context) context.Context { return within(ctx, 500*time.Millisecond, nil) }, errDial,
			"retry: deadline too close after 2 attempts (200ms waited, the next delay is 400ms, 300ms are left): dial tcp: connection refused"},
		{"deadline passed in the sleep", doubling, func(ctx context.Context) context.Context { return hidden{within(ctx, 500*time.Millisecond, nil)} }, errDial,
			"retry: deadline exceeded after 2 attempts (200ms waited, the next delay is 400ms, context deadline exceeded): dial tcp: connection refused"},
		{"deadline passed in the sleep, with a cause", doubling, func(ctx context.Context) context.Context {
			return hidden{within(ctx, 500*time.Millisecond, errors.New("the request's time is up"))}
		}, errDial,
			"retry: deadline exceeded after 2 attempts (200ms waited, the next delay is 400ms, context deadline exceeded: the request's time is up): dial tcp: connection refused"},
		{"deadline passed before", doubling, func(ctx context.Context) context.Context { return within(ctx, 0, nil) }, errDial,
			"retry: deadline exceeded before the first attempt (context deadline exceeded)"},
		{"canceled before", doubling, canceledBy(nil), errDial,
			"retry: canceled before the first attempt (context canceled)"},
		{"canceled before, with a cause", doubling, canceledBy(errShutdown), errDial,
			"retry: canceled before the first attempt (context canceled: the server shuts down)"},
		{"budget exhausted", with(func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1}; p.Budget.Take() }), nil, errDial,
			"retry: retry budget exhausted after 1 attempt (the next delay is 200ms): dial tcp: connection refused"},
		{"invalid", retry.Policy{MaxAttempts: -2}, nil, errDial,
			"retry: invalid policy after 1 attempt (MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited): dial tcp: connection refused"},
		{"an invalid class", with(func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class { return &retry.Class{Name: "busy", Policy: &retry.Policy{MaxAttempts: -2}} }
		}), nil, errDial,
			`retry: invalid policy after 1 attempt (class "busy": MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited): dial tcp: connection refused`},
		{"invalid before the first attempt", retry.Policy{MaxAttempts: -2}, canceledBy(errShutdown), errDial,
			"retry: invalid policy before the first attempt (MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited; context canceled: the server shuts down)"},
		{"an error of many lines", retry.Policy{MaxAttempts: 1}, nil, errors.Join(errDial, errShutdown),
			"retry: attempts exhausted after 1 attempt: dial tcp: connection refused; the server shuts down"},
		{"a cause of many lines", doubling, canceledBy(errors.Join(errShutdown, errDial)), errDial,
			"retry: canceled before the first attempt (context canceled: the server shuts down; dial tcp: connection refused)"},
		{"an Error in an Error", retry.Policy{MaxAttempts: 2}, nil, &retry.Error{Reason: retry.ReasonBudget, Attempts: 4, Waited: time.Second, Err: errDial},
			"retry: attempts exhausted after 2 attempts: retry budget exhausted after 4 attempts (1s waited): dial tcp: connection refused"},
		{"an Error in an Error in an Error", retry.Policy{MaxAttempts: 1}, nil,
			&retry.Error{Reason: retry.ReasonBudget, Attempts: 2, Err: &retry.Error{Reason: retry.ReasonExhausted, Attempts: 3, Err: errDial}},
			"retry: attempts exhausted after 1 attempt: retry budget exhausted after 2 attempts: attempts exhausted after 3 attempts: dial tcp: connection refused"},
		{"an Error that is wrapped in an Error", retry.Policy{MaxAttempts: 1}, nil, fmt.Errorf("get: %w", &retry.Error{Reason: retry.ReasonBudget, Attempts: 2, Err: errDial}),
			"retry: attempts exhausted after 1 attempt: get: retry: retry budget exhausted after 2 attempts: dial tcp: connection refused"},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx := t.Context()
			if row.ctx != nil {
				ctx = row.ctx(ctx)
			}
			assert.EqualError(t, call(ctx, row.policy, func(context.Context) error { return row.fail }), row.want)
		})
	}
	everyWay(t, "canceled in the attempt", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := call(ctx, retry.Policy{MaxAttempts: 3}, func(context.Context) error { cancel(errShutdown); return errDial })
		assert.EqualError(t, err, "retry: canceled after 1 attempt (context canceled: the server shuts down): dial tcp: connection refused")
	})
	t.Run("durations are rounded for reading", func(t *testing.T) {
		for _, row := range []struct {
			d    time.Duration
			want string
		}{
			{1, "1ns"},
			{999_999, "999.999µs"},
			{1_234_567, "1.235ms"},
			{999_999_999, "1s"},
			{1_234_567_890, "1.235s"},
			{time.Hour + 1_499_999, "1h0m0.001s"},
			{math.MaxInt64, "2562047h47m16.854775807s"},
		} {
			err := &retry.Error{Reason: retry.ReasonBudget, Attempts: 2, Waited: row.d, Delay: row.d, Err: errDial}
			assert.EqualError(t, err, "retry: retry budget exhausted after 2 attempts ("+row.want+" waited, the next delay is "+row.want+"): dial tcp: connection refused")
		}
	})
	t.Run("an Error that was not made by a call", func(t *testing.T) {
		assert.EqualError(t, (*retry.Error)(nil), "<nil>")
		assert.EqualError(t, &retry.Error{Reason: "left", Attempts: 2, Err: errDial}, "retry: stopped after 2 attempts: dial tcp: connection refused")
		assert.EqualError(t, &retry.Error{Reason: retry.ReasonExhausted, Attempts: 2, Err: (*retry.Error)(nil)}, "retry: attempts exhausted after 2 attempts: <nil>")
	})
}

// These types carry an error in different ways.
type (
	wrapsOne  struct{ err error }
	wrapsMany []error
	hasAs     struct{ err error }
	waits5s   struct{}
	waitsZero struct{ err error }
	asNothing struct{}
)

func (e wrapsOne) Error() string              { return "one" }
func (e wrapsOne) Unwrap() error              { return e.err }
func (e wrapsMany) Error() string             { return "many" }
func (e wrapsMany) Unwrap() []error           { return e }
func (e hasAs) Error() string                 { return "as" }
func (e hasAs) As(target any) bool            { return errors.As(e.err, target) }
func (waits5s) Error() string                 { return "busy" }
func (waits5s) RetryAfter() time.Duration     { return 5 * time.Second }
func (e waitsZero) Error() string             { return "busy" }
func (e waitsZero) Unwrap() error             { return e.err }
func (e waitsZero) RetryAfter() time.Duration { return 0 }
func (asNothing) Error() string               { return "nothing" }
func (asNothing) As(any) bool                 { return true }

func TestMarks(t *testing.T) {
	permanent, after := retry.Permanent(errDial), retry.After(5*time.Second, errDial)
	for name, row := range map[string]struct {
		err       error
		permanent bool
		hint      time.Duration
	}{
		"none":                                              {errDial, false, 0},
		"Permanent":                                         {permanent, true, 0},
		"Permanent in fmt.Errorf":                           {fmt.Errorf("get: %w", permanent), true, 0},
		"Permanent in fmt.Errorf, second":                   {fmt.Errorf("%w: %w", errShutdown, permanent), true, 0},
		"Permanent in fmt.Errorf, deep":                     {fmt.Errorf("1: %w", fmt.Errorf("2: %w", fmt.Errorf("3: %w", permanent))), true, 0},
		"Permanent in errors.Join":                          {errors.Join(errShutdown, permanent), true, 0},
		"Permanent in Unwrap() error":                       {wrapsOne{permanent}, true, 0},
		"Permanent in Unwrap() []error":                     {wrapsMany{nil, errShutdown, wrapsMany{permanent}}, true, 0},
		"Permanent in As(any) bool":                         {hasAs{permanent}, true, 0},
		"Permanent of fmt.Errorf with %v":                   {fmt.Errorf("get: %v", permanent), false, 0},
		"Permanent around a mark":                           {retry.Permanent(retry.Permanent(errDial)), true, 0},
		"After":                                             {after, false, 5 * time.Second},
		"After in fmt.Errorf":                               {fmt.Errorf("get: %w", after), false, 5 * time.Second},
		"After in errors.Join":                              {errors.Join(errShutdown, after), false, 5 * time.Second},
		"After in Unwrap() error":                           {wrapsOne{after}, false, 5 * time.Second},
		"After in Unwrap() []error":                         {wrapsMany{nil, errShutdown, wrapsMany{after}}, false, 5 * time.Second},
		"After in As(any) bool":                             {hasAs{after}, false, 5 * time.Second},
		"an error with RetryAfter":                          {waits5s{}, false, 5 * time.Second},
		"an error with RetryAfter, wrapped":                 {fmt.Errorf("get: %w", waits5s{}), false, 5 * time.Second},
		"an error with RetryAfter in As(any) bool":          {hasAs{waits5s{}}, false, 5 * time.Second},
		"After in Permanent":                                {retry.Permanent(after), true, 5 * time.Second},
		"Permanent in After":                                {retry.After(5*time.Second, permanent), true, 5 * time.Second},
		"Permanent beside After":                            {errors.Join(after, permanent), true, 5 * time.Second},
		"the outer of two Afters applies, longer":           {retry.After(9*time.Second, after), false, 9 * time.Second},
		"the outer of two Afters applies, shorter":          {retry.After(time.Second, after), false, time.Second},
		"the first of two joined Afters applies":            {errors.Join(retry.After(time.Second, errDial), after), false, time.Second},
		"After around As(any) bool: the outer applies":      {retry.After(time.Second, hasAs{after}), false, time.Second},
		"After of zero has no effect":                       {retry.After(0, errDial), false, 0},
		"After below zero has no effect":                    {retry.After(-time.Second, errDial), false, 0},
		"After of the most negative duration has no effect": {retry.After(math.MinInt64, errDial), false, 0},
		"After of zero leaves the inner one":                {retry.After(0, after), false, 5 * time.Second},
		"After below zero leaves the inner one":             {retry.After(-1, after), false, 5 * time.Second},
		"RetryAfter of zero leaves the inner one":           {waitsZero{after}, false, 5 * time.Second},
		"After of zero leaves the joined one":               {errors.Join(retry.After(0, errDial), after), false, 5 * time.Second},
		"a typed nil *Error":                                {(*retry.Error)(nil), false, 0},
		"a typed nil *Error in fmt.Errorf":                  {fmt.Errorf("get: %w", (*retry.Error)(nil)), false, 0},
		"a typed nil *Error beside Permanent":               {errors.Join((*retry.Error)(nil), permanent), true, 0},
		"a typed nil *Error beside After":                   {errors.Join((*retry.Error)(nil), after), false, 5 * time.Second},
		"an Unwrap that returns nil":                        {wrapsOne{nil}, false, 0},
		"an Unwrap that returns nothing":                    {wrapsMany{}, false, 0},
		"an Unwrap that returns nils":                       {wrapsMany{nil, nil}, false, 0},
		"an As that is always true":                         {asNothing{}, true, 0},
		"an Error":                                          {&retry.Error{Reason: retry.ReasonExhausted, Err: errDial}, false, 0},
		"an Error that holds nothing":                       {&retry.Error{}, false, 0},
		"an Error of Permanent":                             {&retry.Error{Reason: retry.ReasonPermanent, Err: permanent}, true, 0},
		"an Error of After":                                 {&retry.Error{Reason: retry.ReasonExhausted, Err: after}, false, 5 * time.Second},
		"an Error that says invalid":                        {&retry.Error{Reason: retry.ReasonInvalid, Err: errDial}, true, 0},
		"an Error that says invalid, wrapped":               {fmt.Errorf("get: %w", errors.Join(errShutdown, &retry.Error{Reason: retry.ReasonInvalid})), true, 0},
		"an Error that says invalid, in an Error":           {&retry.Error{Reason: retry.ReasonExhausted, Err: &retry.Error{Reason: retry.ReasonInvalid}}, true, 0},
		"an Error whose Cause is Permanent":                 {&retry.Error{Reason: retry.ReasonCanceled, Err: errDial, Cause: permanent}, false, 0},
		"an Error whose Cause is After":                     {&retry.Error{Reason: retry.ReasonCanceled, Err: errDial, Cause: after}, false, 0},
		"an Error whose Cause is Permanent, in another":     {&retry.Error{Err: fmt.Errorf("get: %w", &retry.Error{Cause: permanent})}, false, 0},
		"an Error whose Cause says invalid":                 {&retry.Error{Reason: retry.ReasonCanceled, Cause: &retry.Error{Reason: retry.ReasonInvalid}}, false, 0},
	} {
		everyWay(t, name, func(t *testing.T, call caller) {
			want := retry.ReasonExhausted
			if row.permanent {
				want = retry.ReasonPermanent
			}
			start := time.Now()
			err := call(t.Context(), retry.Policy{MaxAttempts: 2}, func(context.Context) error { return row.err })
			e := stopped(t, err)
			assert.Equal(t, want, e.Reason)
			assert.Equal(t, row.hint, e.Delay)
			if !row.permanent {
				assert.Equal(t, row.hint, time.Since(start))
			}
		})
	}
	t.Run("a mark changes neither the text nor what errors.Is and errors.As find", func(t *testing.T) {
		for _, marked := range []error{permanent, after, retry.Permanent(after), retry.After(1, permanent)} {
			assert.EqualError(t, marked, errDial.Error())
			assert.ErrorIs(t, marked, errDial)
			assert.NotErrorIs(t, marked, errShutdown)
		}
		var found *statusError
		require.ErrorAs(t, retry.Permanent(retry.After(1, &statusError{503})), &found)
		assert.Equal(t, 503, found.code)
	})
	t.Run("nil stays nil", func(t *testing.T) {
		assert.NoError(t, retry.Permanent(nil))
		assert.NoError(t, retry.After(time.Second, nil))
	})
	t.Run("After says RetryAfter", func(t *testing.T) {
		var hint interface{ RetryAfter() time.Duration }
		require.ErrorAs(t, after, &hint)
		assert.Equal(t, 5*time.Second, hint.RetryAfter())
	})
}

func TestErrorTextIsOneLine(t *testing.T) {
	e := &retry.Error{Reason: retry.ReasonExhausted, Attempts: 2, Err: errors.New("a\r\nb\nc\rd")}
	assert.Equal(t, "retry: attempts exhausted after 2 attempts: a; b; c; d", e.Error())
	assert.Equal(t, "retry: stopped before the first attempt", new(retry.Error).Error())
	for _, reason := range []retry.Reason{"left", "Retry", "of a newer version"} {
		assert.Equal(t, "retry: stopped before the first attempt", (&retry.Error{Reason: reason}).Error(), reason)
	}
}

func TestMarkOnTheErrorOfAnInnerCall(t *testing.T) {
	inner := retry.Do(t.Context(), retry.Policy{}, func(context.Context) error { return errDial })
	d := retry.Policy{MaxAttempts: 3}.Next(retry.Attempt{Number: 1, Err: retry.Permanent(inner)})
	assert.Equal(t, retry.ReasonPermanent, d.Reason)
}

// hides is an error that reveals the wrapped error only through As.
type hides struct{ err error }

func (hides) Error() string        { return "hidden" }
func (h hides) As(target any) bool { return errors.As(h.err, target) }

func TestMarksBehindAs(t *testing.T) {
	invalid := retry.Do(t.Context(), retry.Policy{MaxAttempts: -2}, func(context.Context) error { return errDial })
	exhausted := retry.Do(t.Context(), retry.Policy{}, func(context.Context) error { return errDial })
	for name, row := range map[string]struct {
		err  error
		want retry.Decision
	}{
		"an invalid inner call": {hides{invalid}, retry.Decision{Reason: retry.ReasonPermanent}},
		"an inner call":         {hides{exhausted}, retry.Decision{Reason: retry.ReasonRetry}},
		"permanent":             {hides{retry.Permanent(errDial)}, retry.Decision{Reason: retry.ReasonPermanent}},
		"after":                 {hides{retry.After(time.Second, errDial)}, askedFor(time.Second, retry.ReasonRetry)},
		"nothing":               {hides{errDial}, retry.Decision{Reason: retry.ReasonRetry}},
	} {
		assert.Equal(t, row.want, retry.Policy{MaxAttempts: 3}.Next(retry.Attempt{Number: 1, Err: row.err}), name)
	}
}

func TestLastError(t *testing.T) {
	errOld := errors.New("old")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errShutdown)
	fail := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	call := func(ctx context.Context, p retry.Policy, err error) error { return retry.Do(ctx, p, fail(err)) }
	inner := call(t.Context(), retry.Policy{}, errDial)
	joined := errors.Join(errDial, errOld)
	invalid := call(ended, retry.Policy{MaxAttempts: -2}, errDial)
	for _, row := range []struct {
		name string
		err  error
		want error
	}{
		{"nil", nil, nil},
		{"no Error in it", errDial, errDial},
		{"no Error in it, but a mark", retry.Permanent(errDial), retry.Permanent(errDial)},
		{"exhausted", inner, errDial},
		{"an Error that is wrapped", fmt.Errorf("call: %w", inner), errDial},
		{"marked by Permanent", call(t.Context(), retry.Policy{}, retry.Permanent(errDial)), errDial},
		{"marked by both, twice", call(t.Context(), retry.Policy{}, retry.After(1, retry.Permanent(retry.After(2, errDial)))), errDial},
		{"a mark below a wrapper stays", call(t.Context(), retry.Policy{}, fmt.Errorf("call: %w", retry.Permanent(errDial))), fmt.Errorf("call: %w", retry.Permanent(errDial))},
		{"joined", call(t.Context(), retry.Policy{}, joined), joined},
		{"nested calls: the inner Error", call(t.Context(), retry.Policy{}, inner), inner},
		{"no attempt: the context's error, not its cause", call(ended, retry.Policy{}, errDial), context.Canceled},
		{"no attempt: nil context", call(noContext, retry.Policy{}, errDial), retry.Do(noContext, retry.Policy{}, nil).(*retry.Error).Cause},
		{"no attempt: an invalid policy in a canceled context", invalid, invalid.(*retry.Error).Cause},
		{"an invalid policy whose attempt failed", call(t.Context(), retry.Policy{MaxAttempts: -2}, errDial), errDial},
		{"an empty Error", &retry.Error{}, &retry.Error{}},
		{"a typed nil", (*retry.Error)(nil), (*retry.Error)(nil)},
	} {
		t.Run(row.name, func(t *testing.T) { assert.Equal(t, row.want, retry.LastError(row.err)) })
	}
	t.Run("it is == the error that fn returned", func(t *testing.T) { assert.True(t, retry.LastError(inner) == errDial) })
}

func TestPlain(t *testing.T) {
	ended := canceledBy(errShutdown)(t.Context())
	fail := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	call := func(ctx context.Context, p retry.Policy, err error) error { return retry.Do(ctx, p, fail(err)) }
	canceled := func(err error) error {
		ctx, cancel := context.WithCancelCause(t.Context())
		return retry.Do(ctx, everySecond, func(context.Context) error { cancel(errShutdown); return err })
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hourly := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour)}
	waitFails := retry.Policy{MaxAttempts: 2, Wait: func(context.Context, time.Duration) (time.Duration, error) { return 0, errShutdown }}
	joined := errors.Join(call(t.Context(), retry.Policy{}, errDial), errShutdown)
	wrapped := fmt.Errorf("get: %w", call(t.Context(), retry.Policy{}, errDial))
	invalid := call(ended, retry.Policy{MaxAttempts: -2}, errDial)
	for _, row := range []struct {
		name string
		err  error
		want error
	}{
		{"nil", nil, nil},
		{"no Error in it", errDial, errDial},
		{"no Error in it, but a mark", retry.Permanent(errDial), retry.Permanent(errDial)},
		{"exhausted", call(t.Context(), retry.Policy{}, errDial), errDial},
		{"an Error that is wrapped", wrapped, errDial},
		{"without the marks", call(t.Context(), retry.Policy{}, retry.After(1, retry.Permanent(errDial))), errDial},
		{"canceled before the first attempt: the cause of the context", call(ended, retry.Policy{}, errDial), errShutdown},
		{"canceled without a cause", call(canceledBy(nil)(t.Context()), retry.Policy{}, errDial), context.Canceled},
		{"canceled in an attempt: not what that failed with", canceled(errDial), errShutdown},
		{"a deadline too close to wait", call(soon, hourly, errDial), context.DeadlineExceeded},
		{"the wait failed: what the attempt failed with", call(t.Context(), waitFails, errDial), errDial},
		{"an invalid policy whose attempt failed", call(t.Context(), retry.Policy{MaxAttempts: -2}, errDial), errDial},
		{"no attempt: an invalid policy", invalid, invalid.(*retry.Error).Cause},
		{"no attempt: nil function", retry.Do(t.Context(), retry.Policy{}, nil), retry.Do(t.Context(), retry.Policy{}, nil).(*retry.Error).Cause},
		{"nested calls: what the innermost returns", call(t.Context(), retry.Policy{}, call(t.Context(), retry.Policy{}, retry.Permanent(errDial))), errDial},
		{"nested calls, wrapped", call(t.Context(), retry.Policy{}, wrapped), errDial},
		{"a nested call beside another failure: nothing is lost", call(t.Context(), retry.Policy{}, joined), joined},
		{"nested calls, the inner canceled", call(t.Context(), retry.Policy{}, canceled(errDial)), errShutdown},
		{"nested calls, the outer canceled", canceled(call(t.Context(), retry.Policy{}, errDial)), errShutdown},
		{"an empty Error", &retry.Error{}, &retry.Error{}},
		{"a typed nil", (*retry.Error)(nil), (*retry.Error)(nil)},
	} {
		t.Run(row.name, func(t *testing.T) { assert.Equal(t, row.want, retry.Plain(row.err)) })
	}
}

// IsPermanent and RetryAfterOf return what a decision is based on.
func TestMarksOfAnError(t *testing.T) {
	exhausted := retry.Do(t.Context(), retry.Policy{}, func(context.Context) error { return retry.After(time.Second, errDial) })
	invalid := retry.Do(t.Context(), retry.Policy{MaxAttempts: -2}, func(context.Context) error { return errDial })
	for _, row := range []struct {
		name      string
		err       error
		permanent bool
		after     time.Duration
	}{
		{"nil", nil, false, 0},
		{"plain", errDial, false, 0},
		{"Permanent", retry.Permanent(errDial), true, 0},
		{"Permanent, wrapped and joined", fmt.Errorf("x: %w", errors.Join(errDial, retry.Permanent(errDial))), true, 0},
		{"After", retry.After(time.Second, errDial), false, time.Second},
		{"After, the outermost applies", retry.After(time.Second, retry.After(time.Hour, errDial)), false, time.Second},
		{"After below zero has no effect", retry.After(-1, retry.After(time.Hour, errDial)), false, time.Hour},
		{"both", retry.Permanent(retry.After(time.Second, errDial)), true, time.Second},
		{"an inner call: what it failed with", exhausted, false, time.Second},
		{"an inner call that was invalid", invalid, true, 0},
		{"a typed nil", (*retry.Error)(nil), false, 0},
		{"hidden behind As", hides{retry.Permanent(errDial)}, true, 0},
		{"an As that always returns true", yes{}, true, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.permanent, retry.IsPermanent(row.err))
			assert.Equal(t, row.after, retry.RetryAfterOf(row.err))
			if row.err != nil {
				next := retry.Policy{MaxAttempts: 2}.Next(retry.Attempt{Number: 1, Err: row.err})
				assert.Equal(t, row.permanent, next.Reason == retry.ReasonPermanent)
				assert.Equal(t, row.after, next.RetryAfter)
			}
		})
	}
}

// yes claims to be every error.
type yes struct{}

func (yes) Error() string { return "yes" }
func (yes) As(any) bool   { return true }
