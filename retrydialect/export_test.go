package retrydialect_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
	"github.com/goretry/retry/retrytest"
)

const century = 100 * 365 * 24 * time.Hour

// forGRPC and forTemporal are policies that the targets can express, from which
// the rows depart.
func forGRPC() retry.Policy {
	return retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: 100 * time.Millisecond, Factor: 1.5}, Jitter: retry.Proportional(0.2)}
}

func forTemporal() retry.Policy {
	return retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: time.Minute}
}

func toGRPC(p retry.Policy) (string, error) {
	return retrydialect.ToGRPC(p, "pkg.Service", "UNAVAILABLE")
}

type foreignJitter struct{}

func (foreignJitter) Window(d time.Duration) (lo, hi time.Duration) { return d, d }

// Each row changes a policy that both targets can express. A target without a
// fault can express it still.
func TestRefusals(t *testing.T) {
	const (
		attempts = "MaxAttempts (max_attempts) is "
		one      = attempts + "1 in effect: write 2 to 5 (without a retryPolicy gRPC makes one attempt)"
		six      = attempts + "6 in effect: write 2 to 5 (gRPC clients cut it to 5)"
		noDelay  = "Backoff (backoff) is no delay: write a Fixed (fixed) or an Exponential (exponential) of at least 1ns"
		curve    = ": write a Fixed (fixed) or an Exponential (exponential)"
		share    = ": write Proportional(0.2) (0.2), which is what gRPC draws"
		none     = ": write nil (0), because Temporal has none"
		reach    = ": write 0s, or at least 270ms, which the delays reach: gRPC draws up to 20 % above its maxBackoff"
		short    = "Backoff (backoff) is from "
		least    = " on without a limit: write delays of at least 10ms, as the policy waits without a limit"
		cuts     = ": write at most 876000h0m0s, 100 years, where Temporal cuts (the delays reach "
	)
	both := func(text string) [2]string { return [2]string{text, text} }
	grpc := func(text string) [2]string { return [2]string{text, ""} }
	jitter := func(text string) [2]string {
		return [2]string{"Jitter (jitter) is " + text + share, "Jitter (jitter) is " + text + none}
	}
	because := func(text, grpc, temporal string) [2]string {
		return [2]string{text + " (" + grpc + ")", text + " (" + temporal + ")"}
	}
	for _, row := range []struct {
		name   string
		change func(*retry.Policy)
		faults [2]string // of ToGRPC and of ToTemporal
	}{
		{"no limit", func(p *retry.Policy) { p.MaxAttempts = 0 }, grpc(one)},
		{"one attempt", func(p *retry.Policy) { p.MaxAttempts = 1 }, grpc(one)},
		{"NonRetryable", func(p *retry.Policy) { p.NonRetryable = true }, grpc(one)},
		{"six attempts", func(p *retry.Policy) { p.MaxAttempts = 6 }, grpc(six)},
		{"unlimited", func(p *retry.Policy) { p.MaxAttempts = retry.Unlimited }, grpc(attempts + "unlimited in effect: write 2 to 5")},
		{"no backoff", func(p *retry.Policy) { p.Backoff = nil }, both(noDelay)},
		{"no first delay", func(p *retry.Policy) { p.Backoff = retry.Exponential{} }, both(noDelay)},
		{"Schedule", func(p *retry.Policy) { p.Backoff = retry.Schedule{time.Second} }, both("Backoff (backoff) is a retry.Schedule" + curve)},
		{"centuries", func(p *retry.Policy) { p.Backoff = retry.Fixed(244 * 365 * 24 * time.Hour) },
			grpc("Backoff (backoff) is as long as 2137440h0m0s before the jitter: write a curve whose delays stay below 243 years")},
		{"no jitter", func(p *retry.Policy) { p.Jitter = nil }, grpc("Jitter (jitter) is none" + share)},
		{"the jitter of gRPC", func(p *retry.Policy) { p.Jitter = retry.Proportional(0.2) }, [2]string{"", "Jitter (jitter) is 0.2" + none}},
		{"another share", func(p *retry.Policy) { p.Jitter = retry.Proportional(0.1) }, jitter("0.1")},
		{"equal jitter", func(p *retry.Policy) { p.Jitter = retry.EqualJitter }, jitter("equal")},
		{"a custom jitter", func(p *retry.Policy) { p.Jitter = foreignJitter{} }, jitter("a retrydialect_test.foreignJitter")},
		{"the longest delay just reaches MaxDelay", func(p *retry.Policy) { p.MaxDelay = 270 * time.Millisecond }, both("")},
		{"a nanosecond less", func(p *retry.Policy) { p.MaxDelay = 270*time.Millisecond - 1 }, grpc("MaxDelay (max_delay) is 269.999999ms" + reach)},
		{"unlimited and short", func(p *retry.Policy) { p.MaxAttempts, p.Backoff = retry.Unlimited, retry.Fixed(10*time.Millisecond-1) }, [2]string{
			attempts + "unlimited in effect: write 2 to 5; " + short + "9.999999ms" + least, short + "9.999999ms" + least}},
		{"... and not", func(p *retry.Policy) { p.MaxAttempts, p.Backoff = retry.Unlimited, retry.Fixed(10*time.Millisecond) },
			grpc(attempts + "unlimited in effect: write 2 to 5")},
		{"unlimited and short by its cap", func(p *retry.Policy) { p.MaxAttempts, p.MaxDelay = retry.Unlimited, 10*time.Millisecond-1 }, [2]string{
			attempts + "unlimited in effect: write 2 to 5; " + short + "100ms" + least, short + "1s" + least}},
		{"short, but limited", func(p *retry.Policy) { p.Backoff = retry.Fixed(1) }, both("")},
		{"a jitter of nothing", func(p *retry.Policy) { p.Jitter = retry.Proportional(0) }, grpc("Jitter (jitter) is 0" + share)},
		{"the most that Temporal counts", func(p *retry.Policy) { p.MaxAttempts = math.MaxInt32 }, grpc(attempts + "2147483647 in effect: write 2 to 5 (gRPC clients cut it to 5)")},
		{"growing without a cap", func(p *retry.Policy) { p.MaxAttempts, p.MaxDelay = retry.Unlimited, 0 },
			[2]string{attempts + "unlimited in effect: write 2 to 5", "MaxDelay (max_delay) is 0s" + cuts + "2562047h47m16.854775807s)"}},
		{"a cap above 100 years that is reached", func(p *retry.Policy) { p.MaxAttempts, p.MaxDelay = 100, century+1 },
			[2]string{attempts + "100 in effect: write 2 to 5 (gRPC clients cut it to 5)",
				"MaxDelay (max_delay) is 876000h0m0.000000001s" + cuts + "876000h0m0.000000001s)"}},
		{"... and one that is not", func(p *retry.Policy) { p.MaxDelay = century + 1 }, both("")},
		{"RetryAfter", func(p *retry.Policy) { p.RetryAfter = retry.RetryAfterExact }, because("RetryAfter (retry_after) is exact: write spread",
			"gRPC always waits for a pushback, and starts its curve again", "Temporal always waits for a NextRetryDelay, however short")},
		{"MaxRetryAfter", func(p *retry.Policy) { p.MaxRetryAfter = time.Second }, because("MaxRetryAfter (max_retry_after) is 1s: write 0s",
			"gRPC waits for a pushback of any length", "Temporal waits for a NextRetryDelay of any length")},
		{"MaxElapsed", func(p *retry.Policy) { p.MaxElapsed = time.Minute }, because("MaxElapsed (max_elapsed) is 1m0s: write 0s",
			"gRPC has no such bound; a deadline of the context is one", "ScheduleToCloseTimeout is the nearest, and ends a running attempt too")},
		{"AttemptTimeout", func(p *retry.Policy) { p.AttemptTimeout = time.Second }, because("AttemptTimeout (attempt_timeout) is 1s: write 0s",
			"the timeout of a service config bounds all attempts together", "set StartToCloseTimeout")},
		{"HealthyAfter", func(p *retry.Policy) { p.HealthyAfter = time.Minute }, because("HealthyAfter (healthy_after) is 1m0s: write 0s",
			"gRPC never counts a call anew", "Temporal never counts an activity anew; return from one that lives long, and start another")},
		{"RetryIf", func(p *retry.Policy) { p.RetryIf = func(error) bool { return true } }, because("RetryIf is set: write nil",
			"gRPC decides by the code alone", "return a non-retryable ApplicationError")},
		{"Classify", func(p *retry.Policy) { p.Classify = func(error) *retry.Class { return nil } }, because("Classify is set: write nil",
			"gRPC has one policy for all codes", "Temporal has one policy for all errors")},
		{"Budget", func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 10, Ratio: 0.1} }, because("Budget is set: write nil",
			"gRPC's retryThrottling counts failures, not retries", "Temporal has none")},
		{"OnEvent", func(p *retry.Policy) { p.OnEvent = func(context.Context, retry.Event) {} }, because("OnEvent is set: write nil",
			"gRPC reports no retries", "the server reports no retries to the worker")},
		{"an invalid limit", func(p *retry.Policy) { p.MaxAttempts = -2 }, both("invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited")},
		{"several at once", func(p *retry.Policy) {
			p.MaxElapsed, p.Jitter, p.MaxDelay = time.Minute, retry.FullJitter, time.Millisecond
		}, [2]string{
			"MaxElapsed (max_elapsed) is 1m0s: write 0s (gRPC has no such bound; a deadline of the context is one); " +
				"Jitter (jitter) is full" + share + "; MaxDelay (max_delay) is 1ms" + reach,
			"MaxElapsed (max_elapsed) is 1m0s: write 0s (ScheduleToCloseTimeout is the nearest, and ends a running attempt too); " +
				"Jitter (jitter) is full" + none}},
	} {
		p := forGRPC()
		row.change(&p)
		config, err := toGRPC(p)
		assertFault(t, "gRPC service config: ", row.faults[0], err, row.name)
		assert.Equal(t, err != nil, config == "", row.name)

		p = forTemporal()
		row.change(&p)
		exported, err := retrydialect.ToTemporal(p)
		assertFault(t, "Temporal: ", row.faults[1], err, row.name)
		assert.Equal(t, err != nil, exported == retrydialect.Temporal{}, row.name)
	}
}

func assertFault(t *testing.T, of, want string, err error, name string) {
	t.Helper()
	if want == "" {
		assert.NoError(t, err, name)
	} else {
		assert.EqualError(t, err, "retrydialect: "+of+want, name)
	}
}

// A Source and a Wait say nothing about the delays, so a policy of a test exports
// as that of the program.
func TestExportsUnderNoWait(t *testing.T) {
	exports := func(p retry.Policy) []any {
		config, refused := toGRPC(p)
		exported, err := retrydialect.ToTemporal(p)
		return []any{config, refused, exported, err}
	}
	for _, p := range []retry.Policy{forGRPC(), forTemporal()} {
		test := p
		test.Source = func() uint64 { return 1 }
		assert.Equal(t, exports(p), exports(retrytest.NoWait(test)))
	}
}

// near reports whether d is f nanoseconds, to the granularity that ToGRPC and
// ToTemporal document: a few nanoseconds, and one part in 2^50.
func near(d time.Duration, f, nanoseconds float64) bool {
	return math.Abs(float64(d)-f) <= nanoseconds+f/(1<<50)
}

// drawn returns a policy with a limit of one of these numbers, and with delays from 1ns to
// 100 years, short ones as often as long ones. A cap is seldom far from the delays.
func drawn(r *rand.Rand, jitter retry.Jitter, limits ...int) retry.Policy {
	base := time.Duration(math.Exp(r.Float64() * math.Log(float64(century))))
	p := retry.Policy{MaxAttempts: pick(r, limits...), Backoff: retry.Fixed(base), Jitter: jitter}
	if r.IntN(4) > 0 {
		p.Backoff = retry.Exponential{Base: base, Factor: pick(r, 0, 1, math.Nextafter(1, 2), 1.1, 1.5, 2, 3, 10, 1+9*r.Float64())}
	}
	if plan := p.Plan(10); len(plan) > 0 {
		longest := plan[len(plan)-1].Hi
		p.MaxDelay = pick(r, 0, base, longest, min(century, 2*(longest/2)), min(century, longest/2*3))
	}
	return p
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
