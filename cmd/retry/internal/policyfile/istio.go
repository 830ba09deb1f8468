package policyfile

import (
	"math"
	"net/http"
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
	f.attempts = 1 + f.whole("attempts", 0, math.MaxInt32, 0) // attempts counts retries
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
