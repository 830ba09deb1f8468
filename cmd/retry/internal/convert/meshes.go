package convert

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
)

// envoy is config.route.v3.RetryPolicy.
type envoy struct {
	RetryOn       string        `yaml:"retry_on"`
	NumRetries    int           `yaml:"num_retries"`
	PerTryTimeout string        `yaml:"per_try_timeout,omitempty"`
	RetryBackOff  *envoyBackOff `yaml:"retry_back_off,omitempty"`
}

type envoyBackOff struct {
	BaseInterval string `yaml:"base_interval"`
	MaxInterval  string `yaml:"max_interval"`
}

// writeEnvoy returns the settings for Envoy, which draws each delay from 0 up
// to an interval. The interval doubles until it reaches its maximum, in whole
// milliseconds.
func writeEnvoy(w *writer) any {
	w.conditions(policyfile.IsEnvoyCondition, "Envoy ignores it: write one of ")
	settings := envoy{RetryOn: w.RetryOn, NumRetries: w.attempts - 1}
	if w.timeout > 0 {
		settings.PerTryTimeout = protoSeconds(w.timeout)
	}
	if w.attempts != 1 {
		settings.RetryBackOff = &envoyBackOff{protoSeconds(w.base), protoSeconds(cmp.Or(w.cap, w.longest()))}
	}
	return settings
}

// conditions adds a fault for each failure to retry that a system does not have.
func (w *writer) conditions(has func(string) bool, why string) {
	for name := range strings.SplitSeq(w.RetryOn, ",") {
		if name = strings.TrimSpace(name); name != "" && !has(name) {
			w.add("retry-on", strconv.Quote(name), why+strings.Join(policyfile.EnvoyConditions, ", "))
		}
	}
}

// istio is HTTPRetry of networking.istio.io. Its attempts are retries.
type istio struct {
	Attempts      int    `yaml:"attempts"`
	PerTryTimeout string `yaml:"perTryTimeout,omitempty"`
	RetryOn       string `yaml:"retryOn,omitempty"`
	Backoff       string `yaml:"backoff,omitempty"`
}

// writeIstio returns the settings for Istio, which has Envoy draw each delay from
// 0 up to an interval that doubles, at most ten times the first.
func writeIstio(w *writer) any {
	w.conditions(policyfile.IsIstioCondition, "Istio refuses it: write a status such as 503, or one of ")
	if w.attempts == 1 {
		if w.timeout > 0 {
			w.add("attempt_timeout", w.timeout, "Istio takes none without retries")
		}
		return istio{}
	}
	settings := istio{RetryOn: w.RetryOn, Attempts: w.attempts - 1, Backoff: w.base.String()}
	if w.timeout > 0 {
		settings.PerTryTimeout = w.timeout.String()
	}
	last := 6 // where the interval has reached ten times the first
	if w.attempts > 0 {
		last = min(last, w.attempts-1)
	}
	for n, d := range w.p.Delays(last) {
		if (w.factor == 1 || w.factor == 2) && d != min(w.base<<n, 10*w.base) {
			w.add("max_delay", w.p.MaxDelay, fmt.Sprintf("Istio doubles the first delay up to ten times it, %v", 10*w.base))
			break
		}
	}
	return settings
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

func writeStepFunctions(w *writer) any {
	r := retrier{ErrorEquals: strings.Split(w.RetryOn, ","), MaxAttempts: w.attempts - 1, BackoffRate: w.factor,
		IntervalSeconds: int64(w.base / time.Second), MaxDelaySeconds: int64(w.cap / time.Second)}
	if w.cap > stepMostDelay {
		w.add("max_delay", w.cap, "Step Functions takes at most a year")
	}
	if w.jitter == retry.FullJitter {
		r.JitterStrategy = "FULL"
	}
	return []retrier{r}
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

func writeOTel(w *writer) any {
	switch {
	case w.attempts == 1:
		return otel{}
	case w.attempts != retry.Unlimited:
		w.add("max_attempts", fmt.Sprint(w.attempts, " in effect"), "the Collector has no limit but max_elapsed_time")
	}
	longest := w.cap
	if w.curve == fixed {
		longest = w.base
	} else if w.curve == exponential && longest == 0 {
		w.add("max_delay", "0s", "the Collector needs a longest delay")
	}
	if longest = max(longest, w.base); w.elapsed > 0 && w.elapsed < longest {
		w.add("max_elapsed", w.elapsed, fmt.Sprintf("the Collector takes none below the longest delay, %v", longest))
	}
	return otel{true, w.base.String(), new(w.share()), w.factor, longest.String(), w.elapsed.String()}
}
