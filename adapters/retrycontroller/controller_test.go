package retrycontroller_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrycontroller"
	"github.com/goretry/retry/retrylog"
)

const ms = time.Millisecond

var (
	errBoom  = errors.New("boom")
	errOther = errors.New("other")
	curve    = retry.Exponential{Base: 100 * ms}
	web      = request("web")
	no, yes  = false, true
)

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
}

func TestNewRefusesAnInvalidPolicy(t *testing.T) {
	none := reconcile.Func(nil)
	_, err := retrycontroller.New(retry.Policy{MaxAttempts: -2}, none)
	assert.ErrorContains(t, err, "retrycontroller: invalid policy: MaxAttempts is -2")
	_, err = retrycontroller.New(retry.Policy{}, none)
	assert.NoError(t, err, "without a limit and a delay it waits 10ms")
	_, err = retrycontroller.New(retry.Policy{Backoff: curve}, none)
	assert.NoError(t, err)
}

// A result is what the reconciler under test does in one attempt.
type result func(context.Context) (reconcile.Result, error)

func fails(err error) result {
	return func(context.Context) (reconcile.Result, error) { return reconcile.Result{}, err }
}

func panics(context.Context) (reconcile.Result, error) { panic("at the disco") }

func requeue(context.Context) (reconcile.Result, error) {
	//lint:ignore SA1019 deprecated, and still used
	return reconcile.Result{Requeue: true}, nil
}

func hangs(ctx context.Context) (reconcile.Result, error) {
	<-ctx.Done()
	return reconcile.Result{}, ctx.Err()
}

// A run is a real controller whose reconciler follows a script, and then succeeds.
type run struct {
	began []time.Duration // when each attempt began, since the start of the controller
	last  error           // what the controller got last
	seen  int             // NumRequeues at the end
}

// control lets a controller reconcile web for an hour of virtual time, which starts at a full
// second. The source adds web once more at each time in `again`.
func control(t *testing.T, policy retry.Policy, options controller.Options, script []result, again ...time.Duration) (r run) {
	t.Helper()
	start := time.Now()
	retries, err := retrycontroller.New(policy, reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		require.Equal(t, web, req)
		r.began = append(r.began, time.Since(start))
		if n := len(r.began); n <= len(script) {
			return script[n-1](ctx)
		}
		return reconcile.Result{}, nil
	}))
	require.NoError(t, err)
	options.SkipNameValidation = &yes
	if options.RateLimiter == nil {
		options.RateLimiter = retries
	}
	options.Reconciler = reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		var result reconcile.Result
		result, r.last = retries.Reconcile(ctx, req)
		return result, r.last
	})
	c, err := controller.NewUnmanaged("test", options)
	require.NoError(t, err)
	require.NoError(t, c.Watch(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(web)
		go func() {
			for _, at := range again {
				time.Sleep(time.Until(start.Add(at)))
				queue.Add(web)
			}
		}()
		return nil
	})))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	require.NoError(t, c.Start(ctx))
	r.seen = retries.NumRequeues(web)
	return r
}

// bothQueues runs a test with both queues of controller-runtime: its own queue, which is the
// default, and the queue of client-go.
func bothQueues(t *testing.T, name string, f func(t *testing.T, options controller.Options)) {
	for queue, priority := range map[string]*bool{"": &yes, ", client-go's queue": &no} {
		t.Run(name+queue, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, controller.Options{UsePriorityQueue: priority}) })
		})
	}
}

func TestAttempts(t *testing.T) {
	policy := retry.Policy{Backoff: curve}
	with := func(change func(*retry.Policy)) retry.Policy { p := policy; change(&p); return p }
	five := []result{fails(errBoom), fails(errBoom), fails(errBoom), fails(errBoom), fails(errBoom)}
	for name, row := range map[string]struct {
		policy retry.Policy
		script []result
		began  []time.Duration
		reason retry.Reason // "" if the object succeeds
		text   string
	}{
		"no limit is unlimited": {policy, five, []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms}, "", ""},
		"MaxAttempts": {with(func(p *retry.Policy) { p.MaxAttempts = 4 }), five,
			[]time.Duration{0, 100 * ms, 300 * ms, 700 * ms}, retry.ReasonExhausted, "terminal error: retry: attempts exhausted after 4 attempts: boom"},
		"MaxRetries": {with(func(p *retry.Policy) { p.MaxRetries = 1 }), five,
			[]time.Duration{0, 100 * ms}, retry.ReasonExhausted, "terminal error: retry: attempts exhausted after 2 attempts: boom"},
		"AttemptCap": {with(func(p *retry.Policy) { p.AttemptCap = 2 }), five,
			[]time.Duration{0, 100 * ms}, retry.ReasonExhausted, "terminal error: retry: attempts exhausted after 2 attempts: boom"},
		"NonRetryable": {with(func(p *retry.Policy) { p.NonRetryable = true }), five,
			[]time.Duration{0}, retry.ReasonNonRetryable, "terminal error: retry: not retryable after 1 attempt: boom"},
		"MaxElapsed": {with(func(p *retry.Policy) { p.MaxElapsed = time.Second }), five,
			[]time.Duration{0, 100 * ms, 300 * ms, 700 * ms}, retry.ReasonElapsed, ""},
		"Permanent": {policy, []result{fails(errBoom), fails(retry.Permanent(errBoom))},
			[]time.Duration{0, 100 * ms}, retry.ReasonPermanent, "terminal error: retry: permanent error after 2 attempts: boom"},
		"TerminalError": {policy, []result{fails(reconcile.TerminalError(errBoom))},
			[]time.Duration{0}, retry.ReasonPermanent, ""},
		"After": {policy, []result{fails(errBoom), fails(retry.After(700*ms, errBoom))}, []time.Duration{0, 100 * ms, 800 * ms}, "", ""},
		"After, shorter than the curve": {with(func(p *retry.Policy) { p.RetryAfter = retry.RetryAfterExact }),
			[]result{fails(errBoom), fails(errBoom), fails(retry.After(50*ms, errBoom))}, []time.Duration{0, 100 * ms, 300 * ms, 350 * ms}, "", ""},
		"MaxRetryAfter": {policy, []result{fails(retry.After(24*time.Hour+1, errBoom))}, []time.Duration{0}, retry.ReasonRetryAfter, ""},
		"RetryIf": {with(func(p *retry.Policy) { p.RetryIf = func(err error) bool { return errors.Is(err, errOther) } }),
			[]result{fails(errOther), fails(errBoom)}, []time.Duration{0, 100 * ms}, retry.ReasonRejected, ""},
		"Classify": {with(func(p *retry.Policy) {
			p.Classify = func(err error) *retry.Class {
				if errors.Is(err, errOther) {
					return &retry.Class{Name: "other", MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}
				}
				return nil
			}
		}), []result{fails(errBoom), fails(errBoom), fails(errOther), fails(errBoom), fails(errOther)},
			[]time.Duration{0, 100 * ms, 300 * ms, 1300 * ms, 2100 * ms}, retry.ReasonExhausted, `terminal error: retry: attempts exhausted after 5 attempts (2 of "other"): other`},
		"Budget": {with(func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 2} }), five,
			[]time.Duration{0, 100 * ms, 300 * ms}, retry.ReasonBudget, ""},
		"AttemptTimeout": {with(func(p *retry.Policy) { p.AttemptTimeout = time.Second }), []result{hangs, hangs},
			[]time.Duration{0, 1100 * ms, 2300 * ms}, "", ""},
		"a panic": {policy, []result{panics, panics}, []time.Duration{0, 100 * ms, 300 * ms}, "", ""},
		"a panic in the last attempt": {with(func(p *retry.Policy) { p.MaxAttempts = 2 }), []result{panics, panics},
			[]time.Duration{0, 100 * ms}, retry.ReasonExhausted, "terminal error: retry: attempts exhausted after 2 attempts: the attempt panicked"},
		"RequeueAfter begins anew": {policy, []result{fails(errBoom), fails(errBoom), func(context.Context) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: time.Minute}, nil
		}, fails(errBoom)}, []time.Duration{0, 100 * ms, 300 * ms, time.Minute + 300*ms, time.Minute + 400*ms}, "", ""},
		"Requeue goes on with the delays": {with(func(p *retry.Policy) { p.MaxAttempts = 3 }), []result{fails(errBoom), requeue}, []time.Duration{0, 100 * ms, 300 * ms}, "", ""},
		"Requeue has no limit": {with(func(p *retry.Policy) { p.MaxAttempts, p.MaxElapsed = 2, time.Second }), []result{requeue, requeue, requeue, requeue, fails(errBoom)},
			[]time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 1600 * ms}, "", ""},
	} {
		bothQueues(t, name, func(t *testing.T, options controller.Options) {
			policy := row.policy
			if policy.Budget != nil {
				policy.Budget = &retry.Budget{Size: policy.Budget.Size} // a new Budget for each queue
			}
			r := control(t, policy, options, row.script)
			assert.Equal(t, row.began, r.began)
			assert.Equal(t, cmp.Or(row.reason, retry.ReasonSuccess), retry.ReasonOf(r.last))
			assert.Equal(t, row.reason != "", errors.Is(r.last, reconcile.TerminalError(nil)), "%v", r.last)
			if row.text != "" {
				assert.EqualError(t, r.last, row.text)
			}
			assert.Zero(t, r.seen, "what has ended is forgotten")
		})
	}
}

// If an attempt is retried, the controller gets the error that the reconciler returned.
func TestTheErrorOfARetry(t *testing.T) {
	retries, err := retrycontroller.New(retry.Policy{Backoff: curve}, reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, errBoom
	}))
	require.NoError(t, err)
	_, err = retries.Reconcile(t.Context(), web)
	assert.Equal(t, errBoom, err)

	stopping, stop := context.WithCancel(t.Context())
	stop()
	_, err = retries.Reconcile(stopping, web)
	assert.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, reconcile.TerminalError(nil), "a controller that stops does not end the object")
	assert.Equal(t, 1, retries.NumRequeues(web), "a controller that stops counts no failure")
}

// A change is reconciled at once, as the next attempt. After a TerminalError it is the first
// attempt. The queue of client-go would also make the attempt that was waiting.
func TestChangeOfTheObject(t *testing.T) {
	policy := retry.Policy{MaxAttempts: 3, MaxElapsed: 10 * time.Minute, Backoff: retry.Fixed(time.Minute)}
	for name, script := range map[string][]result{
		"errors": {fails(errBoom), fails(errBoom), fails(errBoom), fails(errBoom), fails(errBoom)},
		"panics": {panics, panics, panics, panics, panics},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := control(t, policy, controller.Options{}, script, 90*time.Second, 30*time.Minute)
				assert.Equal(t, []time.Duration{0, time.Minute, 90 * time.Second, 30 * time.Minute, 31 * time.Minute, 32 * time.Minute}, r.began)
			})
		})
	}
}

// Every delay follows from the policy and namespace/name, the key of every event.
func TestDelaysCanBeComputedAgain(t *testing.T) {
	keys := map[string]bool{}
	policy := retry.Policy{MaxAttempts: 6, Backoff: curve, Jitter: retry.FullJitter, OnEvent: func(ctx context.Context, _ retry.Event) {
		keys[retrylog.Key(ctx)] = true
	}}
	bothQueues(t, "", func(t *testing.T, options controller.Options) {
		script := []result{fails(errBoom), fails(errBoom), fails(errBoom), fails(errBoom), fails(errBoom)}
		want := []time.Duration{0}
		for n := range script {
			delay := policy.Next(retry.Attempt{Number: n + 1, Seed: retry.SeedOf("default/web")}).Delay
			want = append(want, want[n]+delay)
		}
		assert.Equal(t, want, control(t, policy, options, script).began)
		assert.Equal(t, map[string]bool{"default/web": true}, keys)
	})
}

// With another rate limiter, the policy's limits hold, and the rate limiter sets the delays.
func TestAnotherRateLimiter(t *testing.T) {
	bothQueues(t, "", func(t *testing.T, options controller.Options) {
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*ms, 1000*time.Second)
		var named []time.Duration
		policy := retry.Policy{MaxAttempts: 3, Backoff: curve, OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				named = append(named, e.Delay)
			}
		}}
		r := control(t, policy, options, []result{fails(errBoom), fails(errBoom), fails(errBoom), fails(errBoom)})
		assert.Equal(t, []time.Duration{0, 5 * ms, 15 * ms}, r.began)
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(r.last))
		assert.Equal(t, []time.Duration{100 * ms, 200 * ms}, named)
	})
}

// A request may have any comparable type.
func TestRequestOfAnyType(t *testing.T) {
	policy := retry.Policy{Backoff: curve, Jitter: retry.EqualJitter}
	retries, err := retrycontroller.New(policy, reconcile.TypedFunc[int](func(context.Context, int) (reconcile.Result, error) {
		return reconcile.Result{}, errBoom
	}))
	require.NoError(t, err)
	_, err = retries.Reconcile(t.Context(), 7)
	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, policy.Next(retry.Attempt{Number: 1, Seed: retry.SeedOf("7")}).Delay, retries.When(7))
}
