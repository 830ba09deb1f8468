package policyfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// The limits on the retries of all calls to a target are settings of the target: in a cluster in
// Envoy's file, or in another document. These settings are found by the name of the target.

// all returns the places to which a path leads from p. In the path, * stands for each element of a
// list.
func (f *form) all(p *place, path string) []*place {
	found := []*place{p}
	list, _, _ := strings.Cut(path, ".*")
	for key := range strings.SplitSeq(path, ".") {
		var inner []*place
		for _, in := range found {
			if e, ok := in.get(f.plain, key); ok && key != "*" {
				inner = append(inner, &place{node: e.value})
			}
			if key == "*" {
				for _, e := range f.some(list, in.node) {
					inner = append(inner, &place{node: resolved(e.value)})
				}
			}
		}
		found = inner
	}
	return found
}

// texts returns the texts to which a path leads.
func (f *form) texts(p *place, path string) (all []string) {
	for _, at := range f.all(p, path) {
		all = append(all, at.node.Value)
	}
	return all
}

// text returns the text to which a path without * leads, "" if there is none.
func (f *form) text(p *place, path string) string { return strings.Join(f.texts(p, path), "") }

// amount returns the number to which a path leads. It returns missing if there is no number there.
func (f *form) amount(p *place, path string, missing float64) float64 {
	for _, at := range f.all(p, path) {
		var n float64
		if err := at.node.Decode(&n); err == nil && n >= 0 {
			return n
		}
		f.b.note(path, fmt.Sprintf("%.60q is not read: here it is %v", at.node.Value, missing))
	}
	return missing
}

// resources returns the documents of the file with a kind.
func (f *form) resources(kind string) (all []*place) {
	for _, document := range f.b.documents[:min(len(f.b.documents), mostBeside)] {
		if p := (&place{node: resolved(document)}); f.text(p, "kind") == kind {
			all = append(all, p)
		}
	}
	return all
}

// A concurrency has the keys of Envoy's limits on the retries at the same time.
type concurrency struct {
	budget, percent, least string  // a share of the active requests, which replaces most
	most                   string  // the number of retries at the same time
	missing                float64 // the default of most; 0 is no limit
}

var (
	ofCluster = concurrency{
		budget:  "retry_budget",
		percent: "budget_percent.value",
		least:   "min_retry_concurrency",
		most:    "max_retries",
		missing: 3,
	}
	ofRule = concurrency{
		budget:  "retryBudget",
		percent: "percent",
		least:   "minRetryConcurrency",
		most:    "connectionPool.http.maxRetries",
	}
)

// limit notes the limit on the retries to a target, and reports whether there is one.
func (f *form) limit(target string, in *place, c concurrency) bool {
	if len(f.all(in, c.budget)) > 0 {
		share := min(100, f.amount(in, c.budget+"."+c.percent, 20))
		least := f.amount(in, c.budget+"."+c.least, 3)
		f.b.note(c.budget,
			fmt.Sprintf("each Envoy allows %v %% of its active requests to %s as retries at the same time, "+
				"and at least %v; the nearest budget is {size: %v, ratio: %.3g}",
				share, target, least, max(1, least), share/max(share, 100-share)))
		return true
	}
	most := f.amount(in, c.most, c.missing)
	switch {
	case most > 0:
		f.b.note(c.most,
			fmt.Sprintf("to %s each Envoy allows %v retries at the same time; an outage reaches this limit "+
				"before the number of retries", target, most))
	case c.missing > 0:
		f.b.warn(noEffect, "retry_on",
			fmt.Sprintf("this has no effect: %s of the cluster %s is 0, and allows no retry",
				c.most, target))
	}
	return most > 0
}

// clusters notes the limits of the clusters to which a route of Envoy leads. Envoy uses the first
// thresholds with the priority of the route.
func (f *form) clusters() {
	route, limited := f.b.beside, false
	names := append(f.texts(route, "cluster"), f.texts(route, "weighted_clusters.clusters.*.name")...)
	priority := func(p *place) string { return cmp.Or(f.text(p, "priority"), "DEFAULT") }
	for _, cluster := range f.all(route.outermost(), "static_resources.clusters.*") {
		name := f.text(cluster, "name")
		if !slices.Contains(names, name) {
			continue
		}
		thresholds := f.all(cluster, "circuit_breakers.thresholds.*")
		thresholds = slices.DeleteFunc(thresholds, func(p *place) bool {
			return priority(p) != priority(route)
		})
		limited = f.limit(name, append(thresholds, &place{node: cluster.node})[0], ofCluster) || limited
	}
	if !limited {
		f.b.note("max_retries",
			"an outage reaches the limit of the cluster before num_retries: 3 retries at the same time in "+
				"each Envoy, unless its circuit_breakers say otherwise")
	}
}

// destinations notes the limits in the DestinationRules of the hosts of a route. A limit of a
// subset comes before a limit of its host.
func (f *form) destinations() {
	rules := f.resources("DestinationRule")
	for _, to := range f.all(f.b.beside, "route.*.destination") {
		host := f.text(to, "host")
		for _, rule := range rules {
			if f.text(rule, "spec.host") != host {
				continue
			}
			subsets := slices.DeleteFunc(f.all(rule, "spec.subsets.*"), func(p *place) bool {
				return f.text(p, "name") != f.text(to, "subset")
			})
			for _, in := range append(subsets, f.all(rule, "spec")...) {
				if policies := f.all(in, "trafficPolicy"); len(policies) > 0 &&
					f.limit(host, policies[0], ofRule) {
					break
				}
			}
		}
	}
}

// constraint reads the budget in an XBackendTrafficPolicy for a backend of an HTTPRoute.
func (f *form) constraint() {
	backends := f.texts(f.b.beside, "backendRefs.*.name")
	for _, policy := range f.resources("XBackendTrafficPolicy") {
		targets := f.texts(policy, "spec.targetRefs.*.name")
		for _, in := range f.all(policy, "spec.retryConstraint") {
			i := slices.IndexFunc(targets, func(name string) bool { return slices.Contains(backends, name) })
			if i < 0 {
				continue
			}
			count, interval := max(1, int(f.amount(in, "minRetryRate.count", 10))), time.Second
			if every, err := time.ParseDuration(f.text(in, "minRetryRate.interval")); err == nil {
				interval = every
			}
			f.budget = &retry.Budget{
				Size:        count,
				Ratio:       min(1, f.amount(in, "budget.percent", 20)/100),
				RefillEvery: max(time.Millisecond, interval/time.Duration(count)),
			}
			f.b.note("retryConstraint",
				fmt.Sprintf("here the budget of %s is {size: %d, ratio: %v, refill_every: %v}; a gateway "+
					"counts the retries in an interval, and responds with 503 to more",
					targets[i], count, f.budget.Ratio, f.budget.RefillEvery))
		}
	}
}
