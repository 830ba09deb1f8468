package retrycontroller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrycontroller"
)

// An offline is a manager without an API server.
type offline struct {
	manager.Manager
	objects    informertest.FakeInformers
	controller manager.Runnable
}

func (m *offline) GetCache() cache.Cache        { return &m.objects }
func (m *offline) GetScheme() *runtime.Scheme   { return scheme.Scheme }
func (m *offline) GetLogger() logr.Logger       { return logr.Discard() }
func (m *offline) Add(c manager.Runnable) error { m.controller = c; return nil }
func (m *offline) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: &yes}
}

// This is the snippet of the README. The reconciler of an object fails twice, and is called again
// after the delays of the policy.
func TestREADMEController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		mgr, policy := new(offline), retry.Policy{Backoff: retry.Fixed(time.Second)}
		var began []time.Time
		reconciler := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			if began = append(began, time.Now()); len(began) < 3 {
				return reconcile.Result{}, errBoom
			}
			return reconcile.Result{}, nil
		})
		setUp := func() error {
			retries, err := retrycontroller.New(policy, reconciler)
			if err != nil {
				return err
			}
			return builder.ControllerManagedBy(mgr).
				For(&corev1.ConfigMap{}).
				WithOptions(controller.Options{RateLimiter: retries}).
				Complete(retries)
		}
		require.NoError(t, setUp())
		ended := make(chan error)
		go func() { ended <- mgr.controller.Start(ctx) }()
		synctest.Wait()
		informer, err := mgr.objects.FakeInformerFor(ctx, &corev1.ConfigMap{})
		require.NoError(t, err)
		informer.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
		time.Sleep(time.Minute)
		stop()
		require.NoError(t, <-ended)
		require.Len(t, began, 3)
		assert.Equal(t, []time.Duration{time.Second, time.Second}, []time.Duration{began[1].Sub(began[0]), began[2].Sub(began[1])})
	})
}
