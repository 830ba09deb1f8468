package policyfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// The limit on the retries of all calls to a target is a setting of the target, not of the call.
// The setting is in a cluster of Envoy's file, or in another document of the file. The code below
// finds the setting by the name of the target.

// places returns the places to which a path leads from p. In the path, * stands for each element of
// a list.
func (f *form) places(p *place, path string) []*place {
	found := []*place{p}
	list, _, _ := strings.Cut(path, ".*")
	for key := range strings.SplitSeq(path, ".") {
		var inner []*place
		for _, in := range found {
			if e, ok := in.get(f.plain, key); ok && key != "*" {
				inner = append(inner, &place{node: e.value})
			}
			if key == "*" {
				for _, e := range f.firstEntries(list, in.node) {
					inner = append(inner, &place{node: resolved(e.value)})
				}
			}
		}
		found = inner
	}
	return found
}

// textsAt returns the texts to which a path leads from p.
func (f *form) textsAt(p *place, path string) (all []string) {
	for _, at := range f.places(p, path) {
		all = append(all, at.node.Value)
	}
	return all
}

// textAt returns the text to which a path without * leads from p. It returns "" if there is no such
// text.
func (f *form) textAt(p *place, path string) string { return strings.Join(f.textsAt(p, path), "") }

// amount returns the number to which a path leads from p. It returns fallback if there is no
// number.
func (f *form) amount(p *place, path string, fallback float64) float64 {
	for _, at := range f.places(p, path) {
		var n float64
		if err := at.node.Decode(&n); err == nil && n >= 0 {
			return n
		}
		f.b.note(path, fmt.Sprintf("%.60q is not read: here it is %v", at.node.Value, fallback))
	}
	return fallback
}

// resources returns the documents of the file that have this kind.
func (f *form) resources(kind string) (all []*place) {
	for _, document := range f.b.documents[:min(len(f.b.documents), mostBeside)] {
		if p := (&place{node: resolved(document)}); f.textAt(p, "kind") == kind {
			all = append(all, p)
		}
	}
	return all
}

// A concurrency contains the keys with which Envoy limits how many retries run at the same time.
type concurrency struct {
	budget, percent, least string  // the keys of a budget, which is a share of the active requests
	most                   string  // the key for the largest number of retries, if there is no budget
	missing                float64 // the default number of retries; 0 is no limit
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

// limit adds a note about the limit on the retries to a target, and reports whether there is such a
// limit.
func (f *form) limit(target string, in *place, c concurrency) bool {
	if len(f.places(in, c.budget)) > 0 {
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
			fmt.Sprintf("each Envoy allows %v retries to %s at the same time; in an outage, calls reach "+
				"this limit before their own limit on retries", most, target))
	case c.missing > 0:
		f.b.warn(noEffect, "retry_on",
			fmt.Sprintf("this policy has no effect: %s of the cluster %s is 0, and allows no retry",
				c.most, target))
	}
	return most > 0
}

// clusters adds notes about the limits of the clusters to which a route of Envoy leads. In a
// cluster, Envoy uses the first thresholds that have the priority of the route.
func (f *form) clusters() {
	route, limited := f.b.beside, false
	names := append(f.textsAt(route, "cluster"),
		f.textsAt(route, "weighted_clusters.clusters.*.name")...)
	priority := func(p *place) string { return cmp.Or(f.textAt(p, "priority"), "DEFAULT") }
	for _, cluster := range f.places(route.outermost(), "static_resources.clusters.*") {
		name := f.textAt(cluster, "name")
		if !slices.Contains(names, name) {
			continue
		}
		thresholds := f.places(cluster, "circuit_breakers.thresholds.*")
		thresholds = slices.DeleteFunc(thresholds, func(p *place) bool {
			return priority(p) != priority(route)
		})
		limited = f.limit(name, append(thresholds, &place{node: cluster.node})[0], ofCluster) || limited
	}
	if !limited {
		f.b.note("max_retries",
			"each Envoy allows 3 retries to a cluster at the same time, unless circuit_breakers says "+
				"otherwise; in an outage, calls reach this limit before num_retries")
	}
}

// destinations adds notes about the limits in the DestinationRules for the hosts of a route. If a
// subset of a host has a limit, the limit of the host does not apply.
func (f *form) destinations() {
	rules := f.resources("DestinationRule")
	for _, to := range f.places(f.b.beside, "route.*.destination") {
		host := f.textAt(to, "host")
		for _, rule := range rules {
			if f.textAt(rule, "spec.host") != host {
				continue
			}
			subsets := slices.DeleteFunc(f.places(rule, "spec.subsets.*"), func(p *place) bool {
				return f.textAt(p, "name") != f.textAt(to, "subset")
			})
			for _, in := range append(subsets, f.places(rule, "spec")...) {
				if policies := f.places(in, "trafficPolicy"); len(policies) > 0 &&
					f.limit(host, policies[0], ofRule) {
					break
				}
			}
		}
	}
}

// constraint reads the budget in an XBackendTrafficPolicy for a backend of an HTTPRoute.
func (f *form) constraint() {
	backends := f.textsAt(f.b.beside, "backendRefs.*.name")
	for _, policy := range f.resources("XBackendTrafficPolicy") {
		targets := f.textsAt(policy, "spec.targetRefs.*.name")
		for _, in := range f.places(policy, "spec.retryConstraint") {
			i := slices.IndexFunc(targets, func(name string) bool { return slices.Contains(backends, name) })
			if i < 0 {
				continue
			}
			count, interval := max(1, int(f.amount(in, "minRetryRate.count", 10))), time.Second
			if every, err := time.ParseDuration(f.textAt(in, "minRetryRate.interval")); err == nil {
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
