package retrydialect

import (
	"fmt"
	"math"
	"strconv"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect/strict"
)

// Argyll is the work_config of a step in the engine Argyll:
//
//	{"max_retries": 3, "backoff": 1000, "max_backoff": 60000, "backoff_type": "exponential"}
//
// In a newer work_config, the key of the first delay is init_backoff and not backoff. A work_config
// that contains both keys is an error. If a work_config lacks a setting, the engine uses its own
// configuration. This package does not know that configuration, so the policy of the zero Argyll
// makes one attempt.
type Argyll struct {
	// MaxRetries is the number of attempts after the first. 0 means no retry. -1 means unlimited.
	MaxRetries int `json:"max_retries,omitempty" yaml:"max_retries,omitempty"`

	// Backoff is the first delay in milliseconds. 0 means no delay, and is invalid if MaxRetries
	// is -1.
	Backoff int64 `json:"backoff,omitempty" yaml:"backoff,omitempty"`

	// MaxBackoff is the longest delay in milliseconds. 0 means no cap. A positive MaxBackoff must
	// not be below Backoff.
	MaxBackoff int64 `json:"max_backoff,omitempty" yaml:"max_backoff,omitempty"`

	// BackoffType is fixed, linear or exponential. It may be empty if Backoff is 0.
	BackoffType string `json:"backoff_type,omitempty" yaml:"backoff_type,omitempty"`

	// Parallelism is for the engine only. The policy does not use it.
	Parallelism int `json:"parallelism,omitempty" yaml:"parallelism,omitempty"`
}

// ArgyllRetryable reports whether Argyll retries a step after a response with this status, or
// after err, an error of the transport. Argyll retries every status of 500 and above and every
// error, including timeouts. It retries no other status, not even 408 or 429. A 200 whose body
// says success: false is not retried either. Only your program can notice this failure, by
// reading the body.
//
// Argyll sends each step as a POST, retries it although a POST is not idempotent, and ignores
// Retry-After. The example shows a retryhttp.Transport that does the same.
func ArgyllRetryable(status int, err error) bool { return err != nil || status >= 500 }

const (
	argyll             = "retrydialect: Argyll"
	argyllBackoffTypes = "fixed, linear or exponential"
)

// UnmarshalJSON reads the work_config of a step. See the package documentation.
func (a *Argyll) UnmarshalJSON(data []byte) error {
	return strict.Decode(a, data, argyll, `{"max_retries": 3}`, (*Argyll).read)
}

// UnmarshalYAML reads the work_config of a step. See the package documentation.
func (a *Argyll) UnmarshalYAML(unmarshal func(any) error) error {
	return readYAML(argyll, unmarshal, a.UnmarshalJSON)
}

// Keys returns the keys that a work_config of a step may contain.
func (*Argyll) Keys() []string { return strict.Keys((*Argyll).read) }

func (a *Argyll) read(m *strict.Mapping) {
	m.NullIsFault = true
	setWhole(m, "max_retries", &a.MaxRetries)
	older, newer := setWhole(m, "backoff", &a.Backoff), setWhole(m, "init_backoff", &a.Backoff)
	if older && newer {
		m.Fault("init_backoff", a.Backoff,
			"either init_backoff or backoff: both are the first delay")
	}
	setWhole(m, "max_backoff", &a.MaxBackoff)
	setName(m, "backoff_type", argyllBackoffTypes, &a.BackoffType)
	setWhole(m, "parallelism", &a.Parallelism)
	m.RejectRest("Argyll")
}

// Policy returns a policy that makes the same decisions as Argyll. Its error names each key
// whose value is invalid. These values are invalid:
//
//   - a max_retries below -1
//   - a backoff that is negative, or that is 0 although max_retries is -1
//   - a max_backoff that is negative or below the backoff
//   - a backoff_type that is unknown, or missing although there is a backoff
func (a Argyll) Policy() (retry.Policy, error) {
	var f strict.Faults
	if a.MaxRetries < retry.Unlimited {
		f.Add("max_retries", a.MaxRetries,
			"how often to execute after the first time, or -1 for unlimited")
	}
	switch {
	case a.Backoff < 0:
		f.Add("backoff", a.Backoff, "milliseconds, 0 for no delay or more")
	case a.Backoff == 0 && a.MaxRetries == retry.Unlimited:
		f.Add("backoff", a.Backoff,
			"milliseconds, 1 or more, because max_retries is -1, which is unlimited")
	}
	switch {
	case a.MaxBackoff < 0:
		f.Add("max_backoff", a.MaxBackoff, "milliseconds, or 0 for no cap")
	case a.MaxBackoff > 0 && a.MaxBackoff < a.Backoff:
		f.Add("max_backoff", a.MaxBackoff,
			fmt.Sprintf("at least the backoff, %d, or 0 for no cap", a.Backoff))
	}

	p := retry.Policy{MaxAttempts: retry.Unlimited, MaxDelay: milliseconds(max(0, a.MaxBackoff))}
	if a.MaxRetries >= 0 {
		p.MaxAttempts = min(a.MaxRetries, math.MaxInt-1) + 1
	}
	base := milliseconds(max(0, a.Backoff))
	switch {
	case a.BackoffType == "fixed":
		p.Backoff = retry.Fixed(base)
	case a.BackoffType == "linear":
		p.Backoff = retry.Linear(base)
	case a.BackoffType == "exponential":
		p.Backoff = retry.Exponential{Base: base, Factor: 2}
	case a.BackoffType == "" && a.Backoff == 0:
		p.Backoff = retry.Fixed(0)
	default:
		f.Add("backoff_type", strconv.Quote(a.BackoffType), argyllBackoffTypes)
	}

	if err := f.Err(argyll); err != nil {
		return retry.Policy{}, err
	}
	return p, nil
}
