// Package formatstest compares how the command reads the settings of other systems with the types
// of these systems.
package formatstest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/confmap"
	commonpb "go.temporal.io/api/common/v1"
	yamlv3 "go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	istio "istio.io/api/networking/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/goretry/retry"
	"github.com/goretry/retry/integration/internal/tool"
)

func TestMain(m *testing.M) { tool.Main(m) }

func run(input string, args ...string) (stdout, stderr string, status int) {
	command := exec.Command(tool.Path, args...)
	command.Stdin = strings.NewReader(input)
	var out, errs strings.Builder
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); command.ProcessState == nil {
		panic(err)
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// decisions are the decisions of a system if every attempt fails: the number of attempts, and the
// ranges of the first delays.
type decisions struct {
	attempts         int // -1: unlimited
	windows          [][2]time.Duration
	timeout, elapsed time.Duration
}

const most = 12 // the number of delays that are compared

// planned returns the decisions of the policy that the command reads.
func planned(t *testing.T, text string, args ...string) (d decisions) {
	t.Helper()
	stdout, stderr, status := run(text, append([]string{"plan", "-json", "-n", fmt.Sprint(most)}, args...)...)
	require.Zero(t, status, "%s\n%s", text, stderr)
	var form struct {
		MaxAttempts int `json:"max_attempts"`
		Policy      retry.Policy
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &form))
	d = decisions{attempts: form.MaxAttempts, timeout: form.Policy.AttemptTimeout, elapsed: form.Policy.MaxElapsed}
	for n := 1; n <= most && (d.attempts < 0 || n < d.attempts); n++ {
		next := form.Policy.Next(retry.Attempt{Number: n, Seed: 1})
		d.windows = append(d.windows, [2]time.Duration{next.Lo, next.Hi})
	}
	return d
}

// compare compares decisions. Delays may differ by a few nanoseconds, because of rounding.
func compare(t *testing.T, want, got decisions, text string) {
	t.Helper()
	require.Equal(t, want.attempts, got.attempts, text)
	if want.attempts != 1 {
		require.Equal(t, want.elapsed, got.elapsed, text)
	}
	require.Equal(t, want.timeout, got.timeout, text)
	require.Len(t, got.windows, len(want.windows), text)
	for n, w := range want.windows {
		for end := range 2 {
			require.InDelta(t, w[end], got.windows[n][end], 50+float64(w[end])/1e9, "after attempt %d: %v and %v\n%s", n+1, w, got.windows[n], text)
		}
	}
}

// windows returns the ranges of the first delays. middle returns a delay without jitter.
func windows(attempts int, middle func(n int) float64, lo, hi float64) (all [][2]time.Duration) {
	for n := 1; n <= most && (attempts < 0 || n < attempts); n++ {
		m := min(middle(n), math.MaxInt64/2)
		all = append(all, [2]time.Duration{time.Duration(m * lo), time.Duration(m * hi)})
	}
	return all
}

// grow returns delays that grow by a factor.
func grow(base, factor, longest float64) func(n int) float64 {
	return func(n int) float64 { return min(base*math.Pow(factor, float64(n-1)), longest) }
}

// A system is a system in testdata/systems.yaml that reads settings.
type system struct {
	Name     string
	Settings map[string][]json.RawMessage
	Faults   []json.RawMessage
}

// reads has a function for each system that returns its decisions for settings. The functions decode
// with the types of the system. The meaning of the settings is from its documents or its source.
var reads = map[string]func(text string) (decisions, error){
	"temporal": readTemporal, "grpc": readGRPC, "envoy": readEnvoy, "istio": readIstio, "stepfunctions": readStepFunctions, "otel": readOTel,
}

// random returns random settings of the system.
func (s *system) random(r *rand.Rand) string {
	var members []string
	for _, key := range slices.Sorted(maps.Keys(s.Settings)) {
		values := s.Settings[key]
		if name, optional := strings.CutPrefix(key, "?"); !optional || r.IntN(4) > 0 {
			members = append(members, fmt.Sprintf("%q: %s", name, values[r.IntN(len(values))]))
		}
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// The command reads the settings that a system reads, and makes the same decisions. It refuses the
// settings that the system refuses.
func TestReads(t *testing.T) {
	data, err := os.ReadFile("testdata/systems.yaml")
	require.NoError(t, err)
	var systems []system
	require.NoError(t, yaml.UnmarshalStrict(data, &systems))
	require.Len(t, systems, len(reads))
	for _, s := range systems {
		t.Run(s.Name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			valid := 0
			for range 40 {
				text := s.random(r)
				want, err := reads[s.Name](text)
				if err != nil {
					_, _, status := run(text, "lint", "-from", s.Name, "-")
					require.Equal(t, 1, status, "%s\n%v", text, err)
					continue
				}
				valid++
				compare(t, want, planned(t, text, "-from", s.Name), text)
			}
			assert.Greater(t, valid, 10)
			for _, text := range s.Faults {
				stdout, _, status := run(string(text), "lint", "-from", s.Name, "-")
				assert.Equal(t, 1, status, string(text))
				assert.Contains(t, stdout, "standard input:1: ", string(text))
			}
		})
	}
}

// Temporal's server replaces 0 by its defaults, and checks the other values:
// go.temporal.io/server, common/retrypolicy.
func readTemporal(text string) (d decisions, err error) {
	var p commonpb.RetryPolicy
	if err := protojson.Unmarshal([]byte(text), &p); err != nil {
		return d, err
	}
	base, factor := cmp.Or(p.GetInitialInterval().AsDuration(), time.Second), cmp.Or(p.GetBackoffCoefficient(), 2)
	longest := cmp.Or(p.GetMaximumInterval().AsDuration(), 100*base)
	if factor < 1 || base < 0 || longest < base || p.GetMaximumAttempts() < 0 {
		return d, errors.New("refused by the server")
	}
	d.attempts = cmp.Or(int(p.GetMaximumAttempts()), -1)
	d.windows = windows(d.attempts, grow(float64(base), factor, float64(longest)), 1, 1)
	return d, nil
}

// gRPC checks a service config when a client is made. The delays are from google.golang.org/grpc,
// stream.go.
func readGRPC(text string) (d decisions, err error) {
	config := `{"methodConfig": [{"name": [{}], "retryPolicy": ` + text + `}]}`
	client, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(config))
	if err != nil {
		return d, err
	}
	defer client.Close()
	var p struct {
		MaxAttempts                int
		InitialBackoff, MaxBackoff string
		BackoffMultiplier          float64
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return d, err
	}
	base, err := time.ParseDuration(p.InitialBackoff)
	longest, err2 := time.ParseDuration(p.MaxBackoff)
	d.attempts = min(5, p.MaxAttempts)
	d.windows = windows(d.attempts, grow(float64(base), p.BackoffMultiplier, float64(longest)), 0.8, 1.2)
	return d, errors.Join(err, err2)
}

// Envoy checks its messages with the rules in the messages, and with further rules in
// source/common/router/retry_policy_impl.cc.
func readEnvoy(text string) (d decisions, err error) {
	var p routev3.RetryPolicy
	if err := protojson.Unmarshal([]byte(text), &p); err != nil {
		return d, err
	}
	return envoyDecisions(&p)
}

func envoyDecisions(p *routev3.RetryPolicy) (d decisions, err error) {
	if err := p.ValidateAll(); err != nil {
		return d, err
	}
	d.attempts, d.timeout = 2, p.GetPerTryTimeout().AsDuration()
	if p.NumRetries != nil {
		d.attempts = 1 + int(p.NumRetries.Value)
	}
	base := int64(25)
	if p.RetryBackOff != nil {
		base = max(1, p.RetryBackOff.BaseInterval.AsDuration().Milliseconds())
	}
	longest := 10 * base
	if m := p.GetRetryBackOff().GetMaxInterval(); m != nil {
		longest = max(1, m.AsDuration().Milliseconds())
	}
	if longest < base {
		return d, errors.New("max_interval is below base_interval")
	}
	d.windows = windows(d.attempts, grow(1e6*float64(base), 2, 1e6*float64(longest)), 0, 1)
	return d, nil
}

// Istio starts from its defaults for Envoy, and its settings replace them:
// pilot/pkg/networking/core/route/retry.
func readIstio(text string) (d decisions, err error) {
	var p istio.HTTPRetry
	if err := p.UnmarshalJSON([]byte(text)); err != nil {
		return d, err
	}
	if p.Attempts < 0 {
		return d, errors.New("attempts is negative")
	}
	if p.Attempts == 0 && (p.PerTryTimeout != nil || p.RetryOn != "" || p.RetryRemoteLocalities != nil) { // as ValidateHTTPRetry of Istio
		return d, errors.New("retries are off, and configured")
	}
	if p.Attempts == 0 {
		return decisions{attempts: 1}, nil
	}
	out := &routev3.RetryPolicy{NumRetries: wrapperspb.UInt32(uint32(p.Attempts))}
	if p.PerTryTimeout != nil {
		out.PerTryTimeout = durationpb.New(p.PerTryTimeout.AsDuration())
	}
	if p.Backoff != nil {
		out.RetryBackOff = &routev3.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(p.Backoff.AsDuration())}
	}
	return envoyDecisions(out)
}

// The Amazon States Language, https://states-language.net/spec.html#errors, and
// the limits in the developer guide of Step Functions.
func readStepFunctions(text string) (d decisions, err error) {
	r := struct {
		ErrorEquals                                   []string
		IntervalSeconds, MaxAttempts, MaxDelaySeconds int
		BackoffRate                                   float64
		JitterStrategy                                string
	}{nil, 1, 3, math.MaxInt32, 2, "NONE"}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return d, err
	}
	longest := r.MaxDelaySeconds
	if len(r.ErrorEquals) == 0 || r.IntervalSeconds < 1 || r.MaxAttempts < 0 || r.MaxAttempts > 99_999_999 || r.BackoffRate < 1 ||
		longest <= r.IntervalSeconds || longest > 31_622_400 && longest != math.MaxInt32 {
		return d, errors.New("not in the grammar")
	}
	lo := map[string]float64{"NONE": 1, "FULL": 0}[r.JitterStrategy]
	d.attempts = 1 + r.MaxAttempts
	d.windows = windows(d.attempts, grow(1e9*float64(r.IntervalSeconds), r.BackoffRate, 1e9*float64(longest)), lo, 1)
	return d, nil
}

// The Collector starts from its defaults, decodes its settings over them, and passes the result to
// cenkalti/backoff: exporter/exporterhelper/internal/retry_sender.go.
func readOTel(text string) (d decisions, err error) {
	c := configretry.NewDefaultBackOffConfig()
	var keys map[string]any
	if err := yamlv3.Unmarshal([]byte(text), &keys); err != nil {
		return d, err
	}
	if err := cmp.Or(confmap.NewFromStringMap(keys).Unmarshal(&c), c.Validate()); err != nil {
		return d, err
	}
	if !c.Enabled {
		return decisions{attempts: 1}, nil
	}
	b := backoff.ExponentialBackOff{InitialInterval: c.InitialInterval, Multiplier: c.Multiplier, MaxInterval: c.MaxInterval}
	b.Reset()
	d = decisions{attempts: -1, elapsed: c.MaxElapsedTime}
	d.windows = windows(-1, func(int) float64 { return float64(b.NextBackOff()) }, 1-c.RandomizationFactor, 1+c.RandomizationFactor)
	return d, nil
}
