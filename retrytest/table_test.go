package retrytest_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

var (
	errDown = errors.New("connection refused")

	plain = retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}}
	wide  = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: retry.Proportional(0.2), MaxDelay: 1100 * time.Millisecond}

	// In both policies, MaxElapsed is inside the window of the delay, so the draw decides whether a
	// retry follows.
	partly = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: retry.Proportional(0.5), MaxElapsed: time.Second}
	mostly = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: retry.Proportional(0.5), MaxElapsed: 1500*time.Millisecond - 1}
)

func TestTablePasses(t *testing.T) {
	undrawn := wide
	undrawn.Source = func() uint64 { panic("drawn") }
	widest := retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(math.MaxInt64), Jitter: retry.FullJitter}
	var drawn []retrytest.Row // rows for partly, one for each seed
	for seed := uint64(1); seed < 20; seed++ {
		d := partly.Next(retry.Attempt{Number: 1, Seed: seed})
		drawn = append(drawn, retrytest.Row{Attempts: 1, Seed: seed, Eligible: true, Reason: d.Reason, Delay: d.Delay})
	}
	for _, tc := range []struct {
		name   string
		policy retry.Policy
		rows   []retrytest.Row
	}{
		{"no rows", plain, nil},
		{"delays", plain, []retrytest.Row{
			{Attempts: 0, Eligible: true},
			{Attempts: 1, Eligible: true, Delay: time.Second},
			{Attempts: 2, Eligible: true, Delay: 2 * time.Second, Reason: retry.ReasonRetry},
			{Attempts: 3, Eligible: false, Reason: retry.ReasonExhausted},
			{Attempts: 4, Eligible: false},
		}},
		{"a negative number of attempts is treated as 0", plain, []retrytest.Row{{Attempts: math.MinInt, Eligible: true}}},
		{"windows", wide, []retrytest.Row{
			{Attempts: 1, Eligible: true, Lo: 800 * time.Millisecond, Hi: 1100 * time.Millisecond},
			{Attempts: 3, Eligible: false, Lo: 800 * time.Millisecond, Hi: 1100 * time.Millisecond},
		}},
		{"a Seed chooses one delay", wide, []retrytest.Row{
			{Attempts: 1, Eligible: true, Seed: retry.SeedOf("job-17"), Delay: wide.Next(retry.Attempt{Number: 1, Seed: retry.SeedOf("job-17")}).Delay},
		}},
		{"the delay of a stop", plain, []retrytest.Row{{Attempts: 3, Eligible: false, Delay: 4 * time.Second}}},
		{"Retry-After", plain, []retrytest.Row{
			{Attempts: 1, Err: retry.After(30*time.Second, errDown), Eligible: true, Delay: 30 * time.Second},
			{Attempts: 1, Err: retry.After(time.Hour, errDown), Eligible: true, Reason: retry.ReasonRetryAfter, Delay: time.Hour},
		}},
		{"elapsed", retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(time.Second), MaxElapsed: time.Minute}, []retrytest.Row{
			{Attempts: 1, Elapsed: 59 * time.Second, Eligible: true, Delay: time.Second},
			{Attempts: 1, Elapsed: 59*time.Second + 1, Eligible: true, Reason: retry.ReasonElapsed},
		}},
		{"invalid", retry.Policy{MaxAttempts: -2}, []retrytest.Row{
			{Attempts: 0, Eligible: true},
			{Attempts: 1, Eligible: false, Reason: retry.ReasonInvalid},
		}},
		{"reasons that depend on the draw", partly, drawn},
		{"Source is not called", undrawn, []retrytest.Row{{Attempts: 1, Eligible: true, Lo: 800 * time.Millisecond, Hi: 1100 * time.Millisecond}}},
		{"the widest window", widest, []retrytest.Row{
			{Attempts: 1, Eligible: true, Lo: 0, Hi: math.MaxInt64},
			{Attempts: math.MaxInt32, Eligible: true, Lo: 0, Hi: math.MaxInt64},
			{Attempts: math.MaxInt, Eligible: true, Lo: 0, Hi: math.MaxInt64},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := new(recorder)
			retrytest.Table(r, tc.policy, tc.rows)
			assert.Empty(t, r.failures)
		})
	}
}

func TestTableFails(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy retry.Policy
		row    retrytest.Row
		line   string
	}{
		{"not eligible", plain, retrytest.Row{Attempts: 3, Eligible: true},
			"rows[0], after 3 attempts: eligible is false, want true, reason is attempts_exhausted, want retry"},
		{"eligible", plain, retrytest.Row{Attempts: 1, Eligible: false, Delay: time.Second},
			"rows[0], after 1 attempt: eligible is true, want false, reason is retry, want any but retry"},
		{"eligible before the first attempt", plain, retrytest.Row{Attempts: 0, Eligible: false},
			"rows[0], after 0 attempts: eligible is true, want false"},
		{"another reason", plain, retrytest.Row{Attempts: 3, Eligible: false, Reason: retry.ReasonNonRetryable},
			"rows[0], after 3 attempts: reason is attempts_exhausted, want not_retryable"},
		{"stopped by the error", plain, retrytest.Row{Attempts: 1, Err: retry.Permanent(errDown), Eligible: true, Delay: time.Second},
			"rows[0], after 1 attempt and \"connection refused\": reason is permanent_error, want retry"},
		{"another delay", plain, retrytest.Row{Attempts: 2, Eligible: true, Delay: time.Second},
			"rows[0], after 2 attempts: delay is 2s, want 1s"},
		{"one delay for a window", wide, retrytest.Row{Attempts: 1, Eligible: true, Delay: time.Second},
			"rows[0], after 1 attempt: delay is 800ms to 1.1s, want 1s"},
		{"a window too narrow", wide, retrytest.Row{Attempts: 1, Eligible: true, Lo: 800*time.Millisecond + 1, Hi: 1100*time.Millisecond - 1},
			"rows[0], after 1 attempt: delay is 800ms to 1.1s, want 800.000001ms to 1.099999999s"},
		{"a window too wide", wide, retrytest.Row{Attempts: 1, Eligible: true, Lo: 800*time.Millisecond - 1, Hi: 1100*time.Millisecond + 1},
			"rows[0], after 1 attempt: delay is 800ms to 1.1s, want 799.999999ms to 1.100000001s"},
		{"a window for one delay", plain, retrytest.Row{Attempts: 1, Eligible: true, Lo: 0, Hi: time.Second},
			"rows[0], after 1 attempt: delay is 1s, want 0s to 1s"},
		{"both a delay and a window", plain, retrytest.Row{Attempts: 1, Eligible: true, Delay: time.Second, Hi: time.Second},
			"rows[0], after 1 attempt: the row has both Delay and Lo or Hi: write one"},
		{"a reason that depends on the draw", partly, retrytest.Row{Attempts: 1, Eligible: true, Lo: 500 * time.Millisecond, Hi: 1500 * time.Millisecond},
			"rows[0], after 1 attempt: reason is retry or elapsed, depending on the delay that is drawn (set Seed to choose one), want retry"},
		{"a reason that depends on the draw, and is most often a retry", mostly, retrytest.Row{Attempts: 1, Eligible: true, Lo: 500 * time.Millisecond, Hi: 1500 * time.Millisecond},
			"rows[0], after 1 attempt: reason is retry or elapsed, depending on the delay that is drawn (set Seed to choose one), want retry"},
		{"a delay before the first attempt", plain, retrytest.Row{Attempts: 0, Eligible: true, Delay: time.Second},
			"rows[0], after 0 attempts: the row has a reason or a delay, but before the first attempt there is no decision"},
		{"a reason before the first attempt", plain, retrytest.Row{Attempts: 0, Eligible: true, Reason: retry.ReasonRetry},
			"rows[0], after 0 attempts: the row has a reason or a delay, but before the first attempt there is no decision"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fails(t, func(t testing.TB) { retrytest.Table(t, tc.policy, []retrytest.Row{tc.row}) },
				"retrytest: "+tc.policy.String(), tc.line)
		})
	}
}
