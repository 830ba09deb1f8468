package httptests

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/goretry/retry"
)

// The tests below run the snippets of docs/recipes.md that need other libraries.

var (
	errDown = errors.New("dial tcp: connection refused")
	policy  = retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second)}
)

// The breaker opens after the third failure, for ten seconds. The call succeeds from its fourth
// attempt on.
func TestBreaker(t *testing.T) {
	for _, row := range []struct {
		name  string
		run   func(ctx context.Context, breaker circuitbreaker.CircuitBreaker[any], call func(context.Context) error) error
		calls int
		took  time.Duration
		open  bool // whether the breaker is open at the end
	}{
		{"inside", func(ctx context.Context, breaker circuitbreaker.CircuitBreaker[any], call func(context.Context) error) error {
			err := retry.Do(ctx, policy, func(ctx context.Context) error {
				err := failsafe.With(breaker).WithContext(ctx).Run(func() error { return call(ctx) })
				if errors.Is(err, circuitbreaker.ErrOpen) {
					return retry.After(breaker.RemainingDelay(), err)
				}
				return err
			})
			return err
		}, 4, 12 * time.Second, false},
		{"around", func(ctx context.Context, breaker circuitbreaker.CircuitBreaker[any], call func(context.Context) error) error {
			policy := policy
			policy.MaxAttempts = 1
			var last error
			for range 4 {
				err := failsafe.With(breaker).WithContext(ctx).Run(func() error { return retry.Do(ctx, policy, call) })
				last = err
			}
			return last
		}, 3, 0, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				breaker := circuitbreaker.NewBuilder[any]().WithFailureThreshold(3).WithDelay(10 * time.Second).Build()
				calls, began := 0, time.Now()
				err := row.run(t.Context(), breaker, func(context.Context) error {
					if calls++; calls < 4 {
						return errDown
					}
					return nil
				})
				assert.Equal(t, row.open, errors.Is(err, circuitbreaker.ErrOpen))
				assert.Equal(t, row.calls, calls)
				assert.Equal(t, row.took, time.Since(began))
			})
		})
	}
}

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewInMemoryExporter()
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("orders")
		ctx, order, calls := t.Context(), "order 17", 0
		charge := func(context.Context, string) error {
			if calls++; calls < 3 {
				return errDown
			}
			return nil
		}

		err := retry.Do(ctx, policy, func(ctx context.Context) error {
			ctx, span := tracer.Start(ctx, "charge")
			defer span.End()
			err := charge(ctx, order)
			if err != nil {
				span.RecordError(err)
				span.SetStatus(codes.Error, err.Error())
			}
			return err
		})

		require.NoError(t, err)
		var statuses []codes.Code
		for _, span := range spans.GetSpans() {
			statuses = append(statuses, span.Status.Code)
		}
		assert.Equal(t, []codes.Code{codes.Error, codes.Error, codes.Unset}, statuses)
	})
}
