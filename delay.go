package retry

import (
	"cmp"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// leastWait is the shortest wait under RetryAfterExact. It is also the wait of a call whose
// attempts may be unlimited (see the method `endless`), if even the longest delay that jitter may
// give is shorter than leastWait. Waits of 1ns would allow 1.5 million attempts a second, because
// then only the overhead of a timer and of an attempt slows the call down.
const leastWait = 10 * time.Millisecond

// saidZero is the duration that retryhttp passes for a Retry-After of zero. It cannot pass the
// duration 0, which means that there is no Retry-After.
const saidZero = time.Nanosecond

// The method `window` returns the shortest and the longest delay after an attempt. The delay of the
// curve is cut at MaxDelay. The jitter widens the delay to a window, which is cut at MaxDelay too.
// A Retry-After may move the start of the window: p.RetryAfter says how. If the attempts of p may
// be unlimited, a window that ends below leastWait becomes a wait of leastWait.
func (p *Policy) window(attempt int, retryAfter time.Duration) (lo, hi time.Duration) {
	if p.RetryAfter == RetryAfterExact && retryAfter > 0 {
		wait := max(retryAfter, leastWait)
		return wait, wait
	}
	if p.Backoff != nil {
		lo = p.capped(max(0, p.Backoff.Delay(attempt)))
	}
	hi = lo
	if p.Jitter != nil {
		lo, hi = p.spread(lo)
	}
	if hi > p.capped(hi) {
		if lo >= p.MaxDelay {
			lo = max(0, p.MaxDelay-(hi-lo))
		}
		hi = p.MaxDelay
	}
	switch {
	case p.RetryAfter == RetryAfterAtLeast:
		// If the window contains delays longer than retryAfter, the window is unchanged. Then `draw`
		// raises a delay that is shorter than retryAfter to retryAfter.
		if retryAfter >= hi {
			lo, hi = retryAfter, retryAfter
		}
	case retryAfter > lo:
		// Clients that got the same Retry-After must not retry together, and no client may retry
		// early. So the jitter only adds to the Retry-After.
		width := time.Duration(0)
		if p.Jitter != nil {
			from, to := p.spread(retryAfter)
			width = p.capped(to - from)
		}
		lo, hi = retryAfter, max(hi, saturate.Add(retryAfter, width))
	}
	if hi < leastWait && p.endless() {
		return leastWait, leastWait
	}
	return lo, hi
}

// The method `capped` returns d, or MaxDelay if MaxDelay is shorter.
func (p *Policy) capped(d time.Duration) time.Duration {
	if p.MaxDelay > 0 && p.MaxDelay < d {
		return p.MaxDelay
	}
	return d
}

// The method `spread` returns the window to which the Jitter of p widens d. A Jitter from another
// package may return a window that is reversed or negative. The method corrects such a window.
func (p *Policy) spread(d time.Duration) (lo, hi time.Duration) {
	lo, hi = p.Jitter.Window(d)
	return max(0, min(lo, hi)), max(0, lo, hi)
}

// maxRetryAfter returns the longest Retry-After that p waits for.
func (p *Policy) maxRetryAfter() time.Duration {
	return cmp.Or(p.MaxRetryAfter, max(time.Minute, p.MaxDelay))
}

// The method `draw` picks the Delay of d from the window of d. It refuses a retry that would start
// later than MaxElapsed allows, or after the context's deadline. The parameter `untilDeadline` is
// the time until the deadline, or saturate.Max if there is no deadline. If the parameter `seed` is
// 0 and the window has more than one delay, `draw` calls the policy's Source for a seed.
func (d *Decision) draw(
	p *Policy, number int, seed uint64, elapsed, untilDeadline time.Duration, e *Error,
) {
	elapsed = max(0, elapsed)
	if d.RetryAfter > saidZero && d.Lo == d.RetryAfter { // the window starts at the Retry-After
		// If the call has time for the Retry-After itself, the jitter that is added to it must not
		// make the delay too long for the call. So the window takes at most half of the time between
		// the Retry-After and MaxElapsed, or the deadline if this comes earlier. A window up to
		// MaxElapsed would be too long: a wait may end late, and the call would then fail after it has
		// waited.
		left := untilDeadline
		if p.MaxElapsed > 0 {
			left = min(left, p.MaxElapsed-elapsed)
		}
		if left < saturate.Max && d.Lo <= left {
			d.Hi = min(d.Hi, d.Lo+(left-d.Lo)/2)
		}
	}
	if d.Lo < d.Hi {
		if d.Seed = seed; seed == 0 {
			d.Seed = p.seed()
		}
	}
	d.Delay = Draw(d.Seed, number, d.Lo, d.Hi)
	if p.RetryAfter == RetryAfterAtLeast && d.Delay < d.RetryAfter {
		d.Delay, d.Lo, d.Hi = d.RetryAfter, d.RetryAfter, d.RetryAfter
	}
	switch {
	case d.Reason != ReasonRetry:
	case tooLate(p.MaxElapsed, elapsed, d.Delay):
		d.Reason, e.bound, e.elapsed = ReasonElapsed, p.MaxElapsed, elapsed
	case untilDeadline < saturate.Max && untilDeadline <= d.Delay:
		d.Reason, e.Cause = ReasonDeadline, &aheadError{max(0, untilDeadline)}
	}
}

// tooLate reports whether a retry would start later than `maxElapsed` allows. The parameter
// `elapsed` is the time since the first attempt began, and `delay` is the time from `now` to the
// retry.
func tooLate(maxElapsed, elapsed, delay time.Duration) bool {
	return maxElapsed > 0 && saturate.Add(elapsed, delay) > maxElapsed
}
