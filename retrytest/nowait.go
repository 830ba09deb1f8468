package retrytest

import (
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/saturate"
)

// NoWait returns p with its waits taken out, for tests of code that cannot run
// in a bubble of [testing/synctest]. Where executions take no time, and Jitter
// does not decide what MaxElapsed still allows, it executes as often as p and
// stops for the same reason.
//
//   - Backoff and Jitter give no delay. MaxDelay goes with them; what it says
//     about MaxRetryAfter stays.
//   - An unlimited p stays unlimited, and a p that is not valid, for it has no
//     limit and no delay, stays so. An unlimited policy that does not wait
//     keeps a processor busy until the operation succeeds or the context ends.
//   - MaxElapsed counts the delays that p would have waited, without jitter:
//     where they pass it, the policy stops with ReasonElapsed.
//   - The policy that Select picks has its waits taken out too. For MaxElapsed
//     all the delays before count as its own.
//
// Two things are left. A wait that an error asks for (see [retry.After]) is
// part of the error, and still waited. And a deadline of the context is not
// brought forward by waits that no longer happen.
func NoWait(p retry.Policy) retry.Policy {
	if pick := p.Select; pick != nil {
		within := p.MaxElapsed
		p.Select = func(err error) *retry.Policy {
			q := pick(err)
			if q == nil {
				return nil
			}
			still := noWait(*q, within)
			return &still
		}
	}
	return noWait(p, p.MaxElapsed)
}

// noWait takes the waits out of p. A retry that they would have put later than
// within, if that is set, is not made.
func noWait(p retry.Policy, within time.Duration) retry.Policy {
	curve := retry.Policy{Backoff: p.Backoff, MaxDelay: p.MaxDelay}
	if (retry.Policy{Backoff: p.Backoff, MaxDelay: p.MaxDelay, Jitter: p.Jitter}).Validate() != nil {
		return p // it never waits, and must not become valid
	}
	if p.MaxRetryAfter == 0 {
		p.MaxRetryAfter = max(time.Minute, p.MaxDelay)
	}
	p.MaxDelay, p.Jitter = 0, nil
	switch {
	case within > 0:
		waits := &totals{curve: curve, within: within}
		p.Backoff = retry.BackoffFunc(func(attempt int) time.Duration {
			if waited := waits.of(attempt); waited > within {
				return waited // the delay of a retry that is not made
			}
			return 0
		})
	case hot(curve.Backoff):
		p.Backoff = nil
	default:
		p.Backoff = retry.BackoffFunc(func(int) time.Duration { return 0 })
	}
	return p
}

// totals is the sums of the first delays of a policy without jitter. Each is
// added up once, for whoever asks first.
type totals struct {
	curve  retry.Policy
	within time.Duration // later sums than the first above it are not needed

	mu   sync.Mutex
	sums []time.Duration // after 1 delay, 2 and so on
}

// of returns the sum of the first n delays, or the first sum above within.
func (t *totals) of(n int) (sum time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := min(n, len(t.sums)); known > 0 {
		sum = t.sums[known-1]
	}
	for len(t.sums) < n && sum <= t.within {
		sum = saturate.Add(sum, t.curve.Next(retry.Attempt{Number: len(t.sums) + 1}).Delay)
		t.sums = append(t.sums, sum)
	}
	return sum
}

// hot reports whether a policy without any limit is refused with this curve,
// because the curve would not slow it down.
func hot(b retry.Backoff) bool {
	return retry.Policy{MaxAttempts: retry.Unlimited, Backoff: b}.Validate() != nil
}
