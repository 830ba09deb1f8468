package retrydialect_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

func TestToGRPC(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy retry.Policy
		config string
	}{
		{"exponential", forGRPC(), `{"maxAttempts":4,"initialBackoff":"0.1s","maxBackoff":"0.225s","backoffMultiplier":1.5`},
		{"fixed", retry.Policy{MaxRetries: 1, Backoff: retry.Fixed(90 * time.Second), Jitter: retry.Proportional(0.2)},
			`{"maxAttempts":2,"initialBackoff":"90s","maxBackoff":"90s","backoffMultiplier":1`},
		{"a nanosecond", retry.Policy{MaxAttempts: retry.Unlimited, AttemptCap: 5, Backoff: retry.Fixed(1), Jitter: retry.Proportional(0.2)},
			`{"maxAttempts":5,"initialBackoff":"0.000000001s","maxBackoff":"0.000000001s","backoffMultiplier":1`},
	} {
		config, err := toGRPC(tc.policy)
		require.NoError(t, err, tc.name)
		assert.Equal(t, `{"methodConfig":[{"name":[{"service":"pkg.Service"}],"retryPolicy":`+tc.config+`,"retryableStatusCodes":["UNAVAILABLE"]}}]}`, config, tc.name)
	}
}

func TestToGRPCNamesAndCodes(t *testing.T) {
	const codes = "write one of CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, " +
		"RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED"
	const service = `write "pkg.Service", "pkg.Service/Method", or "" for every call`
	const none = "codes is empty: write the codes to retry, such as UNAVAILABLE"
	for _, tc := range []struct {
		service string
		codes   []string
		name    string // in the config
		retried string
		fault   string
	}{
		{"pkg.Service", []string{"UNAVAILABLE"}, `{"service":"pkg.Service"}`, `["UNAVAILABLE"]`, ""},
		{"pkg.Service/Method", []string{"ABORTED", "UNAVAILABLE"}, `{"service":"pkg.Service","method":"Method"}`, `["ABORTED","UNAVAILABLE"]`, ""},
		{"", []string{"UNAVAILABLE", "1", "UNAVAILABLE", "14"}, `{}`, `["CANCELLED","UNAVAILABLE"]`, ""},

		{"pkg.Service", nil, "", "", none},
		{"pkg.Service", []string{"Unavailable"}, "", "", `codes is "Unavailable": ` + codes},
		{"pkg.Service", []string{"OK"}, "", "", `codes is "OK": ` + codes},
		{"pkg.Service", []string{"17"}, "", "", `codes is "17": ` + codes},
		{"pkg.Service", []string{"-1"}, "", "", `codes is "-1": ` + codes},
		{"/pkg.Service/Method", []string{"14"}, "", "", `service is "/pkg.Service/Method": ` + service},
		{"pkg.Service/", []string{"14"}, "", "", `service is "pkg.Service/": ` + service},
		{"a/b/c", []string{"14"}, "", "", `service is "a/b/c": ` + service},
		{"/", nil, "", "", `service is "/": ` + service + "; " + none},
	} {
		config, err := retrydialect.ToGRPC(forGRPC(), tc.service, tc.codes...)
		if assertFault(t, "gRPC service config: ", tc.fault, err, tc.service); tc.fault != "" {
			assert.Empty(t, config)
			continue
		}
		assert.True(t, strings.HasPrefix(config, `{"methodConfig":[{"name":[`+tc.name+`],`), config)
		assert.True(t, strings.HasSuffix(config, `"retryableStatusCodes":`+tc.retried+`}}]}`), config)
	}
}

// Every policy that is accepted is decided again by the formula of grpc-go.
func TestToGRPCDecidesAsThePolicy(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 6))
	accepted := 0
	for range 5000 {
		p := drawn(r, retry.Proportional(0.2), 2, 3, 4, 5)
		config, err := toGRPC(p)
		if err != nil {
			continue
		}
		accepted++
		var parsed struct { // what grpc-go reads of a service config
			MethodConfig []struct {
				RetryPolicy struct {
					MaxAttempts                int
					InitialBackoff, MaxBackoff string
					BackoffMultiplier          float64
				}
			}
		}
		require.NoError(t, json.Unmarshal([]byte(config), &parsed))
		g := parsed.MethodConfig[0].RetryPolicy
		initial, err := time.ParseDuration(g.InitialBackoff)
		require.NoError(t, err)
		most, err := time.ParseDuration(g.MaxBackoff)
		require.NoError(t, err)

		require.Equal(t, p.EffectiveMax(), g.MaxAttempts, "%v", p)
		for retries, step := range p.Plan(retry.Unlimited) { // as in the shouldRetry of google.golang.org/grpc v1.85.0, stream.go
			cur := min(float64(initial)*math.Pow(g.BackoffMultiplier, float64(retries)), float64(most))
			require.True(t, near(step.Lo, cur*0.8, 2), "%v: %s: %v and %v", p, config, step, time.Duration(cur))
			require.True(t, near(step.Hi, cur*1.2, 2), "%v: %s: %v and %v", p, config, step, time.Duration(cur))
		}
	}
	assert.Greater(t, accepted, 1500)
}
