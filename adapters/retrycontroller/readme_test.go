package retrycontroller_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/readmetest"
	"github.com/goretry/retry/adapters/retrycontroller"
)

func TestREADME(t *testing.T) { readmetest.Run(t) }

// The snippet of the README is only compiled, because a manager needs an API server.
var _ = func(policy retry.Policy, reconciler reconcile.Reconciler, mgr manager.Manager) error {
	retries, err := retrycontroller.New(policy, reconciler)
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{RateLimiter: retries}).
		Complete(retries)
}
