// Package retrycontroller applies a retry.Policy to a Kubernetes controller
// (sigs.k8s.io/controller-runtime). If the reconciler fails, the policy decides whether and when
// the object is reconciled again.
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
// Pass the same [Retries] value to the controller twice, as its RateLimiter and as its reconciler.
// Use this value for one controller only. As the reconciler, it calls your reconciler and applies
// the policy to the error. As the RateLimiter, it tells the controller the delay of the policy.
// With another RateLimiter, the limits of the policy hold, but the controller waits for the delays
// of that RateLimiter, and the delays in the events are wrong.
//
// # What happens to an object after an attempt
//
// Your reconciler returns errors as usual, and may wrap them with [retry.Permanent] and
// [retry.After]. If the policy allows a retry, the controller gets the error of your reconciler.
// Otherwise the controller gets a reconcile.TerminalError. The text of this error says why there is
// no retry, and [retry.ReasonOf] returns the reason. A TerminalError that your reconciler returns
// is permanent.
//
// After a TerminalError, the next change of the object starts again with attempt 1. After a
// success or a RequeueAfter, the next call of your reconciler is attempt 1 too.
//
// If an object changes or is resynced while it waits for a retry, it is reconciled at once. If this
// call of your reconciler fails, the call counts as the next attempt.
//
// A panic of your reconciler is a failed attempt. The panic then reaches the controller, which by
// default logs and counts the panic, and retries. If the policy does not allow a retry, the
// controller's next call of [Retries.Reconcile] returns a TerminalError without calling your
// reconciler.
//
// # Limits
//
// Controllers usually retry until they succeed. So if a policy sets neither MaxAttempts nor
// MaxRetries, this package does not limit the attempts. Without a limit, each wait is at least
// 10ms. MaxElapsed counts from the start of the first failed attempt. HealthyAfter and Wait have no
// effect.
//
// The numbers of attempts are kept in memory. After a restart, or if another process becomes
// the leader, each object starts again with attempt 1. The failures of each named [retry.Class]
// are counted separately.
//
// The seed of a delay is made from the text of the request, "namespace/name" (see
// [retry.SeedOf]). So another process can compute the same delays. In an OnEvent,
// retrylog.Key(ctx) returns this text, as the key for logs.
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

// Retries is a reconciler and a RateLimiter for one controller. Its methods are safe for
// concurrent use.
type Retries[request comparable] struct {
	policy     retry.Policy
	reconciler reconcile.TypedReconciler[request]

	mu     sync.Mutex               // guards `states`
	states map[request]requestState // requests whose last attempt failed or asked for a Requeue
}

// A requestState is the state of a request whose last attempt failed, or asked for a Requeue
// without an error.
type requestState struct {
	failures int            // how many attempts have failed or asked for a Requeue
	decided  bool           // whether the policy has set the delay, and the method When must return it
	works    bool           // whether the last attempt succeeded; the next attempt is then attempt 1
	delay    time.Duration  // the delay before the next attempt
	began    time.Time      // when the first attempt after the last success began
	classes  map[string]int // how many failures of each class there were

	// stopped is the error that the next call of Reconcile returns, if the last attempt has panicked
	// and is not retried. If `stopped` is nil, the next call of Reconcile makes an attempt.
	stopped error
}

// New returns a Retries value. It calls the parameter `reconciler`, and applies the parameter
// `policy` to the errors of the reconciler. New returns an error if the policy is invalid.
func New[request comparable](
	policy retry.Policy, reconciler reconcile.TypedReconciler[request],
) (*Retries[request], error) {
	if policy.MaxAttempts == 0 && policy.MaxRetries == 0 {
		policy.MaxAttempts = retry.Unlimited
	}
	if err := policy.Validate(); err != nil {
		return nil, fmt.Errorf("retrycontroller: %w", err)
	}
	return &Retries[request]{
		policy: policy, reconciler: reconciler, states: map[request]requestState{},
	}, nil
}

// Reconcile makes one attempt. It implements reconcile.TypedReconciler.
func (r *Retries[request]) Reconcile(
	ctx context.Context, req request,
) (result reconcile.Result, err error) {
	r.mu.Lock()
	f, again := r.states[req]
	r.mu.Unlock()
	if f.stopped != nil {
		r.Forget(req)
		return reconcile.Result{}, f.stopped
	}
	if !again || f.works {
		f = requestState{began: time.Now(), classes: map[string]int{}}
	}
	job := retryjob.Job{
		Key: fmt.Sprint(req), Attempt: f.failures + 1, Began: f.began, Classes: f.classes,
	}
	retryjob.Run(ctx, r.policy, job, func(ctx context.Context) (err error) {
		result, err = r.reconciler.Reconcile(ctx, req)
		if errors.Is(err, reconcile.TerminalError(nil)) {
			err = retry.Permanent(err)
		}
		return err
	}, func(o retryjob.Outcome) { err = r.settle(req, f, o) })
	return result, err
}

// settle stores the decision of the policy, and returns the error for the controller.
func (r *Retries[request]) settle(req request, f requestState, o retryjob.Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case o.Err == nil: // the controller calls Forget, unless the result asks for a Requeue
		if f, again := r.states[req]; again {
			f.works = true
			r.states[req] = f
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
		r.states[req] = f
		return retry.Unwrap(o.Err)
	}
	delete(r.states, req)
	err := reconcile.TerminalError(o.Err)
	if errors.Is(o.Err, retryjob.ErrPanicked) {
		r.states[req] = requestState{stopped: err}
	}
	return err
}

// When is a method of the RateLimiter. It returns how long the controller waits before the next
// attempt. After a failure, this is the delay of the policy. If the last attempt did not fail but
// asked for a Requeue, the delay grows as it does after failures, but no limit of the policy
// applies.
func (r *Retries[request]) When(req request) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, again := r.states[req]
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
	r.states[req] = f
	return f.delay
}

// Forget removes the counts of a request. The controller calls it after a success.
func (r *Retries[request]) Forget(req request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, req)
}

// NumRequeues returns how many attempts for req in a row have failed or have asked for a Requeue. A
// failure after a Requeue starts again with 1.
func (r *Retries[request]) NumRequeues(req request) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states[req].failures
}
