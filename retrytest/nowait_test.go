package retrytest_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrylog"
	"github.com/goretry/retry/retrytest"
)

var errBusy = errors.New("too many requests")

// A trial is a call under a policy, made in a bubble of its own.
type trial struct {
	policy   retry.Policy // whose Budget, if any, is replaced by a new one for each call
	errs     []error      // what the attempts return
	each     time.Duration
	deadline time.Duration // of the context; 0: none
	budget   int           // of the context; 0: none
	cancelIn int           // the attempt that cancels the context; 0: none
}

// outcome is how a call ended.
type outcome struct {
	attempts int
	reason   retry.Reason
}

// A story is everything that a caller can see of a call. Causes are texts in it:
// that of a context must not be asked outside of its bubble.
type story struct {
	outcome
	text          string // of the error
	waited, delay time.Duration
	log           []retrylog.Record
	took          time.Duration
}

// ways are the ways to make a call.
var ways = map[string]func(context.Context, retry.Policy, func(context.Context) error) error{
	"Do": retry.Do,
	"DoValue": func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error {
		_, err := retry.DoValue(ctx, p, func(ctx context.Context) (int, error) { return 1, fn(ctx) })
		return err
	},
}

// tell makes the call, with its waits or without.
func (tr trial) tell(t *testing.T, way string, skip bool) (s story) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if tr.deadline != 0 {
			ctx, cancel = context.WithTimeout(ctx, tr.deadline)
			defer cancel()
		}
		if tr.budget != 0 {
			ctx = retry.WithBudget(ctx, &retry.Budget{Size: tr.budget})
		}
		p, log := tr.policy, new(retrylog.Recorder)
		if p.Budget != nil {
			p.Budget = &retry.Budget{Size: 2}
		}
		p.OnEvent = log.OnEvent
		p.Source = counter()
		if skip {
			p = retrytest.NoWait(p)
		}
		op := retrytest.NewOp(tr.errs...)
		began := time.Now()
		err := ways[way](ctx, p, func(attempt context.Context) error {
			if op.Attempts() == 100 {
				return retry.Permanent(errDown) // far too often: do not go on for ever
			}
			if op.Attempts()+1 == tr.cancelIn {
				cancel()
			}
			if tr.each > 0 {
				select {
				case <-time.After(tr.each):
				case <-attempt.Done():
				}
			}
			return op.Run(attempt)
		})
		s.took = time.Since(began)
		s.outcome = outcome{op.Attempts(), retry.ReasonOf(err)}
		if e := (*retry.Error)(nil); errors.As(err, &e) {
			s.text, s.waited, s.delay = e.Error(), e.Waited, e.Delay
		}
		s.log = log.Records()
		for i := range s.log {
			if cause := &s.log[i].Event.Cause; *cause != nil {
				*cause = errors.New((*cause).Error())
			}
		}
	})
	return s
}

// counter returns a Source that draws 1, 2, 3 ...
func counter() func() uint64 {
	var drawn uint64
	return func() uint64 { drawn++; return drawn }
}

// skipped returns the waits in the events of s that ended with another attempt.
func (s story) skipped() (sum time.Duration) {
	for i, r := range s.log {
		if r.Event.Kind == retry.AttemptStarted && i > 0 {
			sum += s.log[i-1].Event.Delay
		}
	}
	return sum
}

// Whatever a caller can see of a call is as it is with the waits, except for the
// time that it takes.
func TestNoWaitTellsTheSameStory(t *testing.T) {
	linear := retry.Policy{MaxAttempts: 9, Backoff: retry.Linear(time.Second)}
	with := func(p retry.Policy, change func(*retry.Policy)) retry.Policy { change(&p); return p }
	named := func(p retry.Policy, name string, q *retry.Policy) retry.Policy {
		return with(p, func(p *retry.Policy) {
			p.Classify = func(err error) *retry.Class {
				if errors.Is(err, errBusy) {
					return &retry.Class{Name: name, Policy: q}
				}
				return nil
			}
		})
	}
	unnamed := func(p retry.Policy, q *retry.Policy) retry.Policy { return named(p, "", q) }
	down, asks := []error{errDown}, retry.After(30*time.Second, errBusy)

	for _, tc := range []struct {
		name string
		trial
		want outcome
	}{
		{"exhausted", trial{policy: linear, errs: down}, outcome{9, retry.ReasonExhausted}},
		{"the zero policy", trial{errs: down}, outcome{1, retry.ReasonExhausted}},
		{"success at once", trial{policy: linear}, outcome{1, retry.ReasonSuccess}},
		{"success", trial{policy: linear, errs: []error{errDown, errDown, nil}}, outcome{3, retry.ReasonSuccess}},
		{"not retryable", trial{policy: with(linear, func(p *retry.Policy) { p.NonRetryable = true }), errs: down}, outcome{1, retry.ReasonNonRetryable}},
		{"permanent", trial{policy: linear, errs: []error{errDown, retry.Permanent(errDown)}}, outcome{2, retry.ReasonPermanent}},
		{"rejected", trial{policy: with(linear, func(p *retry.Policy) { p.RetryIf = func(err error) bool { return err != errBusy } }),
			errs: []error{errDown, errBusy}}, outcome{2, retry.ReasonRejected}},
		{"the policy's budget", trial{policy: with(linear, func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 2} }), errs: down}, outcome{3, retry.ReasonBudget}},
		{"the context's budget", trial{policy: linear, errs: down, budget: 3}, outcome{4, retry.ReasonBudget}},
		{"full jitter", trial{policy: with(linear, func(p *retry.Policy) { p.Jitter = retry.FullJitter }), errs: down}, outcome{9, retry.ReasonExhausted}},
		{"a cap and jitter", trial{policy: with(linear, func(p *retry.Policy) { p.Jitter, p.MaxDelay = retry.Proportional(0.5), 2*time.Second }), errs: down},
			outcome{9, retry.ReasonExhausted}},
		{"a curve that ends at 0", trial{policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Schedule{time.Second, 0}}, errs: down}, outcome{5, retry.ReasonExhausted}},
		{"unlimited", trial{policy: with(linear, func(p *retry.Policy) { p.MaxAttempts = retry.Unlimited }), errs: []error{errDown, errDown, errDown, nil}},
			outcome{4, retry.ReasonSuccess}},
		{"unlimited, a custom curve", trial{policy: retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.BackoffFunc(func(int) time.Duration { return time.Second })},
			errs: []error{errDown, errDown, nil}}, outcome{3, retry.ReasonSuccess}},

		{"Retry-After", trial{policy: linear, errs: []error{errDown, asks, nil}}, outcome{3, retry.ReasonSuccess}},
		{"Retry-After with jitter", trial{policy: with(linear, func(p *retry.Policy) { p.Jitter = retry.FullJitter }), errs: []error{asks, asks, nil}}, outcome{3, retry.ReasonSuccess}},
		{"Retry-After of an hour", trial{policy: with(linear, func(p *retry.Policy) { p.MaxDelay = time.Hour }), errs: []error{retry.After(time.Hour, errBusy), nil}},
			outcome{2, retry.ReasonSuccess}},
		{"Retry-After too long", trial{policy: linear, errs: []error{errDown, retry.After(time.Hour, errDown)}}, outcome{2, retry.ReasonRetryAfter}},
		{"Retry-After just longer than a minute", trial{policy: linear, errs: []error{retry.After(time.Minute+1, errDown)}}, outcome{1, retry.ReasonRetryAfter}},
		{"Retry-After longer than a long cap", trial{policy: with(linear, func(p *retry.Policy) { p.MaxDelay = 2 * time.Hour }),
			errs: []error{retry.After(2*time.Hour+1, errDown)}}, outcome{1, retry.ReasonRetryAfter}},
		{"Retry-After longer than allowed", trial{policy: with(linear, func(p *retry.Policy) { p.MaxRetryAfter = time.Second }),
			errs: []error{retry.After(time.Second+1, errDown)}}, outcome{1, retry.ReasonRetryAfter}},
		{"Retry-After counts for MaxElapsed", trial{policy: with(linear, func(p *retry.Policy) { p.MaxElapsed = 31 * time.Second }),
			errs: []error{asks, errDown}}, outcome{2, retry.ReasonElapsed}},
		{"Retry-After counts for the deadline", trial{policy: linear, deadline: 31 * time.Second, errs: []error{asks, errDown}}, outcome{2, retry.ReasonDeadline}},

		{"Retry-After with jitter, cut by the deadline", trial{policy: with(linear, func(p *retry.Policy) { p.Jitter = retry.FullJitter }), deadline: 31 * time.Second,
			errs: []error{asks, nil}}, outcome{2, retry.ReasonSuccess}},
		{"Retry-After exactly", trial{policy: with(linear, func(p *retry.Policy) { p.Jitter, p.ExactRetryAfter = retry.FullJitter, true }),
			errs: []error{errDown, errDown, errDown, retry.After(time.Second, errBusy), nil}}, outcome{5, retry.ReasonSuccess}},

		// What is invalid must not become valid.
		{"invalid", trial{policy: with(linear, func(p *retry.Policy) { p.MaxAttempts = -2 }), errs: down}, outcome{1, retry.ReasonInvalid}},
		{"invalid, and it succeeds", trial{policy: with(linear, func(p *retry.Policy) { p.MaxAttempts = -2 })}, outcome{1, retry.ReasonSuccess}},
		{"unlimited without a curve", trial{policy: retry.Policy{MaxAttempts: retry.Unlimited}, errs: down}, outcome{1, retry.ReasonInvalid}},
		{"unlimited, a nil function for a curve", trial{policy: retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.BackoffFunc(nil)}, errs: down}, outcome{1, retry.ReasonInvalid}},
		{"unlimited, a curve that ends at 0", trial{policy: retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Schedule{time.Second, 0}}, errs: down}, outcome{1, retry.ReasonInvalid}},
		{"elapsed without a curve", trial{policy: retry.Policy{MaxElapsed: time.Second}, errs: down}, outcome{1, retry.ReasonInvalid}},
		{"negative curve", trial{policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(-1)}, errs: down}, outcome{1, retry.ReasonInvalid}},
		{"negative cap", trial{policy: with(linear, func(p *retry.Policy) { p.MaxDelay = -1 }), errs: down}, outcome{1, retry.ReasonInvalid}},
		{"jitter above 1", trial{policy: with(linear, func(p *retry.Policy) { p.Jitter = retry.Proportional(2) }), errs: down}, outcome{1, retry.ReasonInvalid}},

		// 1s, 3s, 6s, 10s after the first attempt.
		{"elapsed", trial{policy: with(linear, func(p *retry.Policy) { p.MaxElapsed = 6 * time.Second }), errs: down}, outcome{4, retry.ReasonElapsed}},
		{"elapsed, just before a retry", trial{policy: with(linear, func(p *retry.Policy) { p.MaxElapsed = 6*time.Second - 1 }), errs: down}, outcome{3, retry.ReasonElapsed}},
		{"elapsed, no retry at all", trial{policy: with(linear, func(p *retry.Policy) { p.MaxElapsed = 1 }), errs: down}, outcome{1, retry.ReasonElapsed}},
		{"elapsed, capped", trial{policy: with(linear, func(p *retry.Policy) { p.MaxElapsed, p.MaxDelay = 6*time.Second, time.Second }), errs: down}, outcome{7, retry.ReasonElapsed}},
		{"elapsed, unlimited", trial{policy: with(linear, func(p *retry.Policy) { p.MaxElapsed, p.MaxAttempts = time.Minute, retry.Unlimited }), errs: down}, outcome{11, retry.ReasonElapsed}},
		{"elapsed alone", trial{policy: retry.Policy{Backoff: retry.Linear(time.Second), MaxElapsed: time.Minute}, errs: down}, outcome{11, retry.ReasonElapsed}},
		{"elapsed, exhausted before", trial{policy: with(linear, func(p *retry.Policy) { p.MaxElapsed = time.Hour }), errs: down}, outcome{9, retry.ReasonExhausted}},
		{"elapsed, a curve that ends at 0", trial{policy: retry.Policy{MaxAttempts: 9, Backoff: retry.Schedule{time.Second, 0}, MaxElapsed: time.Second - 1},
			errs: down}, outcome{1, retry.ReasonElapsed}},
		{"elapsed with jitter, as it is drawn", trial{policy: with(linear, func(p *retry.Policy) { p.MaxElapsed, p.Jitter = 12*time.Second, retry.FullJitter }), errs: down},
			outcome{6, retry.ReasonElapsed}},
		{"attempts take time", trial{policy: with(linear, func(p *retry.Policy) { p.MaxElapsed = 5 * time.Second }), each: 2 * time.Second, errs: down}, outcome{2, retry.ReasonElapsed}},

		{"a deadline at the third retry", trial{policy: linear, deadline: 6 * time.Second, errs: down}, outcome{3, retry.ReasonDeadline}},
		{"a deadline just after the third retry", trial{policy: linear, deadline: 6*time.Second + 1, errs: down}, outcome{4, retry.ReasonDeadline}},
		{"a deadline, unlimited", trial{policy: with(linear, func(p *retry.Policy) { p.MaxAttempts = retry.Unlimited }), deadline: time.Minute, errs: down}, outcome{11, retry.ReasonDeadline}},
		{"a deadline, and attempts take time", trial{policy: linear, deadline: 7 * time.Second, each: 2 * time.Second, errs: down}, outcome{2, retry.ReasonDeadline}},
		{"a deadline within an attempt", trial{policy: linear, deadline: time.Second, each: 2 * time.Second, errs: down}, outcome{1, retry.ReasonDeadline}},
		{"canceled by the second attempt", trial{policy: linear, cancelIn: 2, errs: down}, outcome{2, retry.ReasonCanceled}},
		{"attempts that hang", trial{policy: with(linear, func(p *retry.Policy) { p.MaxAttempts, p.AttemptTimeout = 3, 5*time.Second }), each: time.Hour, errs: down},
			outcome{3, retry.ReasonExhausted}},
		{"attempts that hang, elapsed", trial{policy: with(linear, func(p *retry.Policy) { p.MaxElapsed, p.AttemptTimeout = 20*time.Second, 5*time.Second }), each: time.Hour, errs: down},
			outcome{3, retry.ReasonElapsed}},

		{"a class", trial{policy: unnamed(linear, &retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour)}), errs: []error{errDown, errBusy}}, outcome{2, retry.ReasonExhausted}},
		{"a class, not retryable", trial{policy: unnamed(linear, &retry.Policy{NonRetryable: true}), errs: []error{errBusy}}, outcome{1, retry.ReasonNonRetryable}},
		{"a class, only slower", trial{policy: unnamed(linear, &retry.Policy{Backoff: retry.Fixed(time.Hour)}), errs: []error{errBusy, errDown, errBusy}}, outcome{9, retry.ReasonExhausted}},
		{"a class, invalid", trial{policy: unnamed(linear, &retry.Policy{MaxDelay: -1}), errs: []error{errDown, errBusy}}, outcome{2, retry.ReasonInvalid}},
		{"a class, unlimited, within the limit of the outer", trial{policy: unnamed(linear, &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Schedule{time.Second, 0}}),
			errs: []error{errBusy}}, outcome{9, retry.ReasonExhausted}},
		{"a class, nothing slows the pair down", trial{policy: unnamed(with(linear, func(p *retry.Policy) { p.MaxAttempts = retry.Unlimited }), &retry.Policy{}),
			errs: []error{errDown, errBusy}}, outcome{2, retry.ReasonInvalid}},
		{"a class, elapsed", trial{policy: unnamed(with(linear, func(p *retry.Policy) { p.MaxElapsed = 3 * time.Second }), &retry.Policy{Backoff: retry.Fixed(time.Second)}),
			errs: []error{errBusy}}, outcome{4, retry.ReasonElapsed}},
		{"a class in turn, elapsed", trial{policy: unnamed(with(linear, func(p *retry.Policy) { p.MaxElapsed = 14 * time.Second }), &retry.Policy{Backoff: retry.Fixed(10 * time.Second)}),
			errs: []error{errDown, errBusy, errDown}}, outcome{4, retry.ReasonElapsed}},
		{"a class by name", trial{policy: named(linear, "busy", &retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Minute)}),
			errs: []error{errDown, errBusy, errDown, errBusy}}, outcome{4, retry.ReasonExhausted}},
		{"healthy attempts begin anew", trial{policy: with(linear, func(p *retry.Policy) { p.MaxAttempts, p.HealthyAfter, p.MaxElapsed = 2, 2*time.Second, 2*time.Second }), each: 2 * time.Second,
			errs: []error{errDown, errDown, errDown, retry.Permanent(errDown)}}, outcome{4, retry.ReasonPermanent}},
		{"healthy by its waits alone", trial{policy: with(linear, func(p *retry.Policy) { p.MaxAttempts, p.HealthyAfter = 3, time.Second }), each: time.Second - 1,
			errs: down}, outcome{3, retry.ReasonExhausted}},
		{"a class, Retry-After too long", trial{policy: unnamed(linear, &retry.Policy{MaxDelay: time.Hour}),
			errs: []error{retry.After(time.Hour+1, errBusy)}}, outcome{1, retry.ReasonRetryAfter}},
	} {
		for way := range ways {
			t.Run(tc.name+"/"+way, func(t *testing.T) {
				waits := tc.tell(t, way, false)
				require.Equal(t, tc.want, waits.outcome, "with the waits")
				skips := tc.tell(t, way, true)
				assert.Equal(t, waits.took-waits.skipped(), skips.took, "only attempts take time")
				skips.took = waits.took
				assert.Equal(t, waits, skips)

				calls, err := retrylog.Replay(skips.log)
				require.NoError(t, err)
				require.Len(t, calls, 1)
				assert.NoError(t, calls[0].Check(tc.policy), "the policy itself would have written this log")
			})
		}
	}
}

// The log of a call that skipped its waits has the delays of its policy, and not
// those of another.
func TestNoWaitLogsTheDelaysOfThePolicy(t *testing.T) {
	p := retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Second}}
	calls, err := retrylog.Replay(trial{policy: p, errs: []error{errDown}, each: time.Second}.tell(t, "Do", true).log)
	require.NoError(t, err)
	require.Len(t, calls, 1)
	assert.Equal(t, 15*time.Second, calls[0].Waited())

	p.Backoff = retry.Fixed(time.Second)
	assert.EqualError(t, calls[0].Check(p), "retrylog: line 6: attempt 2 is retried in 2s, at 00:00:05.000 (by the curve), and the policy says in 1s")
}

// Sums of delays stop at the longest duration instead of starting over.
func TestNoWaitOfTheLongestDelays(t *testing.T) {
	const half = math.MaxInt64 / 2
	for _, tc := range []struct {
		name string
		most time.Duration
		want outcome
	}{
		{"two delays fit", math.MaxInt64 - 1, outcome{3, retry.ReasonElapsed}},
		{"one fits", math.MaxInt64 - 2, outcome{2, retry.ReasonElapsed}},
		{"all fit what cannot be passed", math.MaxInt64, outcome{9, retry.ReasonExhausted}},
	} {
		p := retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(half), MaxElapsed: tc.most}
		s := trial{policy: p, errs: []error{errDown}}.tell(t, "Do", true)
		assert.Equal(t, tc.want, s.outcome, tc.name)
		assert.Zero(t, s.took, tc.name)
	}
}

// A call outside of a bubble does not sleep either.
func TestNoWaitOutsideOfABubble(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(10*time.Second, cancel).Stop() // so that a sleep fails the test soon
	op := retrytest.NewOp(errDown, retry.After(time.Minute, errDown), nil)
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour)}
	require.NoError(t, retry.Do(ctx, retrytest.NoWait(p), op.Run))
	assert.Equal(t, 3, op.Attempts())
}

// A client with a policy inside, and a wait that a real header asks for.
func TestNoWaitThroughATransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, requests := time.Now(), 0
		client := &http.Client{Transport: &retryhttp.Transport{
			Policy: retrytest.NoWait(retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}),
			Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				requests++
				resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}
				if requests < 3 {
					resp.StatusCode = http.StatusServiceUnavailable
					resp.Header.Set("Retry-After", "30")
				}
				return resp, nil
			}),
		}}
		resp, err := client.Get("http://orders.example")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, 3, requests)
		assert.Zero(t, time.Since(began))
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A call within another waits by its own policy.
func TestNoWaitLeavesInnerCallsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}
		outer := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour)}
		began := time.Now()
		err := retry.Do(t.Context(), retrytest.NoWait(outer), func(ctx context.Context) error {
			return retry.Do(ctx, inner, retrytest.NewOp(errDown).Run)
		})
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.Equal(t, 3*time.Second, time.Since(began))
	})
}

// The time that OnEvent takes is part of the wait, and only the rest is skipped.
func TestNoWaitAndAnOnEventThatTakesTime(t *testing.T) {
	for _, tc := range []struct {
		name    string
		takes   time.Duration
		started []time.Duration
	}{
		{"less than the wait", time.Second, []time.Duration{0, time.Minute, 2 * time.Minute}},
		{"more than the wait", time.Hour, []time.Duration{0, time.Hour, 2 * time.Hour}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var started []time.Duration
				p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute), OnEvent: func(_ context.Context, e retry.Event) {
					switch e.Kind {
					case retry.AttemptStarted:
						started = append(started, e.Elapsed)
					case retry.RetryScheduled:
						time.Sleep(tc.takes)
					}
				}}
				began := time.Now()
				require.Error(t, retry.Do(t.Context(), retrytest.NoWait(p), retrytest.NewOp(errDown).Run))
				assert.Equal(t, tc.started, started)
				assert.Equal(t, 2*tc.takes, time.Since(began))
			})
		})
	}
}

// All fields but Wait may be set before or after.
func TestNoWaitInAnyOrder(t *testing.T) {
	for name, still := range map[string]func() retry.Policy{
		"Source before": func() retry.Policy { p := wide; p.Source = counter(); return retrytest.NoWait(p) },
		"Source after":  func() retry.Policy { p := retrytest.NoWait(wide); p.Source = counter(); return p },
		"twice":         func() retry.Policy { p := retrytest.NoWait(wide); p.Source = counter(); return retrytest.NoWait(p) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seeds []uint64
				p := still()
				p.OnEvent = func(_ context.Context, e retry.Event) {
					if e.Kind == retry.RetryScheduled {
						seeds = append(seeds, e.Seed)
					}
				}
				began := time.Now()
				for range 2 {
					require.Error(t, retry.Do(t.Context(), p, retrytest.NewOp(errDown).Run))
				}
				assert.Zero(t, time.Since(began))
				assert.Equal(t, []uint64{1, 1, 2, 2}, seeds)
			})
		})
	}
}

func TestNoWaitReplacesTheWaitOfThePolicy(t *testing.T) {
	p := plain
	p.Wait = func(context.Context, time.Duration) (time.Duration, error) { panic("called") }
	op := retrytest.NewOp(errDown, nil)
	require.NoError(t, retry.Do(t.Context(), retrytest.NoWait(p), op.Run))
	assert.Equal(t, 2, op.Attempts())
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

// Every field is kept, and with it every decision: only Wait is set.
func TestNoWaitChangesOnlyWait(t *testing.T) {
	p := retry.Policy{
		MaxAttempts: 1, MaxRetries: 2, AttemptCap: 3, NonRetryable: true, ExactRetryAfter: true, Backoff: retry.Fixed(4), MaxDelay: 5, Jitter: retry.FullJitter,
		MaxRetryAfter: 6, Source: counter(), MaxElapsed: 7, AttemptTimeout: 8, HealthyAfter: 9, Budget: &retry.Budget{Size: 1},
		RetryIf: func(error) bool { return true }, Classify: func(error) *retry.Class { return nil },
		Wait:    func(context.Context, time.Duration) (time.Duration, error) { return 0, nil },
		OnEvent: func(context.Context, retry.Event) {},
	}
	was, is := reflect.ValueOf(p), reflect.ValueOf(retrytest.NoWait(p))
	for i := range was.NumField() {
		name, a, b := was.Type().Field(i).Name, was.Field(i), is.Field(i)
		require.False(t, a.IsZero(), "%s is not covered", name)
		switch {
		case name == "Wait":
			assert.NotEqual(t, a.Pointer(), b.Pointer(), name)
		case a.Kind() == reflect.Func:
			assert.Equal(t, a.Pointer(), b.Pointer(), name)
		default:
			assert.Equal(t, a.Interface(), b.Interface(), name)
		}
	}
}
