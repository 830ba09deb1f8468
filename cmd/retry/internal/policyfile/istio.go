package policyfile

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// isIstioCondition reports whether Istio accepts a condition: a condition of Envoy, or a status
// code.
func isIstioCondition(name string) bool {
	status, _ := strconv.Atoi(name)
	return isEnvoyCondition(name) || http.StatusText(status) != ""
}

// istioDefault lists the failures that Istio retries by default.
const istioDefault = "connect-failure,refused-stream,unavailable,cancelled"

// readIstio reads the retries of a VirtualService.
func readIstio(f *form) {
	f.attempts = 1 + f.whole("attempts", 0, math.MaxInt32, 0) // the key `attempts` counts retries
	if f.attempts == 1 {
		f.b.note("attempts", "with 0, or without it, Istio retries nothing")
		for _, key := range []string{"perTryTimeout", "retryOn", "retryRemoteLocalities"} {
			if !f.b.templates["attempts"] && f.isSet(key) {
				f.fault("attempts", 0, "1 or more, or no "+key+": Istio refuses both")
			}
		}
	}
	f.timeout = f.time("perTryTimeout", time.Millisecond, 0)
	f.mesh("retryOn", "a status such as 503, or one of ", isIstioCondition,
		f.time("backoff", time.Millisecond, 25*time.Millisecond), 0)
	f.skip(routing, "retryRemoteLocalities", "retryIgnorePreviousHosts")
	f.finalTimeout("perTryTimeout")
	f.destinations()
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
