package retrytest

import (
	"context"
	"reflect"
	"testing"
)

// Repeatable fails t unless fn can be an operation of [retry.Do]. It runs fn, and
// once that succeeded runs it again, as a retry does when the answer of a
// successful attempt was lost. The second run must succeed too and return the
// same value.
//
// The value should be the effect of fn, which must not depend on how often it
// ran: the bytes that a server received, the balance of an account, the slice
// that was filled. Return a copy of it and not a pointer to what fn changes,
// because both runs would return the same pointer. The values are compared with
// reflect.DeepEqual.
//
// Repeatable finds a reader that is empty the second time, a slice that is
// appended to twice, or a sum that is added twice. fn gets the context of t.
func Repeatable[T any](t testing.TB, fn func(context.Context) (T, error)) {
	t.Helper()
	first, err := fn(t.Context())
	if err != nil {
		t.Errorf("retrytest: the first run failed: %v", err)
		return
	}
	second, err := fn(t.Context())
	if err != nil {
		t.Errorf("retrytest: the first run succeeded, and the second one failed: %v", err)
		return
	}
	if !reflect.DeepEqual(first, second) {
		t.Errorf("retrytest: the first run returned %#v, and the second one %#v", first, second)
	}
}
