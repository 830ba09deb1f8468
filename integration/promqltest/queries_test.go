package promqltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryprom"
	"github.com/goretry/retry/retrylog"
)

const page, dashboard = "../../docs/what-to-watch.md", "../../docs/dashboard.json"

// A prom scrapes a handler and evaluates queries. It has its own clock. Each scrape advances the clock
// by 15 seconds.
type prom struct {
	t       *testing.T
	handler http.Handler
	scraped map[string]*promql.Series
	engine  *promql.Engine
	now     time.Time
}

const interval = 15 * time.Second

func newProm(t *testing.T, registry *prometheus.Registry) *prom {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Hour, LookbackDelta: 5 * time.Minute})
	t.Cleanup(func() { assert.NoError(t, engine.Close()) })
	return &prom{t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), map[string]*promql.Series{}, engine, time.Unix(0, 0)}
}

// find replaces the storage of Prometheus. The test storage of Prometheus requires the client libraries
// of three clouds.
func (p *prom) find(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{SeriesSet: storage.EmptySeriesSet()}
	for _, name := range slices.Sorted(maps.Keys(p.scraped)) {
		series := p.scraped[name]
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.Metric.Get(m.Name)) }) {
			found.series = append(found.series, promql.NewStorageSeries(*series))
		}
	}
	return found
}

type seriesSet struct {
	storage.SeriesSet // for the methods Err and Warnings, which return nothing
	series            []storage.Series
	next              int
}

func (s *seriesSet) Next() bool         { s.next++; return s.next <= len(s.series) }
func (s *seriesSet) At() storage.Series { return s.series[s.next-1] }

func (p *prom) scrape() {
	p.t.Helper()
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text, err := textparse.New(w.Body.Bytes(), w.Header().Get("Content-Type"), "", false, false, false, labels.NewSymbolTable())
	require.NoError(p.t, err)

	p.now = p.now.Add(interval)
	for {
		entry, err := text.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(p.t, err)
		if entry == textparse.EntrySeries {
			var series labels.Labels
			text.Labels(&series)
			_, _, value := text.Series()
			known := p.scraped[series.String()]
			if known == nil {
				known = &promql.Series{Metric: series}
				p.scraped[series.String()] = known
			}
			known.Floats = append(known.Floats, promql.FPoint{T: p.now.UnixMilli(), F: value})
		}
	}
}

// query evaluates an expression now and returns the values by their labels.
func (p *prom) query(expr string) map[string]float64 {
	p.t.Helper()
	_, err := parser.ParseExpr(expr)
	require.NoError(p.t, err, expr)
	from := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: p.find}}
	query, err := p.engine.NewInstantQuery(context.Background(), from, nil, expr, p.now)
	require.NoError(p.t, err, expr)
	defer query.Close()
	result := query.Exec(context.Background())
	require.NoError(p.t, result.Err, expr)
	require.Empty(p.t, result.Warnings, expr)
	vector, err := result.Vector()
	require.NoError(p.t, err, expr)
	values := map[string]float64{}
	for _, sample := range vector {
		var names []string
		sample.Metric.Range(func(l labels.Label) { names = append(names, l.Value) })
		values[strings.Join(names, " ")] = sample.F
	}
	return values
}

// A service works for 5 minutes, and then fails for 10 minutes. In these minutes, of 10 calls to
// payments, 8 succeed at once, one succeeds after a retry, and one gives up after two retries. Calls to
// search fail until the budget is empty. The policy of reports is invalid, and its calls succeed in the
// first 5 minutes. The callers of orders lend it no retry.
type service struct {
	prom     *prom
	payments retry.Policy
	search   retry.Policy
	reports  retry.Policy
	orders   retry.Policy
}

func newService(t *testing.T) *service {
	registry := prometheus.NewRegistry()
	observed := func(name string, b *retry.Budget) retry.Policy {
		counters := new(retrylog.Counters)
		if b != nil {
			counters.WatchBudget("shared", b)
		}
		registry.MustRegister(retryprom.NewCollector(name, counters))
		return retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(1500 * time.Millisecond), Budget: b, OnEvent: counters.OnEvent}
	}
	s := &service{payments: observed("payments", nil), search: observed("search", &retry.Budget{Size: 6}), reports: observed("reports", nil), orders: observed("orders", nil)}
	s.reports.MaxAttempts = -2
	s.prom = newProm(t, registry)
	return s
}

// run makes calls for d and scrapes after each interval.
func (s *service) run(d time.Duration, step func(context.Context)) {
	for range d / interval {
		synctest.Test(s.prom.t, func(t *testing.T) { step(t.Context()) })
		s.prom.scrape()
	}
}

func (s *service) works(ctx context.Context) {
	for range 10 {
		call(ctx, s.payments, 0)
	}
	call(ctx, s.search, 0)
	call(ctx, s.reports, 0)
	call(ctx, s.orders, 0)
}

func (s *service) fails(ctx context.Context) {
	for range 8 {
		call(ctx, s.payments, 0)
	}
	call(ctx, s.payments, 1)
	call(ctx, s.payments, 3)
	call(ctx, s.search, 3)
	call(ctx, s.reports, 1)
	call(retry.WithBudget(ctx, &retry.Budget{Borrowed: true}), s.orders, 1)
}

// call makes a call that succeeds after this many failures.
func call(ctx context.Context, p retry.Policy, failures int) {
	_ = retry.Do(ctx, p, func(context.Context) error {
		if failures--; failures < 0 {
			return nil
		}
		return errors.New("connection refused")
	})
}

// These are the results of the queries on the page while the service fails.
var (
	needRetry = map[string]float64{"payments": 0.2, "search": 0, "reports": 0, "orders": 0}
	gaveUp    = map[string]float64{"payments attempts_exhausted": 1. / 15, "search budget_exhausted": 1. / 15, "reports invalid": 1. / 15, "orders borrowed_budget_exhausted": 1. / 15}
	waits     = map[string]float64{"payments": 2.25}
	left      = map[string]float64{"shared search": 0}
)

// The test runs the queries, the alerts and the dashboard for a service that works and then fails.
func TestPage(t *testing.T) {
	s := newService(t)
	queries, alerts := blocks(t, "promql"), alerts(t)
	require.Len(t, queries, 4)
	require.Len(t, alerts, 4)
	s.run(5*time.Minute, s.works)
	assertValues(t, map[string]float64{"payments": 0, "search": 0, "reports": 0, "orders": 0}, s.prom.query(queries[0]))
	assertValues(t, nil, positive(s.prom.query(queries[1])))
	assertValues(t, map[string]float64{"shared search": 6}, s.prom.query(queries[3]))
	for name, expr := range alerts {
		assert.Empty(t, s.prom.query(expr), "%s: an invalid policy whose calls succeed does not fire", name)
		assert.Contains(t, string(mustRead(t, page)), "\n| "+name+" | ", "the page explains the alert")
	}

	s.run(10*time.Minute, s.fails)
	assertValues(t, needRetry, s.prom.query(queries[0]))
	assertValues(t, gaveUp, positive(s.prom.query(queries[1])))
	assertValues(t, waits, numbers(s.prom.query(queries[2])))
	assertValues(t, left, s.prom.query(queries[3]))
	assertValues(t, map[string]float64{"payments": 3. / 13}, s.prom.query(alerts["RetryRatioHigh"]))
	assertValues(t, left, s.prom.query(alerts["RetryBudgetEmpty"]))
	assertValues(t, map[string]float64{"orders": 1}, s.prom.query(alerts["RetryBorrowedBudgetEmpty"]))
	assert.Len(t, s.prom.query(alerts["RetryPolicyInvalid"]), 1)
	assert.Contains(t, s.prom.query(alerts["RetryPolicyInvalid"]), "reports")
	checkDashboard(t, s)
}

// The query and the alert show a budget that is empty in one of two processes. The other process still
// retries.
func TestBudgetEmptyInOneProcess(t *testing.T) {
	registry := prometheus.NewRegistry()
	processes := map[string]retry.Policy{}
	for instance, size := range map[string]int{"a": 1, "b": 9} {
		var counters retrylog.Counters
		b := &retry.Budget{Size: size}
		counters.WatchBudget("shared", b)
		prometheus.WrapRegistererWith(prometheus.Labels{"instance": instance}, registry).MustRegister(retryprom.NewCollector("search", &counters))
		processes[instance] = retry.Policy{MaxAttempts: 4, Budget: b, OnEvent: counters.OnEvent}
	}
	p := newProm(t, registry)
	for _, policy := range processes {
		require.Error(t, retry.Do(t.Context(), policy, func(context.Context) error { return errors.New("connection refused") }))
	}
	p.scrape()
	assertValues(t, left, p.query(blocks(t, "promql")[3]))
	assertValues(t, map[string]float64{"shared a search": 0, "shared b search": 6}, p.query("min by (policy, budget, instance) (retry_budget_left)"))
	assertValues(t, left, p.query(alerts(t)["RetryBudgetEmpty"]))
}

// alerts returns the expressions of the alerts of the page, by name.
func alerts(t *testing.T) map[string]string {
	rules := blocks(t, "yaml")
	require.Len(t, rules, 1)
	groups, faults := rulefmt.Parse([]byte(rules[0]), false)
	require.Empty(t, faults)
	alerts := map[string]string{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			alerts[rule.Alert] = rule.Expr
		}
	}
	return alerts
}

// A grafana holds the fields of a dashboard that the test checks.
type grafana struct {
	Title      string
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
	Panels []struct {
		ID                 int
		Title, Description string
		Datasource         struct{ UID string }
		FieldConfig        struct{ Defaults struct{ Unit string } }
		Targets            []struct{ Expr, LegendFormat string }
	}
}

func checkDashboard(t *testing.T, s *service) {
	var d grafana
	require.NoError(t, json.Unmarshal(mustRead(t, dashboard), &d))
	require.Len(t, d.Panels, 4)

	want := []map[string]float64{needRetry, gaveUp, waits, left}
	ids := map[int]bool{}
	for i, panel := range d.Panels {
		assert.NotEmpty(t, panel.Title)
		assert.NotEmpty(t, panel.Description, panel.Title)
		assert.NotEmpty(t, panel.FieldConfig.Defaults.Unit, panel.Title)
		assert.Equal(t, "${datasource}", panel.Datasource.UID, panel.Title)
		assert.False(t, ids[panel.ID], "%s has the id of another panel", panel.Title)
		ids[panel.ID] = true
		require.Len(t, panel.Targets, 1, panel.Title)
		expr := panel.Targets[0].Expr
		assertValues(t, want[i], numbers(s.prom.query(expand(expr, ".*"))))
		for name := range s.prom.query(expand(expr, "search")) {
			assert.Contains(t, name, "search", panel.Title)
		}

		legend := map[string]bool{}
		for _, name := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(panel.Targets[0].LegendFormat, -1) {
			legend[name[1]] = true
		}
		parsed, err := parser.ParseExpr(expand(expr, ".*"))
		require.NoError(t, err)
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			if sum, ok := node.(*parser.AggregateExpr); ok {
				for _, label := range sum.Grouping {
					assert.True(t, legend[label], "the legend of %s has no %s", panel.Title, label)
				}
			}
			return nil
		})
	}

	variables := map[string]string{}
	for _, v := range d.Templating.List {
		variables[v.Name] = string(v.Query)
	}
	assert.Equal(t, `"prometheus"`, variables["datasource"])
	assert.Contains(t, variables["policy"], "label_values(retry_calls_total, policy)")
	assert.Len(t, s.prom.query("group by (policy) (retry_calls_total)"), 4)
	assert.Contains(t, string(mustRead(t, page)), "(dashboard.json)")
}

// expand replaces variables as Grafana does.
func expand(expr, policy string) string {
	return strings.NewReplacer("$policy", policy, "$__rate_interval", "5m").Replace(expr)
}

// blocks returns the fenced code blocks of the page in a language.
func blocks(t *testing.T, language string) []string {
	var found []string
	for i, part := range strings.Split(string(mustRead(t, page)), "```") {
		if name, block, _ := strings.Cut(part, "\n"); i%2 == 1 && name == language {
			found = append(found, block)
		}
	}
	return found
}

func mustRead(t *testing.T, name string) []byte {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return text
}

// assertValues compares values after rounding.
func assertValues(t *testing.T, want, got map[string]float64) {
	t.Helper()
	assert.Equal(t, fmt.Sprint(roughly(want)), fmt.Sprint(roughly(got)))
}

// roughly rounds values to 9 decimals, because rates are sums of fractions.
func roughly(values map[string]float64) map[string]float64 {
	rounded := map[string]float64{}
	for name, value := range values {
		rounded[name] = float64(int64(value*1e9+0.5)) / 1e9
	}
	return rounded
}

// positive returns the values above 0.
func positive(values map[string]float64) map[string]float64 {
	found := map[string]float64{}
	for name, value := range values {
		if value > 0 {
			found[name] = value
		}
	}
	return found
}

// numbers returns the values without NaN, which is the result of 0/0.
func numbers(values map[string]float64) map[string]float64 {
	found := map[string]float64{}
	for name, value := range values {
		if value == value {
			found[name] = value
		}
	}
	return found
}
