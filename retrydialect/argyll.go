package retrydialect

import (
	"fmt"
	"math"
	"strconv"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect/strict"
)

// Argyll is the work_config of a step in Argyll:
//
//	{"max_retries": 3, "backoff": 1000, "max_backoff": 60000, "backoff_type": "exponential"}
//
// Newer blocks call the first delay init_backoff instead of backoff; a block may
// have one of the two. A field that is zero is not set. What a block leaves to the
// settings of the engine, this package does not guess: the zero Argyll makes one
// attempt.
type Argyll struct {
	MaxRetries  int    `json:"max_retries,omitempty" yaml:"max_retries,omitempty"`   // attempts after the first; 0: none; -1: unlimited
	Backoff     int64  `json:"backoff,omitempty" yaml:"backoff,omitempty"`           // the first delay in milliseconds; 0: no delay, which unlimited retries may not have
	MaxBackoff  int64  `json:"max_backoff,omitempty" yaml:"max_backoff,omitempty"`   // the longest delay in milliseconds, at least Backoff; 0: no cap
	BackoffType string `json:"backoff_type,omitempty" yaml:"backoff_type,omitempty"` // fixed, linear or exponential; "" if there is no Backoff
	Parallelism int    `json:"parallelism,omitempty" yaml:"parallelism,omitempty"`   // only for the engine, not part of the policy
}

// ArgyllRetryable reports whether Argyll executes a step again that got this status,
// or failed with err, an error of the transport: after every status of 500 and above
// and every error, timeouts too. No status from 400 to 499 is retried, not even 408
// or 429. A 200 whose body says success: false is not retried either: that is for
// the program to read.
//
// Argyll calls every step with POST, retries it whatever its method is, and knows
// no Retry-After: see the example for a Transport that does the same.
func ArgyllRetryable(status int, err error) bool { return err != nil || status >= 500 }

const (
	argyll             = "retrydialect: Argyll"
	argyllBackoffTypes = "fixed, linear or exponential"
)

// UnmarshalJSON reads the block, see the package documentation.
func (a *Argyll) UnmarshalJSON(data []byte) error {
	return strict.Decode(a, data, argyll, `{"max_retries": 3}`, (*Argyll).read)
}

// UnmarshalYAML reads the block, see the package documentation.
func (a *Argyll) UnmarshalYAML(unmarshal func(any) error) error {
	return readYAML(argyll, unmarshal, a.UnmarshalJSON)
}

// Keys returns the keys of the block.
func (*Argyll) Keys() []string { return strict.Keys((*Argyll).read) }

func (a *Argyll) read(m *strict.Mapping) {
	m.NullIsFault = true
	setWhole(m, "max_retries", &a.MaxRetries)
	older, newer := setWhole(m, "backoff", &a.Backoff), setWhole(m, "init_backoff", &a.Backoff)
	if older && newer {
		m.Fault("init_backoff", a.Backoff, "either init_backoff or backoff, for they are two names of the same")
	}
	setWhole(m, "max_backoff", &a.MaxBackoff)
	setName(m, "backoff_type", argyllBackoffTypes, &a.BackoffType)
	setWhole(m, "parallelism", &a.Parallelism)
	m.RejectRest("Argyll")
}

// Policy returns a policy that makes the same decisions as Argyll. The error
// names each key whose value is invalid: a max_retries below -1, a negative
// backoff or max_backoff, a max_backoff below the backoff, a backoff_type that is
// unknown, or missing although there is a backoff, and unlimited retries without
// a backoff.
func (a Argyll) Policy() (retry.Policy, error) {
	var f strict.Faults
	if a.MaxRetries < retry.Unlimited {
		f.Add("max_retries", a.MaxRetries, "how often to execute after the first time, or -1 for unlimited")
	}
	switch {
	case a.Backoff < 0:
		f.Add("backoff", a.Backoff, "milliseconds, 0 for no delay or more")
	case a.Backoff == 0 && a.MaxRetries == retry.Unlimited:
		f.Add("backoff", a.Backoff, "milliseconds, 1 or more, for max_retries is -1 and nothing else slows it down")
	}
	switch {
	case a.MaxBackoff < 0:
		f.Add("max_backoff", a.MaxBackoff, "milliseconds, or 0 for no cap")
	case a.MaxBackoff > 0 && a.MaxBackoff < a.Backoff:
		f.Add("max_backoff", a.MaxBackoff, fmt.Sprintf("at least the backoff, %d, or 0 for no cap", a.Backoff))
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
