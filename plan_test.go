package retry_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func TestPlan(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	p := retry.Default()
	p.MaxDelay = s
	p.AttemptTimeout = 10 * s
	assert.Equal(t, retry.Plan{
		{Attempt: 1, Lo: 160 * ms, Hi: 240 * ms, Total: 10*s + 240*ms},
		{Attempt: 2, Lo: 320 * ms, Hi: 480 * ms, Total: 20*s + 720*ms},
		{Attempt: 3, Lo: 640 * ms, Hi: 960 * ms, Total: 30*s + 1680*ms},
		{Attempt: 4, Lo: 800 * ms, Hi: s, Total: 40*s + 2680*ms},
	}, p.Plan(4))
	assert.Equal(t, p.Plan(4), p.Plan(retry.Unlimited))
	assert.Equal(t, p.Plan(4)[:2], p.Plan(2))
	assert.Equal(t, retry.Schedule{200 * ms, 400 * ms, 800 * ms, s}, p.Delays(4))
}

func TestPlanCounts(t *testing.T) {
	const most = 10_000
	for name, test := range map[string]struct {
		p       retry.Policy
		n, want int
	}{
		"none wanted":            {retry.Policy{MaxAttempts: 5}, 0, 0},
		"fewer than the retries": {retry.Policy{MaxAttempts: 5}, 3, 3},
		"as many as the retries": {retry.Policy{MaxAttempts: 5}, 4, 4},
		"more than the retries":  {retry.Policy{MaxAttempts: 5}, 5, 4},
		"huge":                   {retry.Policy{MaxAttempts: 5}, math.MaxInt, 4},
		"negative":               {retry.Policy{MaxAttempts: 5}, -1, 4},
		"most negative":          {retry.Policy{MaxAttempts: 5}, math.MinInt, 4},
		"invalid by its jitter":  {retry.Policy{MaxAttempts: 5, Jitter: retry.Proportional(2)}, -1, 0},
		"hot":                    {retry.Policy{MaxAttempts: retry.Unlimited}, 9, 0},
		"unlimited":              {retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(1)}, 9, 9},
		"unlimited, all":         {retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(1)}, -1, most},
		"unlimited, huge":        {retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(1)}, math.MaxInt, most},
		"limit that is huge":     {retry.Policy{MaxRetries: math.MaxInt, Backoff: retry.Linear(1)}, -1, most},
		"limit just below":       {retry.Policy{MaxAttempts: most}, -1, most - 1},
		"limit just as many":     {retry.Policy{MaxAttempts: most + 1}, -1, most},
		"limit just above":       {retry.Policy{MaxAttempts: most + 2}, -1, most},
		"limit of a job":         {retry.Policy{MaxAttempts: 9}.ForJob(4), -1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Len(t, test.p.Plan(test.n), test.want)
			assert.Len(t, test.p.Delays(test.n), test.want)
		})
	}
}

// MaxElapsed ends a plan, but not a list of delays: code that uses such a list
// must keep track of the time itself.
func TestPlanMaxElapsed(t *testing.T) {
	const s = time.Second
	p := retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(2 * s), MaxElapsed: 6 * s}
	for name, test := range map[string]struct {
		set    func(*retry.Policy)
		totals []time.Duration
	}{
		"ends at it":                  {func(*retry.Policy) {}, []time.Duration{2 * s, 4 * s, 6 * s}},
		"just below":                  {func(p *retry.Policy) { p.MaxElapsed = 6*s - 1 }, []time.Duration{2 * s, 4 * s}},
		"the shortest delays count":   {func(p *retry.Policy) { p.Jitter = retry.EqualJitter }, []time.Duration{2 * s, 4 * s, 6 * s, 6 * s, 6 * s, 6 * s}},
		"delays from 0 on":            {func(p *retry.Policy) { p.Jitter, p.MaxAttempts = retry.FullJitter, 5 }, []time.Duration{2 * s, 4 * s, 6 * s, 6 * s}},
		"attempts may be quick":       {func(p *retry.Policy) { p.AttemptTimeout = 3 * s }, []time.Duration{5 * s, 6 * s, 6 * s}},
		"shorter than the first wait": {func(p *retry.Policy) { p.MaxElapsed = s }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := p
			test.set(&p)
			var totals []time.Duration
			for _, step := range p.Plan(retry.Unlimited) {
				totals = append(totals, step.Total)
			}
			assert.Equal(t, test.totals, totals)
			assert.Len(t, p.Delays(retry.Unlimited), p.MaxAttempts-1)
		})
	}
}

func TestPlanOfExtremes(t *testing.T) {
	p := retry.Policy{MaxAttempts: 2, Backoff: negative{}, Jitter: fixedWindow{7, -3}, MaxDelay: 5}
	assert.Equal(t, retry.Plan{{Attempt: 1, Lo: 0, Hi: 5, Total: 5}}, p.Plan(1))
	assert.Equal(t, retry.Schedule{0}, p.Delays(1))
	p.Jitter = fixedWindow{7, 9}
	assert.Equal(t, retry.Plan{{Attempt: 1, Lo: 3, Hi: 5, Total: 5}}, p.Plan(1))
	p = retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(math.MaxInt64 - 1), AttemptTimeout: math.MaxInt64 - 1}
	assert.Equal(t, time.Duration(math.MaxInt64), p.Plan(1)[0].Total, "it saturates")
}

// Making a plan draws nothing, calls no function of the policy and takes
// nothing from its Budget.
func TestPlanAsksNobody(t *testing.T) {
	p := retry.Default()
	p.Source = func() uint64 { panic("the Source was called") }
	p.RetryIf = func(error) bool { panic("RetryIf was called") }
	p.Classify = func(error) *retry.Class { panic("Classify was called") }
	p.Wait = func(context.Context, time.Duration) (time.Duration, error) { panic("Wait was called") }
	p.OnEvent = func(context.Context, retry.Event) { panic("OnEvent was called") }
	p.Budget = &retry.Budget{Size: 1}
	require.NotPanics(t, func() { p.Plan(4); p.Delays(4) })
	assert.True(t, p.Budget.Take())
	assert.Equal(t, retry.Default().Plan(4), p.Plan(4))
}

func TestPlanString(t *testing.T) {
	assert.Equal(t, "no retry", retry.Plan(nil).String())
	assert.Equal(t, "no retry", retry.Policy{}.Plan(3).String())
	assert.Equal(t, ""+
		"after attempt   wait                total at most\n"+
		"9               999ns to 1.235ms    1m40s\n"+
		"10              1h                  1h0m0.001s\n"+
		"11              10m                 24h0m1s\n"+
		"12              10m10s to 1h1m30s   1h20m\n"+
		"13              0s                  292 years", retry.Plan{
		{9, 999, 1_234_567, 100 * time.Second},
		{10, time.Hour, time.Hour, time.Hour + 1_499_999},
		{11, 10 * time.Minute, 10 * time.Minute, 24*time.Hour + 999_999_999},
		{12, 610 * time.Second, 3690 * time.Second, 80 * time.Minute},
		{13, 0, 0, math.MaxInt64},
	}.String())
}

// The plan is what happens: without jitter, each retry starts at the latest time
// that the plan has for it.
func TestPlanIsWhatHappens(t *testing.T) {
	p := retry.Policy{
		MaxAttempts: 6, Backoff: retry.Fibonacci(time.Second), MaxDelay: 4 * time.Second, Jitter: retry.Proportional(0),
		AttemptTimeout: 10 * time.Second, MaxElapsed: time.Minute,
	}
	synctest.Test(t, func(t *testing.T) {
		start, starts := time.Now(), []time.Duration(nil)
		err := retry.Do(t.Context(), p, func(ctx context.Context) error {
			starts = append(starts, time.Since(start))
			<-ctx.Done()
			return ctx.Err()
		})
		// The sixth attempt would start at 50s + 1s + 1s + 2s + 3s + 4s, which is later
		// than MaxElapsed allows.
		require.Equal(t, retry.ReasonElapsed, retry.ReasonOf(err))
		totals := []time.Duration{0}
		for _, step := range p.Plan(4) {
			totals = append(totals, step.Total)
		}
		assert.Equal(t, totals, starts)
	})
}

// Next draws every delay from the window of its step, and stops where the plan
// ends.
func FuzzPlan(f *testing.F) {
	f.Add(5, 0, 0, uint8(4), int64(200*time.Millisecond), 2.0, int64(5*time.Second), uint8(3), 0.2, uint64(1))
	f.Add(-1, 0, 0, uint8(2), int64(time.Second), 2.0, int64(time.Minute), uint8(1), 0.2, uint64(2))
	f.Add(0, math.MaxInt, 70, uint8(4), int64(math.MaxInt64), 1e300, int64(0), uint8(2), 0.2, uint64(3))
	f.Add(3, 3, 3, uint8(5), int64(-1), 0.5, int64(-1), uint8(4), math.NaN(), uint64(4))
	f.Add(9, 0, 0, uint8(6), int64(0), 1.0, int64(7), uint8(0), 0.0, uint64(5))
	f.Fuzz(func(t *testing.T, attempts, retries, ceiling int, kind uint8, base int64, factor float64, rest int64, jitter uint8, share float64, seed uint64) {
		p := policyFrom(attempts, retries, ceiling, false, kind, base, factor, rest, jitter, share)
		seed = max(1, seed)
		plan := p.Plan(50)
		if p.Validate() != nil {
			require.Empty(t, plan)
			require.Empty(t, p.Delays(50))
			return
		}
		var before time.Duration
		for i, step := range plan {
			require.Equal(t, i+1, step.Attempt)
			require.True(t, 0 <= step.Lo && step.Lo <= step.Hi, "%+v", step)
			require.True(t, p.MaxDelay == 0 || step.Hi <= p.MaxDelay, "%+v", step)
			require.True(t, step.Total >= before && (p.MaxElapsed == 0 || step.Total <= p.MaxElapsed), "%+v", step)
			d := p.Next(retry.Attempt{Number: step.Attempt, Seed: seed + uint64(i)})
			require.True(t, step.Lo == d.Lo && step.Hi == d.Hi && step.Lo <= d.Delay && d.Delay <= step.Hi, "%+v %+v", step, d)
			before = step.Total
		}

		flat := p
		flat.Jitter = nil
		delays := p.Delays(50)
		require.GreaterOrEqual(t, len(delays), len(plan))
		for i, d := range delays {
			require.Equal(t, flat.Next(retry.Attempt{Number: i + 1}).Delay, d)
		}

		// Without jitter the quickest run is the only one.
		quick := time.Duration(0)
		for number := 1; number <= 50; number++ {
			d := flat.Next(retry.Attempt{Number: number, Elapsed: quick})
			require.Equal(t, number <= len(flat.Plan(50)), d.Retry(), "%d: %+v", number, d)
			if !d.Retry() {
				break
			}
			quick += d.Delay
		}
	})
}
