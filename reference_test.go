package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// This file contains a second implementation of the decision. It follows the documentation in the
// slowest and most obvious way. Its durations are so short that no sum overflows.

const forever = 1_000_000 // the value for Unlimited, above every other limit

// slowLimit collects every limit that is set, and takes the smallest.
func slowLimit(p retry.Policy) int {
	var set []int
	for _, n := range []int{p.MaxAttempts, p.MaxRetries} {
		if n == retry.Unlimited {
			set = append(set, forever)
		}
	}
	if p.MaxAttempts > 0 {
		set = append(set, p.MaxAttempts)
	}
	if p.MaxRetries > 0 {
		set = append(set, p.MaxRetries+1)
	}
	if p.MaxElapsed > 0 {
		set = append(set, forever)
	}
	if len(set) == 0 || p.NonRetryable {
		set = append(set, 1)
	}
	if p.AttemptCap > 0 {
		set = append(set, p.AttemptCap)
	}
	return slices.Min(set)
}

func slowJitter(j retry.Jitter, d time.Duration) (lo, hi time.Duration) {
	switch j := j.(type) {
	case retry.Spread:
		if j == retry.FullJitter {
			return 0, d
		}
		return d / 2, d
	case retry.Proportional:
		w := min(d, time.Duration(float64(d)*float64(j)))
		return d - w, d + w
	default:
		return d, d
	}
}

// slowWindow returns the window after the nth failure, in a call with this limit.
func slowWindow(p retry.Policy, nth, limit int, asked time.Duration) (lo, hi time.Duration) {
	const least = 10 * time.Millisecond
	if p.RetryAfter == retry.RetryAfterExact && asked > 0 {
		return max(least, asked), max(least, asked)
	}
	longest := p.MaxDelay
	if longest == 0 {
		longest = time.Duration(1<<63 - 1)
	}
	var curve time.Duration
	if p.Backoff != nil {
		curve = min(p.Backoff.Delay(nth), longest)
	}
	lo, hi = slowJitter(p.Jitter, curve)
	if lo >= longest && hi > longest {
		lo = max(0, longest-(hi-lo))
	}
	hi = min(hi, longest)
	from, to := slowJitter(p.Jitter, asked)
	switch {
	case p.RetryAfter == retry.RetryAfterAtLeast && asked >= hi:
		lo, hi = asked, asked
	case p.RetryAfter == retry.RetryAfterSpread && asked > lo:
		lo, hi = asked, max(hi, asked+min(to-from, longest))
	}
	if limit == forever && hi < least {
		return least, least
	}
	return lo, hi
}

// slowDecide returns the decision after a failure. `number` counts all failures, and `of` counts
// the failures of the same class.
func slowDecide(p retry.Policy, c *retry.Class, number, of int, asked time.Duration, seed uint64, elapsed, left time.Duration) (d retry.Decision) {
	limit, q, nth := slowLimit(p), p, number
	d.Number, d.RetryAfter = number, asked
	if c != nil {
		d.Class = c.Name
		if c.Backoff != nil {
			q.Backoff, nth = c.Backoff, of
		}
		if c.MaxDelay != 0 {
			q.MaxDelay = c.MaxDelay
		}
		if c.Jitter != nil {
			q.Jitter = c.Jitter
		}
	}
	longest := p.MaxRetryAfter
	if longest == 0 {
		longest = max(time.Minute, p.MaxDelay)
	}
	switch {
	case p.NonRetryable, c != nil && c.NonRetryable:
		d.Reason = retry.ReasonNonRetryable
	case number >= limit, c != nil && c.MaxAttempts > 0 && of >= c.MaxAttempts:
		d.Reason = retry.ReasonExhausted
	case asked > longest:
		d.Reason, d.Delay, d.Lo, d.Hi = retry.ReasonRetryAfter, asked, asked, asked
		return d
	default:
		d.Reason = retry.ReasonRetry
	}
	d.Lo, d.Hi = slowWindow(q, nth, limit, asked)
	if asked > 1 && d.Lo == asked {
		left := left
		if p.MaxElapsed > 0 && p.MaxElapsed-elapsed < left {
			left = p.MaxElapsed - elapsed
		}
		if d.Lo <= left {
			d.Hi = min(d.Hi, d.Lo+(left-d.Lo)/2)
		}
	}
	if d.Lo != d.Hi {
		d.Seed = seed
	}
	if d.Delay = retry.Draw(seed, number, d.Lo, d.Hi); p.RetryAfter == retry.RetryAfterAtLeast && d.Delay < asked {
		d.Delay, d.Lo, d.Hi = asked, asked, asked
	}
	switch {
	case d.Reason == retry.ReasonRetry && p.MaxElapsed > 0 && elapsed+d.Delay > p.MaxElapsed:
		d.Reason = retry.ReasonElapsed
	case d.Reason == retry.ReasonRetry && d.Hi != 0 && left <= d.Delay:
		d.Reason = retry.ReasonDeadline
	}
	return d
}

// A chooser draws policies, classes and failures of every kind.
type chooser struct{ *rand.Rand }

func (r chooser) oneIn(n int) bool     { return r.IntN(n) == 0 }
func (r chooser) number(of ...int) int { return of[r.IntN(len(of))] }
func (r chooser) some(n int) time.Duration {
	if !r.oneIn(n) {
		return 0
	}
	return time.Duration(r.Int64N(int64([]time.Duration{20 * time.Millisecond, 5 * time.Second, 3 * time.Minute}[r.IntN(3)])))
}

func (r chooser) backoff() retry.Backoff {
	d := r.some(1)
	return []retry.Backoff{nil, retry.Fixed(d), retry.Linear(d), retry.Exponential{Base: d}, retry.Schedule{d, 0, d / 2}, retry.Fixed(0)}[r.IntN(6)]
}

func (r chooser) jitter() retry.Jitter {
	return []retry.Jitter{nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(r.Float64()), retry.Proportional(0)}[r.IntN(5)]
}

func (r chooser) policy() retry.Policy {
	return retry.Policy{
		MaxAttempts: r.number(0, 0, -1, 1, 2, 3, 5, 8), MaxRetries: r.number(0, 0, 0, -1, 1, 4), AttemptCap: r.number(0, 0, 0, 2, 4), NonRetryable: r.oneIn(20),
		Backoff: r.backoff(), MaxDelay: r.some(2), Jitter: r.jitter(), MaxElapsed: r.some(4), MaxRetryAfter: r.some(4),
		RetryAfter: []retry.RetryAfterMode{retry.RetryAfterSpread, retry.RetryAfterAtLeast, retry.RetryAfterExact}[r.IntN(3)],
	}
}

func (r chooser) class() *retry.Class {
	if r.oneIn(4) {
		return nil
	}
	return &retry.Class{
		Name: []string{"", "a", "b"}[r.IntN(3)], MaxAttempts: r.number(0, 0, 1, 2, 3), NonRetryable: r.oneIn(10),
		Backoff: r.backoff(), MaxDelay: r.some(3), Jitter: r.jitter(),
	}
}

// A failureOf is a failure with a class and with the wait that a server asks for.
type failureOf struct {
	class *retry.Class
	asked time.Duration
}

func (failureOf) Error() string               { return "a failure" }
func (f failureOf) RetryAfter() time.Duration { return f.asked }

func classOf(err error) *retry.Class {
	var f failureOf
	errors.As(err, &f)
	return f.class
}

func TestNextDecidesAsTheDocumentsSay(t *testing.T) {
	r := chooser{rand.New(rand.NewPCG(4, 1))}
	reasons := map[retry.Reason]int{}
	for range rounds(20_000, 2_000_000) {
		p, f := r.policy(), failureOf{r.class(), r.some(3)}
		p.Classify = classOf
		a := retry.Attempt{Number: 1 + r.IntN(9), Err: f, Elapsed: r.some(2), Seed: r.Uint64() | 1}
		of := a.Number
		if f.class != nil && f.class.Name != "" {
			a.Classes = map[string]int{f.class.Name: r.IntN(a.Number), "other": 3}
			of = a.Classes[f.class.Name] + 1
		}
		want := slowDecide(p, f.class, a.Number, of, f.asked, a.Seed, a.Elapsed, 1<<63-1)
		got := p.Next(a)
		if p.RetryAfter == retry.RetryAfterAtLeast && want.Delay == f.asked {
			got.Seed = want.Seed // the delay was drawn before it was raised
		}
		if got != want {
			require.Equal(t, want, got, "%+v of %+v after %+v", p, f.class, a)
		}
		limit := slowLimit(p)
		reasons[want.Reason]++
		for n := range 10 {
			require.Equal(t, n == 0 || n < limit, p.Eligible(n), "%+v", p)
			if own := slowLimit(p.ForJob(n)); n > 0 {
				require.LessOrEqual(t, own, max(limit, n), "%+v", p)
			}
		}
		if limit == forever {
			limit = retry.Unlimited
		}
		require.Equal(t, limit, p.EffectiveMax(), "%+v", p)
	}
	for _, reason := range []retry.Reason{retry.ReasonRetry, retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonRetryAfter, retry.ReasonElapsed} {
		assert.Greater(t, reasons[reason], rounds(100, 100), reason)
	}
}

// After each failure, Do makes the same decision as slowDecide, and waits for the delay of this
// decision. So does a queue that calls Once.
func TestCallsDecideAsTheDocumentsSay(t *testing.T) {
	r := chooser{rand.New(rand.NewPCG(4, 2))}
	reasons := map[retry.Reason]int{}
	for range rounds(2_000, 200_000) {
		synctest.Test(t, func(t *testing.T) {
			p, seed := r.policy(), r.Uint64()|1
			script, takes := make([]failureOf, 1+r.IntN(9)), r.some(2)
			for i := range script {
				script[i] = failureOf{r.class(), r.some(3)}
			}
			ctx, left := t.Context(), time.Duration(1<<63-1)
			if r.oneIn(3) {
				left = time.Duration(r.Int64N(int64(time.Minute))) + time.Second
				ctx = within(ctx, left, nil)
			}
			p.Budget = &retry.Budget{Size: 1 + r.IntN(6)}
			p.Classify, p.Source = classOf, constant(seed)

			var want []retry.Decision
			size, counts, elapsed, success := p.Budget.Size, map[string]int{}, time.Duration(0), false
			for i, f := range script {
				of := i + 1
				if f.class != nil && f.class.Name != "" {
					counts[f.class.Name]++
					of = counts[f.class.Name]
				}
				elapsed += takes
				d := slowDecide(p, f.class, i+1, of, f.asked, seed, elapsed, left-elapsed)
				switch {
				case elapsed >= left:
					d.Reason = retry.ReasonDeadline
				case d.Reason == retry.ReasonRetry && len(want) == size:
					d.Reason = retry.ReasonBudget
				}
				want = append(want, d)
				if d.Reason != retry.ReasonRetry {
					break
				}
				elapsed += d.Delay
				success = i == len(script)-1
			}

			attempts := 0
			fn := func(context.Context) error {
				time.Sleep(takes)
				if attempts++; attempts > len(script) {
					return nil
				}
				return script[attempts-1]
			}
			var told watch
			p.OnEvent = told.event
			err := retry.Do(ctx, p, fn)
			var got []time.Duration
			for _, e := range told.of(retry.RetryScheduled) {
				got = append(got, e.Delay)
			}
			var delays []time.Duration
			for _, d := range want {
				if d.Reason == retry.ReasonRetry {
					delays = append(delays, d.Delay)
				}
			}
			says := fmt.Sprintf("%+v: %+v: %v", p, script, err)
			require.Equal(t, delays, got, says)
			require.Equal(t, size-len(delays), p.Budget.Left(), says)
			reason := want[len(want)-1].Reason
			if success && (takes == 0 || elapsed+takes < left || retry.ReasonOf(err) == retry.ReasonSuccess) {
				reason = retry.ReasonSuccess
			}
			require.Equal(t, reason, retry.ReasonOf(err), says)
			reasons[reason]++
			if left < 1<<62 {
				return // a queue has no deadline
			}

			attempts = 0
			p.Budget = &retry.Budget{Size: size}
			began, stored := time.Now(), map[string]int{}
			for i, d := range want {
				got, _ := retry.Once(ctx, p, retry.Attempt{Number: i + 1, Classes: stored, Seed: seed, Elapsed: time.Since(began)}, fn)
				require.Equal(t, []any{d.Reason, d.Delay, d.Class}, []any{got.Reason, got.Delay, got.Class}, says)
				stored[got.Class]++
				time.Sleep(got.Delay)
			}
		})
	}
	for _, reason := range []retry.Reason{
		retry.ReasonSuccess, retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonRetryAfter, retry.ReasonElapsed, retry.ReasonDeadline, retry.ReasonBudget,
	} {
		assert.Greater(t, reasons[reason], rounds(10, 10), reason)
	}
}
