package docs_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
)

// The pages name files by their paths from the top of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

var (
	errBoom = errors.New("boom")
	errDial = errors.New("dial tcp: connection refused")
)

// everySecond is a policy of three attempts, one second apart.
var everySecond = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}

// bubble runs a subtest in virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// fails returns a function that counts its attempts and always fails.
func fails(runs *int) func(context.Context) error {
	return func(context.Context) error { *runs++; return errDial }
}

// failWith returns a function that always returns err.
func failWith(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// within returns a context that ends after d, or when the test ends.
func within(ctx context.Context, d time.Duration, cause error) context.Context {
	ctx, cancel := context.WithTimeoutCause(ctx, d, cause)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// endingIn returns a function that derives a context which ends after d.
func endingIn(d time.Duration, cause error) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context { return within(ctx, d, cause) }
}
