package otlptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryotel"
)

// A collector is a server that accepts OTLP over HTTP and keeps what it receives.
type collector struct {
	mu      sync.Mutex // guards the fields below
	metrics []*metrics.Metric
	faults  []error
}

func (c *collector) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	if err == nil {
		err = c.receive(req.URL.Path, body)
	}
	if err != nil {
		c.faults = append(c.faults, err)
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (c *collector) receive(path string, body []byte) error {
	switch path {
	case "/v1/metrics":
		var export collectormetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &export); err != nil {
			return err
		}
		for _, resource := range export.ResourceMetrics {
			for _, scope := range resource.ScopeMetrics {
				c.metrics = append(c.metrics, scope.Metrics...)
			}
		}
	default:
		return fmt.Errorf("unexpected path %s", path)
	}
	return nil
}

// text formats attributes, sorted by key.
func text(attrs []*common.KeyValue) string {
	var parts []string
	for _, a := range attrs {
		value := a.Value.GetStringValue()
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_IntValue:
			value = fmt.Sprint(v.IntValue)
		case *common.AnyValue_DoubleValue:
			value = fmt.Sprint(v.DoubleValue)
		}
		parts = append(parts, a.Key+"="+value)
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// The metrics of a call arrive at a collector, with exemplars that
// link to its trace.
func TestOTLP(t *testing.T) {
	c := &collector{}
	server := httptest.NewServer(c)
	defer server.Close()
	ctx := t.Context()

	metricExporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(server.URL+"/v1/metrics"))
	require.NoError(t, err)
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metricExporter)))
	tracers := sdktrace.NewTracerProvider()

	o, err := retryotel.New("payments", meters)
	require.NoError(t, err)
	budget := &retry.Budget{Size: 5}
	require.NoError(t, o.WatchBudget("bank", budget))
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond), Budget: budget, OnEvent: o.OnEvent}
	callCtx, span := tracers.Tracer("test").Start(ctx, "charge")
	require.Error(t, retry.Do(callCtx, policy, func(context.Context) error { return errors.New("connection refused") }))
	span.End()
	require.NoError(t, tracers.Shutdown(ctx))
	require.NoError(t, meters.Shutdown(ctx))

	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(t, c.faults)
	got := map[string]string{}
	traceID := span.SpanContext().TraceID()
	for _, m := range c.metrics {
		switch data := m.Data.(type) {
		case *metrics.Metric_Histogram:
			assert.Equal(t, metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, data.Histogram.AggregationTemporality)
			require.Len(t, data.Histogram.DataPoints, 1, m.Name)
			p := data.Histogram.DataPoints[0]
			got[m.Name] = fmt.Sprintf("%d %s %s", p.Count, m.Unit, text(p.Attributes))
			require.NotEmpty(t, p.Exemplars, m.Name)
			assert.Equal(t, traceID[:], p.Exemplars[0].TraceId, m.Name)
		case *metrics.Metric_Gauge:
			require.Len(t, data.Gauge.DataPoints, 1)
			p := data.Gauge.DataPoints[0]
			got[m.Name] = fmt.Sprintf("%d %s %s", p.GetAsInt(), m.Unit, text(p.Attributes))
		default:
			t.Errorf("%s is a %T", m.Name, m.Data)
		}
	}
	assert.Equal(t, map[string]string{
		"retry.call.duration":    "1 s error.type=*errors.errorString retry.policy=payments retry.reason=attempts_exhausted",
		"retry.call.retries":     "1 {retry} retry.policy=payments retry.reason=attempts_exhausted",
		"retry.attempt.duration": "3 s error.type=*errors.errorString retry.policy=payments",
		"retry.delay":            "2 s error.type=*errors.errorString retry.policy=payments",
		"retry.budget.left":      "3 {retry} retry.budget=bank",
	}, got)
}
