package retry_test

import (
	"context"
	"math"
	"testing"
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
		{Lo: 100 * ms, Hi: 300 * ms, Total: 10*s + 300*ms},
		{Lo: 200 * ms, Hi: 600 * ms, Total: 20*s + 900*ms},
		{Lo: 400 * ms, Hi: s, Total: 30*s + 1900*ms},
		{Lo: 500 * ms, Hi: s, Total: 40*s + 2900*ms},
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
		"invalid by its jitter":  {retry.Policy{MaxAttempts: 5, Jitter: retry.Proportional(2)}, -1, 0},
		"without a delay":        {retry.Policy{MaxAttempts: retry.Unlimited}, 9, 9},
		"unlimited":              {retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(1)}, 9, 9},
		"unlimited, all":         {retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(1)}, -1, most},
		"a huge limit":           {retry.Policy{MaxRetries: math.MaxInt, Backoff: retry.Linear(1)}, -1, most},
		"limit just below":       {retry.Policy{MaxAttempts: most}, -1, most - 1},
		"limit just reached":     {retry.Policy{MaxAttempts: most + 1}, -1, most},
		"limit just above":       {retry.Policy{MaxAttempts: most + 2}, -1, most},
		"limit of a job":         {retry.Policy{MaxAttempts: 9}.ForJob(4), -1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Len(t, test.p.Plan(test.n), test.want)
			assert.Len(t, test.p.Delays(test.n), test.want)
		})
	}
}

// A Plan ends at MaxElapsed. The list that Delays returns does not end there, so code that uses
// this list must check the time itself.
func TestPlanMaxElapsed(t *testing.T) {
	const s = time.Second
	p := retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(2 * s), MaxElapsed: 6 * s}
	for name, test := range map[string]struct {
		set    func(*retry.Policy)
		totals []time.Duration
	}{
		"the last retry at MaxElapsed": {func(*retry.Policy) {}, []time.Duration{2 * s, 4 * s, 6 * s}},
		"just below":                   {func(p *retry.Policy) { p.MaxElapsed = 6*s - 1 }, []time.Duration{2 * s, 4 * s}},
		"the shortest delays count":    {func(p *retry.Policy) { p.Jitter = retry.EqualJitter }, []time.Duration{2 * s, 4 * s, 6 * s, 6 * s, 6 * s, 6 * s}},
		"delays may be 0":              {func(p *retry.Policy) { p.Jitter, p.MaxAttempts = retry.FullJitter, 5 }, []time.Duration{2 * s, 4 * s, 6 * s, 6 * s}},
		"attempts may be quick":        {func(p *retry.Policy) { p.AttemptTimeout = 3 * s }, []time.Duration{5 * s, 6 * s, 6 * s}},
		"shorter than the first wait":  {func(p *retry.Policy) { p.MaxElapsed = s }, nil},
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
	assert.Equal(t, retry.Plan{{Lo: 0, Hi: 5, Total: 5}}, p.Plan(1))
	assert.Equal(t, retry.Schedule{0}, p.Delays(1))
	p.Jitter = fixedWindow{7, 9}
	assert.Equal(t, retry.Plan{{Lo: 3, Hi: 5, Total: 5}}, p.Plan(1))
	p = retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(math.MaxInt64 - 1), AttemptTimeout: math.MaxInt64 - 1}
	assert.Equal(t, time.Duration(math.MaxInt64), p.Plan(1)[0].Total, "it saturates")
}

// Plan and Delays draw no seed, call no function of the policy and take nothing from its Budget.
func TestPlanIgnoresWhatOnlyACallKnows(t *testing.T) {
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
		"1               999ns to 1.235ms    1m40s\n"+
		"2               1h                  1h0m0.001s\n"+
		"3               10m                 24h0m1s\n"+
		"4               10m10s to 1h1m30s   1h20m\n"+
		"5               0s                  292 years", retry.Plan{
		{999, 1_234_567, 100 * time.Second},
		{time.Hour, time.Hour, time.Hour + 1_499_999},
		{10 * time.Minute, 10 * time.Minute, 24*time.Hour + 999_999_999},
		{610 * time.Second, 3690 * time.Second, 80 * time.Minute},
		{0, 0, math.MaxInt64},
	}.String())
}
