package main

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryotel"
	"github.com/goretry/retry/adapters/retryprom"
	"github.com/goretry/retry/retrylog"
)

// published holds the counters of each policy, by its name. GET /debug/vars on
// http.DefaultServeMux returns them.
var published = expvar.NewMap("retry")

// An observer reports what the calls do: to a log, to counters for expvar and
// Prometheus, and to OpenTelemetry.
type observer struct {
	log      func(context.Context, retry.Event)
	counters retrylog.Counters
	registry *prometheus.Registry
	otel     *retryotel.Observer
	metrics  *sdkmetric.ManualReader
	tracer   trace.Tracer
}

// observe returns an observer that writes log lines and spans to w.
func observe(name string, budget *retry.Budget, w io.Writer) (*observer, error) {
	o := &observer{
		log:      retrylog.Slog(slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: withoutTime}))),
		registry: prometheus.NewRegistry(),
		metrics:  sdkmetric.NewManualReader(),
		tracer:   sdktrace.NewTracerProvider(sdktrace.WithSyncer(spanPrinter{w})).Tracer(name),
	}
	o.counters.WatchBudget(name, budget)
	published.Set(name, &o.counters)
	if err := o.registry.Register(retryprom.NewCollector(name, &o.counters)); err != nil {
		return nil, err
	}
	var err error
	o.otel, err = retryotel.New(name, sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.metrics)))
	if err != nil {
		return nil, err
	}
	o.otel.HTTP = true
	return o, o.otel.WatchBudget(name, budget)
}

// onEvent is the OnEvent of the policy. It passes each event on to all of them.
func (o *observer) onEvent(ctx context.Context, e retry.Event) {
	o.log(ctx, e)
	o.counters.OnEvent(ctx, e)
	o.otel.OnEvent(ctx, e)
}

// report prints what has been counted, in the three forms in which a service
// publishes it.
func (o *observer) report(ctx context.Context, w io.Writer) error {
	fmt.Fprintln(w, "\nexpvar:")
	text, err := get(ctx, expvar.Handler())
	if err != nil {
		return err
	}
	var vars struct {
		Retry json.RawMessage `json:"retry"`
	}
	if err := json.Unmarshal(text, &vars); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n", vars.Retry)

	fmt.Fprintln(w, "\nPrometheus, without what is 0:")
	text, err = get(ctx, promhttp.HandlerFor(o.registry, promhttp.HandlerOpts{}))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") && !strings.HasSuffix(line, " 0\n") {
			fmt.Fprint(w, line)
		}
	}

	fmt.Fprintln(w, "\nOpenTelemetry, the retries of calls:")
	var all metricdata.ResourceMetrics
	if err := o.metrics.Collect(ctx, &all); err != nil {
		return err
	}
	var lines []string
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if retries, ok := m.Data.(metricdata.Histogram[int64]); ok {
				for _, p := range retries.DataPoints {
					lines = append(lines, fmt.Sprintf("%s{%s} calls %d, retries %d\n", m.Name, p.Attributes.Encoded(attribute.DefaultEncoder()), p.Count, p.Sum))
				}
			}
		}
	}
	slices.Sort(lines)
	_, err = io.WriteString(w, strings.Join(lines, ""))
	return err
}

// get serves h as a service does, and returns what a client gets.
func get(ctx context.Context, h http.Handler) ([]byte, error) {
	server := httptest.NewServer(h)
	defer server.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// A spanPrinter exports spans to a writer, one line each and one for each event.
type spanPrinter struct{ w io.Writer }

func (s spanPrinter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	for _, span := range spans {
		if _, err := fmt.Fprintf(s.w, "span %q\n", span.Name()); err != nil {
			return err
		}
		for _, e := range span.Events() {
			set := attribute.NewSet(e.Attributes...)
			if _, err := fmt.Fprintf(s.w, "  event %q %s\n", e.Name, set.Encoded(attribute.DefaultEncoder())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (spanPrinter) Shutdown(context.Context) error { return nil }

// withoutTime leaves the time out of log lines, because they have elapsed.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == "due" {
		return slog.Attr{}
	}
	return a
}
