package retrydialect

import (
	"strconv"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect/strict"
)

// Tasker is the `retry` block of a step in the engine Tasker:
//
//	retry:
//	  retryable: true
//	  max_attempts: 3
//	  backoff: exponential
//	  backoff_base_ms: 1000
//	  max_backoff_ms: 30000
//
// If a key is left out or null, its field has the default. In Tasker's database, a NULL means
// the default too. The zero Tasker has all defaults: 3 attempts, with delays of 1s and 2s
// between them.
//
// [retrysql.Eligible] returns the SQL condition with which Tasker finds the steps to run. Pass
// the zero policy to Eligible. The policy of a Tasker would limit every row to the MaxAttempts
// of one step. DefaultMaxAttempts is the limit of a row whose max_attempts is NULL:
//
//	retrysql.Eligible(retry.Policy{}, retrysql.Columns{
//		Attempts: "attempts", MaxAttempts: "max_attempts", Retryable: "retryable",
//		DefaultMaxAttempts: 3,
//	})
//
// [retrysql.Eligible]: https://pkg.go.dev/github.com/goretry/retry/retrysql#Eligible
type Tasker struct {
	// Retryable is false if the step is never retried. nil means true.
	Retryable *bool `json:"retryable,omitempty" yaml:"retryable,omitempty"`

	// MaxAttempts is the number of attempts in all, at least 1. nil means 3.
	MaxAttempts *int `json:"max_attempts,omitempty" yaml:"max_attempts,omitempty"`

	// Backoff is none, linear, exponential or fibonacci. The empty string means exponential.
	Backoff string `json:"backoff,omitempty" yaml:"backoff,omitempty"`

	// BackoffBaseMS is the first delay in milliseconds, at least 0. nil means 1000.
	BackoffBaseMS *int64 `json:"backoff_base_ms,omitempty" yaml:"backoff_base_ms,omitempty"`

	// MaxBackoffMS is the longest delay in milliseconds, at least 1. nil means no cap.
	MaxBackoffMS *int64 `json:"max_backoff_ms,omitempty" yaml:"max_backoff_ms,omitempty"`
}

const (
	tasker         = "retrydialect: Tasker"
	taskerBackoffs = "none, linear, exponential or fibonacci"
)

// UnmarshalJSON reads the `retry` block of a step. See the package documentation.
func (t *Tasker) UnmarshalJSON(data []byte) error {
	return strict.Decode(t, data, tasker, `{"max_attempts": 3}`, (*Tasker).read)
}

// UnmarshalYAML reads the `retry` block of a step. See the package documentation.
func (t *Tasker) UnmarshalYAML(unmarshal func(any) error) error {
	return readYAML(tasker, unmarshal, t.UnmarshalJSON)
}

// Keys returns the keys that a `retry` block of a step may contain.
func (*Tasker) Keys() []string { return strict.Keys((*Tasker).read) }

func (t *Tasker) read(m *strict.Mapping) {
	setField(m, "retryable", "true or false", &t.Retryable)
	setWhole(m, "max_attempts", &t.MaxAttempts)
	setName(m, "backoff", taskerBackoffs, &t.Backoff)
	setWhole(m, "backoff_base_ms", &t.BackoffBaseMS)
	setWhole(m, "max_backoff_ms", &t.MaxBackoffMS)
	m.RejectRest("Tasker")
}

// Policy returns a policy that makes the same decisions as Tasker. Its error names each key
// whose value is invalid: a max_attempts below 1, an unknown backoff, a negative
// backoff_base_ms, or a max_backoff_ms below 1.
func (t Tasker) Policy() (retry.Policy, error) {
	var f strict.Faults
	p := retry.Policy{MaxAttempts: 3, NonRetryable: t.Retryable != nil && !*t.Retryable}
	switch {
	case t.MaxAttempts != nil:
		p.MaxAttempts = *t.MaxAttempts
		if p.MaxAttempts < 1 {
			f.Add("max_attempts", p.MaxAttempts, "how often to execute in all, 1 or more")
		}
	case p.NonRetryable:
		p.MaxAttempts = 0 // the block sets no limit, so Lint must not report a limit
	}

	base := time.Second
	if t.BackoffBaseMS != nil {
		base = milliseconds(max(0, *t.BackoffBaseMS))
		if *t.BackoffBaseMS < 0 {
			f.Add("backoff_base_ms", *t.BackoffBaseMS, "milliseconds, 0 for no delay or more")
		}
	}
	switch t.Backoff {
	case "none":
		p.Backoff = retry.Fixed(0)
	case "linear":
		p.Backoff = retry.Linear(base)
	case "exponential", "":
		p.Backoff = retry.Exponential{Base: base, Factor: 2}
	case "fibonacci":
		p.Backoff = retry.Fibonacci(base)
	default:
		f.Add("backoff", strconv.Quote(t.Backoff), taskerBackoffs)
	}
	if t.MaxBackoffMS != nil {
		p.MaxDelay = milliseconds(max(0, *t.MaxBackoffMS))
		if *t.MaxBackoffMS <= 0 {
			f.Add("max_backoff_ms", *t.MaxBackoffMS,
				"milliseconds, 1 or more, or leave it out for no cap")
		}
	}

	if err := f.Err(tasker); err != nil {
		return retry.Policy{}, err
	}
	return p, nil
}
