package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// Each test in this file checks a principle of the whole package. The other files test the
// details.

func TestPrincipleAZeroFieldIsOff(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	next := func(p retry.Policy, a retry.Attempt) retry.Decision {
		p.MaxAttempts, a.Number, a.Seed = 3, 1, 42
		return p.Next(a)
	}
	retries := func(d time.Duration) retry.Decision { return drawnFrom(1, d, retry.ReasonRetry) }
	bounded, waited := true, time.Duration(0)
	synctest.Test(t, func(t *testing.T) {
		waited = stopped(t, retry.Do(t.Context(), everySecond, func(ctx context.Context) error {
			_, bounded = ctx.Deadline()
			return errBoom
		})).Waited
	})
	hour, busy := retry.Policy{Backoff: retry.Fixed(time.Hour)}, retry.After(time.Minute, errBoom)
	spread, curve := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(longest), Jitter: retry.FullJitter}, retries(time.Hour)
	curve.RetryAfter = time.Minute
	once, again := spread.Next(retry.Attempt{Number: 1}), spread.Next(retry.Attempt{Number: 1})
	off := map[string]struct{ got, want any }{
		"MaxAttempts":    {retry.Policy{MaxRetries: 3}.EffectiveMax(), 4},
		"MaxRetries":     {retry.Policy{MaxAttempts: 3}.EffectiveMax(), 3},
		"AttemptCap":     {retry.Policy{MaxAttempts: math.MaxInt}.EffectiveMax(), math.MaxInt},
		"NonRetryable":   {next(retry.Policy{}, retry.Attempt{Err: errBoom}), retries(0)},
		"Backoff":        {next(retry.Policy{MaxDelay: 1}, retry.Attempt{}), retries(0)},
		"MaxDelay":       {next(retry.Policy{Backoff: retry.Fixed(longest)}, retry.Attempt{}), retries(longest)},
		"Jitter":         {next(hour, retry.Attempt{}), retries(time.Hour)},
		"RetryAfter":     {next(hour, retry.Attempt{Err: busy}), curve},                                              // the delay of the curve, which is longer than the Retry-After
		"MaxRetryAfter":  {next(retry.Policy{}, retry.Attempt{Err: busy}), askedFor(time.Minute, retry.ReasonRetry)}, // a minute, because an unlimited wait would not be safe
		"Source":         {once == again, false},                                                                     // math/rand/v2 draws two different seeds
		"MaxElapsed":     {next(retry.Policy{}, retry.Attempt{Elapsed: longest}), retries(0)},
		"AttemptTimeout": {bounded, false},
		"HealthyAfter":   {next(retry.Policy{}, retry.Attempt{Err: errBoom, Took: longest}), retries(0)},
		"RetryIf":        {next(retry.Policy{}, retry.Attempt{Err: errBoom}), retries(0)},
		"Classify":       {next(retry.Policy{}, retry.Attempt{Err: errBoom}), retries(0)},
		"Budget":         {retry.Policy{}.Budget.Take(), true},
		"Wait":           {waited, 2 * time.Second}, // a timer waits
		"Enter":          {retry.Do(t.Context(), retry.Policy{}, failWith(nil)), nil},
		"OnEvent":        {retry.Do(t.Context(), retry.Policy{}, failWith(nil)), nil},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[retry.Policy]()) {
		require.Contains(t, off, field.Name, "the zero value of this field is not tested")
		assert.Equal(t, off[field.Name].want, off[field.Name].got, field.Name)
	}
}

func TestPrinciplePolicyIsAnImmutableValue(t *testing.T) {
	base := retry.Policy{
		MaxAttempts: 5, AttemptCap: 9, Backoff: retry.Schedule{time.Second, time.Minute}, MaxDelay: time.Minute, Jitter: retry.Proportional(.2),
		MaxElapsed: time.Hour, Budget: &retry.Budget{Size: 3, Ratio: .1},
	}
	before := base
	before.Backoff = retry.Schedule{time.Second, time.Minute}

	t.Run("no method changes the policy", func(t *testing.T) {
		for attempt := range 12 {
			base.Next(retry.Attempt{Number: attempt, Err: retry.After(time.Second, errBoom)})
			base.Eligible(attempt)
			base.ForJob(attempt)
		}
		_ = base.Validate()
		_ = base.Lint()
		_ = base.String()
		base.EffectiveMax()
		assert.Equal(t, before, base)
	})

	t.Run("methods have a value receiver", func(t *testing.T) {
		value, pointer := reflect.TypeFor[retry.Policy](), reflect.TypeFor[*retry.Policy]()
		for i := range pointer.NumMethod() {
			method := pointer.Method(i)
			if strings.HasPrefix(method.Name, "Unmarshal") {
				continue
			}
			_, ok := value.MethodByName(method.Name)
			assert.True(t, ok, "%s takes a pointer", method.Name)
		}
	})
}

func TestPrincipleNothingIsLost(t *testing.T) {
	ended := []error{context.Canceled, context.DeadlineExceeded, errShutdown}
	two := retry.Policy{MaxAttempts: 2}
	twice, elapses, waitFails, classed := everySecond, everySecond, two, two
	twice.MaxAttempts, elapses.MaxElapsed = 2, 1
	waitFails.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, errShutdown }
	classed.Classify = func(error) *retry.Class {
		return &retry.Class{NonRetryable: true, Cause: errShutdown}
	}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		end    func(context.Context) context.Context
		fail   error
		reason retry.Reason
		is     []error // the errors of ended that errors.Is finds
	}{
		{"exhausted", two, nil, errDial, retry.ReasonExhausted, nil},
		{"permanent", two, nil, retry.Permanent(errDial), retry.ReasonPermanent, nil},
		{"canceled", twice, canceledIn(1, nil), errDial, retry.ReasonCanceled, ended[:1]},
		{"canceled with a cause", twice, canceledIn(1, errShutdown), errDial, retry.ReasonCanceled, []error{context.Canceled, errShutdown}},
		{"deadline", twice, hiddenIn(1, nil), errDial, retry.ReasonDeadline, ended[1:2]},
		{"deadline with a cause", twice, hiddenIn(1, errShutdown), errDial, retry.ReasonDeadline, ended[1:]},
		{"deadline ahead, so the context has no cause yet", twice, endingIn(1, errShutdown), errDial, retry.ReasonDeadline, ended[1:2]},
		{"elapsed", elapses, nil, errDial, retry.ReasonElapsed, nil},
		{"canceled, and fn failed with a deadline", twice, canceledIn(1, errShutdown), context.DeadlineExceeded, retry.ReasonCanceled, ended},
		{"the wait failed", waitFails, nil, errDial, retry.ReasonWait, ended[2:]},
		{"not retryable, with the Cause of the class", classed, nil, errDial, retry.ReasonNonRetryable, ended[2:]},
		{"an invalid policy", retry.Policy{MaxAttempts: -2}, nil, errDial, retry.ReasonInvalid, nil},
		{"an invalid class", retry.Policy{MaxAttempts: 2, Classify: always(retry.Class{MaxAttempts: -2})}, nil, errDial, retry.ReasonInvalid, nil},
		{"exhausted, and fn failed with Canceled although the context is not done", two, nil, context.Canceled, retry.ReasonExhausted, ended[:1]},
		{"exhausted, and fn failed with a deadline although the context is not done", two, nil, context.DeadlineExceeded, retry.ReasonExhausted, ended[1:2]},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx := t.Context()
			if row.end != nil {
				ctx = row.end(ctx)
			}
			err := call(ctx, row.policy, failWith(row.fail))
			e := stopped(t, err)
			assert.Equal(t, row.reason, retry.ReasonOf(err), "ReasonOf says why the call stopped")
			assert.True(t, row.fail == e.Err, "Err is the error of the last attempt")
			assert.ErrorIs(t, err, row.fail)
			for _, is := range ended {
				assert.Equal(t, slices.Contains(row.is, is), errors.Is(err, is), is)
			}
			uncaused := []retry.Reason{retry.ReasonExhausted, retry.ReasonPermanent, retry.ReasonElapsed}
			if slices.Contains(uncaused, row.reason) {
				assert.Equal(t, []error{e.Err}, e.Unwrap())
				return
			}
			require.Error(t, e.Cause, "Cause says what stopped the call")
			assert.ErrorIs(t, err, e.Cause)
			assert.NotErrorIs(t, e.Cause, errDial, "Cause does not contain Err")
			assert.Equal(t, []error{e.Err, e.Cause}, e.Unwrap(), "Err, then Cause")
		})
	}
	t.Run("an error's own type is found", func(t *testing.T) {
		fail := &statusError{code: 503}
		var found *statusError
		require.ErrorAs(t, retry.Do(t.Context(), two, failWith(fmt.Errorf("get /: %w", fail))), &found)
		assert.Same(t, fail, found)
	})
	t.Run("Unwrap of an Error that holds nothing", func(t *testing.T) {
		assert.Empty(t, (*retry.Error)(nil).Unwrap())
		assert.Empty(t, new(retry.Error).Unwrap())
		assert.Equal(t, []error{io.EOF}, (&retry.Error{Cause: io.EOF}).Unwrap())
	})
	bubble(t, "the context's cause is read only when the Error is read", func(t *testing.T) {
		inner, cancel := context.WithCancelCause(t.Context())
		cancel(errShutdown)
		ctx := &asked{Context: inner}
		err := retry.Do(ctx, everySecond, failWith(nil))
		require.Error(t, err)
		assert.Equal(t, 1, ctx.values, "for ctxvalue.Large; context.Cause calls Value to find the context that has the cause")
		assert.ErrorIs(t, err, errShutdown)
		assert.Greater(t, ctx.values, 1)
	})
}

type statusError struct{ code int }

func (e *statusError) Error() string { return fmt.Sprint("status ", e.code) }

// The type `asked` is a context that counts the calls of its Value method.
type asked struct {
	context.Context
	values int
}

func (c *asked) Value(key any) any { c.values++; return c.Context.Value(key) }

func TestPrincipleFailSafe(t *testing.T) {
	t.Run("unknown names in JSON are kept", func(t *testing.T) {
		const text = `{"kind":"attempt_paused","time":"0001-01-01T00:00:00Z","attempt":2,"max":5,"reason":"tired"}`
		var e retry.Event
		require.NoError(t, json.Unmarshal([]byte(text), &e))
		back, err := json.Marshal(e)
		require.NoError(t, err)
		assert.JSONEq(t, text, string(back))
		assert.False(t, retry.Decision{Reason: e.Reason}.Retry(), "an unknown Reason does not mean that a retry follows")
	})
	for name, p := range invalidPolicies() {
		fault := p.Validate()
		require.Error(t, fault, name)
		everyWay(t, name+"/one attempt: its success counts, its failure is reported with the fault, and events name the fault", func(t *testing.T, call caller) {
			for result, reason := range map[error]retry.Reason{nil: retry.ReasonSuccess, errDial: retry.ReasonInvalid} {
				var told watch
				watched := p
				watched.OnEvent = told.event
				for _, p := range []retry.Policy{p, watched} {
					start, runs := time.Now(), 0
					err := call(t.Context(), p, func(context.Context) error { runs++; return result })
					assert.Equal(t, 1, runs)
					assert.Zero(t, time.Since(start))
					if result == nil {
						require.NoError(t, err)
						continue
					}
					assert.Equal(t, &retry.Error{Reason: reason, Attempts: 1, Err: errDial, Cause: stopped(t, err).Cause}, plain(err))
					assert.EqualError(t, stopped(t, err).Cause, fault.Error())
					what := strings.TrimPrefix(fault.Error(), "invalid policy: ")
					assert.EqualError(t, err, "retry: invalid policy after 1 attempt ("+what+"): dial tcp: connection refused")
				}
				assert.Equal(t, counts{1, 1, 0, 1}, told.counts())
				last := told.of(retry.CallFinished)[0]
				assert.Equal(t, []any{reason, result, 1}, []any{last.Reason, last.Err, last.Max})
				assert.EqualError(t, last.Cause, fault.Error())
			}
		})
	}
}
