package retryprom_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryprom"
	"github.com/goretry/retry/retrylog"
)

func Example() {
	registry := prometheus.NewRegistry()
	budget := &retry.Budget{Size: 10, Ratio: 0.1}

	var counters retrylog.Counters
	counters.WatchBudget("payments", budget)
	registry.MustRegister(retryprom.NewCollector("payments", &counters))
	policy := retry.Policy{MaxAttempts: 3, Budget: budget, OnEvent: counters.OnEvent}

	_ = retry.Do(context.Background(), policy, func(context.Context) error { return nil })
	_ = retry.Do(context.Background(), policy, func(context.Context) error { return errors.New("connection refused") })

	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "retry_") && !strings.HasSuffix(line, " 0\n") {
			fmt.Print(line)
		}
	}
	// Output:
	// retry_attempts_total{policy="payments"} 4
	// retry_budget_left{budget="payments",policy="payments"} 8
	// retry_calls_total{policy="payments"} 2
	// retry_retried_calls_total{policy="payments"} 1
	// retry_retries_total{policy="payments"} 2
	// retry_scheduled_retries_total{class="",policy="payments"} 2
	// retry_stops_total{policy="payments",reason="attempts_exhausted"} 1
	// retry_stops_total{policy="payments",reason="success"} 1
}
