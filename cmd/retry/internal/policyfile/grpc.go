package policyfile

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goretry/retry"
)

// readGRPC reads the retryPolicy of a service config.
func readGRPC(f *form) {
	const write = "codes such as UNAVAILABLE"
	f.needed, f.around, f.jitter = true, true, retry.Proportional(0.2)
	f.attempts = f.whole("maxAttempts", 2, math.MaxInt32, 0)
	f.base = f.time("initialBackoff", 1, 0)
	f.cap = f.time("maxBackoff", 1, 0)
	aboveZero := func(x float64) bool { return x > 0 }
	f.factor = f.number("backoffMultiplier", "a number above 0", 0, aboveZero)
	failures(f, "retryableStatusCodes", write, list[any](f, "retryableStatusCodes", write), isGRPCCode)
	if f.retryOn != strings.ToUpper(f.retryOn) {
		f.b.warn(refused, "retryableStatusCodes", "retryableStatusCodes: grpc-go refuses the whole "+
			"config for codes in lower case: write "+strings.ToUpper(f.retryOn))
	}
	if f.attempts > 5 {
		f.b.warn(noEffect, "maxAttempts",
			fmt.Sprintf("maxAttempts: gRPC clients cut %d to 5", f.attempts))
		f.attempts = 5
	}
	f.throttling()
}

// throttling reads the settings around a retryPolicy that affect its retries.
func (f *form) throttling() {
	if f.b.beside == nil {
		return
	}
	method := f.b.beside
	if method.key == "methodConfig" && !hasKey(method.node, "name") {
		f.b.warn(noEffect, "maxAttempts",
			"this policy has no effect: gRPC skips its entry of methodConfig, which has no name; write "+
				"name: [{}] for all methods")
	}
	if method.up != nil && method.up.key == "serviceConfig" {
		f.b.note("serviceConfig",
			"this is the form of a DNS record: as a default config in code it has no effect")
	}
	if e, ok := method.get(strings.ToLower, "hedgingPolicy"); ok {
		f.b.lines[e.key] = e.line
		f.b.warn(refused, e.key,
			"hedgingPolicy: gRPC does not allow it next to a retryPolicy: write only one of them")
	}
	if e, ok := method.get(strings.ToLower, "retryThrottling"); ok && method.up != nil {
		f.b.lines[e.key] = e.line
		f.b.warn(noEffect, e.key,
			"retryThrottling: inside methodConfig it has no effect: write it next to methodConfig")
	}
	e, ok := method.up.get(strings.ToLower, "retryThrottling")
	if !ok {
		return
	}
	settings := &place{node: e.value}
	most, ratio := f.amount(settings, "maxTokens", 0), f.amount(settings, "tokenRatio", 0)
	size := int(math.Ceil(most/2)) - 1
	f.b.lines[e.key] = e.line
	switch {
	case !(most > 0 && most <= 1000 && ratio > 0):
		f.b.warn(refused, e.key,
			"retryThrottling: grpc-go refuses the whole config: write maxTokens above 0 and up to 1000, "+
				"and a tokenRatio above 0")
	case size < 1:
		f.b.warn(noEffect, e.key,
			fmt.Sprintf("retryThrottling: with maxTokens %v no retry is allowed: the first failure leaves "+
				"half of the tokens or less", most))
	default:
		f.budget = &retry.Budget{Size: size, Ratio: min(1, ratio)}
		f.b.note(e.key,
			fmt.Sprintf("here it is a budget of %d retries; in gRPC, a failure that is not retried also "+
				"takes a token, and up to %.0f successes refill the tokens",
				size, math.Ceil(most/2/ratio)))
	}
}

var grpcCodes = strings.Fields(`OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND
	ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE
	UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED
	0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16`)

// isGRPCCode reports whether a text is the name or the number of a status code.
func isGRPCCode(name string) bool {
	return slices.Contains(grpcCodes, strings.ToUpper(name))
}

// If the name of a file ends with forGenerators, generators of gRPC clients read the file. Such a
// file looks like a service config, but needs no maxAttempts and may have an empty list of codes.
const forGenerators = "_grpc_service_config.json"
