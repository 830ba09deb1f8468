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
func writeEnvoy(p retry.Policy, o Options) (string, error) {
	const system = "Envoy"
	var f faults
	s, retries, timeout := meshOf(&f, system, p, o.RetryOn, policyfile.IsEnvoyCondition, math.MaxUint32)
	settings := envoy{RetryOn: o.RetryOn, NumRetries: retries}
	if timeout > 0 {
		settings.PerTryTimeout = protoSeconds(timeout)
	}
	if s.attempts != 1 {
		most := s.base
		if s.shape(&f, system, fixed, exponential) == exponential {
			milliseconds(&f, "max_delay", s.cap, system)
			if most = s.cap; most == 0 {
				most = s.longest(p)
			}
		}
		s.full(&f, system)
		milliseconds(&f, "backoff.base", s.base, system)
		settings.RetryBackOff = &envoyBackOff{protoSeconds(s.base), protoSeconds(most)}
	}
	return asYAML(settings, f)
}

// protoSeconds formats a duration as protocol buffers do: 0.2s.
func protoSeconds(d time.Duration) string {
	return strconv.FormatInt(int64(d/time.Second), 10) + strings.TrimRight(strings.TrimRight(fmt.Sprintf(".%09d", d%time.Second), "0"), ".") + "s"
}

// writeCenkalti returns a Go expression. Version 4 applies the maximum before
// it draws a delay around the result, so a delay can exceed the maximum.
func writeCenkalti(p retry.Policy, _ Options) (string, error) {
	const system = "cenkalti/backoff"
	var f faults
	s := settingsOf(p)
	elapsed := s.elapsed
	s.elapsed = 0
	s.refuse(&f, system, true)
	randomization := 0.0
	switch j := s.jitter.(type) {
	case nil:
	case retry.Proportional:
		randomization = float64(j)
	default:
		f.add("jitter", jitterText(j), system+" spreads a delay to both sides: write a share from 0 to 1")
	}

	var b string
	switch s.shape(&f, system, none, fixed, exponential) {
	case none:
		if s.attempts == 1 {
			return asGo("&backoff.StopBackOff{}", f)
		}
		b = "&backoff.ZeroBackOff{}"
		if elapsed > 0 {
			f.add("max_elapsed", elapsed, "a ZeroBackOff has none")
		}
	case fixed, exponential:
		factor := max(1, s.factor)
		if s.curve == fixed {
			factor = 1
		}
		longest := s.longest(p)
		if _, most := retry.Proportional(randomization).Window(longest); s.cap > 0 && most > s.cap {
			f.add("max_delay", s.cap, fmt.Sprintf("%s draws delays up to %v, beyond its maximum: write at least that, or no jitter", system, most))
		}
		if s.cap == 0 {
			s.cap = longest
		}
		b = fmt.Sprintf("backoff.NewExponentialBackOff(\n\tbackoff.WithInitialInterval(%s),\n\tbackoff.WithMultiplier(%v),\n\tbackoff.WithRandomizationFactor(%v),\n\tbackoff.WithMaxInterval(%s),\n\tbackoff.WithMaxElapsedTime(%s),\n)",
			goDuration(s.base), factor, randomization, goDuration(s.cap), goDuration(elapsed))
	}
	if s.attempts != retry.Unlimited {
		b = fmt.Sprintf("backoff.WithMaxRetries(%s, %d)", b, s.attempts-1)
	}
	return asGo(b, f)
}

// longest returns the longest delay, before jitter.
func (s *settings) longest(p retry.Policy) time.Duration {
	last := s.attempts - 1
	if s.attempts == retry.Unlimited {
		last = math.MaxInt
	}
	longest := p.Backoff.Delay(last)
	if s.cap > 0 {
		longest = min(longest, s.cap)
	}
	return longest
}

func asGo(expression string, f faults) (string, error) {
	if f != nil {
		return "", &Error{f}
	}
	return expression + "\n", nil
}

// goDuration returns a Go expression for a duration, in the largest unit that
// divides it.
func goDuration(d time.Duration) string {
	for _, unit := range []struct {
		name string
		d    time.Duration
	}{{"Hour", time.Hour}, {"Minute", time.Minute}, {"Second", time.Second}, {"Millisecond", time.Millisecond}, {"Microsecond", time.Microsecond}} {
		if d != 0 && d%unit.d == 0 {
			return fmt.Sprintf("%d*time.%s", d/unit.d, unit.name)
		}
	}
	return strconv.FormatInt(int64(d), 10)
}
