package retryotel_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryotel"
)

var errRefused = errors.New("connection refused")

var everySecond = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}

// failing returns a function that fails with these errors, one for each call, and
// then succeeds. Each call takes 30ms.
func failing(errs ...error) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(30 * time.Millisecond)
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}
}

// observe returns an Observer, and the reader of its metrics.
func observe(t *testing.T, policy string) (*retryotel.Observer, sdkmetric.Reader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	o, err := retryotel.New(policy, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, err)
	return o, reader
}

// collect returns the metrics of a reader by name.
func collect(t *testing.T, reader sdkmetric.Reader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	metrics := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		assert.Equal(t, "github.com/goretry/retry/adapters/retryotel", scope.Scope.Name)
		for _, m := range scope.Metrics {
			metrics[m.Name] = m
		}
	}
	return metrics
}

// A point is a point of a histogram without its buckets and times.
type point struct {
	attrs string
	count uint64
	sum   float64
}

func points[N int64 | float64](t *testing.T, m metricdata.Metrics) (points []point) {
	t.Helper()
	h, ok := m.Data.(metricdata.Histogram[N])
	require.True(t, ok, "%s is a %T", m.Name, m.Data)
	for _, p := range h.DataPoints {
		points = append(points, point{p.Attributes.Encoded(attribute.DefaultEncoder()), p.Count, float64(p.Sum)})
	}
	return points
}

func TestMetrics(t *testing.T) {
	o, reader := observe(t, "payments")
	budget := &retry.Budget{Size: 5}
	require.NoError(t, o.WatchBudget("bank", budget))
	require.NoError(t, o.WatchBudget("none", nil))
	p := everySecond
	p.Budget, p.OnEvent = budget, o.OnEvent
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	synctest.Test(t, func(t *testing.T) {
		for _, errs := range [][]error{nil, {errRefused}, {errRefused, errRefused, errRefused}, {retry.Permanent(errRefused)}} {
			_ = retry.Do(context.Background(), p, failing(errs...))
		}
		_ = retry.Do(canceled, p, failing())
		attempts := 0
		p.HealthyAfter, p.Budget = time.Minute, nil
		_ = retry.Do(context.Background(), p, func(context.Context) error { // the attempts count from 1 again within this one call
			if attempts++; attempts == 2 {
				time.Sleep(time.Minute)
			}
			return errRefused
		})
		assert.Equal(t, 4, attempts, "after the second attempt, three attempts follow: it counts as the first")
	})

	metrics := collect(t, reader)
	var names []string
	for name, m := range metrics {
		names = append(names, name+" "+m.Unit)
		assert.NotEmpty(t, m.Description, name)
	}
	assert.ElementsMatch(t, []string{"retry.call.duration s", "retry.call.retries {retry}", "retry.attempt.duration s", "retry.delay s", "retry.budget.left {retry}"}, names)

	const refused = "error.type=*errors.errorString,retry.policy=payments"
	assert.ElementsMatch(t, []point{
		{"retry.policy=payments,retry.reason=success", 2, 0.03 + 1.06},
		{refused + ",retry.reason=attempts_exhausted", 2, 2.09 + 2},
		{refused + ",retry.reason=permanent_error", 1, 0.03},
		{"retry.policy=payments,retry.reason=canceled", 1, 0},
	}, points[float64](t, metrics["retry.call.duration"]))
	assert.ElementsMatch(t, []point{
		{"retry.policy=payments,retry.reason=success", 2, 1},
		{"retry.policy=payments,retry.reason=attempts_exhausted", 2, 2 + 3},
		{"retry.policy=payments,retry.reason=permanent_error", 1, 0},
		{"retry.policy=payments,retry.reason=canceled", 1, 0},
	}, points[int64](t, metrics["retry.call.retries"]))
	assert.ElementsMatch(t, []point{{"retry.policy=payments", 2, 0.06}, {refused, 5 + 4, 0.15 + 60}}, points[float64](t, metrics["retry.attempt.duration"]))
	assert.ElementsMatch(t, []point{{refused, 3 + 3, 3 + 3}}, points[float64](t, metrics["retry.delay"]))
	metricdatatest.AssertEqual(t, metricdata.Gauge[int64]{DataPoints: []metricdata.DataPoint[int64]{
		{Attributes: attribute.NewSet(attribute.String("retry.budget", "bank")), Value: 2},
	}}, metrics["retry.budget.left"].Data.(metricdata.Gauge[int64]), metricdatatest.IgnoreTimestamp())

	retries := metrics["retry.call.retries"].Data.(metricdata.Histogram[int64]).DataPoints
	assert.Equal(t, []float64{0, 1, 2, 3, 4, 5, 10}, retries[0].Bounds)
}

// The class of a failure is an attribute of its retry. If Classify makes up names, only 64 of
// them become an attribute, because each is a time series.
func TestClasses(t *testing.T) {
	o, reader := observe(t, "p")
	want := []point{{"retry.policy=p", 1, 1}, {"retry.class=other,retry.policy=p", 2 * 36, 2 * 36}}
	o.OnEvent(context.Background(), retry.Event{Kind: retry.RetryScheduled, Decision: retry.Decision{Delay: time.Second}})
	for range 2 {
		for n := range 100 {
			o.OnEvent(context.Background(), retry.Event{Kind: retry.RetryScheduled, Decision: retry.Decision{Class: fmt.Sprint("class ", n), Delay: time.Second}})
		}
	}
	for n := range 64 {
		want = append(want, point{fmt.Sprintf("retry.class=class %d,retry.policy=p", n), 2, 2})
	}
	assert.ElementsMatch(t, want, points[float64](t, collect(t, reader)["retry.delay"]))
}

// One Observer reports the calls of many goroutines, which also add budgets,
// while its metrics are collected.
func TestManyGoroutines(t *testing.T) {
	o, reader := observe(t, "payments")
	exporter := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)).Tracer("test")
	const goroutines, calls = 16, 50
	var left []metricdata.DataPoint[int64]
	var all sync.WaitGroup
	for g := range goroutines {
		name, b := fmt.Sprint("budget ", g), &retry.Budget{Size: 2*calls + g}
		left = append(left, metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String("retry.budget", name)), Value: int64(g)})
		p := retry.Policy{MaxAttempts: 3, Budget: b, OnEvent: o.OnEvent}
		all.Go(func() {
			assert.NoError(t, o.WatchBudget(name, b))
			for range calls {
				ctx, span := tracer.Start(context.Background(), "call")
				_ = retry.Do(ctx, p, func(context.Context) error { return errRefused })
				span.End()
			}
			assert.NoError(t, reader.Collect(context.Background(), new(metricdata.ResourceMetrics)))
		})
	}
	all.Wait()

	const n = goroutines * calls
	metrics := collect(t, reader)
	assert.Equal(t, []point{{"retry.policy=payments,retry.reason=attempts_exhausted", n, 2 * n}}, points[int64](t, metrics["retry.call.retries"]))
	metricdatatest.AssertEqual(t, metricdata.Gauge[int64]{DataPoints: left}, metrics["retry.budget.left"].Data.(metricdata.Gauge[int64]), metricdatatest.IgnoreTimestamp())
	spans := exporter.GetSpans()
	assert.Len(t, spans, n)
	for _, span := range spans {
		assert.Len(t, span.Events, 2)
	}
}

// An exemplar links a measurement to the trace of its call.
func TestExemplars(t *testing.T) {
	o, reader := observe(t, "payments")
	p := everySecond
	p.OnEvent = o.OnEvent
	ctx, span := sdktrace.NewTracerProvider().Tracer("test").Start(context.Background(), "call")
	synctest.Test(t, func(t *testing.T) { _ = retry.Do(ctx, p, failing(errRefused)) })
	span.End()

	metrics := collect(t, reader)
	traceID := span.SpanContext().TraceID()
	for _, name := range []string{"retry.call.duration", "retry.attempt.duration", "retry.delay"} {
		for _, p := range metrics[name].Data.(metricdata.Histogram[float64]).DataPoints {
			require.NotEmpty(t, p.Exemplars, name)
			assert.Equal(t, traceID[:], p.Exemplars[0].TraceID, name)
		}
	}
	for _, p := range metrics["retry.call.retries"].Data.(metricdata.Histogram[int64]).DataPoints {
		require.NotEmpty(t, p.Exemplars)
		assert.Equal(t, traceID[:], p.Exemplars[0].TraceID)
	}
}

func TestSpanEvents(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)).Tracer("test")
	o, err := retryotel.New("payments", noop.NewMeterProvider())
	require.NoError(t, err)
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Linear(time.Second), OnEvent: o.OnEvent, Classify: func(err error) *retry.Class {
		if err == errRefused {
			return nil
		}
		return &retry.Class{Name: "busy"}
	}}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, span := tracer.Start(context.Background(), "call")
		_ = retry.Do(ctx, p, failing(errRefused, status(503)))
		span.End()
		_ = retry.Do(ctx, p, failing(errRefused)) // the span has ended

		var got []string
		for _, e := range exporter.GetSpans()[0].Events {
			text := fmt.Sprintf("%s@%v", e.Name, e.Time.Sub(began))
			for _, a := range e.Attributes {
				text += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
			}
			got = append(got, text)
		}
		assert.Equal(t, []string{
			"retry@30ms retry.attempt=1 retry.delay=1 retry.policy=payments error.type=*errors.errorString",
			"retry@1.06s retry.class=busy retry.attempt=2 retry.delay=2 retry.policy=payments error.type=503",
		}, got)
	})
}

// A status is an error with the status of a response.
type status int

func (s status) Error() string       { return fmt.Sprint(int(s)) }
func (s status) HTTPStatusCode() int { return int(s) }

type named struct{}

func (named) Error() string { return "a text that differs each time" }

type typed struct{ error }

func (typed) ErrorType() string { return "timeout" }

func TestErrorType(t *testing.T) {
	inner := func(err error) error {
		return retry.Do(context.Background(), retry.Policy{}, func(context.Context) error { return err })
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, row := range []struct {
		name string
		err  error
		want string
	}{
		{"the type of the error", named{}, "github.com/goretry/retry/adapters/retryotel_test.named"},
		{"the type of a pointer", errRefused, "*errors.errorString"},
		{"wrapped by fmt", fmt.Errorf("call 17: %w", named{}), "github.com/goretry/retry/adapters/retryotel_test.named"},
		{"marked", retry.Permanent(retry.After(time.Second, named{})), "github.com/goretry/retry/adapters/retryotel_test.named"},
		{"the result of ErrorType", typed{errRefused}, "timeout"},
		{"a status", fmt.Errorf("charge: %w", status(429)), "429"},
		{"the error of an inner call", inner(inner(retry.Permanent(named{}))), "github.com/goretry/retry/adapters/retryotel_test.named"},
		{"an inner call that was canceled before it began", retry.Do(canceled, retry.Policy{}, failing()), "*errors.errorString"},
		{"an empty Error", &retry.Error{}, "*retry.Error"},
		{"a slice, which cannot be compared", many{}, "github.com/goretry/retry/adapters/retryotel_test.many"},
	} {
		t.Run(row.name, func(t *testing.T) {
			o, reader := observe(t, "p")
			o.OnEvent(context.Background(), retry.Event{Kind: retry.AttemptFinished, Err: row.err})
			assert.Equal(t, []point{{"error.type=" + row.want + ",retry.policy=p", 1, 0}}, points[float64](t, collect(t, reader)["retry.attempt.duration"]))
		})
	}
}

type many []error

func (many) Error() string { return "many" }

func TestTheGlobalProvider(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	defer otel.SetMeterProvider(before)
	o, err := retryotel.New("p", nil)
	require.NoError(t, err)
	o.OnEvent(context.Background(), retry.Event{Kind: retry.RetryScheduled, Decision: retry.Decision{Delay: time.Second}})
	assert.Equal(t, []point{{"retry.policy=p", 1, 1}}, points[float64](t, collect(t, reader)["retry.delay"]))
}

// If the meter rejects an instrument, New fails.
func TestNewFails(t *testing.T) {
	_, err := retryotel.New("p", refusing{})
	assert.ErrorIs(t, err, errRefused)
	assert.ErrorContains(t, err, "retryotel: ")
}

type refusing struct{ noop.MeterProvider }

func (refusing) Meter(string, ...metric.MeterOption) metric.Meter { return refusingMeter{} }

type refusingMeter struct{ noop.Meter }

func (refusingMeter) Int64ObservableGauge(string, ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return nil, errRefused
}
