package retrytest

import (
	"context"
	"reflect"
	"testing"
)

// Repeatable fails t if fn is not safe to retry with [retry.Do]. It runs fn twice. A retry may
// follow an attempt that succeeded, if the response to the attempt never arrived. So both runs must
// succeed and return the same value.
//
// The value should be the effect of fn, such as the bytes that a server received, the balance of an
// account, or the slice that fn filled. Return a copy of the effect. If you return a pointer to the
// effect, both runs return the same pointer, and Repeatable finds no difference. Repeatable
// compares the values with reflect.DeepEqual.
//
// Repeatable finds, for example, a reader that is empty in the second run, or an amount that both
// runs add. fn gets the context of t.
func Repeatable[T any](t testing.TB, fn func(context.Context) (T, error)) {
	t.Helper()
	first, err := fn(t.Context())
	if err != nil {
		t.Errorf("retrytest: the first run failed: %v", err)
		return
	}
	second, err := fn(t.Context())
	if err != nil {
		t.Errorf("retrytest: the first run succeeded, and the second run failed: %v", err)
		return
	}
	if !reflect.DeepEqual(first, second) {
		t.Errorf("retrytest: the first run returned %#v, and the second run %#v", first, second)
	}
}
