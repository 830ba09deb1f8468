package retryprom_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryprom"
	"github.com/goretry/retry/retrylog"
)

// calls makes a call that succeeds at once, a call that succeeds after a retry, and a call that
// gives up after two retries.
func calls(t *testing.T, p retry.Policy) {
	synctest.Test(t, func(t *testing.T) {
		for _, failures := range []int{0, 1, 3} {
			_ = retry.Do(context.Background(), p, func(context.Context) error {
				if failures--; failures < 0 {
					return nil
				}
				return errors.New("connection refused")
			})
		}
	})
}

func TestCollector(t *testing.T) {
	var counters retrylog.Counters
	budget := &retry.Budget{Size: 5}
	counters.WatchBudget("bank", budget)
	counters.WatchBudget("none", nil)
	classes := []string{"", "busy", "busy"}
	calls(t, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(1500 * time.Millisecond), Budget: budget, OnEvent: counters.OnEvent, Classify: func(error) *retry.Class {
		c := &retry.Class{Name: classes[0]}
		classes = append(classes[1:], "last")
		return c
	}})
	scrape, err := os.Open("testdata/metrics.txt")
	require.NoError(t, err)
	defer scrape.Close()
	require.NoError(t, testutil.CollectAndCompare(retryprom.NewCollector("payments", &counters), scrape))
}

// Each scrape is complete and passes promlint, even while calls are made.
func TestScrape(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	var payments, search retrylog.Counters
	payments.WatchBudget("bank", &retry.Budget{Size: 5})
	registry.MustRegister(retryprom.NewCollector("payments", &payments), retryprom.NewCollector("search", &search))
	assert.Error(t, registry.Register(retryprom.NewCollector("search", &search)), "the name is already registered")
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer server.Close()

	var all sync.WaitGroup
	for _, counters := range []*retrylog.Counters{&payments, &search} {
		all.Go(func() {
			for range 1000 {
				_ = retry.Do(context.Background(), retry.Policy{MaxAttempts: 3, OnEvent: counters.OnEvent}, func(context.Context) error { return errors.New("refused") })
			}
		})
	}
	for range 20 {
		resp, err := http.Get(server.URL)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		problems, err := promlint.New(resp.Body).Lint()
		require.NoError(t, err)
		assert.Empty(t, problems)
		require.NoError(t, resp.Body.Close())
	}
	all.Wait()
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP retry_retries_total Attempts after the first of a call.
# TYPE retry_retries_total counter
retry_retries_total{policy="payments"} 2000
retry_retries_total{policy="search"} 2000
`), "retry_retries_total"))
}

// A name that cannot be a label fails the scrape but does not panic.
func TestNamesThatAreNotUTF8(t *testing.T) {
	for _, row := range []struct{ name, policy, budget string }{
		{"policy", "\xff", "bank"},
		{"budget", "payments", "\xff"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var counters retrylog.Counters
			counters.WatchBudget(row.budget, &retry.Budget{Size: 5})
			registry := prometheus.NewRegistry()
			err := registry.Register(retryprom.NewCollector(row.policy, &counters))
			if err == nil {
				_, err = registry.Gather()
			}
			assert.ErrorContains(t, err, "is not valid UTF-8")
		})
	}
}
