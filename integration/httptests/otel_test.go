package httptests

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.26.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/httpfault"
)

// resendCount is the RoundTripper from the package documentation.
type resendCount struct{ base http.RoundTripper }

func (r resendCount) RoundTrip(req *http.Request) (*http.Response, error) {
	if n := retryhttp.AttemptOf(req.Context()); n > 1 {
		span := trace.SpanFromContext(req.Context())
		span.SetAttributes(semconv.HTTPRequestResendCount(n - 1))
	}
	return r.base.RoundTrip(req)
}

// Each attempt has its own span. Each span after the first has an attribute that says how often the
// request was sent before.
func TestResendCount(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	base := httpfault.New(nil, httpfault.Status(503, 0), httpfault.Before(nil), httpfault.Status(200, 0))
	client := &http.Client{Transport: &retryhttp.Transport{
		Base:   otelhttp.NewTransport(resendCount{base}, otelhttp.WithTracerProvider(provider)),
		Policy: retry.Policy{MaxAttempts: 5},
	}}
	resp, err := client.Get("http://example.test/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Len(t, spans.GetSpans(), 3)
	var counts []int64
	for _, span := range spans.GetSpans() {
		count := int64(0) // the span of the first attempt lacks the attribute
		for _, attribute := range span.Attributes {
			if attribute.Key == semconv.HTTPRequestResendCountKey {
				count = attribute.Value.AsInt64()
			}
		}
		counts = append(counts, count)
	}
	assert.Equal(t, []int64{0, 1, 2}, counts)
}
