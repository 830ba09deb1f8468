package retrydialect_test

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
	"github.com/goretry/retry/retrytest"
)

// forGRPC is a policy that gRPC can express, from which the rows depart.
func forGRPC() retry.Policy {
	return retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: 100 * time.Millisecond, Factor: 1.5}, Jitter: retry.Proportional(0.2)}
}

func TestToGRPC(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy retry.Policy
		config string
	}{
		{"exponential", forGRPC(), `{"maxAttempts":4,"initialBackoff":"0.1s","maxBackoff":"0.225s","backoffMultiplier":1.5`},
		{"Default", retry.Default(), `{"maxAttempts":5,"initialBackoff":"0.2s","maxBackoff":"5s","backoffMultiplier":2`},
		{"fixed", retry.Policy{MaxRetries: 1, Backoff: retry.Fixed(90 * time.Second), Jitter: retry.Proportional(0.2)},
			`{"maxAttempts":2,"initialBackoff":"90s","maxBackoff":"90s","backoffMultiplier":1`},
		{"a factor of 0, which is 2", retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: 10 * time.Second}, Jitter: retry.Proportional(0.2)},
			`{"maxAttempts":3,"initialBackoff":"10s","maxBackoff":"20s","backoffMultiplier":2`},
		{"a nanosecond", retry.Policy{MaxAttempts: retry.Unlimited, AttemptCap: 5, Backoff: retry.Fixed(1), Jitter: retry.Proportional(0.2)},
			`{"maxAttempts":5,"initialBackoff":"0.000000001s","maxBackoff":"0.000000001s","backoffMultiplier":1`},
	} {
		config, err := retrydialect.ToGRPC(tc.policy, "pkg.Service", "UNAVAILABLE")
		require.NoError(t, err, tc.name)
		assert.Equal(t, `{"methodConfig":[{"name":[{"service":"pkg.Service"}],"retryPolicy":`+tc.config+`,"retryableStatusCodes":["UNAVAILABLE"]}}]}`, config, tc.name)
	}
}

func TestToGRPCNamesAndCodes(t *testing.T) {
	for _, tc := range []struct {
		service string
		codes   []string
		name    string
		want    string
	}{
		{"pkg.Service", []string{"UNAVAILABLE"}, `{"service":"pkg.Service"}`, `["UNAVAILABLE"]`},
		{"pkg.Service/Method", []string{"ABORTED", "UNAVAILABLE"}, `{"service":"pkg.Service","method":"Method"}`, `["ABORTED","UNAVAILABLE"]`},
		{"", []string{"UNAVAILABLE", "1", "UNAVAILABLE", "14"}, `{}`, `["CANCELLED","UNAVAILABLE"]`},
	} {
		config, err := retrydialect.ToGRPC(forGRPC(), tc.service, tc.codes...)
		require.NoError(t, err, tc.service)
		var parsed struct {
			MethodConfig []struct {
				Name        []json.RawMessage
				RetryPolicy struct{ RetryableStatusCodes json.RawMessage }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(config), &parsed), tc.service)
		assert.Equal(t, tc.name, string(parsed.MethodConfig[0].Name[0]))
		assert.Equal(t, tc.want, string(parsed.MethodConfig[0].RetryPolicy.RetryableStatusCodes), tc.service)
	}

	const codes = "write one of CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, " +
		"RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED"
	const service = `write "pkg.Service", "pkg.Service/Method", or "" for every call`
	for _, tc := range []struct {
		service string
		codes   []string
		fault   string
	}{
		{"pkg.Service", nil, "codes is empty: write the codes to retry, such as UNAVAILABLE"},
		{"pkg.Service", []string{"Unavailable"}, `codes is "Unavailable": ` + codes},
		{"pkg.Service", []string{"OK"}, `codes is "OK": ` + codes},
		{"pkg.Service", []string{"17"}, `codes is "17": ` + codes},
		{"pkg.Service", []string{"-1"}, `codes is "-1": ` + codes},
		{"/pkg.Service/Method", []string{"14"}, `service is "/pkg.Service/Method": ` + service},
		{"pkg.Service/", []string{"14"}, `service is "pkg.Service/": ` + service},
		{"/", nil, `service is "/": ` + service + "; codes is empty: write the codes to retry, such as UNAVAILABLE"},
	} {
		config, err := retrydialect.ToGRPC(forGRPC(), tc.service, tc.codes...)
		assert.EqualError(t, err, "retrydialect: gRPC service config: "+tc.fault)
		assert.Empty(t, config)
	}
}

type foreignJitter struct{}

func (foreignJitter) Window(d time.Duration) (lo, hi time.Duration) { return d, d }

func TestToGRPCRefusals(t *testing.T) {
	const attempts = "MaxAttempts (max_attempts) is "
	for _, tc := range []struct {
		name   string
		change func(*retry.Policy)
		fault  string
	}{
		{"no limit", func(p *retry.Policy) { p.MaxAttempts = 0 }, attempts + "1 in effect: write 2 to 5 (without a retryPolicy gRPC makes one attempt)"},
		{"one attempt", func(p *retry.Policy) { p.MaxAttempts = 1 }, attempts + "1 in effect: write 2 to 5 (without a retryPolicy gRPC makes one attempt)"},
		{"NonRetryable", func(p *retry.Policy) { p.NonRetryable = true }, attempts + "1 in effect: write 2 to 5 (without a retryPolicy gRPC makes one attempt)"},
		{"six attempts", func(p *retry.Policy) { p.MaxAttempts = 6 }, attempts + "6 in effect: write 2 to 5 (gRPC clients cut it to 5)"},
		{"six by MaxRetries", func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 0, 5 }, attempts + "6 in effect: write 2 to 5 (gRPC clients cut it to 5)"},
		{"unlimited", func(p *retry.Policy) { p.MaxAttempts = retry.Unlimited }, attempts + "unlimited in effect: write 2 to 5"},
		{"no backoff", func(p *retry.Policy) { p.Backoff = nil }, "Backoff (backoff) is no delay: write a Fixed (fixed) or an Exponential (exponential) of at least 1ns"},
		{"no delay", func(p *retry.Policy) { p.Backoff = retry.Fixed(0) }, "Backoff (backoff) is no delay: write a Fixed (fixed) or an Exponential (exponential) of at least 1ns"},
		{"Fibonacci", func(p *retry.Policy) { p.Backoff = retry.Fibonacci(time.Second) }, "Backoff (backoff) is a retry.Fibonacci: write a Fixed (fixed) or an Exponential (exponential)"},
		{"Linear", func(p *retry.Policy) { p.Backoff = retry.Linear(time.Second) }, "Backoff (backoff) is a retry.Linear: write a Fixed (fixed) or an Exponential (exponential)"},
		{"Schedule", func(p *retry.Policy) { p.Backoff = retry.Schedule{time.Second} }, "Backoff (backoff) is a retry.Schedule: write a Fixed (fixed) or an Exponential (exponential)"},
		{"a function", func(p *retry.Policy) { p.Backoff = retry.BackoffFunc(func(int) time.Duration { return 1 }) }, "Backoff (backoff) is a retry.BackoffFunc: write a Fixed (fixed) or an Exponential (exponential)"},
		{"centuries", func(p *retry.Policy) { p.Backoff = retry.Fixed(244 * 365 * 24 * time.Hour) }, "Backoff (backoff) is as long as 2137440h0m0s before the jitter: write a curve whose delays stay below 243 years"},
		{"no jitter", func(p *retry.Policy) { p.Jitter = nil }, "Jitter (jitter) is none: write Proportional(0.2) (0.2), which is what gRPC draws"},
		{"another share", func(p *retry.Policy) { p.Jitter = retry.Proportional(0.1) }, "Jitter (jitter) is 0.1: write Proportional(0.2) (0.2), which is what gRPC draws"},
		{"full jitter", func(p *retry.Policy) { p.Jitter = retry.FullJitter }, "Jitter (jitter) is full: write Proportional(0.2) (0.2), which is what gRPC draws"},
		{"a custom jitter", func(p *retry.Policy) { p.Jitter = foreignJitter{} }, "Jitter (jitter) is a retrydialect_test.foreignJitter: write Proportional(0.2) (0.2), which is what gRPC draws"},
		{"the longest delay just reaches MaxDelay", func(p *retry.Policy) { p.MaxDelay = 270 * time.Millisecond }, ""},
		{"a nanosecond less", func(p *retry.Policy) { p.MaxDelay = 270*time.Millisecond - 1 }, "MaxDelay (max_delay) is 269.999999ms: write 0s, or at least 270ms, which the delays reach: gRPC draws up to 20 % above its maxBackoff"},
		{"ExactRetryAfter", func(p *retry.Policy) { p.ExactRetryAfter = true }, "ExactRetryAfter (exact_retry_after) is true: write false (gRPC always waits for a pushback, and starts its curve again)"},
		{"MaxRetryAfter", func(p *retry.Policy) { p.MaxRetryAfter = time.Second }, "MaxRetryAfter (max_retry_after) is 1s: write 0s (gRPC waits for a pushback of any length)"},
		{"MaxElapsed", func(p *retry.Policy) { p.MaxElapsed = time.Minute }, "MaxElapsed (max_elapsed) is 1m0s: write 0s (gRPC has no such bound; a deadline of the context is one)"},
		{"AttemptTimeout", func(p *retry.Policy) { p.AttemptTimeout = time.Second }, "AttemptTimeout (attempt_timeout) is 1s: write 0s (the timeout of a service config bounds all attempts together)"},
		{"HealthyAfter", func(p *retry.Policy) { p.HealthyAfter = time.Minute }, "HealthyAfter (healthy_after) is 1m0s: write 0s (gRPC never counts a call anew)"},
		{"RetryIf", func(p *retry.Policy) { p.RetryIf = func(error) bool { return true } }, "RetryIf is set: write nil (gRPC decides by the code alone)"},
		{"Classify", func(p *retry.Policy) { p.Classify = func(error) *retry.Class { return nil } }, "Classify is set: write nil (gRPC has one policy for all codes)"},
		{"Budget", func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 10, Ratio: 0.1} }, "Budget is set: write nil (gRPC's retryThrottling counts failures, not retries)"},
		{"OnEvent", func(p *retry.Policy) { p.OnEvent = func(context.Context, retry.Event) {} }, "OnEvent is set: write nil (gRPC reports no retries)"},
		{"invalid", func(p *retry.Policy) { p.MaxAttempts = -2 }, "invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited"},
		{"several at once", func(p *retry.Policy) { p.MaxElapsed, p.Jitter, p.MaxDelay = time.Minute, nil, time.Millisecond }, "MaxElapsed (max_elapsed) is 1m0s: write 0s (gRPC has no such bound; a deadline of the context is one); " +
			"Jitter (jitter) is none: write Proportional(0.2) (0.2), which is what gRPC draws; " +
			"MaxDelay (max_delay) is 1ms: write 0s, or at least 270ms, which the delays reach: gRPC draws up to 20 % above its maxBackoff"},
	} {
		p := forGRPC()
		tc.change(&p)
		config, err := retrydialect.ToGRPC(p, "pkg.Service", "UNAVAILABLE")
		if tc.fault == "" {
			require.NoError(t, err, tc.name)
			continue
		}
		assert.EqualError(t, err, "retrydialect: gRPC service config: "+tc.fault, tc.name)
		assert.Empty(t, config, tc.name)
	}
}

// A Source and a Wait say nothing about the delays, so a policy of a test exports
// as that of the program.
func TestToGRPCUnderNoWait(t *testing.T) {
	p := forGRPC()
	want, err := retrydialect.ToGRPC(p, "pkg.Service", "UNAVAILABLE")
	require.NoError(t, err)
	p.Source = func() uint64 { return 1 }
	got, err := retrydialect.ToGRPC(retrytest.NoWait(p), "pkg.Service", "UNAVAILABLE")
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// readGRPC reads what grpc-go reads of a service config.
func readGRPC(t *testing.T, config string) (g struct {
	MaxAttempts                int
	InitialBackoff, MaxBackoff string
	BackoffMultiplier          float64
}) {
	t.Helper()
	var parsed struct {
		MethodConfig []struct{ RetryPolicy json.RawMessage }
	}
	require.NoError(t, json.Unmarshal([]byte(config), &parsed))
	require.NoError(t, json.Unmarshal(parsed.MethodConfig[0].RetryPolicy, &g))
	return g
}

// Every policy that is accepted is decided again by the formula of grpc-go, and
// every one that is refused has a field that the formula has no place for.
func TestToGRPCDecidesAsThePolicy(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 6))
	accepted := 0
	for range 10_000 {
		p := nearGRPC(r)
		config, err := retrydialect.ToGRPC(p, "pkg.Service", "UNAVAILABLE")
		if err != nil {
			require.False(t, grpcCanExpress(p), "%v: %v", p, err)
			continue
		}
		accepted++
		require.True(t, grpcCanExpress(p), "%v: %s", p, config)
		g := readGRPC(t, config)
		initial, err := time.ParseDuration(g.InitialBackoff)
		require.NoError(t, err)
		most, err := time.ParseDuration(g.MaxBackoff)
		require.NoError(t, err)

		require.Equal(t, p.EffectiveMax(), g.MaxAttempts, "%v", p)
		plan := p.Plan(retry.Unlimited)
		require.Len(t, plan, g.MaxAttempts-1, "%v", p)
		for retries, step := range plan { // as in the shouldRetry of google.golang.org/grpc v1.85.0, stream.go
			cur := min(float64(initial)*math.Pow(g.BackoffMultiplier, float64(retries)), float64(most))
			require.True(t, near(step.Lo, cur*0.8, 2), "%v: %s: %v and %v", p, config, step, time.Duration(cur))
			require.True(t, near(step.Hi, cur*1.2, 2), "%v: %s: %v and %v", p, config, step, time.Duration(cur))
		}
	}
	t.Log(accepted, "of 10000 accepted")
	assert.GreaterOrEqual(t, accepted, 3000)
}

// near reports whether d is f nanoseconds, to the granularity that ToGRPC and
// ToTemporal document: a few nanoseconds, and one part in 2^50.
func near(d time.Duration, f, nanoseconds float64) bool {
	return math.Abs(float64(d)-f) <= nanoseconds+f/(1<<50)
}

// grpcCanExpress says the same as ToGRPC, from the fields that gRPC has and the
// schedule of the policy.
func grpcCanExpress(p retry.Policy) bool {
	known := retry.Policy{MaxAttempts: p.MaxAttempts, MaxRetries: p.MaxRetries, AttemptCap: p.AttemptCap, NonRetryable: p.NonRetryable,
		Backoff: p.Backoff, MaxDelay: p.MaxDelay, Jitter: p.Jitter}
	uncapped := known
	uncapped.MaxDelay = 0
	plan, windows := uncapped.Plan(5), known.Plan(5)
	if len(plan) < 1 || len(plan) > 4 || p.Jitter != retry.Proportional(0.2) || !assert.ObjectsAreEqual(plan, windows) || plan[len(plan)-1].Hi == math.MaxInt64 {
		return false
	}
	for _, step := range plan {
		if step.Hi == 0 {
			return false
		}
	}
	return plainCurve(p) && !hasMore(p)
}

func plainCurve(p retry.Policy) bool {
	switch p.Backoff.(type) {
	case retry.Fixed, retry.Exponential:
		return true
	default:
		return false
	}
}

// hasMore reports whether p is invalid, or has a field that neither target has.
func hasMore(p retry.Policy) bool {
	return p.Validate() != nil || p.ExactRetryAfter || p.MaxRetryAfter != 0 || p.MaxElapsed != 0 || p.AttemptTimeout != 0 || p.HealthyAfter != 0 ||
		p.RetryIf != nil || p.Classify != nil || p.Budget != nil || p.OnEvent != nil
}
