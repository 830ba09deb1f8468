package retrycontroller_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrycontroller"
)

// A controller without an API server: its source adds one object, whose reconciler
// fails until the policy stops it.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	attempts := 0
	reconciler := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		if attempts++; attempts == 1 {
			return reconcile.Result{}, retry.After(20*time.Millisecond, errors.New("429 Too Many Requests"))
		}
		return reconcile.Result{}, errors.New("connection refused")
	})
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Millisecond}, OnEvent: func(_ context.Context, e retry.Event) {
		switch e.Kind {
		case retry.RetryScheduled:
			fmt.Println("attempt", e.Attempt, "failed:", e.Err, "- again after", e.Delay)
		case retry.CallFinished:
			fmt.Println(e.Reason, "after", e.Attempt, "attempts")
			stop()
		}
	}}
	retries, err := retrycontroller.New(policy, reconciler)
	if err != nil {
		log.Fatal(err)
	}
	c, err := controller.NewUnmanaged("example", controller.Options{Reconciler: retries, RateLimiter: retries})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "web"}})
		return nil
	})); err != nil {
		log.Fatal(err)
	}
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// attempt 1 failed: 429 Too Many Requests - again after 20ms
	// attempt 2 failed: connection refused - again after 2ms
	// attempts_exhausted after 3 attempts
}
