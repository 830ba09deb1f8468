package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// MaxElapsed is a limit like the other two: if it is the only one, attempts are
// unlimited.
func TestMaxElapsedIsALimit(t *testing.T) {
	waiting := retry.Fixed(time.Second)
	for _, row := range []struct {
		name   string
		policy retry.Policy
		want   int
	}{
		{"alone", retry.Policy{MaxElapsed: time.Minute, Backoff: waiting}, retry.Unlimited},
		{"alone, with a cap", retry.Policy{MaxElapsed: time.Minute, AttemptCap: 10}, 10},
		{"beside MaxAttempts", retry.Policy{MaxElapsed: time.Minute, MaxAttempts: 3}, 3},
		{"beside MaxAttempts 1", retry.Policy{MaxElapsed: time.Minute, MaxAttempts: 1}, 1},
		{"beside MaxRetries", retry.Policy{MaxElapsed: time.Minute, MaxRetries: 3}, 4},
		{"beside Unlimited", retry.Policy{MaxElapsed: time.Minute, MaxAttempts: retry.Unlimited, Backoff: waiting}, retry.Unlimited},
		{"beside NonRetryable", retry.Policy{MaxElapsed: time.Minute, NonRetryable: true}, 1},
		{"of a nanosecond", retry.Policy{MaxElapsed: 1, Backoff: waiting}, retry.Unlimited},
		{"0 means no limit is set", retry.Policy{Backoff: waiting}, 1},
		{"negative is invalid", retry.Policy{MaxElapsed: -1, Backoff: waiting}, 1},
		{"an AttemptTimeout is no limit", retry.Policy{AttemptTimeout: time.Minute, Backoff: waiting}, 1},
		{"a Budget is no limit", retry.Policy{Budget: &retry.Budget{Size: 9}, Backoff: waiting}, 1},
		{"alone, without a delay", retry.Policy{MaxElapsed: time.Minute}, 1},
		{"alone, a schedule that ends in 0", retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Schedule{time.Second, 0}}, 1},
	} {
		t.Run(row.name, func(t *testing.T) { assert.Equal(t, row.want, row.policy.EffectiveMax()) })
	}
	everyWay(t, "retries until the time is up", func(t *testing.T, call caller) {
		runs, start := 0, time.Now()
		err := call(t.Context(), retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Fixed(7 * time.Second)}, fails(&runs))
		assert.EqualError(t, err, "retry: out of time after 9 attempts (56s waited, the next delay of 7s would exceed MaxElapsed 1m0s): dial tcp: connection refused")
		assert.Equal(t, 9, runs)
		assert.Equal(t, 56*time.Second, time.Since(start))
	})
	t.Run("the job's own limit", func(t *testing.T) {
		p := retry.Policy{MaxElapsed: time.Minute, Backoff: waiting}
		assert.Equal(t, 3, p.ForJob(3).EffectiveMax())
		assert.Equal(t, retry.Unlimited, p.ForJob(0).EffectiveMax())
		p.AttemptCap = 2
		assert.Equal(t, 2, p.ForJob(3).EffectiveMax())
		assert.Equal(t, time.Minute, p.ForJob(3).MaxElapsed, "its time stays bounded")
	})
	t.Run("Eligible does not depend on the time", func(t *testing.T) {
		assert.True(t, retry.Policy{MaxElapsed: 1, Backoff: waiting}.Eligible(1_000_000))
	})
}

// A limitRow is one combination of everything that limits attempts.
type limitRow struct {
	p      retry.Policy
	curve  string // "none", "waiting", "ending in 0" or "custom"
	budget string // "none", "plain" or "refilled"
}

func limitRows() (rows []limitRow) {
	curves := map[string]retry.Backoff{
		"none": nil, "waiting": retry.Fixed(time.Second), "ending in 0": retry.Schedule{time.Second, 0}, "custom": retry.BackoffFunc(func(int) time.Duration { return time.Second }),
	}
	budgets := map[string]*retry.Budget{
		"none": nil, "plain": &retry.Budget{Size: 1_000_000}, "refilled": &retry.Budget{Size: 1_000_000, RefillEvery: time.Hour},
	}
	for curve, b := range curves {
		for budget, allowance := range budgets {
			for _, nonRetryable := range []bool{false, true} {
				for _, maxElapsed := range []time.Duration{-1, 0, 1, 10 * time.Second} {
					for _, attemptCap := range []int{-1, 0, 1, 4} {
						for _, maxAttempts := range []int{-2, -1, 0, 1, 3} {
							for _, maxRetries := range []int{-2, -1, 0, 1, 4} {
								rows = append(rows, limitRow{retry.Policy{
									MaxAttempts: maxAttempts, MaxRetries: maxRetries, AttemptCap: attemptCap, NonRetryable: nonRetryable,
									MaxElapsed: maxElapsed, Backoff: b, Budget: allowance,
								}, curve, budget})
							}
						}
					}
				}
			}
		}
	}
	return rows
}

// says computes the limit of a row in the most obvious way: it collects every
// limit that is set and takes the smallest.
func (r limitRow) says() (limit int, limited, valid bool) {
	p := r.p
	var set []int
	if p.MaxAttempts == -1 || p.MaxRetries == -1 || p.MaxElapsed > 0 {
		set = append(set, forever)
	}
	if p.MaxAttempts > 0 {
		set = append(set, p.MaxAttempts)
	}
	if p.MaxRetries > 0 {
		set = append(set, p.MaxRetries+1)
	}
	limited = len(set) > 0
	if !limited {
		set = append(set, 1)
	}
	if p.AttemptCap > 0 {
		set = append(set, p.AttemptCap)
	}
	if p.NonRetryable {
		set = append(set, 1)
	}
	limit = forever
	for _, n := range set {
		limit = min(limit, n)
	}
	waits := r.curve == "waiting" || r.curve == "custom"
	paid := r.budget == "plain" // a refilled Budget never ends the call
	valid = p.MaxAttempts >= -1 && p.MaxRetries >= -1 && p.AttemptCap >= 0 && p.MaxElapsed >= 0 && (limit < forever || waits || paid)
	if !valid {
		limit = 1
	}
	return limit, limited, valid
}

func (r limitRow) String() string {
	p := r.p
	return fmt.Sprintf("MaxAttempts %d, MaxRetries %d, AttemptCap %d, NonRetryable %v, MaxElapsed %v, curve %s, budget %s",
		p.MaxAttempts, p.MaxRetries, p.AttemptCap, p.NonRetryable, p.MaxElapsed, r.curve, r.budget)
}

// Everything that reports a limit gives the same answer for every combination.
func TestEveryCombinationOfWhatLimitsAttempts(t *testing.T) {
	boom := errors.New("boom")
	walked, unlimited := 0, 0
	for _, row := range limitRows() {
		p := row.p
		limit, limited, valid := row.says()
		count := limit
		if limit == forever {
			count = retry.Unlimited
			unlimited++
		}
		walked++
		failed := func(format string, args ...any) {
			t.Helper()
			require.Fail(t, row.String(), append([]any{format}, args...)...)
		}

		if got := p.Validate() == nil; got != valid {
			failed("valid: %v, want %v: %v", got, valid, p.Validate())
		}
		if got := p.EffectiveMax(); got != count {
			failed("EffectiveMax = %d, want %d", got, count)
		}
		for attempts := -1; attempts <= 6; attempts++ {
			if got, want := p.Eligible(attempts), attempts <= 0 || attempts < limit; got != want {
				failed("Eligible(%d) = %v, want %v", attempts, got, want)
			}
		}
		delay := func(attempt int) time.Duration {
			if row.curve == "none" || row.curve == "ending in 0" && attempt > 1 {
				return 0
			}
			return time.Second
		}
		for _, elapsed := range []time.Duration{0, 9 * time.Second, 10 * time.Second, time.Hour} {
			for attempt := 1; attempt <= 5; attempt++ {
				want := retry.ReasonRetry
				switch {
				case !valid:
					want = retry.ReasonInvalid
				case p.NonRetryable:
					want = retry.ReasonNonRetryable
				case attempt >= limit:
					want = retry.ReasonExhausted
				case p.MaxElapsed > 0 && elapsed+delay(attempt) > p.MaxElapsed:
					want = retry.ReasonElapsed
				}
				if got := p.Next(retry.Attempt{Number: attempt, Err: boom, Elapsed: elapsed}); got.Reason != want {
					failed("Next(%d, %v) = %v, want %v", attempt, elapsed, got.Reason, want)
				}
			}
		}
		for _, own := range []int{-1, 0, 1, 2, 7} {
			want := limit
			if own > 0 && valid {
				job := row
				if job.p.MaxAttempts <= 0 && job.p.MaxRetries <= 0 || job.p.MaxAttempts < 0 && job.p.MaxRetries == 0 {
					job.p.MaxAttempts, job.p.MaxRetries = own, 0
				} else {
					least := forever
					if job.p.MaxAttempts > 0 {
						least = job.p.MaxAttempts
					}
					if job.p.MaxRetries > 0 {
						least = min(least, job.p.MaxRetries+1)
					}
					job.p.MaxAttempts, job.p.MaxRetries = min(own, least), 0
				}
				want, _, _ = job.says()
			}
			if want == forever {
				want = retry.Unlimited
			}
			if got := p.ForJob(own).EffectiveMax(); got != want {
				failed("ForJob(%d) allows %d, want %d", own, got, want)
			}
		}
		row.assertTexts(t, limit, limited, valid)
	}
	assert.Equal(t, 4*3*2*4*4*5*5, walked)
	assert.Greater(t, unlimited, 50)
}

// assertTexts checks the texts about the limits, and the plan.
func (r limitRow) assertTexts(t *testing.T, limit int, limited, valid bool) {
	t.Helper()
	p := r.p
	says := map[bool]string{true: fmt.Sprintf("%d attempts", limit)}[limit > 1]
	switch limit {
	case 1:
		says = "1 attempt"
	case forever:
		says = "unlimited attempts"
	}
	if !valid {
		says = "invalid policy"
	}
	if !strings.HasPrefix(p.String(), says) {
		require.Fail(t, r.String(), "String is %q, want %q", p.String(), says)
	}
	lint := strings.Join(p.Lint(), "\n")
	if alone := strings.Contains(lint, "without a limit"); alone != (valid && !limited && !p.NonRetryable && (p.Backoff != nil || p.AttemptCap > 0)) {
		require.Fail(t, r.String(), "Lint is %q", lint)
	}
	if plan := p.Plan(5); p.MaxElapsed <= 0 && len(plan) != min(5, limit-1) || len(plan) > limit-1 {
		require.Fail(t, r.String(), "the plan has %d steps", len(plan))
	}
	if delays := p.Delays(5); len(delays) != min(5, limit-1) {
		require.Fail(t, r.String(), "there are %d delays", len(delays))
	}
	if !valid || r.curve == "custom" {
		return
	}
	text, err := json.Marshal(p)
	require.NoError(t, err)
	back := retry.Policy{Budget: p.Budget}
	if p.MaxAttempts != 0 && p.MaxRetries != 0 {
		// The text form has both limits, and reading it gives both.
		require.NoError(t, json.Unmarshal(text, &back))
	} else {
		require.NoError(t, back.UnmarshalText(text))
	}
	if back.EffectiveMax() != p.EffectiveMax() {
		require.Fail(t, r.String(), "%s allows %d", text, back.EffectiveMax())
	}
}

// Do behaves as the texts and methods say, for every combination.
func TestEveryCombinationOfWhatLimitsAttemptsInDo(t *testing.T) {
	for _, row := range limitRows() {
		if row.budget == "refilled" {
			continue // while it is full, the same as none
		}
		limit, _, valid := row.says()
		synctest.Test(t, func(t *testing.T) {
			const stop = 8
			runs := 0
			err := retry.Do(t.Context(), row.p, func(context.Context) error {
				if runs++; runs == stop {
					return nil // instead of running forever
				}
				time.Sleep(3 * time.Second)
				return errDial
			})
			want := min(limit, stop)
			if valid && row.p.MaxElapsed > 0 && want > 1 {
				elapsed := time.Duration(0)
				for n := 1; n <= want; n++ {
					elapsed += 3 * time.Second
					delay := time.Second
					if row.curve == "none" || row.curve == "ending in 0" && n > 1 {
						delay = 0
					}
					if elapsed += delay; elapsed > row.p.MaxElapsed {
						want = n
					}
				}
			}
			if runs != want || (err == nil) != (want == stop) {
				require.Fail(t, row.String(), "%d attempts, want %d: %v", runs, want, err)
			}
		})
	}
}
