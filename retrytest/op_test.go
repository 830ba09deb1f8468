package retrytest_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

func TestOpReturnsItsErrorsInOrderAndRepeatsTheLast(t *testing.T) {
	for _, tc := range []struct {
		name string
		op   *retrytest.Op
		want []error
	}{
		{"the zero Op succeeds", new(retrytest.Op), []error{nil, nil}},
		{"no errors", retrytest.NewOp(), []error{nil, nil}},
		{"always", retrytest.NewOp(errDown), []error{errDown, errDown, errDown}},
		{"two failures, and then successes", retrytest.NewOp(errDown, errBusy, nil), []error{errDown, errBusy, nil, nil}},
		{"a success in between", retrytest.NewOp(nil, errDown), []error{nil, errDown, errDown}},
	} {
		for i, want := range tc.want {
			assert.Equal(t, want, tc.op.Run(t.Context()), "%s: attempt %d", tc.name, i+1)
		}
		assert.Equal(t, len(tc.want), tc.op.Attempts(), tc.name)
	}
}

func TestOpRecordsItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		op := retrytest.NewOp(errDown)
		assert.Empty(t, op.Times())
		assert.Empty(t, op.Gaps())

		err := retry.Do(t.Context(), plain, op.Run)
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		require.ErrorIs(t, err, errDown)
		assert.Equal(t, 3, op.Attempts())
		assert.Equal(t, []time.Time{began, began.Add(time.Second), began.Add(3 * time.Second)}, op.Times())
		assert.Equal(t, []time.Duration{time.Second, 2 * time.Second}, op.Gaps())
		op.Times()[0] = time.Time{}
		assert.Equal(t, began, op.Times()[0], "Times returns a copy")
	})
}

func TestValue(t *testing.T) {
	fetch := retrytest.Value(retrytest.NewOp(errDown, nil), "body")
	got, err := fetch(t.Context())
	require.ErrorIs(t, err, errDown)
	assert.Empty(t, got, "a failure has no value")
	got, err = fetch(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "body", got)
}

func TestOpFromManyGoroutines(t *testing.T) {
	op := retrytest.NewOp(errDown, errDown, errDown, nil)
	var failed atomic.Int64
	var together sync.WaitGroup
	for range 100 {
		together.Go(func() {
			if op.Run(context.Background()) != nil {
				failed.Add(1)
			}
			op.Gaps()
		})
	}
	together.Wait()
	assert.Equal(t, 100, op.Attempts())
	assert.EqualValues(t, 3, failed.Load())
}
