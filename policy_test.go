package retry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// Libraries differ in what 0, 1 and -1 mean, and in what is counted. Most names
// below deny how another library reads the number.
func TestEffectiveMax(t *testing.T) {
	for _, row := range []struct {
		name   string
		policy retry.Policy
		limit  int
	}{
		{"nothing set is not unlimited, nor a default of three, nor that nothing runs", retry.Policy{}, 1},
		{"MaxAttempts 1 is not one retry", retry.Policy{MaxAttempts: 1}, 1},
		{"MaxAttempts 3 is not three retries", retry.Policy{MaxAttempts: 3}, 3},
		{"MaxAttempts -1 is not one attempt", retry.Policy{MaxAttempts: -1}, retry.Unlimited},
		{"MaxAttempts -5 is not unlimited", retry.Policy{MaxAttempts: -5}, 1},
		{"MaxRetries 3 is not three attempts", retry.Policy{MaxRetries: 3}, 4},
		{"MaxRetries -1 plus one does not mean that no limit is set", retry.Policy{MaxRetries: -1}, retry.Unlimited},
		{"MaxRetries -2 plus one is not unlimited", retry.Policy{MaxRetries: -2}, 1},
		{"MaxRetries -1 does not lift MaxAttempts", retry.Policy{MaxAttempts: 2, MaxRetries: -1}, 2},
		{"AttemptCap lowers the limit and never raises it", retry.Policy{MaxAttempts: 3, AttemptCap: 10}, 3},
		{"Retries(0) is not unlimited", retry.Policy{MaxAttempts: retry.Retries(0)}, 1},
		{"Retries(-1) is not zero attempts", retry.Policy{MaxAttempts: retry.Retries(-1)}, retry.Unlimited},
		{"Retries(-2) is not invalid", retry.Policy{MaxAttempts: retry.Retries(-2)}, retry.Unlimited},
		{"Retries of the greatest number does not wrap around", retry.Policy{MaxAttempts: retry.Retries(math.MaxInt)}, math.MaxInt},
		{"an AttemptTimeout is no limit", retry.Policy{AttemptTimeout: time.Minute}, 1},
		{"a Budget is no limit", retry.Policy{Budget: &retry.Budget{Size: 9}}, 1},
		{"the greatest MaxAttempts", retry.Policy{MaxAttempts: math.MaxInt}, math.MaxInt},
		{"the greatest MaxRetries does not wrap around", retry.Policy{MaxRetries: math.MaxInt}, math.MaxInt},
		{"the greatest of both", retry.Policy{MaxAttempts: math.MaxInt, MaxRetries: math.MaxInt}, math.MaxInt},
		{"the greatest beside unlimited", retry.Policy{MaxAttempts: -1, MaxRetries: math.MaxInt}, math.MaxInt},
		{"the greatest AttemptCap", retry.Policy{MaxAttempts: -1, MaxRetries: -1, AttemptCap: math.MaxInt}, math.MaxInt},
		{"the least of all", retry.Policy{MaxAttempts: math.MinInt, MaxRetries: math.MinInt, AttemptCap: math.MinInt}, 1},
		{"the greatest limit of a job", retry.Policy{}.ForJob(math.MaxInt), math.MaxInt},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := row.policy
			p.Backoff = retry.Fixed(time.Second)
			assert.Equal(t, row.limit, p.EffectiveMax())
			for _, attempts := range []int{math.MinInt, -1, 0} {
				assert.True(t, p.Eligible(attempts), "Eligible(%d)", attempts)
			}
			assert.Equal(t, row.limit == retry.Unlimited, p.Eligible(math.MaxInt))
			assert.Equal(t, row.limit == retry.Unlimited, p.Next(retry.Attempt{Number: math.MaxInt}).Retry())
			if row.limit > 1 {
				assert.True(t, p.Next(retry.Attempt{Number: row.limit - 1}).Retry())
				assert.False(t, p.Next(retry.Attempt{Number: row.limit}).Retry())
			}
		})
	}
}

// A limitRow is one combination of everything that limits attempts.
type limitRow struct {
	p      retry.Policy
	curve  string // "none", "waiting", "ending in 0" or "custom"
	budget string // "none", "plain" or "refilled"
}

// limitRows returns every third combination, or with RETRY_LONG all of them.
func limitRows() (rows []limitRow) {
	curves := []retry.Backoff{nil, retry.Fixed(time.Second), retry.Schedule{time.Second, 0}, retry.BackoffFunc(func(int) time.Duration { return time.Second })}
	budgets := []*retry.Budget{nil, {Size: 1_000_000}, {Size: 1_000_000, RefillEvery: time.Hour}}
	n := 0
	for i, curve := range []string{"none", "waiting", "ending in 0", "custom"} {
		for j, budget := range []string{"none", "plain", "refilled"} {
			for _, nonRetryable := range []bool{false, true} {
				for _, maxElapsed := range []time.Duration{-1, 0, 1, 10 * time.Second} {
					for _, attemptCap := range []int{-1, 0, 1, 4} {
						for _, maxAttempts := range []int{-2, -1, 0, 1, 3} {
							for _, maxRetries := range []int{-2, -1, 0, 1, 4} {
								if n++; n%rounds(3, 1) == 0 {
									rows = append(rows, limitRow{retry.Policy{
										MaxAttempts: maxAttempts, MaxRetries: maxRetries, AttemptCap: attemptCap, NonRetryable: nonRetryable,
										MaxElapsed: maxElapsed, Backoff: curves[i], Budget: budgets[j],
									}, curve, budget})
								}
							}
						}
					}
				}
			}
		}
	}
	return rows
}

// forever stands for Unlimited: as a number it is above every other limit.
const forever = 1_000_000

// says computes the limit of a row, and of a job with its own if that is not 0, in
// the most obvious way: it collects every limit that is set and takes the smallest.
func (r limitRow) says(own int) (limit int, limited, valid bool) {
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
	if own > 0 {
		set = append(set, own)
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
	limit = slices.Min(set)
	waits := r.curve == "waiting" || r.curve == "custom"
	paid := r.budget == "plain" // a refilled Budget never ends the call
	valid = p.MaxAttempts >= -1 && p.MaxRetries >= -1 && p.AttemptCap >= 0 && p.MaxElapsed >= 0 && (limit < forever || waits || paid)
	if !valid {
		limit = 1
	}
	return limit, limited, valid
}

// delay returns what the curve of r says.
func (r limitRow) delay(attempt int) time.Duration {
	if r.curve == "none" || r.curve == "ending in 0" && attempt > 1 {
		return 0
	}
	return time.Second
}

func (r limitRow) String() string {
	p := r.p
	return fmt.Sprintf("MaxAttempts %d, MaxRetries %d, AttemptCap %d, NonRetryable %v, MaxElapsed %v, curve %s, budget %s",
		p.MaxAttempts, p.MaxRetries, p.AttemptCap, p.NonRetryable, p.MaxElapsed, r.curve, r.budget)
}

// Everything that reports a limit gives the same answer for every combination.
func TestEveryCombinationOfWhatLimitsAttempts(t *testing.T) {
	counted := func(limit int) int {
		if limit == forever {
			return retry.Unlimited
		}
		return limit
	}
	unlimited := 0
	for _, row := range limitRows() {
		p := row.p
		limit, limited, valid := row.says(0)
		if limit == forever {
			unlimited++
		}
		want := func(want, got any, format string, args ...any) { // faster than assert
			t.Helper()
			if got != want {
				require.Equal(t, want, got, "%v: %s", row, fmt.Sprintf(format, args...))
			}
		}
		want(valid, p.Validate() == nil, "valid")
		want(counted(limit), p.EffectiveMax(), "EffectiveMax")
		for attempts := -1; attempts <= 6; attempts++ {
			want(attempts <= 0 || attempts < limit, p.Eligible(attempts), "Eligible(%d)", attempts)
		}
		for _, elapsed := range []time.Duration{0, 9 * time.Second, 10 * time.Second, time.Hour} {
			for attempt := 1; attempt <= 5; attempt++ {
				reason := retry.ReasonRetry
				switch {
				case !valid:
					reason = retry.ReasonInvalid
				case p.NonRetryable:
					reason = retry.ReasonNonRetryable
				case attempt >= limit:
					reason = retry.ReasonExhausted
				case p.MaxElapsed > 0 && elapsed+row.delay(attempt) > p.MaxElapsed:
					reason = retry.ReasonElapsed
				}
				want(reason, p.Next(retry.Attempt{Number: attempt, Err: errDial, Elapsed: elapsed}).Reason, "Next(%d, %v)", attempt, elapsed)
			}
		}
		for _, own := range []int{math.MinInt, -1, 0, 1, 2, 7} {
			ofJob := limit
			if valid {
				ofJob, _, _ = row.says(own)
			}
			want(counted(ofJob), p.ForJob(own).EffectiveMax(), "ForJob(%d)", own)
			want(valid, p.ForJob(own).Validate() == nil, "ForJob(%d) is valid", own)
		}

		says := map[int]string{1: "1 attempt", forever: "unlimited attempts"}[limit]
		if says == "" {
			says = fmt.Sprintf("%d attempts", limit)
		}
		if !valid {
			says = "invalid policy"
		}
		want(true, strings.HasPrefix(p.String(), says), "String is %q", p)
		lint := strings.Join(p.Lint(), "\n")
		alone := valid && !limited && !p.NonRetryable && (p.Backoff != nil || p.AttemptCap > 0)
		want(alone, strings.Contains(lint, "without a limit"), "Lint is %q", lint)
		want(min(5, limit-1), len(p.Delays(5)), "Delays")
		if plan := p.Plan(5); p.MaxElapsed <= 0 {
			want(min(5, limit-1), len(plan), "Plan")
		} else {
			want(true, len(plan) <= limit-1, "Plan of %d", len(plan))
		}
		if valid && row.curve != "custom" {
			text, err := json.Marshal(p)
			require.NoError(t, err)
			back := retry.Policy{Budget: p.Budget}
			require.NoError(t, json.Unmarshal(text, &back))
			want(counted(limit), back.EffectiveMax(), "%s", text)
		}
	}
	assert.Greater(t, unlimited, 20)
}

// Do behaves as the texts and methods say, for every combination.
func TestEveryCombinationOfWhatLimitsAttemptsInDo(t *testing.T) {
	for _, row := range limitRows() {
		limit, _, valid := row.says(0)
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
					if elapsed += 3*time.Second + row.delay(n); elapsed > row.p.MaxElapsed {
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

func TestForJob(t *testing.T) {
	p := retry.Default()
	p.AttemptCap, p.MaxElapsed, p.Budget = 7, time.Minute, &retry.Budget{Size: 1, Ratio: .1}
	derived := p.ForJob(3)
	assert.Equal(t, 3, derived.EffectiveMax())
	assert.Equal(t, 5, p.EffectiveMax(), "p itself is not changed")
	derived.MaxAttempts = p.MaxAttempts
	assert.Equal(t, p, derived, "only the limits change")

	byRetries := retry.Policy{MaxRetries: 4, Backoff: retry.Fixed(time.Second)}
	for _, none := range []int{0, -1, math.MinInt} {
		assert.Equal(t, byRetries, byRetries.ForJob(none), "a job without a limit changes nothing")
	}
	assert.Equal(t, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}, byRetries.ForJob(3), "one limit remains")
	hot := retry.Policy{MaxAttempts: retry.Unlimited}
	assert.Equal(t, hot, hot.ForJob(3), "the job's limit does not make a hot loop valid")
}

func TestPolicyString(t *testing.T) {
	for _, row := range []struct {
		policy retry.Policy
		want   string
	}{
		{retry.Policy{}, "1 attempt"},
		{retry.Default(), "5 attempts, exponential 200ms x2, at most 5s, ±20%"},
		{retry.Policy{MaxRetries: 3, Backoff: retry.Exponential{Base: 200 * time.Millisecond}, MaxDelay: 5 * time.Second, Jitter: retry.Proportional(.2)},
			"4 attempts, exponential 200ms x2, at most 5s, ±20%"},
		{retry.Policy{MaxAttempts: -1, Backoff: retry.Fixed(time.Second)}, "unlimited attempts, fixed 1s"},
		{retry.Policy{MaxAttempts: -1, AttemptCap: 9, Backoff: retry.Linear(time.Second), Jitter: retry.FullJitter}, "9 attempts, linear 1s, full jitter"},
		{retry.Policy{MaxAttempts: 3, Backoff: retry.Fibonacci(time.Second), Jitter: retry.EqualJitter}, "3 attempts, fibonacci 1s, equal jitter"},
		{retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{time.Second, time.Minute}}, "3 attempts, schedule [1s 1m0s]"},
		{retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second, Factor: 1.5}, Jitter: retry.Proportional(.125)}, "3 attempts, exponential 1s x1.5, ±12.5%"},
		{retry.Policy{MaxAttempts: 3, Backoff: untouchable{}, Jitter: untouchable{}}, "3 attempts, backoff retry_test.untouchable, jitter retry_test.untouchable"},
		{retry.Policy{MaxAttempts: 3, MaxElapsed: time.Minute, AttemptTimeout: time.Second, MaxRetryAfter: time.Hour}, "3 attempts, within 1m0s, 1s for each, Retry-After at most 1h0m0s"},
		{retry.Policy{MaxAttempts: 3, HealthyAfter: time.Minute, ExactRetryAfter: true}, "3 attempts, healthy after 1m0s, Retry-After exactly, at most 1m0s"},
		{retry.Policy{MaxAttempts: 3, MaxDelay: time.Hour, ExactRetryAfter: true}, "3 attempts, at most 1h0m0s, Retry-After exactly, at most 1h0m0s"},
		{retry.Policy{Backoff: retry.Fixed(time.Second), MaxElapsed: time.Minute}, "unlimited attempts, fixed 1s, within 1m0s"},
		{retry.Policy{MaxAttempts: -2}, "invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited"},
	} {
		t.Run(row.want, func(t *testing.T) {
			assert.Equal(t, row.want, row.policy.String())
			assert.Equal(t, row.want, fmt.Sprint(row.policy))
		})
	}
}
