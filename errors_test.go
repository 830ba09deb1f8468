package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
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
			"retry: attempts exhausted after 1 attempt (the policy sets no limit): dial tcp: connection refused"},
		{"attempts exhausted, a cap but no limit", retry.Policy{AttemptCap: 5}, nil, errDial,
			"retry: attempts exhausted after 1 attempt (the policy sets no limit): dial tcp: connection refused"},
		{"not retryable", with(func(p *retry.Policy) { p.NonRetryable = true }), nil, errDial,
			"retry: not retryable after 1 attempt: dial tcp: connection refused"},
		{"permanent error", doubling, nil, retry.Permanent(errDial),
			"retry: permanent error after 1 attempt: dial tcp: connection refused"},
		{"rejected", with(func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }), nil, errDial,
			"retry: rejected after 1 attempt: dial tcp: connection refused"},
		{"retry after too long", doubling, nil, retry.After(2*time.Minute, errDial),
			"retry: retry after too long after 1 attempt (the server asks for 2m0s, MaxRetryAfter is 1m0s): dial tcp: connection refused"},
		{"retry after too long for MaxRetryAfter", with(func(p *retry.Policy) { p.MaxRetryAfter = time.Second }), nil, retry.After(math.MaxInt64, errDial),
			"retry: retry after too long after 1 attempt (the server asks for 2562047h47m16.854775807s, MaxRetryAfter is 1s): dial tcp: connection refused"},
		{"retry after too long for what Select picks", with(func(p *retry.Policy) {
			p.Select = func(error) *retry.Policy { return &retry.Policy{MaxRetryAfter: 2 * time.Second} }
		}), nil, retry.After(time.Minute, errDial),
			"retry: retry after too long after 1 attempt (the server asks for 1m0s, MaxRetryAfter is 2s): dial tcp: connection refused"},
		{"elapsed", with(func(p *retry.Policy) { p.MaxElapsed = 500 * time.Millisecond }), nil, errDial,
			"retry: elapsed after 2 attempts (200ms waited, the next delay of 400ms would pass MaxElapsed): dial tcp: connection refused"},
		{"deadline ahead", doubling, func(ctx context.Context) context.Context { return within(ctx, 500*time.Millisecond, nil) }, errDial,
			"retry: deadline after 2 attempts (200ms waited, the next delay is 400ms, the context's deadline comes first): dial tcp: connection refused"},
		{"deadline passed in the sleep", doubling, func(ctx context.Context) context.Context { return hidden{within(ctx, 500*time.Millisecond, nil)} }, errDial,
			"retry: deadline after 2 attempts (200ms waited, the next delay is 400ms, context deadline exceeded): dial tcp: connection refused"},
		{"deadline passed in the sleep, with a cause", doubling, func(ctx context.Context) context.Context {
			return hidden{within(ctx, 500*time.Millisecond, errors.New("the request's time is up"))}
		}, errDial,
			"retry: deadline after 2 attempts (200ms waited, the next delay is 400ms, context deadline exceeded: the request's time is up): dial tcp: connection refused"},
		{"deadline passed before", doubling, func(ctx context.Context) context.Context { return within(ctx, 0, nil) }, errDial,
			"retry: deadline before the first attempt (context deadline exceeded)"},
		{"canceled before", doubling, canceledBy(nil), errDial,
			"retry: canceled before the first attempt (context canceled)"},
		{"canceled before, with a cause", doubling, canceledBy(errShutdown), errDial,
			"retry: canceled before the first attempt (context canceled: the server shuts down)"},
		{"budget exhausted", with(func(p *retry.Policy) { p.Budget = retry.NewBudget(1, 0); p.Budget.Take() }), nil, errDial,
			"retry: budget exhausted after 1 attempt (the next delay is 200ms): dial tcp: connection refused"},
		{"invalid", retry.Policy{MaxAttempts: -2}, nil, errDial,
			"retry: invalid after 1 attempt (invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited): dial tcp: connection refused"},
		{"invalid before the first attempt", retry.Policy{MaxAttempts: -2}, canceledBy(errShutdown), errDial,
			"retry: invalid before the first attempt (invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited; context canceled: the server shuts down)"},
		{"an error of many lines", retry.Policy{MaxAttempts: 1}, nil, errors.Join(errDial, errShutdown),
			"retry: attempts exhausted after 1 attempt: dial tcp: connection refused; the server shuts down"},
		{"a cause of many lines", doubling, canceledBy(errors.Join(errShutdown, errDial)), errDial,
			"retry: canceled before the first attempt (context canceled: the server shuts down; dial tcp: connection refused)"},
		{"an Error in an Error", retry.Policy{MaxAttempts: 2}, nil, &retry.Error{Reason: retry.ReasonBudget, Attempts: 4, Waited: time.Second, Err: errDial},
			"retry: attempts exhausted after 2 attempts: retry: budget exhausted after 4 attempts (1s waited): dial tcp: connection refused"},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx := t.Context()
			if row.ctx != nil {
				ctx = row.ctx(ctx)
			}
			assert.EqualError(t, call(ctx, row.policy, func(context.Context) error { return row.fail }), row.want)
		})
	}
	everyWay(t, "canceled in the execution", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := call(ctx, retry.Policy{MaxAttempts: 3}, func(context.Context) error { cancel(errShutdown); return errDial })
		assert.EqualError(t, err, "retry: canceled after 1 attempt (context canceled: the server shuts down): dial tcp: connection refused")
	})
	t.Run("durations have the digits that a person reads", func(t *testing.T) {
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
			assert.EqualError(t, err, "retry: budget exhausted after 2 attempts ("+row.want+" waited, the next delay is "+row.want+"): dial tcp: connection refused")
		}
	})
	t.Run("an Error that was not made by a call", func(t *testing.T) {
		assert.EqualError(t, (*retry.Error)(nil), "<nil>")
		assert.EqualError(t, &retry.Error{Reason: retry.ReasonLeft, Attempts: 2, Err: errDial}, "retry: left after 2 attempts: dial tcp: connection refused")
	})
}

// within returns a context that ends after d, at the latest with its test.
func within(ctx context.Context, d time.Duration, cause error) context.Context {
	ctx, cancel := context.WithTimeoutCause(ctx, d, cause)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// canceledBy returns a function that derives a context that has ended.
func canceledBy(cause error) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(cause)
		return ctx
	}
}

func TestPrinciple08NothingIsLost(t *testing.T) {
	type row struct {
		name   string
		policy retry.Policy
		end    func(context.Context) context.Context
		fail   error
		reason retry.Reason
		is     []error // beside what fn failed with
		isNot  []error
	}
	second := retry.Fixed(time.Second)
	contexts := []error{context.Canceled, context.DeadlineExceeded, errShutdown}
	in := func(d time.Duration, cause error) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context { return hidden{within(ctx, d, cause)} }
	}
	canceledIn := func(d time.Duration, cause error) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(d, func() { cancel(cause) })
			return ctx
		}
	}
	for _, row := range []row{
		{"exhausted", retry.Policy{MaxAttempts: 2}, nil, errDial, retry.ReasonExhausted, nil, contexts},
		{"permanent", retry.Policy{MaxAttempts: 2}, nil, retry.Permanent(errDial), retry.ReasonPermanent, nil, contexts},
		{"canceled", retry.Policy{MaxAttempts: 2, Backoff: second}, canceledIn(1, nil), errDial, retry.ReasonCanceled, contexts[:1], contexts[1:]},
		{"canceled with a cause", retry.Policy{MaxAttempts: 2, Backoff: second}, canceledIn(1, errShutdown), errDial, retry.ReasonCanceled, []error{context.Canceled, errShutdown}, contexts[1:2]},
		{"deadline", retry.Policy{MaxAttempts: 2, Backoff: second}, in(1, nil), errDial, retry.ReasonDeadline, contexts[1:2], []error{context.Canceled, errShutdown}},
		{"deadline with a cause", retry.Policy{MaxAttempts: 2, Backoff: second}, in(1, errShutdown), errDial, retry.ReasonDeadline, contexts[1:], contexts[:1]},
		// Before its deadline a context has no cause.
		{"deadline ahead", retry.Policy{MaxAttempts: 2, Backoff: second}, func(ctx context.Context) context.Context { return within(ctx, 1, errShutdown) },
			errDial, retry.ReasonDeadline, contexts[1:2], []error{context.Canceled, errShutdown}},
		{"elapsed", retry.Policy{MaxAttempts: 2, Backoff: second, MaxElapsed: 1}, nil, errDial, retry.ReasonElapsed, nil, contexts},
		{"canceled, and fn failed with a deadline", retry.Policy{MaxAttempts: 2, Backoff: second}, canceledIn(1, errShutdown), context.DeadlineExceeded, retry.ReasonCanceled, contexts, nil},
		{"exhausted, and fn failed with Canceled while the context lives", retry.Policy{MaxAttempts: 2}, nil, context.Canceled, retry.ReasonExhausted, contexts[:1], contexts[1:]},
		{"exhausted, and fn failed with a deadline while the context lives", retry.Policy{MaxAttempts: 2}, nil, context.DeadlineExceeded, retry.ReasonExhausted, contexts[1:2], contexts[2:]},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx := t.Context()
			if row.end != nil {
				ctx = row.end(ctx)
			}
			err := call(ctx, row.policy, func(context.Context) error { return row.fail })
			e := stopped(t, err)
			assert.Equal(t, row.reason, retry.ReasonOf(err), "why it stopped")
			assert.True(t, row.fail == e.Err, "what it failed with")
			assert.ErrorIs(t, err, row.fail)
			for _, is := range row.is {
				assert.ErrorIs(t, err, is)
			}
			for _, is := range row.isNot {
				assert.NotErrorIs(t, err, is)
			}
			outside := row.reason == retry.ReasonCanceled || row.reason == retry.ReasonDeadline
			if assert.Equal(t, outside, e.Cause != nil, "what stopped it from outside") && outside {
				assert.NotErrorIs(t, e.Cause, errDial, "never mixed up")
				assert.Equal(t, []error{e.Err, e.Cause}, e.Unwrap(), "Err, then Cause")
			} else {
				assert.Equal(t, []error{e.Err}, e.Unwrap())
			}
		})
	}
	t.Run("an error's own type is found", func(t *testing.T) {
		fail := &statusError{code: 503}
		err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 2}, func(context.Context) error { return fmt.Errorf("get /: %w", fail) })
		var found *statusError
		require.ErrorAs(t, err, &found)
		assert.Same(t, fail, found)
	})
	everyWay(t, "the Cause is found, whatever it is", func(t *testing.T, call caller) {
		for _, row := range []struct {
			name   string
			ctx    context.Context
			policy retry.Policy
		}{
			{"an ended context", canceledBy(errShutdown)(t.Context()), everySecond},
			{"a deadline ahead", within(t.Context(), time.Second, nil), everySecond},
			{"no context", noContext, everySecond},
			{"an invalid policy", t.Context(), retry.Policy{MaxAttempts: -2}},
			{"an invalid policy that Select picks", t.Context(), retry.Policy{MaxAttempts: 2, Select: func(error) *retry.Policy { return &retry.Policy{MaxAttempts: -2} }}},
		} {
			err := call(row.ctx, row.policy, func(context.Context) error { return errDial })
			assert.True(t, errors.Is(err, stopped(t, err).Cause), row.name)
		}
	})
	t.Run("Unwrap of an Error that holds nothing", func(t *testing.T) {
		assert.Empty(t, (*retry.Error)(nil).Unwrap())
		assert.Empty(t, new(retry.Error).Unwrap())
		assert.Equal(t, []error{io.EOF}, (&retry.Error{Cause: io.EOF}).Unwrap())
	})
	bubble(t, "the context is asked for its cause when the Error is, not before", func(t *testing.T) {
		inner, cancel := context.WithCancelCause(t.Context())
		cancel(errShutdown)
		ctx := &asked{Context: inner}
		err := retry.Do(ctx, everySecond, func(context.Context) error { return nil })
		require.Error(t, err)
		assert.Zero(t, ctx.values, "context.Cause looks for the context that holds it by Value")
		assert.ErrorIs(t, err, errShutdown)
		assert.NotZero(t, ctx.values)
	})
	bubble(t, "a context of a type that cannot be compared", func(t *testing.T) {
		ctx := incomparable{canceledBy(errShutdown)(t.Context()), []string{"trace"}}
		err := retry.Do(ctx, everySecond, func(context.Context) error { return nil })
		e := stopped(t, err)
		assert.NotPanics(t, func() { assert.ErrorIs(t, err, e.Cause) })
		assert.ErrorIs(t, err, errShutdown)
	})
}

type statusError struct{ code int }

func (e *statusError) Error() string { return fmt.Sprint("status ", e.code) }

// asked is a context that counts how often it is asked for a value.
type asked struct {
	context.Context
	values int
}

func (c *asked) Value(key any) any { c.values++; return c.Context.Value(key) }

// incomparable is a context that panics where it is compared.
type incomparable struct {
	context.Context
	fields []string
}

func TestReasonOf(t *testing.T) {
	inner := &retry.Error{Reason: retry.ReasonBudget, Err: errDial}
	for name, row := range map[string]struct {
		err  error
		want retry.Reason
	}{
		"nil is success":                    {nil, retry.ReasonSuccess},
		"no Error in it":                    {errDial, 0},
		"an Error":                          {inner, retry.ReasonBudget},
		"an Error that is wrapped":          {fmt.Errorf("get /: %w", inner), retry.ReasonBudget},
		"an Error that is joined":           {errors.Join(errDial, inner), retry.ReasonBudget},
		"the outermost of two":              {&retry.Error{Reason: retry.ReasonExhausted, Err: inner}, retry.ReasonExhausted},
		"the outermost, wrapped":            {fmt.Errorf("get /: %w", &retry.Error{Reason: retry.ReasonExhausted, Err: inner}), retry.ReasonExhausted},
		"a typed nil *Error":                {(*retry.Error)(nil), 0},
		"a typed nil *Error that is joined": {errors.Join((*retry.Error)(nil), errDial), 0},
		"a mark":                            {retry.Permanent(errDial), 0},
		"a mark around an Error":            {retry.Permanent(inner), retry.ReasonBudget},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, retry.ReasonOf(row.err)) })
	}
}

// Ways to carry an error.
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
		"none":                                          {errDial, false, 0},
		"Permanent":                                     {permanent, true, 0},
		"Permanent in fmt.Errorf":                       {fmt.Errorf("get: %w", permanent), true, 0},
		"Permanent in fmt.Errorf, second":               {fmt.Errorf("%w: %w", errShutdown, permanent), true, 0},
		"Permanent in fmt.Errorf, deep":                 {fmt.Errorf("1: %w", fmt.Errorf("2: %w", fmt.Errorf("3: %w", permanent))), true, 0},
		"Permanent in errors.Join":                      {errors.Join(errShutdown, permanent), true, 0},
		"Permanent in Unwrap() error":                   {wrapsOne{permanent}, true, 0},
		"Permanent in Unwrap() []error":                 {wrapsMany{nil, errShutdown, wrapsMany{permanent}}, true, 0},
		"Permanent in As(any) bool":                     {hasAs{permanent}, true, 0},
		"Permanent of fmt.Errorf with %v":               {fmt.Errorf("get: %v", permanent), false, 0},
		"Permanent around a mark":                       {retry.Permanent(retry.Permanent(errDial)), true, 0},
		"After":                                         {after, false, 5 * time.Second},
		"After in fmt.Errorf":                           {fmt.Errorf("get: %w", after), false, 5 * time.Second},
		"After in errors.Join":                          {errors.Join(errShutdown, after), false, 5 * time.Second},
		"After in Unwrap() error":                       {wrapsOne{after}, false, 5 * time.Second},
		"After in Unwrap() []error":                     {wrapsMany{nil, errShutdown, wrapsMany{after}}, false, 5 * time.Second},
		"After in As(any) bool":                         {hasAs{after}, false, 5 * time.Second},
		"an error with RetryAfter":                      {waits5s{}, false, 5 * time.Second},
		"an error with RetryAfter, wrapped":             {fmt.Errorf("get: %w", waits5s{}), false, 5 * time.Second},
		"an error with RetryAfter in As(any) bool":      {hasAs{waits5s{}}, false, 5 * time.Second},
		"After in Permanent":                            {retry.Permanent(after), true, 5 * time.Second},
		"Permanent in After":                            {retry.After(5*time.Second, permanent), true, 5 * time.Second},
		"Permanent beside After":                        {errors.Join(after, permanent), true, 5 * time.Second},
		"of two Afters the outer counts, longer":        {retry.After(9*time.Second, after), false, 9 * time.Second},
		"of two Afters the outer counts, shorter":       {retry.After(time.Second, after), false, time.Second},
		"of two Afters that are joined the first":       {errors.Join(retry.After(time.Second, errDial), after), false, time.Second},
		"of an After and As(any) bool the outer":        {retry.After(time.Second, hasAs{after}), false, time.Second},
		"After of zero says nothing":                    {retry.After(0, errDial), false, 0},
		"After below zero says nothing":                 {retry.After(-time.Second, errDial), false, 0},
		"the least After says nothing":                  {retry.After(math.MinInt64, errDial), false, 0},
		"After of zero leaves the inner one":            {retry.After(0, after), false, 5 * time.Second},
		"After below zero leaves the inner one":         {retry.After(-1, after), false, 5 * time.Second},
		"RetryAfter of zero leaves the inner one":       {waitsZero{after}, false, 5 * time.Second},
		"After of zero leaves the one that is joined":   {errors.Join(retry.After(0, errDial), after), false, 5 * time.Second},
		"a typed nil *Error":                            {(*retry.Error)(nil), false, 0},
		"a typed nil *Error in fmt.Errorf":              {fmt.Errorf("get: %w", (*retry.Error)(nil)), false, 0},
		"a typed nil *Error beside Permanent":           {errors.Join((*retry.Error)(nil), permanent), true, 0},
		"a typed nil *Error beside After":               {errors.Join((*retry.Error)(nil), after), false, 5 * time.Second},
		"an Unwrap that returns nil":                    {wrapsOne{nil}, false, 0},
		"an Unwrap that returns nothing":                {wrapsMany{}, false, 0},
		"an Unwrap that returns nils":                   {wrapsMany{nil, nil}, false, 0},
		"an As that is always true":                     {asNothing{}, true, 0},
		"an Error":                                      {&retry.Error{Reason: retry.ReasonExhausted, Err: errDial}, false, 0},
		"an Error that holds nothing":                   {&retry.Error{}, false, 0},
		"an Error of Permanent":                         {&retry.Error{Reason: retry.ReasonPermanent, Err: permanent}, true, 0},
		"an Error of After":                             {&retry.Error{Reason: retry.ReasonExhausted, Err: after}, false, 5 * time.Second},
		"an Error that says invalid":                    {&retry.Error{Reason: retry.ReasonInvalid, Err: errDial}, true, 0},
		"an Error that says invalid, wrapped":           {fmt.Errorf("get: %w", errors.Join(errShutdown, &retry.Error{Reason: retry.ReasonInvalid})), true, 0},
		"an Error that says invalid, in an Error":       {&retry.Error{Reason: retry.ReasonExhausted, Err: &retry.Error{Reason: retry.ReasonInvalid}}, true, 0},
		"an Error whose Cause is Permanent":             {&retry.Error{Reason: retry.ReasonCanceled, Err: errDial, Cause: permanent}, false, 0},
		"an Error whose Cause is After":                 {&retry.Error{Reason: retry.ReasonCanceled, Err: errDial, Cause: after}, false, 0},
		"an Error whose Cause is Permanent, in another": {&retry.Error{Err: fmt.Errorf("get: %w", &retry.Error{Cause: permanent})}, false, 0},
		"an Error whose Cause says invalid":             {&retry.Error{Reason: retry.ReasonCanceled, Cause: &retry.Error{Reason: retry.ReasonInvalid}}, false, 0},
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
	t.Run("a mark changes neither the text nor what is found", func(t *testing.T) {
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

func TestNestedLoops(t *testing.T) {
	outer := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute)}
	twice := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}
	empty := retry.NewBudget(1, 0)
	require.True(t, empty.Take())
	same := func(ctx context.Context) context.Context { return ctx }
	for _, row := range []struct {
		name    string
		inner   retry.Policy
		ctx     func(context.Context) context.Context // of the inner loop
		fail    error
		reasons [2]retry.Reason // of the inner and the outer loop
		runs    int
		elapsed time.Duration
	}{
		{"an inner Permanent binds", twice, same, retry.Permanent(errDial), [2]retry.Reason{retry.ReasonPermanent, retry.ReasonPermanent}, 1, 0},
		{"an inner Permanent binds, whatever stopped the inner loop", retry.Policy{NonRetryable: true}, same, retry.Permanent(errDial),
			[2]retry.Reason{retry.ReasonPermanent, retry.ReasonPermanent}, 1, 0},
		{"an inner After binds", twice, same, retry.After(20*time.Second, errDial), [2]retry.Reason{retry.ReasonExhausted, retry.ReasonExhausted}, 6,
			2*time.Minute + 3*20*time.Second}, // 20s inside, where the curve says 1s; a minute outside, where it says more
		{"an inner After binds where it is longer than the outer curve", retry.Policy{MaxAttempts: 2, MaxRetryAfter: time.Second}, same, retry.After(time.Minute-1, errDial),
			[2]retry.Reason{retry.ReasonRetryAfter, retry.ReasonExhausted}, 3, 2 * time.Minute},
		{"an inner After that is too long for both", twice, same, retry.After(time.Hour, errDial), [2]retry.Reason{retry.ReasonRetryAfter, retry.ReasonRetryAfter}, 1, 0},
		{"inner exhausted does not bind", twice, same, errDial, [2]retry.Reason{retry.ReasonExhausted, retry.ReasonExhausted}, 6, 2*time.Minute + 3*time.Second},
		{"inner not retryable does not bind", retry.Policy{NonRetryable: true}, same, errDial, [2]retry.Reason{retry.ReasonNonRetryable, retry.ReasonExhausted}, 3, 2 * time.Minute},
		{"inner rejected does not bind", retry.Policy{MaxAttempts: 2, RetryIf: func(error) bool { return false }}, same, errDial,
			[2]retry.Reason{retry.ReasonRejected, retry.ReasonExhausted}, 3, 2 * time.Minute},
		{"inner elapsed does not bind", retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(2), MaxElapsed: 1}, same, errDial,
			[2]retry.Reason{retry.ReasonElapsed, retry.ReasonExhausted}, 3, 2 * time.Minute},
		{"inner budget does not bind", retry.Policy{MaxAttempts: 2, Budget: empty}, same, errDial, [2]retry.Reason{retry.ReasonBudget, retry.ReasonExhausted}, 3, 2 * time.Minute},
		{"an inner deadline ahead does not bind", twice, func(ctx context.Context) context.Context { return within(ctx, time.Second, nil) }, errDial,
			[2]retry.Reason{retry.ReasonDeadline, retry.ReasonExhausted}, 3, 2 * time.Minute},
		{"an inner deadline does not bind", twice, func(ctx context.Context) context.Context { return hidden{within(ctx, time.Second/2, nil)} }, errDial,
			[2]retry.Reason{retry.ReasonDeadline, retry.ReasonExhausted}, 3, 2*time.Minute + 3*time.Second/2},
		{"an inner cancel does not bind", twice, canceledBy(errShutdown), errDial, [2]retry.Reason{retry.ReasonCanceled, retry.ReasonExhausted}, 0, 2 * time.Minute},
		{"an inner cancel for a Permanent cause does not bind", twice, canceledBy(retry.Permanent(errShutdown)), errDial,
			[2]retry.Reason{retry.ReasonCanceled, retry.ReasonExhausted}, 0, 2 * time.Minute},
		{"an inner cancel for a cause with After does not bind", twice, canceledBy(retry.After(time.Hour, errShutdown)), errDial,
			[2]retry.Reason{retry.ReasonCanceled, retry.ReasonExhausted}, 0, 2 * time.Minute},
		{"inner invalid is permanent", retry.Policy{MaxAttempts: -2}, same, errDial, [2]retry.Reason{retry.ReasonInvalid, retry.ReasonPermanent}, 1, 0},
		{"inner invalid is permanent, in a dead context too", retry.Policy{MaxAttempts: -2}, canceledBy(errShutdown), errDial,
			[2]retry.Reason{retry.ReasonInvalid, retry.ReasonPermanent}, 0, 0},
		{"an inner nil context is permanent", twice, func(context.Context) context.Context { return nil }, errDial,
			[2]retry.Reason{retry.ReasonInvalid, retry.ReasonPermanent}, 0, 0},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			start, runs := time.Now(), 0
			err := call(t.Context(), outer, func(ctx context.Context) error {
				return fmt.Errorf("wrapped: %w", call(row.ctx(ctx), row.inner, func(context.Context) error { runs++; return row.fail }))
			})
			e := stopped(t, err)
			assert.Equal(t, row.reasons[1], retry.ReasonOf(err), "ReasonOf says why the outer loop stopped")
			assert.Equal(t, row.reasons[0], retry.ReasonOf(e.Err), "and of what it failed with, why the inner one did")
			assert.Equal(t, row.runs, runs)
			assert.Equal(t, row.elapsed, time.Since(start))
			if runs > 0 {
				assert.ErrorIs(t, err, row.fail)
			}
			assert.NoError(t, e.Cause)
		})
	}
	everyWay(t, "the outer context ends in the inner sleep: both stop", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second/2, func() { cancel(errShutdown) })
		runs := 0
		err := call(ctx, outer, func(ctx context.Context) error { return call(ctx, twice, fails(&runs)) })
		assert.Equal(t, 1, runs)
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(stopped(t, err).Err))
		for _, is := range []error{context.Canceled, errShutdown, errDial} {
			assert.ErrorIs(t, err, is)
		}
		assert.Equal(t, 1, strings.Count(err.Error(), errDial.Error()))
	})
	everyWay(t, "the inner loop gets the time of the outer attempt", func(t *testing.T, call caller) {
		p := outer
		p.AttemptTimeout = 2500 * time.Millisecond
		unlimited := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)}
		start, runs := time.Now(), 0
		err := call(t.Context(), p, func(ctx context.Context) error { return call(ctx, unlimited, fails(&runs)) })
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(stopped(t, err).Err))
		assert.Equal(t, 9, runs)
		assert.Equal(t, 2*time.Minute+3*2*time.Second, time.Since(start))
	})
}
