// Package convert writes a retry policy as the settings of another system. It
// returns exact settings, or an error.
package convert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// Options are values that some systems need in addition to a policy.
type Options struct {
	Service string   // gRPC: the service or method of the config; see retrydialect.ToGRPC
	Codes   []string // gRPC: the codes to retry
	RetryOn string   // Envoy, Istio: the conditions to retry; Step Functions: the errors
}

// A target is a system that has settings for retries.
type target struct {
	name, title string
	write       func(*writer) any // adds faults that no other system has
	encode      func(settings any) (string, error)

	// What it can express. Without curves, write finds all faults.
	curves  []curve
	jitters spread
	unit    time.Duration // of its delays
	most    int64         // retries; 0: they may be unlimited
	doubles bool          // its exponential curve doubles
	around  bool          // its jitter goes beyond its longest delay
	bounds  bool          // it bounds the time of all attempts
	times   bool          // it bounds the time of each
}

var targets = []target{
	{name: "native", write: func(w *writer) any { return w.p }, encode: asYAML},
	{name: "tasker", title: "Tasker", write: writeTasker, encode: asYAML,
		curves: []curve{none, fixed, linear, exponential, fibonacci}, jitters: noJitter, unit: time.Millisecond, most: math.MaxInt64, doubles: true},
	{name: "argyll", title: "Argyll", write: writeArgyll, encode: asJSON,
		curves: []curve{none, fixed, linear, exponential}, jitters: noJitter, unit: time.Millisecond, doubles: true},
	{name: "taskharbor", title: "TaskHarbor", write: writeTaskHarbor, encode: asYAML,
		curves: []curve{none, fixed, exponential}, jitters: shares, unit: time.Nanosecond, most: math.MaxInt64},
	{name: "nats", title: "NATS", write: writeNATS, encode: asJSON,
		curves: []curve{none, fixed, linear, exponential, fibonacci, schedule}, jitters: noJitter, unit: time.Nanosecond},
	{name: "cenkalti", title: "cenkalti/backoff", write: writeCenkalti, encode: asGo,
		curves: []curve{none, fixed, exponential}, jitters: shares, unit: time.Nanosecond, around: true, bounds: true},
	{name: "envoy", title: "Envoy", write: writeEnvoy, encode: asYAML,
		curves: []curve{fixed, exponential}, jitters: alwaysFull, unit: time.Millisecond, most: math.MaxUint32, doubles: true, times: true},
	{name: "grpc", write: writeGRPC, encode: asJSON, around: true},
	{name: "temporal", write: writeTemporal, encode: asJSON},
	{name: "istio", title: "Istio", write: writeIstio, encode: asYAML,
		curves: []curve{fixed, exponential}, jitters: alwaysFull, unit: time.Millisecond, most: math.MaxInt32, doubles: true, times: true},
	{name: "stepfunctions", title: "Step Functions", write: writeStepFunctions, encode: asJSON,
		curves: []curve{fixed, exponential}, jitters: fullOrNone, unit: time.Second, most: stepMostRetries},
	{name: "otel", title: "the Collector", write: writeOTel, encode: asYAML,
		curves: []curve{fixed, exponential}, jitters: shares, unit: time.Nanosecond, around: true, bounds: true},
}

// Targets returns the names that [Write] accepts.
func Targets() (names []string) {
	for _, t := range targets {
		names = append(names, t.name)
	}
	return names
}

// Write returns the settings with which a system makes the same decisions as p, and what
// it does in another way all the same: its budget.
// If there are none, the error is a *[strict.Error] with the settings of p that the
// system cannot express: each begins with its key.
func Write(to string, p retry.Policy, o Options) (text string, notes []string, err error) {
	i := slices.IndexFunc(targets, func(t target) bool { return t.name == to })
	if i < 0 {
		return "", nil, fmt.Errorf("unknown system %q: write one of %s", to, strings.Join(Targets(), ", "))
	}
	t := &targets[i]
	w := &writer{target: t, p: p, Options: o, settings: settingsOf(p)}
	if list, ok := p.Backoff.(retry.Schedule); ok && t.around && p.MaxDelay == 0 {
		w.list(list)
	}
	if t.curves != nil {
		w.check()
	}
	settings := t.write(w)
	if w.faults != nil {
		return "", nil, &strict.Error{Of: "no settings of " + to, Texts: w.faults}
	}
	text, err = t.encode(settings)
	return text, w.notes, err
}

func asYAML(settings any) (string, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(settings)
	return b.String(), err
}

func asJSON(settings any) (string, error) {
	data, err := json.MarshalIndent(settings, "", "  ")
	return string(data) + "\n", err
}

func asGo(expression any) (string, error) { return fmt.Sprintln(expression), nil }

// A writer writes a policy for a system.
type writer struct {
	*target
	Options
	settings
	p      retry.Policy
	faults []string // what cannot be expressed
	notes  []string // what the system does in another way
}

// add adds a fault: the key in the policy, its value, and why the system cannot
// express it.
func (w *writer) add(key string, value any, why string) {
	w.faults = append(w.faults, fmt.Sprintf("%s is %v: %s", key, value, why))
}

// check adds faults for what the table of systems says.
func (w *writer) check() {
	counts := " counts whole " + map[time.Duration]string{time.Millisecond: "milliseconds", time.Second: "seconds"}[w.unit]
	for _, row := range []struct {
		fault bool
		key   string
		value any
		why   string
	}{
		{w.curve != none && !w.jitters.has(w.jitter), "jitter", jitterText(w.jitter), w.jitters.why},
		{w.elapsed != 0 && !w.bounds, "max_elapsed", w.elapsed, " does not bound the time of all attempts"},
		{w.wait != 0, "max_retry_after", w.wait, " does not know what a server asks for"},
		{w.mode != "", "retry_after", w.mode, " does not know what a server asks for"},
		{w.budget, "budget", "set", " has none in these settings" + w.nearBudget()},
		{w.short && w.most == 0, "backoff", "shorter than 10ms, where a policy without a limit waits 10ms", " does not"},
		{w.timeout != 0 && !w.times, "attempt_timeout", w.timeout, " has none"},
		{w.timeout%w.unit != 0 && w.times, "attempt_timeout", w.timeout, counts},
		{w.healthy != 0, "healthy_after", w.healthy, " never starts the count over"},
		{w.most > 0 && w.attempts == retry.Unlimited, "max_attempts", "unlimited in effect", " needs a limit"},
		{w.most > 0 && int64(w.attempts)-1 > w.most, "max_attempts", fmt.Sprint(w.attempts, " in effect"), fmt.Sprintf(" counts up to %d retries", w.most)},
		{w.attempts != 1 && !slices.Contains(w.curves, w.curve), "backoff.type", curveNames[w.curve], " has no such curve"},
		{w.doubles && w.curve == exponential && w.factor != 2, "backoff.factor", w.factor, " always doubles"},
		{w.base%w.unit != 0, "backoff.base", w.base, counts},
		{w.cap%w.unit != 0, "max_delay", w.cap, counts},
	} {
		if row.fault {
			w.add(row.key, row.value, w.title+row.why)
		}
	}
	if j, ok := w.jitter.(retry.Proportional); ok && w.around && w.p.MaxDelay > 0 {
		if _, most := j.Window(w.longest()); most > w.cap {
			w.add("max_delay", w.cap, fmt.Sprintf("%s draws delays up to %v, beyond its maximum: write the delays as a list, or no jitter", w.title, most))
		}
	}
}

// nearBudget says what is like a Budget elsewhere in a system.
func (w *writer) nearBudget() string {
	b := w.p.Budget
	if b == nil || w.name != "envoy" && w.name != "istio" {
		return ""
	}
	where := map[string]string{"envoy": "circuit_breakers.thresholds[].retry_budget of the cluster", "istio": "trafficPolicy.retryBudget of a DestinationRule"}[w.name]
	return fmt.Sprintf(": the nearest is %s, with %.3g percent of the active requests, and at least %d retries at once", where, 100*b.Ratio/(1+b.Ratio), b.Size)
}

// longest returns the longest delay, before jitter.
func (w *writer) longest() time.Duration {
	if w.curve <= fixed {
		return w.base
	}
	last := w.attempts - 1
	if w.attempts == retry.Unlimited {
		last = math.MaxInt
	}
	longest := w.p.Backoff.Delay(last)
	if w.cap > 0 {
		longest = min(longest, w.cap)
	}
	return longest
}

// A spread says which jitters a system has.
type spread struct {
	has func(retry.Jitter) bool
	why string
}

var (
	noJitter   = spread{func(j retry.Jitter) bool { return j == nil }, " has none"}
	alwaysFull = spread{func(j retry.Jitter) bool { return j == retry.FullJitter }, "'s is always full"}
	fullOrNone = spread{func(j retry.Jitter) bool { return j == nil || j == retry.FullJitter }, " has FULL or none"}
	shares     = spread{func(j retry.Jitter) bool {
		_, ok := j.(retry.Proportional)
		return ok || j == nil
	}, " spreads a delay to both sides: write a share from 0 to 1"}
)

// share returns the jitter of a system that has shares.
func (s *settings) share() float64 {
	j, _ := s.jitter.(retry.Proportional)
	return float64(j)
}

// jitterText returns a jitter in the form of a policy file.
func jitterText(j retry.Jitter) string {
	if j == nil {
		return "none"
	}
	return fmt.Sprint(j)
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

var curveNames = []string{"no delay", "fixed", "linear", "exponential", "fibonacci", "schedule"}

// settings are a policy in the terms that the systems share.
type settings struct {
	attempts int // including the first, or Unlimited
	curve    curve
	base     time.Duration // the first delay, above 0 unless the curve is none or schedule
	factor   float64       // of an exponential curve, above 1; 1 of a fixed one
	cap      time.Duration // 0 if there is none
	jitter   retry.Jitter
	timeout  time.Duration // of each attempt; 0 if there is none
	elapsed  time.Duration // until a retry must begin; 0 if unlimited
	wait     time.Duration // the longest wait that a server may ask for; 0 for the default
	mode     retry.RetryAfterMode
	budget   bool
	short    bool          // waits 10ms because no limit is set and its delays are shorter
	healthy  time.Duration // how long a healthy attempt runs; 0 if the count never starts over
}

// waitsLeast reports whether p waits longer than its curve says, because nothing limits
// its attempts.
func waitsLeast(p retry.Policy) bool {
	const some = 20 // more than a curve needs to grow, or a list to end
	if p.EffectiveMax() != retry.Unlimited {
		return false
	}
	p.MaxAttempts, p.MaxRetries, p.MaxElapsed = retry.Unlimited, 0, 0
	limited := p
	limited.MaxAttempts = some + 1
	return !slices.Equal(p.Plan(some), limited.Plan(some))
}

// settingsOf returns the settings of a policy. It leaves out settings that make
// no difference, such as the delays of a policy that never retries.
func settingsOf(p retry.Policy) settings {
	s := settings{attempts: p.EffectiveMax(), timeout: p.AttemptTimeout}
	if s.attempts == 1 {
		return s
	}
	s.elapsed, s.wait, s.mode, s.budget, s.healthy = p.MaxElapsed, p.MaxRetryAfter, p.RetryAfter, p.Budget != nil, p.HealthyAfter
	s.short = waitsLeast(p)
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
		s.curve, s.base, s.factor = exponential, b.Base, cmp.Or(b.Factor, 2)
		if s.factor == 1 {
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
		s.curve, s.factor, s.jitter, s.cap = none, 0, nil, 0
	case s.cap > 0 && s.cap <= s.base: // because no curve decreases
		s.curve, s.base = fixed, s.cap
	}
	if s.curve == fixed {
		s.factor = 1
		if s.share() == 0 { // else the cap cuts the jitter
			s.cap = 0
		}
	}
	return s
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
