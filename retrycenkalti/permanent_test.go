package retrycenkalti_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrycenkalti"
)

func TestTranslate(t *testing.T) {
	ours, theirs := retry.Permanent(errBoom), backoff.Permanent(errBoom)
	inner := func(reason retry.Reason, err error) error { return &retry.Error{Reason: reason, Attempts: 1, Err: err} }
	tests := []struct {
		name      string
		err       error
		permanent bool
		same      bool // returned as it is
	}{
		{"nothing marked", errBoom, false, true},
		{"nothing marked, within another", fmt.Errorf("call: %w", errBoom), false, true},
		{"retry.After", retry.After(time.Second, errBoom), false, true},
		{"an inner call that is exhausted", inner(retry.ReasonExhausted, errBoom), false, true},
		{"retry.Permanent", ours, true, false},
		{"retry.Permanent within another", fmt.Errorf("call: %w", ours), true, false},
		{"retry.Permanent of several", errors.Join(errors.New("first"), ours, errBoom), true, false},
		{"retry.Permanent in an inner call", inner(retry.ReasonPermanent, ours), true, false},
		{"an inner call that is not valid", inner(retry.ReasonInvalid, errBoom), true, false},
		{"backoff.Permanent", theirs, true, false},
		{"backoff.Permanent within another", fmt.Errorf("call: %w", theirs), true, false},
		{"backoff.Permanent of several", errors.Join(errors.New("first"), theirs, errBoom), true, false},
		{"backoff.Permanent in an inner call", inner(retry.ReasonRejected, theirs), true, false},
		{"retry.Permanent in backoff.Permanent", backoff.Permanent(ours), true, true},
		{"backoff.Permanent in retry.Permanent", retry.Permanent(theirs), true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := retrycenkalti.Translate(test.err)
			assert.Equal(t, test.err.Error(), got.Error(), "the text stays")
			assert.ErrorIs(t, got, errBoom)
			assert.ErrorIs(t, got, test.err)
			if test.same {
				assert.Equal(t, test.err, got)
			}
			assert.Equal(t, got, retrycenkalti.Translate(got), "twice is once")

			executions, reason := 3, retry.ReasonExhausted
			if test.permanent {
				executions, reason = 1, retry.ReasonPermanent
			}
			did, err := play(t, script{{err: got}}, do(retry.Policy{MaxAttempts: 3}))
			assert.Len(t, did.began, executions, "in our loop")
			assert.Equal(t, reason, retry.ReasonOf(err))
			did, err = play(t, script{{err: got}}, retryV4(backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 2)))
			assert.Len(t, did.began, executions, "in the loop of v4")
			assert.ErrorIs(t, err, errBoom)
		})
	}
	assert.NoError(t, retrycenkalti.Translate(nil))

	_, err := play(t, script{{err: retrycenkalti.Translate(theirs)}}, do(retry.Policy{MaxAttempts: 3}))
	assert.Same(t, theirs, retry.Unwrap(err), "the mark of v4 stays")
}

func TestAPermanentErrorWithoutAnError(t *testing.T) {
	empty := &backoff.PermanentError{}
	did, err := play(t, script{{err: empty}}, retryV4(&backoff.ZeroBackOff{}))
	require.NoError(t, err, "v4 takes it for a success")
	assert.Equal(t, at(true, 0), did)
	assert.NoError(t, retrycenkalti.Translate(empty))
	assert.NoError(t, retrycenkalti.Translate(wrapped{empty}))

	did, err = play(t, script{{err: empty}}, do(policyOf(t, backoff.NewConstantBackOff(time.Second))))
	assert.Equal(t, at(false, 0), did)
	assert.Equal(t, retry.ReasonRejected, retry.ReasonOf(err))
	assert.Panics(t, func() { _ = err.Error() })
	assert.Panics(t, func() { _ = empty.Error() })

	var none *backoff.PermanentError
	fn := func(context.Context) error { return none }
	assert.Panics(t, func() { _ = retrycenkalti.Translate(none) })
	assert.Panics(t, func() { _ = backoff.Retry(func() error { return none }, &backoff.StopBackOff{}) })
	assert.Panics(t, func() { _ = retry.Do(t.Context(), retry.Policy{}, fn) })
}

func TestRetryable(t *testing.T) {
	assert.True(t, retrycenkalti.Retryable(errBoom))
	assert.True(t, retrycenkalti.Retryable(retry.Permanent(errBoom)), "the loop itself knows this one")
	assert.False(t, retrycenkalti.Retryable(backoff.Permanent(errBoom)))
	assert.False(t, retrycenkalti.Retryable(fmt.Errorf("call: %w", backoff.Permanent(errBoom))))

	p := retry.Policy{MaxAttempts: 3, RetryIf: retrycenkalti.Retryable}
	err := retry.Do(t.Context(), p, func(context.Context) error { return backoff.Permanent(errBoom) })
	assert.EqualError(t, err, "retry: rejected by RetryIf after 1 attempt: connection refused")
	assert.ErrorIs(t, err, errBoom)
}
