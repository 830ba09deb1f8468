// Package formatstest compares what the tool reads and writes with the types that
// other systems read their settings with.
package formatstest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/configretry"
	commonpb "go.temporal.io/api/common/v1"
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
	var errs strings.Builder
	command.Stderr = &errs
	output, err := command.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		status = exit.ExitCode()
	} else if err != nil {
		panic(err)
	}
	return string(output), errs.String(), status
}

// decisions are what a system does when every attempt fails: the ranges of its
// first delays.
type decisions struct {
	attempts         int // -1: unlimited
	windows          [][2]time.Duration
	timeout, elapsed time.Duration
}

const most = 12 // delays that are compared

// planned returns the decisions of the policy that the tool reads.
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

// compare compares decisions; floats round some delays by a few nanoseconds.
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
			require.InDelta(t, w[end], got.windows[n][end], 20+float64(w[end])/1e9, "after attempt %d: %v and %v\n%s", n+1, w, got.windows[n], text)
		}
	}
}

// windows returns the ranges of the first delays, of which middle returns each
// before the jitter.
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

// A system is another system that reads settings. read uses its own types, and
// what its documents or its source say about their meaning.
type system struct {
	name, policy string // policy can be written for it
	read         func(text string) (decisions, error)
	members      []string // of settings, most of which are valid
	faults       []string // settings that the system refuses, or drops in silence
	flags        []string // for convert
}

// random returns settings. A member that begins with ? may be left out, and | stands
// between the values of one.
func (s *system) random(r *rand.Rand) string {
	var chosen []string
	for _, member := range s.members {
		member, optional := strings.CutPrefix(member, "?")
		key, values, _ := strings.Cut(member, ": ")
		if all := strings.Split(values, "|"); !optional || r.IntN(4) > 0 {
			chosen = append(chosen, strconv.Quote(key)+": "+all[r.IntN(len(all))])
		}
	}
	return "{" + strings.Join(chosen, ", ") + "}"
}

const seconds = `".01s"|"0.025s"|"0.2s"|"1s"|"2.5s"|"60s"`

var systems = []system{
	{"temporal", "{max_attempts: 9, backoff: {type: exponential, base: 200ms, factor: 1.5}, max_delay: 5s}", readTemporal,
		[]string{"?initialInterval: " + seconds, "?backoff_coefficient: 0|1|1.5|2|10", "?maximumInterval: " + seconds, "?maximumAttempts: 0|1|2|6", `?nonRetryableErrorTypes: ["Declined"]`},
		[]string{"{initialInterval: 1m, maximumAttempts: 3}", "{initialInterval: 5, maximumAttempts: 3}", "{maximumAttempts: -1}", "{backoffCoefficient: 0.5, maximumAttempts: 3}",
			`{maximumAttempts: "many"}`, "{initialInterval: 10s, maximumInterval: 1s}", "{maximumAttempts: 3, maximumAttemps: 4}"}, nil},
	{"grpc", "{max_attempts: 4, backoff: {type: exponential, base: 100ms, factor: 1.5}, jitter: 0.2}", readGRPC,
		[]string{"MaxAttempts: 2|3|5|7", "initialBackoff: " + seconds, "MaxBackoff: " + seconds, "backoffMultiplier: 0.5|1|1.6|2", `retryableStatusCodes: ["UNAVAILABLE", 10]`},
		[]string{`{"maxAttempts": 3}`, grpcBlock("3", `"0s"`, `"UNAVAILABLE"`), grpcBlock("1", `"1s"`, `"UNAVAILABLE"`), grpcBlock("3", `"1m"`, `"UNAVAILABLE"`),
			grpcBlock("3", `"1s"`, `"SOMETIMES"`), grpcBlock("3", `"1s"`, "")}, []string{"-codes", "UNAVAILABLE"}},
	{"envoy", "{max_attempts: 5, backoff: {type: exponential, base: 25ms}, max_delay: 10s, jitter: full, attempt_timeout: 1500ms}", readEnvoy,
		[]string{`?retry_on: "5xx, reset,unavailable"`, "?num_retries: 0|1|3|6", "?perTryTimeout: " + seconds, "?retriable_status_codes: [503]", "?retry_host_predicate: []",
			`?retry_back_off: {"base_interval": "0.001s"}|{"base_interval": "0.0005s"}|{"base_interval": "0.025s", "max_interval": "10s"}|{"base_interval": "0.2s"}`},
		[]string{`{retry_on: "5xxx", num_retries: 2}`, "{retry_on: 5xx, num_retries: -1}", "{retry_on: 5xx, retry_back_off: {max_interval: 1s}}", "{retry_on: 5xx, per_try_timeout: 250ms}",
			"{retry_on: 5xx, retry_back_off: {base_interval: 0s}}", "{retry_on: 5xx, retry_back_off: {base_interval: 2s, max_interval: 1s}}", "{retry_on: 5xx, num_retry: 3}"},
		[]string{"-retry-on", "5xx,reset"}},
	{"istio", "{max_attempts: 4, backoff: {type: exponential, base: 25ms}, jitter: full, attempt_timeout: 2s}", readIstio,
		[]string{"attempts: 0|1|3|6", `?perTryTimeout: "2s"|"250ms"|"1m"`, `?retryOn: "5xx,503,connect-failure"`, `?backoff: "25ms"|"1s"`, "?retryRemoteLocalities: true"},
		[]string{"{attempts: 3, perTryTimeout: 2}", "{attempts: -1, retryOn: 5xx}", `{attempts: 3, retryOn: "5xx,resett"}`, "{attempts: 3, perTryTimeout: soon}", "{attempts: 3, perTryTimout: 2s, retryOn: 5xx}"},
		[]string{"-retry-on", "5xx,503"}},
	{"stepfunctions", "{max_attempts: 4, backoff: {type: exponential, base: 2s, factor: 1.5}, max_delay: 60s, jitter: full}", readStepFunctions,
		[]string{`ErrorEquals: ["States.ALL"]`, "?IntervalSeconds: 1|5|9", "?MaxAttempts: 0|1|3|8", "?BackoffRate: 1|1.5|2|10", "?MaxDelaySeconds: 10|60|99", `?JitterStrategy: "FULL"|"NONE"`},
		[]string{`{"IntervalSeconds": 1}`, `{"ErrorEquals": []}`, `{"ErrorEquals": "States.ALL"}`, `{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 0}`, `{"ErrorEquals": ["States.ALL"], "MaxAttempts": 100000000}`,
			`{"ErrorEquals": ["States.ALL"], "BackoffRate": 0.9}`, `{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 5, "MaxDelaySeconds": 5}`, `{"ErrorEquals": ["States.ALL"], "JitterStrategy": "HALF"}`,
			`{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1.5}`, `{"ErrorEquals": ["States.ALL"], "BackOffRate": 2}`}, []string{"-retry-on", "States.ALL"}},
	{"otel", "{max_attempts: -1, backoff: {type: exponential, base: 5s, factor: 1.5}, max_delay: 30s, max_elapsed: 5m}", readOTel,
		[]string{"?enabled: true|true|false", `?initial_interval: "1s"|"500ms"|"40s"`, "?randomization_factor: 0|0.1|0.5|1", "?multiplier: 1|1.5|2", `?max_interval: "1s"|"30s"|"1m"`, `?max_elapsed_time: "0s"|"5m"`},
		[]string{"{initial_interval: 5}", "{max_elapsed_time: 1s}", "{randomization_factor: 1.5}", "{multiplier: -1}", "{max_interval: -5s}", "{initial_interval: 5s, max_elapsed: 1m}"}, nil},
}

func grpcBlock(attempts, initial, code string) string {
	return fmt.Sprintf(`{"maxAttempts": %s, "initialBackoff": %s, "maxBackoff": "5s", "backoffMultiplier": 2, "retryableStatusCodes": [%s]}`, attempts, initial, code)
}

// What a system reads the tool reads too, and decides the same. It refuses what
// the system refuses.
func TestReads(t *testing.T) {
	for _, s := range systems {
		t.Run(s.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			read := 0
			for range 40 {
				text := s.random(r)
				want, err := s.read(text)
				if err != nil {
					_, _, status := run(text, "lint", "-from", s.name, "-")
					require.Equal(t, 1, status, "%s\n%v", text, err)
					continue
				}
				read++
				compare(t, want, planned(t, text, "-from", s.name), text)
			}
			assert.Greater(t, read, 10)
			for _, text := range s.faults {
				stdout, _, status := run(text, "lint", "-from", s.name, "-")
				assert.Equal(t, 1, status, text)
				assert.Contains(t, stdout, "standard input:1: ", text)
			}
		})
	}
}

// What the tool writes the system reads, and decides as the policy does; so does
// the nearest policy, when it is read back.
func TestWrites(t *testing.T) {
	for _, s := range systems {
		t.Run(s.name, func(t *testing.T) {
			for _, policy := range []string{s.policy, "{max_attempts: -1, backoff: {type: fibonacci, base: 150ms}, jitter: equal, max_elapsed: 1m, max_retry_after: 1h}",
				"{max_attempts: 7, backoff: {type: linear, base: 2500us}, max_delay: 40ms, jitter: 0.3, attempt_timeout: 1500us}", "{max_attempts: 3}"} {
				args := append([]string{"convert", "-nearest", "-to", s.name}, s.flags...)
				text, losses, status := run(policy, args...)
				require.Zero(t, status, losses)
				assert.Equal(t, policy == s.policy, losses == "", losses)
				want, err := s.read(inner(t, text))
				require.NoError(t, err, text)
				compare(t, want, planned(t, text), text)
				if policy == s.policy {
					compare(t, want, planned(t, policy), text)
				}
			}
		})
	}
}

// inner returns the settings in what the tool has written.
func inner(t *testing.T, text string) string {
	data, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	var whole any
	require.NoError(t, json.Unmarshal(data, &whole))
	if list, ok := whole.([]any); ok {
		whole = list[0]
	} else if config, ok := whole.(map[string]any)["methodConfig"]; ok {
		whole = config.([]any)[0].(map[string]any)["retryPolicy"]
	}
	data, err = json.Marshal(whole)
	require.NoError(t, err)
	return string(data)
}

// Temporal's server fills in 0 with its defaults, and checks what remains:
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

// gRPC checks a service config when a client is made. Its delays are those of
// google.golang.org/grpc, stream.go.
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

// Envoy checks its messages by the rules in them, and more in
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

// Istio writes its settings over its defaults for Envoy: pilot/pkg/networking/core/route/retry.
func readIstio(text string) (d decisions, err error) {
	var p istio.HTTPRetry
	if err := p.UnmarshalJSON([]byte(text)); err != nil {
		return d, err
	}
	if p.Attempts < 0 {
		return d, errors.New("attempts is negative")
	}
	if p.Attempts == 0 {
		return decisions{attempts: 1, timeout: p.PerTryTimeout.AsDuration()}, nil
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

// The Collector decodes its settings over its defaults, and hands them to
// cenkalti/backoff: exporter/exporterhelper/internal/retry_sender.go.
func readOTel(text string) (d decisions, err error) {
	c := configretry.NewDefaultBackOffConfig()
	var keys map[string]any
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		return d, err
	}
	form := reflect.ValueOf(&c).Elem()
	for i := range form.NumField() {
		key := form.Type().Field(i).Tag.Get("mapstructure")
		value, ok := keys[key]
		if delete(keys, key); !ok {
			continue
		}
		if _, isDuration := form.Field(i).Interface().(time.Duration); isDuration {
			if value, err = time.ParseDuration(fmt.Sprint(value)); err != nil {
				return d, err
			}
		}
		form.Field(i).Set(reflect.ValueOf(value))
	}
	if err := c.Validate(); err != nil || len(keys) > 0 {
		return d, fmt.Errorf("%w or unknown %v", err, keys)
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
