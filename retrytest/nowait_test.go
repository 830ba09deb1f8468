package retrytest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
	"github.com/goretry/retry/retrytest"
)

var (
	errBusy  = errors.New("too many requests")
	errStops = errors.New("the program stops")
)

// A story contains everything that a caller can see of a call.
type story struct {
	attempts int
	reason   retry.Reason
	err      string
	log      string        // the events
	waited   time.Duration // the sum of the waits in the events
	took     time.Duration
}

// tell makes a call in a bubble. Each attempt takes the time each, and the attempts return errs in
// order.
func tell(t *testing.T, p retry.Policy, timeout, each time.Duration, errs ...error) (s story) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		var log bytes.Buffer
		write := retrylog.NewWriter(&log).OnEvent
		p.OnEvent = func(ctx context.Context, e retry.Event) {
			if write(ctx, e); e.Kind == retry.RetryScheduled {
				s.waited += e.Delay
			}
		}
		drawn := uint64(0)
		p.Source = func() uint64 { drawn++; return drawn }
		op := retrytest.NewOp(errs...)
		began := time.Now()
		err := retry.Do(ctx, p, func(attempt context.Context) error {
			if op.Attempts() == 100 {
				return retry.Permanent(errDown) // stops a call that would go on for ever
			}
			select {
			case <-time.After(each):
			case <-attempt.Done():
			}
			err := op.Run(attempt)
			if err == errStops {
				cancel()
			}
			return err
		})
		s = story{op.Attempts(), retry.ReasonOf(err), fmt.Sprint(err), log.String(), s.waited, time.Since(began)}
	})
	return s
}

// NoWait changes nothing that a caller can see of a call, except for the real time that the call
// takes.
func TestNoWaitHasTheSameEvents(t *testing.T) {
	busy := func(class retry.Class) func(error) *retry.Class {
		return func(err error) *retry.Class {
			if errors.Is(err, errBusy) {
				return &class
			}
			return nil
		}
	}
	down, asks := []error{errDown}, retry.After(30*time.Second, errBusy)
	const never = 1000 * time.Hour
	for _, tc := range []struct {
		name     string
		change   func(*retry.Policy) // changes a policy of 9 attempts, which start after 0s, 1s, 3s, 6s, 10s and so on
		timeout  time.Duration
		each     time.Duration
		errs     []error
		attempts int
		reason   retry.Reason
	}{
		{"exhausted", func(*retry.Policy) {}, never, 0, down, 9, retry.ReasonExhausted},
		{"success", func(*retry.Policy) {}, never, 0, []error{errDown, errDown, nil}, 3, retry.ReasonSuccess},
		{"a budget", func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 2} }, never, 0, down, 3, retry.ReasonBudget},
		{"a cap and jitter", func(p *retry.Policy) { p.Jitter, p.MaxDelay = retry.Proportional(0.5), 2*time.Second }, never, 0, down, 9, retry.ReasonExhausted},
		{"Retry-After", func(*retry.Policy) {}, never, 0, []error{errDown, asks, nil}, 3, retry.ReasonSuccess},
		{"Retry-After counts for MaxElapsed", func(p *retry.Policy) { p.MaxElapsed = 31 * time.Second }, never, 0, []error{asks, errDown}, 2, retry.ReasonElapsed},
		{"Retry-After counts for the deadline", func(*retry.Policy) {}, 31 * time.Second, 0, []error{asks, errDown}, 2, retry.ReasonDeadline},
		{"Retry-After with jitter, cut by the deadline", func(p *retry.Policy) { p.Jitter = retry.FullJitter }, 31 * time.Second, 0, []error{asks, nil}, 2, retry.ReasonSuccess},

		// An invalid policy must not become valid.
		{"invalid", func(p *retry.Policy) { p.MaxAttempts = -2 }, never, 0, down, 1, retry.ReasonInvalid},

		{"elapsed", func(p *retry.Policy) { p.MaxElapsed = 6 * time.Second }, never, 0, down, 4, retry.ReasonElapsed},
		{"elapsed, with jitter", func(p *retry.Policy) { p.MaxElapsed, p.Jitter = 12*time.Second, retry.FullJitter }, never, 0, down, 6, retry.ReasonElapsed},
		{"elapsed, and attempts take time", func(p *retry.Policy) { p.MaxElapsed = 5 * time.Second }, never, 2 * time.Second, down, 2, retry.ReasonElapsed},
		{"elapsed, and attempts hang", func(p *retry.Policy) { p.MaxElapsed, p.AttemptTimeout = 20*time.Second, 5*time.Second }, never, time.Hour, down, 3, retry.ReasonElapsed},
		{"a deadline at the third retry", func(*retry.Policy) {}, 6 * time.Second, 0, down, 3, retry.ReasonDeadline},
		{"a deadline within an attempt", func(*retry.Policy) {}, time.Second, 2 * time.Second, down, 1, retry.ReasonDeadline},
		{"canceled by the second attempt", func(*retry.Policy) {}, never, 0, []error{errDown, errStops}, 2, retry.ReasonCanceled},
		{"attempts that run past HealthyAfter", func(p *retry.Policy) { p.MaxAttempts, p.HealthyAfter, p.MaxElapsed = 2, 2*time.Second, 2*time.Second }, never, 2 * time.Second,
			[]error{errDown, errDown, errDown, retry.Permanent(errDown)}, 4, retry.ReasonPermanent},

		{"a class by name", func(p *retry.Policy) {
			p.Classify = busy(retry.Class{Name: "busy", MaxAttempts: 2, Backoff: retry.Fixed(time.Minute)})
		}, never, 0,
			[]error{errDown, errBusy, errDown, errBusy}, 4, retry.ReasonExhausted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := func() retry.Policy {
				p := retry.Policy{MaxAttempts: 9, Backoff: retry.Linear(time.Second)}
				tc.change(&p)
				return p
			}
			waits := tell(t, changed(), tc.timeout, tc.each, tc.errs...)
			require.Equal(t, tc.attempts, waits.attempts, "without NoWait")
			require.Equal(t, tc.reason, waits.reason, "without NoWait")
			skips := tell(t, retrytest.NoWait(changed()), tc.timeout, tc.each, tc.errs...)
			assert.Equal(t, waits.took-waits.waited, skips.took, "only attempts take time")
			skips.took = waits.took
			assert.Equal(t, waits, skips)
		})
	}
}

// The sum of the delays must not overflow: it is at most the longest duration.
func TestNoWaitOfTheLongestDelays(t *testing.T) {
	const half = math.MaxInt64 / 2
	for most, want := range map[time.Duration]story{
		math.MaxInt64 - 1: {attempts: 3, reason: retry.ReasonElapsed},   // two delays fit
		math.MaxInt64 - 2: {attempts: 2, reason: retry.ReasonElapsed},   // one delay fits
		math.MaxInt64:     {attempts: 9, reason: retry.ReasonExhausted}, // no sum exceeds the longest MaxElapsed, so all delays fit
	} {
		synctest.Test(t, func(t *testing.T) {
			op := retrytest.NewOp(errDown)
			err := retry.Do(t.Context(), retrytest.NoWait(retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(half), MaxElapsed: most}), op.Run)
			assert.Equal(t, want, story{attempts: op.Attempts(), reason: retry.ReasonOf(err)})
		})
	}
}

func TestNoWaitHonorsTheContext(t *testing.T) {
	wait := retrytest.NoWait(plain).Wait
	skipped, err := wait(t.Context(), time.Hour)
	require.NoError(t, err)
	assert.Equal(t, time.Hour, skipped)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	skipped, err = wait(ctx, time.Hour)
	assert.Equal(t, context.Canceled, err)
	assert.Zero(t, skipped)
}

// NoWait sets only Wait. It keeps every other field, so every decision is the same.
func TestNoWaitChangesOnlyWait(t *testing.T) {
	p := retry.Policy{
		MaxAttempts: 1, MaxRetries: 2, AttemptCap: 3, NonRetryable: true, RetryAfter: retry.RetryAfterExact, Backoff: retry.Fixed(4), MaxDelay: 5, Jitter: retry.FullJitter,
		MaxRetryAfter: 6, Source: func() uint64 { return 1 }, MaxElapsed: 7, AttemptTimeout: 8, HealthyAfter: 9, Budget: &retry.Budget{Size: 1},
		RetryIf: func(error) bool { return true }, Classify: func(error) *retry.Class { return nil },
		Wait:    func(context.Context, time.Duration) (time.Duration, error) { return 0, nil },
		Enter:   func(context.Context, retry.Event) error { return nil },
		OnEvent: func(context.Context, retry.Event) {},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeOf(p)) {
		require.False(t, reflect.ValueOf(p).FieldByIndex(field.Index).IsZero(), "%s is not covered", field.Name)
	}
	changed := retrytest.NoWait(p)
	assert.NotEqual(t, fmt.Sprintf("%p", p.Wait), fmt.Sprintf("%p", changed.Wait))
	changed.Wait = p.Wait
	assert.Equal(t, fmt.Sprintf("%#v", p), fmt.Sprintf("%#v", changed), "the functions are unchanged too")
}
