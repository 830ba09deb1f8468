package retryotel_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryotel"
)

func Example() {
	// A real program uses a MeterProvider that exports. The example reads its own.
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	if err := pay(provider); err != nil {
		fmt.Println(err)
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if retries, ok := m.Data.(metricdata.Histogram[int64]); ok {
			for _, p := range retries.DataPoints {
				fmt.Println(m.Name, p.Attributes.Encoded(attribute.DefaultEncoder()), "calls:", p.Count, "retries:", p.Sum)
			}
		}
	}
	// Unordered output:
	// retry.call.retries retry.policy=payments,retry.reason=success calls: 1 retries: 0
	// retry.call.retries retry.policy=payments,retry.reason=attempts_exhausted calls: 1 retries: 2
}

func pay(provider metric.MeterProvider) error {
	budget := &retry.Budget{Size: 10, Ratio: 0.1}
	observer, err := retryotel.New("payments", provider)
	if err != nil {
		return err
	}
	if err := observer.WatchBudget("payments", budget); err != nil {
		return err
	}
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond), Budget: budget, OnEvent: observer.OnEvent}

	err = retry.Do(context.Background(), policy, func(context.Context) error { return nil })
	failed := retry.Do(context.Background(), policy, func(context.Context) error { return errors.New("connection refused") })
	if failed == nil {
		return errors.New("the second call must fail")
	}
	return err
}
