// Package convert writes a retry policy as the settings of another system. It
// returns exact settings, or an error.
package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
)

// Options are values that some systems need in addition to a policy.
type Options struct {
	Service string   // gRPC: the service or method of the config; see retrydialect.ToGRPC
	Codes   []string // gRPC: the codes to retry
	RetryOn string   // Envoy, Istio: the conditions to retry; Step Functions: the errors
}

// An Error lists the settings of a policy that a system cannot express. Each
// fault begins with its key in the policy.
type Error struct{ Faults []string }

func (e *Error) Error() string { return strings.Join(e.Faults, "; ") }

// A target is a system that has settings for retries.
type target struct {
	name  string
	write func(retry.Policy, Options) (string, error)
}

var targets = []target{
	{"native", func(p retry.Policy, _ Options) (string, error) { return asYAML(p, nil) }},
	{"tasker", writeTasker},
	{"argyll", writeArgyll},
	{"taskharbor", writeTaskHarbor},
	{"nats", writeNATS},
	{"cenkalti", writeCenkalti},
	{"envoy", writeEnvoy},
	{"grpc", writeGRPC},
	{"temporal", writeTemporal},
	{"istio", writeIstio},
	{"stepfunctions", writeStepFunctions},
	{"otel", writeOTel},
}

// Targets returns the names that [Write] accepts.
func Targets() (names []string) {
	for _, t := range targets {
		names = append(names, t.name)
	}
	return names
}

// Write returns the settings with which a system makes the same decisions as p.
// If there are none, the error is an *[Error].
func Write(to string, p retry.Policy, o Options) (string, error) {
	for _, t := range targets {
		if t.name == to {
			return t.write(p, o)
		}
	}
	return "", fmt.Errorf("unknown system %q: write one of %s", to, strings.Join(Targets(), ", "))
}

// asYAML returns settings as YAML, unless there are faults.
func asYAML(settings any, f faults) (string, error) {
	if f != nil {
		return "", &Error{f}
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(settings)
	return b.String(), err
}

// asJSON returns settings as JSON, unless there are faults.
func asJSON(settings any, f faults) (string, error) {
	if f != nil {
		return "", &Error{f}
	}
	data, err := json.MarshalIndent(settings, "", "  ")
	return string(data) + "\n", err
}

// faults are the settings that cannot be expressed.
type faults []string

// add adds a fault: the key in the policy, its value, and why it cannot be
// expressed.
func (f *faults) add(key string, value any, why string) {
	*f = append(*f, fmt.Sprintf("%s is %v: %s", key, value, why))
}

// curve is the shape of the delays.
type curve int

const (
	none curve = iota
	fixed
	linear
	exponential
	fibonacci
	schedule
)

// settings are a policy in the terms that the systems share.
type settings struct {
	attempts int // including the first, or Unlimited
	curve    curve
	base     time.Duration // the first delay, above 0 unless the curve is none or schedule
	factor   float64       // of an exponential curve, above 1
	cap      time.Duration // 0 if there is none
	jitter   retry.Jitter
	timeout  time.Duration // of each attempt; 0 if there is none
	elapsed  time.Duration // until a retry must begin; 0 if unlimited
	wait     time.Duration // the longest wait that a server may ask for; 0 for the default
	exact    bool          // waits exactly that
	healthy  time.Duration // how long a healthy attempt runs; 0 if the count never starts over
}

// settingsOf returns the settings of a policy. It leaves out settings that make
// no difference, such as the delays of a policy that never retries.
func settingsOf(p retry.Policy) settings {
	s := settings{attempts: p.EffectiveMax(), timeout: p.AttemptTimeout}
	if s.attempts == 1 {
		return s
	}
	s.elapsed, s.wait, s.exact, s.healthy = p.MaxElapsed, p.MaxRetryAfter, p.ExactRetryAfter, p.HealthyAfter
	s.cap, s.jitter = p.MaxDelay, p.Jitter
	if s.jitter == retry.Proportional(0) {
		s.jitter = nil
	}
	switch b := p.Backoff.(type) {
	case retry.Fixed:
		s.curve, s.base = fixed, time.Duration(b)
	case retry.Linear:
		s.curve, s.base = linear, time.Duration(b)
	case retry.Exponential:
		s.curve, s.base, s.factor = exponential, b.Base, b.Factor
		switch b.Factor {
		case 0:
			s.factor = 2
		case 1:
			s.curve = fixed
		}
	case retry.Fibonacci:
		s.curve, s.base = fibonacci, time.Duration(b)
	case retry.Schedule:
		s.curve = schedule
		return s
	}
	switch {
	case s.base == 0:
		s.curve, s.jitter, s.cap = none, nil, 0
	case s.cap > 0 && s.cap <= s.base: // because no curve decreases
		s.curve, s.base = fixed, s.cap
	}
	return s
}

// refuse adds faults for the settings that a system does not have.
func (s *settings) refuse(f *faults, system string, jitter bool) {
	if s.jitter != nil && !jitter {
		f.add("jitter", jitterText(s.jitter), system+" has none")
	}
	if s.elapsed != 0 {
		f.add("max_elapsed", s.elapsed, system+" does not bound the time of all attempts")
	}
	if s.wait != 0 {
		f.add("max_retry_after", s.wait, system+" does not know what a server asks for")
	}
	if s.exact {
		f.add("exact_retry_after", true, system+" does not know what a server asks for")
	}
	if s.timeout != 0 {
		f.add("attempt_timeout", s.timeout, system+" has none")
	}
	if s.healthy != 0 {
		f.add("healthy_after", s.healthy, system+" never starts the count over")
	}
}

// limit returns the number of attempts, for a system that needs a limit.
func (s *settings) limit(f *faults, system string) int {
	if s.attempts == retry.Unlimited {
		f.add("max_attempts", "unlimited in effect", system+" needs a limit")
	}
	return s.attempts
}

// shape returns the curve, and adds a fault if the system does not have it.
func (s *settings) shape(f *faults, system string, has ...curve) curve {
	for _, c := range has {
		if s.curve == c {
			return c
		}
	}
	f.add("backoff.type", curveNames[s.curve], system+" has no such curve")
	return s.curve
}

var curveNames = []string{"no delay", "fixed", "linear", "exponential", "fibonacci", "schedule"}

// double adds a fault if an exponential curve does not double.
func (s *settings) double(f *faults, system string) {
	if s.curve == exponential && s.factor != 2 {
		f.add("backoff.factor", s.factor, system+" always doubles")
	}
}

// milliseconds converts a duration for a system that counts whole milliseconds.
func milliseconds(f *faults, key string, d time.Duration, system string) int64 {
	if d%time.Millisecond != 0 {
		f.add(key, d, system+" counts whole milliseconds")
	}
	return d.Milliseconds()
}

// jitterText returns a jitter in the form of a policy file.
func jitterText(j retry.Jitter) string {
	switch j := j.(type) {
	case nil:
		return "none"
	case retry.Proportional:
		return fmt.Sprint(float64(j))
	default:
		return fmt.Sprint(j)
	}
}
