package retryhttp

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/goretry/retry"
)

// PrepareAWS is a Prepare for a [Transport]: it sets the header amz-sdk-request
// as the SDKs of AWS do, to "attempt=2; max=4" for the second of four attempts.
// There is no max if the policy sets no limit.
func PrepareAWS(req *http.Request, attempt int, _ error) error {
	value := fmt.Sprintf("attempt=%d", attempt)
	if limit := maxOf(req); limit != retry.Unlimited {
		value += fmt.Sprintf("; max=%d", limit)
	}
	req.Header.Set("Amz-Sdk-Request", value)
	return nil
}

// PrepareEnvoy is a Prepare for a [Transport]: it sets the header
// x-envoy-attempt-count as Envoy does, to "1" for the first attempt.
func PrepareEnvoy(req *http.Request, attempt int, _ error) error {
	req.Header.Set("X-Envoy-Attempt-Count", strconv.Itoa(attempt))
	return nil
}

// maxOf returns how many attempts a request may make.
func maxOf(req *http.Request) int {
	a, ok := req.Context().Value(attemptKey{}).(*attempt)
	if !ok {
		return retry.Unlimited
	}
	if a.x.cannotRewind() {
		return 1
	}
	return a.x.policy.EffectiveMax()
}
