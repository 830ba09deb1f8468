package retrycontroller_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrycontroller"
)

// FuzzController checks that an object never fails more often than its limit before the
// controller is told to stop, whatever its name is, and in whatever order the controller
// and its queue call.
func FuzzController(f *testing.F) {
	f.Add("ns", "name", []byte{0, 5, 0, 5, 0, 5, 0})
	f.Add("", "\xff/\x00", []byte{4, 0, 5, 4, 4, 5, 5, 5, 0, 3, 5, 0})
	f.Add("a/b", "", []byte{1, 5, 2, 5, 3, 6, 0, 5, 4, 5})
	f.Fuzz(func(t *testing.T, namespace, name string, calls []byte) {
		const limit = 3
		boom := errors.New("boom")
		failures, ran := 0, false
		answers := []func() (reconcile.Result, error){
			func() (reconcile.Result, error) { return reconcile.Result{}, boom },
			func() (reconcile.Result, error) { return reconcile.Result{}, retry.After(-1, boom) },
			func() (reconcile.Result, error) { return reconcile.Result{RequeueAfter: -1}, retry.Permanent(boom) },
			func() (reconcile.Result, error) { return reconcile.Result{}, nil },
			func() (reconcile.Result, error) { panic(boom) },
		}
		var answer func() (reconcile.Result, error)
		retries, err := retrycontroller.New(retry.Policy{MaxAttempts: limit, Backoff: retry.Fixed(time.Second)},
			reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { ran = true; return answer() }))
		require.NoError(t, err)
		request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
		for _, call := range calls {
			switch n := int(call) % 8; n {
			case 5:
				require.GreaterOrEqual(t, retries.When(request), time.Duration(0))
			case 6:
				retries.Forget(request)
				failures = 0
			case 7:
				require.GreaterOrEqual(t, retries.NumRequeues(request), 0)
			default:
				answer, ran = answers[n], false
				panicked, err := true, error(nil)
				func() {
					defer func() { _ = recover() }()
					_, err = retries.Reconcile(t.Context(), request)
					panicked = false
				}()
				if ran && (panicked || err != nil) {
					failures++
					require.LessOrEqual(t, failures, limit)
				}
				if !panicked && (err == nil || errors.Is(err, reconcile.TerminalError(nil))) {
					failures = 0
				}
			}
		}
	})
}
