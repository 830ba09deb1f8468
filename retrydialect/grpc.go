package retrydialect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/saturate"
	"github.com/goretry/retry/internal/strict"
)

// ToGRPC returns p as a service config of gRPC, so that gRPC clients retry by
// themselves. The service is one service ("pkg.Service"), one method
// ("pkg.Service/Method"), or "" for all calls. The codes are those of the
// failures that gRPC retries, by name ("UNAVAILABLE") or by number ("14").
//
// The config is exact, or ToGRPC returns an error that names every field of p
// that gRPC cannot express. gRPC draws each delay between 0.8 and 1.2 times
//
//	min(initialBackoff * backoffMultiplier^(attempt-1), maxBackoff)
//
// and makes at most 5 attempts. So p needs 2 to 5 attempts, a Fixed or
// Exponential backoff, and a Jitter of Proportional(0.2). It needs no MaxDelay,
// or one that the longest delay with its jitter does not reach, because gRPC's
// delays go 20 % beyond its maximum. The range of each delay is then p's to within
// 2ns, or for delays of months to within one part in 2^50.
//
// If a server asks for a wait (pushback), gRPC waits that long, whatever its
// length, and starts the curve again. p's Source and Wait are not used: gRPC draws
// and waits itself.
func ToGRPC(p retry.Policy, service string, codes ...string) (string, error) {
	const of = "retrydialect: gRPC service config"
	if err := p.Validate(); err != nil {
		return "", fmt.Errorf("%s: %w", of, err)
	}
	var f strict.Faults
	name := grpcName(&f, service)
	statusCodes := grpcCodes(&f, codes)
	policy := grpcPolicyOf(&f, p)
	if err := f.Err(of); err != nil {
		return "", err
	}
	policy.RetryableStatusCodes = statusCodes
	config, err := json.Marshal(grpcConfig{[]grpcMethodConfig{{[]grpcMethod{name}, policy}}})
	return string(config), err
}

type grpcConfig struct {
	MethodConfig []grpcMethodConfig `json:"methodConfig"`
}

type grpcMethodConfig struct {
	Name        []grpcMethod `json:"name"`
	RetryPolicy grpcPolicy   `json:"retryPolicy"`
}

type grpcMethod struct {
	Service string `json:"service,omitempty"`
	Method  string `json:"method,omitempty"`
}

type grpcPolicy struct {
	MaxAttempts          int       `json:"maxAttempts"`
	InitialBackoff       protoTime `json:"initialBackoff"`
	MaxBackoff           protoTime `json:"maxBackoff"`
	BackoffMultiplier    float64   `json:"backoffMultiplier"`
	RetryableStatusCodes []string  `json:"retryableStatusCodes"`
}

// A protoTime is a duration in the JSON of protocol buffers: "0.2s".
type protoTime time.Duration

func (d protoTime) MarshalText() ([]byte, error) {
	text := fmt.Sprintf("%d.%09d", int64(d)/int64(time.Second), int64(d)%int64(time.Second))
	return []byte(strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "s"), nil
}

var grpc = target{"gRPC", map[string]string{
	"RetryAfter":     "gRPC always waits for a pushback, and starts its curve again",
	"MaxRetryAfter":  "gRPC waits for a pushback of any length",
	"MaxElapsed":     "gRPC has no such bound; a deadline of the context is one",
	"AttemptTimeout": "the timeout of a service config bounds all attempts together",
	"HealthyAfter":   "gRPC never counts a call anew",
	"RetryIf":        "gRPC decides by the code alone",
	"Classify":       "gRPC has one policy for all codes",
	"Budget":         "gRPC's retryThrottling counts failures, not retries",
	"OnEvent":        "gRPC reports no retries",
}}

const (
	grpcMostAttempts = 5 // for a client without WithMaxCallAttempts
	grpcJitter       = retry.Proportional(0.2)
)

func grpcPolicyOf(f *strict.Faults, p retry.Policy) (g grpcPolicy) {
	grpc.unsayable(f, &p)
	g.MaxAttempts = p.EffectiveMax()
	attempts := func(is any, why string) {
		f.Add("MaxAttempts (max_attempts)", fmt.Sprint(is, " in effect"), "2 to 5"+why)
	}
	switch {
	case g.MaxAttempts == retry.Unlimited:
		attempts("unlimited", "")
	case g.MaxAttempts == 1:
		attempts(1, " (without a retryPolicy gRPC makes one attempt)")
	case g.MaxAttempts > grpcMostAttempts:
		attempts(g.MaxAttempts, " (gRPC clients cut it to 5)")
	}
	if p.Jitter != grpcJitter {
		f.Add("Jitter (jitter)", jitterText(p.Jitter), "Proportional(0.2) (0.2), which is what gRPC draws")
	}
	first, factor := geometric(f, &p)
	if first == 0 || g.MaxAttempts < 2 || g.MaxAttempts > grpcMostAttempts {
		return g // there is no longest delay to compare with
	}

	g.InitialBackoff, g.BackoffMultiplier = protoTime(first), factor
	longest := p.Backoff.Delay(g.MaxAttempts - 1)
	_, most := grpcJitter.Window(longest)
	switch {
	case most == saturate.Max:
		f.Add("Backoff (backoff)", fmt.Sprintf("as long as %v before the jitter", longest), "a curve whose delays stay below 243 years")
	case p.MaxDelay > 0 && p.MaxDelay < most:
		f.Add("MaxDelay (max_delay)", p.MaxDelay, fmt.Sprintf("0s, or at least %v, which the delays reach: gRPC draws up to 20 %% above its maxBackoff", most))
	case p.MaxDelay > 0:
		g.MaxBackoff = protoTime(p.MaxDelay)
	default:
		g.MaxBackoff = protoTime(longest)
	}
	return g
}

// grpcName returns the name of the calls that a config is for.
func grpcName(f *strict.Faults, service string) grpcMethod {
	name, method, isMethod := strings.Cut(service, "/")
	if isMethod && (name == "" || method == "" || strings.Contains(method, "/")) {
		f.Add("service", strconv.Quote(service), `"pkg.Service", "pkg.Service/Method", or "" for every call`)
	}
	return grpcMethod{name, method}
}

// grpcCodeNames are the names of the status codes, by their numbers.
var grpcCodeNames = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
	"ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
	"OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// grpcCodes returns the names of the codes, in the order of their numbers.
func grpcCodes(f *strict.Faults, codes []string) []string {
	if len(codes) == 0 {
		f.Add("codes", "empty", "the codes to retry, such as UNAVAILABLE")
	}
	retryable := make([]bool, len(grpcCodeNames))
	for _, code := range codes {
		n, err := strconv.Atoi(code)
		if err != nil {
			n = slices.Index(grpcCodeNames, code)
		}
		if n < 1 || n >= len(grpcCodeNames) {
			f.Add("codes", strconv.Quote(code), "one of "+strings.Join(grpcCodeNames[1:], ", "))
			continue
		}
		retryable[n] = true
	}
	var names []string
	for n, name := range grpcCodeNames {
		if retryable[n] {
			names = append(names, name)
		}
	}
	return names
}
