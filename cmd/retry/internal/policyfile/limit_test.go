package policyfile

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a target allows at once is found by its name. The facts: shouldRetry and
// resource_manager_impl of Envoy, destination_rule.proto of Istio's API, and
// xbackendtrafficpolicy_types of the Gateway API.
func TestLimits(t *testing.T) {
	const inOutage = "max_retries: an outage meets the limit of the cluster before num_retries: 3 retries at once in each Envoy, unless its circuit_breakers say otherwise"
	clusters := func(clusters, route string) string {
		return "{static_resources: {clusters: [" + clusters + "], x: {route: {" + route + ", retry_policy: {retry_on: 5xx}}}}}"
	}
	atOnce := func(key, target, most string) string {
		return key + ": to " + target + " each Envoy allows " + most + " at once, which an outage meets before the number of retries"
	}
	rule := func(spec string) string {
		return "{kind: VirtualService, spec: {http: [{route: [{destination: {host: a, subset: v2}}], retries: {attempts: 2}}]}}\n--- \n{kind: DestinationRule, spec: {host: a, " + spec + "}}"
	}
	const pool = "connectionPool.http.maxRetries"
	backend := func(constraint string) string {
		return "{kind: HTTPRoute, spec: {rules: [{backendRefs: [{name: b}, {name: a}], retry: {attempts: 2, codes: [503], backoff: 1s}}]}}\n--- \n" +
			"{kind: XBackendTrafficPolicy, spec: {targetRefs: [{name: a}], retryConstraint: {" + constraint + "}}}"
	}
	constraint := func(budget string) string {
		return "retryConstraint: here the budget of a is " + budget + "; a gateway counts the retries of an interval, and answers 503 beyond"
	}
	share := func(key, percent, least, size, ratio string) string {
		return key + ": each Envoy allows " + percent + " % of its active requests to a as retries at once, and at least " + least +
			"; the nearest budget is {size: " + size + ", ratio: " + ratio + "}"
	}
	seven := "{name: a}, {name: b, circuit_breakers: {thresholds: [{max_retries: 7}]}}"
	for _, test := range []struct {
		name, text string
		notes      []string
		want       string // of lint
	}{
		{"Envoy, the cluster", clusters(seven, "cluster: b"), []string{atOnce("max_retries", "b", "7")}, ""},
		{"Envoy, the cluster's default", clusters(seven, "cluster: a"), []string{atOnce("max_retries", "a", "3")}, ""},
		{"Envoy, another cluster", clusters(seven, "cluster: c"), []string{inOutage}, ""},
		{"Envoy, weighted clusters", clusters(seven, "weighted_clusters: {clusters: [{name: a}, {name: b}]}"),
			[]string{atOnce("max_retries", "a", "3"), atOnce("max_retries", "b", "7")}, ""},
		{"Envoy, a priority", clusters("{name: a, circuit_breakers: {thresholds: [{max_retries: 5}, {priority: HIGH, max_retries: 9}, {priority: HIGH, max_retries: 2}]}}", "cluster: a, priority: HIGH"),
			[]string{atOnce("max_retries", "a", "9")}, ""},
		{"Envoy, no thresholds of its priority", clusters("{name: a, circuit_breakers: {thresholds: [{priority: HIGH, max_retries: 9}]}}", "cluster: a"),
			[]string{atOnce("max_retries", "a", "3")}, ""},
		{"Envoy, no number", clusters("{name: a, circuit_breakers: {thresholds: [{max_retries: '{{ .n }}'}]}}", "cluster: a"),
			[]string{`max_retries: "{{ .n }}" is not read: here it is 3`, atOnce("max_retries", "a", "3")}, ""},
		{"Envoy, none at once", clusters("{name: a, circuit_breakers: {thresholds: [{max_retries: 0}]}}", "cluster: a"), []string{inOutage},
			"this does nothing: max_retries of the cluster a is 0, and allows no retry"},
		{"Envoy, one at once", clusters("{name: a, circuit_breakers: {thresholds: [{max_retries: 1}]}}", "cluster: a"), []string{atOnce("max_retries", "a", "1")}, ""},
		{"Envoy, a budget", clusters("{name: a, circuit_breakers: {thresholds: [{max_retries: 7, retry_budget: {}}]}}", "cluster: a"),
			[]string{share("retry_budget", "20", "3", "3", "0.25")}, ""},
		{"Envoy, a budget in camelCase", clusters("{name: a, circuitBreakers: {thresholds: [{retryBudget: {budgetPercent: {value: 40}, minRetryConcurrency: 0}}]}}", "cluster: a"),
			[]string{share("retry_budget", "40", "0", "1", "0.667")}, ""},
		{"Envoy, a budget of all", clusters("{name: a, circuitBreakers: {thresholds: [{retryBudget: {budgetPercent: {value: 100}}}]}}", "cluster: a"),
			[]string{share("retry_budget", "100", "3", "3", "1")}, ""},
		{"Envoy, many clusters", clusters("{name: a}"+strings.Repeat(", {}", 300), "cluster: a"),
			[]string{"static_resources.clusters: of these 301, the first 300 are looked at here", atOnce("max_retries", "a", "3")}, ""},
		{"Istio, a budget of its host", rule("trafficPolicy: {retryBudget: {percent: 50}}"), []string{share("retryBudget", "50", "3", "3", "1")}, ""},
		{"Istio, the pool of its host", rule("trafficPolicy: {connectionPool: {http: {maxRetries: 4}}}"), []string{atOnce(pool, "a", "4")}, ""},
		{"Istio, the pool of its subset", rule("trafficPolicy: {connectionPool: {http: {maxRetries: 4}}}, subsets: [{name: v1, trafficPolicy: {connectionPool: {http: {maxRetries: 6}}}}, " +
			"{name: v2, trafficPolicy: {connectionPool: {http: {maxRetries: 5}}}}]"), []string{atOnce(pool, "a", "5")}, ""},
		{"Istio, the budget of its subset", rule("trafficPolicy: {retryBudget: {percent: 50}}, subsets: [{name: v2, trafficPolicy: {retryBudget: {percent: 10}}}]"),
			[]string{share("retryBudget", "10", "3", "3", "0.111")}, ""},
		{"Istio, a subset that sets something else", rule("trafficPolicy: {connectionPool: {http: {maxRetries: 4}}}, subsets: [{name: v2, trafficPolicy: {loadBalancer: {}}}]"),
			[]string{atOnce(pool, "a", "4")}, ""},
		{"Istio, a subset without a policy", rule("trafficPolicy: {connectionPool: {http: {maxRetries: 4}}}, subsets: [{name: v2}]"), []string{atOnce(pool, "a", "4")}, ""},
		{"Istio, its default", rule("trafficPolicy: {connectionPool: {http: {maxRetries: 0}}}"), nil, ""},
		{"Istio, another host", strings.ReplaceAll(rule("trafficPolicy: {retryBudget: {}}"), "spec: {host: a", "spec: {host: b"), nil, ""},
		{"HTTPRoute, a budget of its backend", backend("budget: {percent: 30}, minRetryRate: {count: 5}"), []string{constraint("{size: 5, ratio: 0.3, refill_every: 200ms}")}, ""},
		{"HTTPRoute, the default budget", backend(""), []string{constraint("{size: 10, ratio: 0.2, refill_every: 100ms}")}, ""},
		{"HTTPRoute, more than all", backend("budget: {percent: 200}"), []string{constraint("{size: 10, ratio: 1, refill_every: 100ms}")}, ""},
		{"HTTPRoute, a budget without a rate", backend("minRetryRate: {count: 0, interval: 10s}"), []string{constraint("{size: 1, ratio: 0.2, refill_every: 10s}")}, ""},
		{"HTTPRoute, another backend", strings.ReplaceAll(backend(""), "targetRefs: [{name: a", "targetRefs: [{name: c"), nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, err := Parse("file.yaml", []byte(test.text))
			require.NoError(t, err)
			block, fault := file.Only("")
			require.Nil(t, fault)
			p, _, faults := block.Read("")
			require.Empty(t, faults)
			notes := slices.DeleteFunc(block.Notes, func(note string) bool {
				return strings.HasPrefix(note, "timeout: 15s, the default") || strings.HasPrefix(note, "backoff: it is the base")
			})
			assert.Equal(t, test.notes, append([]string(nil), notes...))
			texts := ""
			for _, w := range append(block.warnings, block.lintBounds(p)...) {
				texts += w.text
			}
			assert.Equal(t, test.want, texts)
			if strings.HasPrefix(test.name, "HTTPRoute") {
				assert.Equal(t, test.notes != nil, p.Budget != nil)
			}
		})
	}
}
