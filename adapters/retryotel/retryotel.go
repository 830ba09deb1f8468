// Package retryotel reports retries to OpenTelemetry, as metrics and as events on
// the current span.
//
//	observer, err := retryotel.New("payments", nil)
//	if err != nil {
//		return err
//	}
//	policy.OnEvent = observer.OnEvent
//
// # Metrics
//
// OpenTelemetry has no conventions for retries. These metrics are modeled on the metrics
// of gRPC's proposals A66 and A96:
//
//	metric                  unit     kind       recorded for           attributes
//	retry.call.duration     s        histogram  each finished call     retry.reason, error.type
//	retry.call.retries      {retry}  histogram  each finished call     retry.reason
//	retry.attempt.duration  s        histogram  each finished attempt  error.type
//	retry.delay             s        histogram  each scheduled retry   retry.class, error.type
//	retry.budget.left       {retry}  gauge      each watched Budget    retry.budget
//
// A call without a retry is recorded with 0 retries. The attributes are:
//
//   - retry.policy is the name that was passed to [New]. All metrics except
//     retry.budget.left have this attribute.
//   - retry.budget is the name that was passed to [Observer.WatchBudget].
//   - retry.reason is the [retry.Reason], such as "attempts_exhausted".
//   - retry.class is the name of the failure's [retry.Class]. A failure without a class lacks the
//     attribute retry.class. An Observer reports the first 64 names that it sees. The metrics
//     report "other" in place of all later names, because each name is a time series.
//   - error.type follows OpenTelemetry's semantic conventions. If the error contains an HTTP
//     response, error.type is its status, such as "503". For any other error, error.type is the
//     result of the error's method ErrorType. If the error lacks this method, error.type is the
//     name of the error's type.
//     A success lacks the attribute error.type.
//
// Measurements are recorded with the context of the call, so exemplars link to the call's
// trace.
//
// The count of a histogram is the number of values that it has recorded, so it says how many calls
// or attempts have finished, or how many retries were scheduled. After an attempt that ran past
// [retry.Policy.HealthyAfter], the duration of the call counts from the end of this attempt. But
// the number of retries always includes all retries of the call.
//
// # Spans
//
// If the context of the call has a span that is recorded, each scheduled retry adds an event
// "retry" to the span. The attributes of the event are retry.policy, retry.attempt (the attempt
// that failed), retry.delay in seconds, retry.class and error.type.
package retryotel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/goretry/retry"
)

const scope = "github.com/goretry/retry/adapters/retryotel"

const (
	policyKey  = attribute.Key("retry.policy")
	reasonKey  = attribute.Key("retry.reason")
	classKey   = attribute.Key("retry.class")
	attemptKey = attribute.Key("retry.attempt")
	delayKey   = attribute.Key("retry.delay")
	budgetKey  = attribute.Key("retry.budget")
)

// An Observer reports the calls of a policy. It is safe for concurrent use.
type Observer struct {
	policy attribute.KeyValue
	meter  metric.Meter

	callDuration    metric.Float64Histogram
	callRetries     metric.Int64Histogram
	attemptDuration metric.Float64Histogram
	delay           metric.Float64Histogram
	budgetLeft      metric.Int64ObservableGauge

	mu      sync.Mutex // guards `classes`
	classes []string   // the first 64 names of classes in the metric "retry.delay"
}

// New returns an Observer that reports calls. The attribute retry.policy of these reports has the
// value of the parameter `policy`. If `provider` is nil, New uses otel.GetMeterProvider(). New
// returns the error of the provider if an instrument cannot be created.
func New(policy string, provider metric.MeterProvider) (*Observer, error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	o := &Observer{policy: policyKey.String(policy), meter: provider.Meter(scope)}
	if err := o.createInstruments(); err != nil {
		return nil, fmt.Errorf("retryotel: %w", err)
	}
	return o, nil
}

func (o *Observer) createInstruments() error {
	var errs [5]error
	seconds := metric.WithExplicitBucketBoundaries(
		0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
	o.callDuration, errs[0] = o.meter.Float64Histogram("retry.call.duration",
		metric.WithUnit("s"), seconds,
		metric.WithDescription("Duration of calls from the start of the first attempt "+
			"until they stop, waits included."))
	o.callRetries, errs[1] = o.meter.Int64Histogram("retry.call.retries",
		metric.WithUnit("{retry}"),
		metric.WithExplicitBucketBoundaries(0, 1, 2, 3, 4, 5, 10),
		metric.WithDescription("Number of retries of calls that stopped."))
	o.attemptDuration, errs[2] = o.meter.Float64Histogram("retry.attempt.duration",
		metric.WithUnit("s"), seconds,
		metric.WithDescription("Duration of attempts."))
	o.delay, errs[3] = o.meter.Float64Histogram("retry.delay",
		metric.WithUnit("s"), seconds,
		metric.WithDescription("Planned delays of scheduled retries."))
	o.budgetLeft, errs[4] = o.meter.Int64ObservableGauge("retry.budget.left",
		metric.WithUnit("{retry}"),
		metric.WithDescription("Number of retries left in a budget."))
	return errors.Join(errs[:]...)
}

// WatchBudget reports the number of retries left in b as the metric retry.budget.left. In this
// metric, the attribute retry.budget has the value of the parameter `name`. If several policies
// share a Budget, watch it with one Observer only. WatchBudget does not report a nil Budget,
// because a nil Budget is unlimited.
func (o *Observer) WatchBudget(name string, b *retry.Budget) error {
	if b == nil {
		return nil
	}
	attrs := metric.WithAttributes(budgetKey.String(name))
	_, err := o.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		to.ObserveInt64(o.budgetLeft, int64(b.Left()), attrs)
		return nil
	}, o.budgetLeft)
	if err != nil {
		return fmt.Errorf("retryotel: %w", err)
	}
	return nil
}

// OnEvent reports e. Use it as the OnEvent of a policy.
func (o *Observer) OnEvent(ctx context.Context, e retry.Event) {
	switch e.Kind {
	case retry.AttemptFinished:
		attrs := metric.WithAttributes(o.attributes(e.Err)...)
		o.attemptDuration.Record(ctx, e.Took.Seconds(), attrs)
	case retry.RetryScheduled:
		delay := e.Delay.Seconds()
		attrs := o.attributes(e.Err, class(o.known(e.Class))...)
		o.delay.Record(ctx, delay, metric.WithAttributes(attrs...))
		if span := trace.SpanFromContext(ctx); span.IsRecording() {
			attrs := append(class(e.Class), attemptKey.Int(e.Attempt), delayKey.Float64(delay))
			attrs = o.attributes(e.Err, attrs...)
			span.AddEvent("retry", trace.WithTimestamp(e.Time), trace.WithAttributes(attrs...))
		}
	case retry.CallFinished:
		reason := reasonKey.String(string(e.Reason))
		retries := max(0, e.Attempt-1) // Attempt is 0 if no attempt was made
		attrs := metric.WithAttributes(o.attributes(e.Err, reason)...)
		o.callDuration.Record(ctx, e.Elapsed.Seconds(), attrs)
		attrs = metric.WithAttributes(o.attributes(nil, reason)...)
		o.callRetries.Record(ctx, int64(retries), attrs)
	}
}

// known returns the parameter `name` if it is one of the first 64 names of classes, and otherwise
// "other", as retrylog.Counters does. Without this limit, there could be any number of names,
// because a Classify function may return a new name for each failure.
func (o *Observer) known(name string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case name == "" || slices.Contains(o.classes, name):
	case len(o.classes) == 64:
		return "other"
	default:
		o.classes = append(o.classes, name)
	}
	return name
}

// class returns the attribute for a class, or no attribute if the parameter `name` is "".
func class(name string) []attribute.KeyValue {
	if name == "" {
		return nil
	}
	return []attribute.KeyValue{classKey.String(name)}
}

// attributes returns the attributes in the parameter `others` and the attribute retry.policy. If
// err is not nil, it also returns the attribute error.type.
func (o *Observer) attributes(err error, others ...attribute.KeyValue) []attribute.KeyValue {
	attrs := append(others, o.policy)
	if err != nil {
		attrs = append(attrs, errorType(err))
	}
	return attrs
}

// errorType returns the attribute error.type for err. If err contains an HTTP response,
// error.type is the status, as in OpenTelemetry's conventions for HTTP.
func errorType(err error) attribute.KeyValue {
	var response interface{ HTTPStatusCode() int }
	if errors.As(err, &response) {
		return semconv.ErrorTypeKey.String(strconv.Itoa(response.HTTPStatusCode()))
	}
	bare := retry.Unwrap(&retry.Error{Err: err}) // err without retry.Permanent and retry.After
	return semconv.ErrorType(bare)
}
