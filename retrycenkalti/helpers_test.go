package retrycenkalti_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

var errBoom = errors.New("connection refused")

// An execution is one attempt of an operation.
type execution struct {
	takes time.Duration
	err   error
}

// A script lists the attempts of an operation, one after the other. The last attempt repeats.
type script []execution

// fails is a script that always fails, at once.
var fails = script{{err: errBoom}}

// then returns s with one more attempt.
func (s script) then(err error) script { return append(s[:len(s):len(s)], execution{err: err}) }

// failsTimes is a script that fails n times, at once, and then succeeds.
func failsTimes(n int) script {
	s := make(script, n+1)
	for i := range n {
		s[i].err = errBoom
	}
	return s
}

// A trace records in virtual time what a loop did with an operation.
type trace struct {
	began []time.Duration // when each attempt began
	ended time.Duration   // when the loop ended
	ok    bool
}

// A loop retries an operation.
type loop = func(ctx context.Context, op func() error) error

// play runs a loop in its own synctest bubble. The operation of the loop follows the script. play
// returns the trace and the error of the loop.
func play(t *testing.T, s script, loop loop) (trace, error) {
	t.Helper()
	var did trace
	var err error
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err = loop(t.Context(), func() error {
			step := s[min(len(did.began), len(s)-1)]
			did.began = append(did.began, time.Since(start))
			require.Less(t, len(did.began), 100, "the loop does not end")
			time.Sleep(step.takes)
			return step.err
		})
		did.ended = time.Since(start)
		did.ok = err == nil
	})
	return did, err
}

// at returns the trace of attempts that began at these times and took no time.
func at(ok bool, began ...time.Duration) trace {
	return trace{began: began, ended: began[len(began)-1], ok: ok}
}

// retryV4 returns the loop of v4.
func retryV4(b backoff.BackOff) loop {
	return func(ctx context.Context, op func() error) error {
		return backoff.Retry(op, backoff.WithContext(b, ctx))
	}
}

// observing returns the loop of v4 with our BackOff, which observes the errors.
func observing(t *testing.T, p retry.Policy) loop {
	b := newBackOff(t, p)
	return func(ctx context.Context, op func() error) error {
		return retryV4(b)(ctx, func() error { return b.Observe(op()) })
	}
}

// do returns our loop.
func do(p retry.Policy) loop {
	return func(ctx context.Context, op func() error) error {
		return retry.Do(ctx, p, func(context.Context) error { return op() })
	}
}

func nextBackOffs(b backoff.BackOff, n int) []time.Duration {
	b.Reset()
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = b.NextBackOff()
	}
	return all
}
