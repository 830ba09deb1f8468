package convert

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
)

// istio is HTTPRetry of networking.istio.io. Its attempts are retries.
type istio struct {
	Attempts      int    `yaml:"attempts"`
	PerTryTimeout string `yaml:"perTryTimeout,omitempty"`
	RetryOn       string `yaml:"retryOn,omitempty"`
	Backoff       string `yaml:"backoff,omitempty"`
}

// writeIstio returns the settings for Istio, which has Envoy draw each delay from
// 0 up to an interval that doubles, at most ten times the first.
func writeIstio(p retry.Policy, o Options) (string, error) {
	const system = "Istio"
	var f faults
	s, retries, timeout := meshOf(&f, system, p, o.RetryOn, policyfile.IsIstioCondition, math.MaxInt32)
	settings := istio{RetryOn: o.RetryOn, Attempts: retries}
	if timeout > 0 {
		settings.PerTryTimeout = timeout.String()
	}
	if s.attempts != 1 {
		s.shape(&f, system, fixed, exponential)
		s.full(&f, system)
		milliseconds(&f, "backoff.base", s.base, system)
		settings.Backoff = s.base.String()
		last := 6 // where the interval has reached ten times the first
		if s.attempts > 0 {
			last = min(last, s.attempts-1)
		}
		for n, d := range p.Delays(last) {
			if (s.curve == fixed || s.factor == 2) && d != min(s.base<<n, 10*s.base) {
				f.add("max_delay", p.MaxDelay, fmt.Sprintf("Istio doubles the first delay up to ten times it, %v", 10*s.base))
				break
			}
		}
	}
	return asYAML(settings, f)
}

// meshOf returns what Envoy and Istio, which configures Envoy, read in the same way:
// the settings, the retries, of which the system counts up to most, and the timeout of
// an attempt.
func meshOf(f *faults, system string, p retry.Policy, retryOn string, is func(string) bool, most int64) (s settings, retries int, timeout time.Duration) {
	s = settingsOf(p)
	checkConditions(f, system, retryOn, is)
	retries = s.limit(f, system) - 1
	if int64(s.attempts)-1 > most {
		f.add("max_attempts", fmt.Sprint(s.attempts, " in effect"), fmt.Sprintf("%s counts up to %d retries", system, most))
	}
	if timeout = s.timeout; timeout > 0 {
		milliseconds(f, "attempt_timeout", timeout, system)
		s.timeout = 0
	}
	s.refuse(f, system, true)
	s.double(f, system)
	return s, retries, timeout
}

// checkConditions adds a fault for each name that Envoy would ignore without a
// word.
func checkConditions(f *faults, system, list string, is func(string) bool) {
	for _, name := range strings.Split(list, ",") {
		if name = strings.TrimSpace(name); name != "" && !is(name) {
			f.add("retry-on", strconv.Quote(name), system+" ignores it: write one of "+strings.Join(policyfile.EnvoyConditions, ", "))
		}
	}
}

// full adds a fault unless the jitter is full.
func (s *settings) full(f *faults, system string) {
	if s.jitter != retry.FullJitter && s.curve != none {
		f.add("jitter", jitterText(s.jitter), system+"'s is always full")
	}
}

// retrier is a retrier of the Amazon States Language.
type retrier struct {
	ErrorEquals     []string
	IntervalSeconds int64   `json:",omitzero"`
	MaxAttempts     int     // retries
	BackoffRate     float64 `json:",omitzero"`
	MaxDelaySeconds int64   `json:",omitzero"`
	JitterStrategy  string  `json:",omitzero"`
}

// The limits of the Amazon States Language.
const (
	stepMostRetries = 99_999_999
	stepMostDelay   = 31_622_400 * time.Second
)

func writeStepFunctions(p retry.Policy, o Options) (string, error) {
	const system = "Step Functions"
	var f faults
	s := settingsOf(p)
	r := retrier{ErrorEquals: strings.Split(o.RetryOn, ","), MaxAttempts: s.limit(&f, system) - 1}
	if r.MaxAttempts > stepMostRetries {
		f.add("max_attempts", fmt.Sprint(s.attempts, " in effect"), "Step Functions counts up to 99999999 retries")
	}
	s.refuse(&f, system, true)
	if s.attempts == 1 {
		return asJSON([]retrier{r}, f)
	}
	r.BackoffRate = max(1, s.factor)
	if s.shape(&f, system, fixed, exponential) == fixed {
		r.BackoffRate = 1
	}
	r.IntervalSeconds = seconds(&f, "backoff.base", s.base)
	if s.cap > 0 && s.curve == exponential {
		r.MaxDelaySeconds = seconds(&f, "max_delay", s.cap)
		if s.cap > stepMostDelay {
			f.add("max_delay", s.cap, "Step Functions takes at most a year")
		}
	}
	switch s.jitter {
	case nil:
	case retry.FullJitter:
		r.JitterStrategy = "FULL"
	default:
		f.add("jitter", jitterText(s.jitter), "Step Functions has FULL or none")
	}
	return asJSON([]retrier{r}, f)
}

// seconds converts a duration for Step Functions, which counts whole seconds.
func seconds(f *faults, key string, d time.Duration) int64 {
	if d%time.Second != 0 {
		f.add(key, d, "Step Functions counts whole seconds")
	}
	return int64(d / time.Second)
}

// otel is BackOffConfig of the OpenTelemetry Collector. It has no limit but the
// elapsed time.
type otel struct {
	Enabled             bool     `yaml:"enabled"`
	InitialInterval     string   `yaml:"initial_interval,omitempty"`
	RandomizationFactor *float64 `yaml:"randomization_factor,omitempty"`
	Multiplier          float64  `yaml:"multiplier,omitempty"`
	MaxInterval         string   `yaml:"max_interval,omitempty"`
	MaxElapsedTime      string   `yaml:"max_elapsed_time,omitempty"`
}

func writeOTel(p retry.Policy, _ Options) (string, error) {
	const system = "the Collector"
	var f faults
	s := settingsOf(p)
	elapsed := s.elapsed
	s.elapsed = 0
	s.refuse(&f, system, true)
	if s.attempts == 1 {
		return asYAML(otel{}, f)
	}
	if s.attempts != retry.Unlimited {
		f.add("max_attempts", fmt.Sprint(s.attempts, " in effect"), system+" has no limit but max_elapsed_time")
	}
	spread := 0.0
	switch j := s.jitter.(type) {
	case nil:
	case retry.Proportional:
		spread = float64(j)
	default:
		f.add("jitter", jitterText(j), system+" spreads a delay to both sides: write a share from 0 to 1")
	}
	cap := s.cap
	if s.curve == schedule && p.MaxDelay == 0 {
		s.list(p.Backoff.(retry.Schedule))
		cap = s.cap
	}
	factor := 1.0
	switch s.shape(&f, system, fixed, exponential) {
	case fixed:
		cap = s.base
	case exponential:
		factor = s.factor
		switch {
		case s.cap == 0:
			f.add("max_delay", "0s", system+" needs a longest delay")
		case spread > 0 && p.MaxDelay > 0:
			f.add("max_delay", p.MaxDelay, fmt.Sprintf("%s draws up to %v, beyond its max_interval: write the delays as a schedule, or no jitter", system, time.Duration(float64(cap)*(1+spread))))
		}
	}
	if longest := max(cap, s.base); elapsed > 0 && elapsed < longest {
		f.add("max_elapsed", elapsed, fmt.Sprintf("%s takes none below the longest delay, %v", system, longest))
	}
	return asYAML(otel{true, s.base.String(), &spread, factor, cap.String(), elapsed.String()}, f)
}

// list turns a schedule into an exponential curve with a cap, if it is one.
func (s *settings) list(delays retry.Schedule) {
	last := len(delays) - 1
	if last < 1 || delays[0] <= 0 || delays[1] <= delays[0] {
		return
	}
	factor := float64(delays[last]) / float64(delays[0])
	if last > 1 {
		factor = math.Round(1e6*math.Pow(float64(delays[last-1])/float64(delays[0]), 1/float64(last-1))) / 1e6
	}
	for i, want := range delays {
		if d := min(float64(delays[0])*math.Pow(factor, float64(i)), float64(delays[last])); math.Abs(d-float64(want)) > 2 {
			return
		}
	}
	s.curve, s.base, s.factor, s.cap = exponential, delays[0], factor, delays[last]
}
