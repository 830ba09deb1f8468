// Package retrycontroller retries the objects of a Kubernetes controller
// (sigs.k8s.io/controller-runtime) according to a [retry.Policy]. If the reconciler fails,
// the policy decides whether and when the object is reconciled again.
//
//	retries, err := retrycontroller.New(policy, reconciler)
//	if err != nil {
//		return err
//	}
//	return ctrl.NewControllerManagedBy(mgr).
//		For(&appsv1.Deployment{}).
//		WithOptions(controller.Options{RateLimiter: retries}).
//		Complete(retries)
//
// Use the value in both places, and for one controller only. As the reconciler it calls
// yours and decides. As the rate limiter it passes the delay on, because a rate limiter does
// not see the error. With another rate limiter the limits hold, but the controller waits for
// the delays of that limiter, and the events show delays that nobody waits for.
//
// # What happens to an object
//
// The reconciler returns errors as usual, and may mark errors with [retry.Permanent] and
// [retry.After]. If the object is retried, the controller gets the error of the
// reconciler. Otherwise the controller gets a reconcile.TerminalError, whose text says why.
// [retry.ReasonOf] returns the reason. A TerminalError of the reconciler is permanent. The
// next change of the object starts again with attempt 1. So does the next call after a
// success or a RequeueAfter.
//
// A change of the object, or a resync, is reconciled at once, even while the object
// waits for a retry. If this call fails, it counts as the next attempt.
//
// A panic is a failed attempt. It goes on to the controller, which by default logs the
// panic, counts it and retries. If the policy does not retry, the next call returns the
// TerminalError without calling the reconciler.
//
// # Limits
//
// Controllers go on until they succeed. So a policy with neither MaxAttempts nor
// MaxRetries has no limit on attempts here, and waits at least 10ms. MaxElapsed counts
// from the start of the first failed attempt. HealthyAfter and Wait have no effect.
//
// The counts are kept in memory. A controller that restarts, or becomes the leader, starts
// again with attempt 1. Named classes are counted separately, see [retry.Class].
//
// The seed of a delay is the text of the request, "namespace/name", see [retry.SeedOf]. So
// another process can compute the same delays. In logs this text is the key:
// retrylog.Key(ctx) in an OnEvent.
package retrycontroller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// Retries is the reconciler of a controller and its rate limiter. Its methods are
// safe for concurrent use.
type Retries[request comparable] struct {
	policy retry.Policy
	next   reconcile.TypedReconciler[request]

	mu      sync.Mutex          // guards failing
	failing map[request]failing // requests whose last attempt failed
}

// A failing is the state of a request whose last attempt failed.
type failing struct {
	failures int            // how many attempts have failed since the last success
	decided  bool           // the policy has set delay, and When has not returned it yet
	works    bool           // the last call did not fail, so the next call is attempt 1
	delay    time.Duration  // the delay before the next attempt
	began    time.Time      // when the first attempt began
	classes  map[string]int // how many failures each class had

	// stopped is the error that the next call returns, after a panic that is not retried. nil
	// means that the next call makes an attempt.
	stopped error
}

// New returns Retries that apply policy to next. It returns an error if policy is
// invalid.
func New[request comparable](
	policy retry.Policy, next reconcile.TypedReconciler[request],
) (*Retries[request], error) {
	if policy.MaxAttempts == 0 && policy.MaxRetries == 0 {
		policy.MaxAttempts = retry.Unlimited
	}
	if err := policy.Validate(); err != nil {
		return nil, fmt.Errorf("retrycontroller: %w", err)
	}
	return &Retries[request]{policy: policy, next: next, failing: map[request]failing{}}, nil
}

// Reconcile makes one attempt. It implements reconcile.TypedReconciler.
func (r *Retries[request]) Reconcile(
	ctx context.Context, req request,
) (result reconcile.Result, err error) {
	r.mu.Lock()
	f, again := r.failing[req]
	r.mu.Unlock()
	if f.stopped != nil {
		r.Forget(req)
		return reconcile.Result{}, f.stopped
	}
	if !again || f.works {
		f = failing{began: time.Now(), classes: map[string]int{}}
	}
	job := retryjob.Job{
		Key: fmt.Sprint(req), Attempt: f.failures + 1, Began: f.began, Classes: f.classes,
	}
	retryjob.Run(ctx, r.policy, job, func(ctx context.Context) (err error) {
		result, err = r.next.Reconcile(ctx, req)
		if errors.Is(err, reconcile.TerminalError(nil)) {
			err = retry.Permanent(err)
		}
		return err
	}, func(o retryjob.Outcome) { err = r.settle(req, f, o) })
	return result, err
}

// settle stores the decision, and returns the error for the controller.
func (r *Retries[request]) settle(req request, f failing, o retryjob.Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case o.Err == nil: // the controller calls Forget, unless the result asks for a Requeue
		if f, again := r.failing[req]; again {
			f.works = true
			r.failing[req] = f
		}
		return nil
	case o.Interrupted():
		return retry.Unwrap(o.Err)
	case o.Retry():
		f.failures++
		f.decided, f.delay = true, o.Delay
		if o.Class != "" {
			f.classes[o.Class]++
		}
		r.failing[req] = f
		return retry.Unwrap(o.Err)
	}
	delete(r.failing, req)
	err := reconcile.TerminalError(o.Err)
	if errors.Is(o.Err, retryjob.ErrPanicked) {
		r.failing[req] = failing{stopped: err}
	}
	return err
}

// When returns how long the controller waits before the next attempt. After a failure this is
// the delay that the policy decided. If the last attempt did not fail, but asked for a Requeue,
// the delay grows as after a failure, and no limit applies.
func (r *Retries[request]) When(req request) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, again := r.failing[req]
	if f.stopped != nil {
		return 0
	}
	f.works = f.works || !again
	if !f.decided {
		f.failures++
		seed := retry.SeedOf(fmt.Sprint(req))
		f.delay = r.policy.Next(retry.Attempt{Number: f.failures, Seed: seed}).Delay
	}
	f.decided = false
	r.failing[req] = f
	return f.delay
}

// Forget removes the counts of a request. The controller calls it after a success.
func (r *Retries[request]) Forget(req request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failing, req)
}

// NumRequeues returns how often req has failed since its last success. A Requeue without an
// error counts as a failure.
func (r *Retries[request]) NumRequeues(req request) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failing[req].failures
}
