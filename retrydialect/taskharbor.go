package retrydialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect/strict"
)

// TaskHarbor contains the parameters of a retry policy of the engine TaskHarbor. They are the
// arguments of the engine's functions NewExponentialBackoffPolicy and WithMaxAttempts. This is
// their form in JSON:
//
//	{"base_delay": "200ms", "max_delay": "10s", "multiplier": 2, "jitter": 0.1, "max_attempts": 15}
//
// A field of zero or below counts as not set. The policy of the zero TaskHarbor makes one
// attempt, or as many attempts as the job asks for (see [retry.Policy.ForJob]), without delays.
// The policy of a nil *TaskHarbor makes one attempt, even if the job asks for more.
//
// Decoding into a zero TaskHarbor starts from [DefaultTaskHarbor]. So if a key is left out, its
// field gets the default, such as 25 attempts. There is one exception: if decoding a block has
// set all fields to zero, the TaskHarbor remembers this in an unexported field. If you then
// decode a second block into the same TaskHarbor, the second block starts from zeros and not from
// the defaults.
//
// If the value may be null, decode into a *TaskHarbor: null sets the pointer to nil. Decoding
// null into a TaskHarbor is an error, except with go.yaml.in/yaml, which silently skips a null.
type TaskHarbor struct {
	BaseDelay  time.Duration // the first delay; if not set, there are no delays
	MaxDelay   time.Duration // the longest delay after jitter; if not set, there is no cap
	Multiplier float64       // the factor between two delays, at least 1; if not set, 2
	Jitter     float64       // the share by which jitter varies a delay, at most 1; if not set, 0

	// MaxAttempts is the number of attempts in all. If it is not set, the limit of the job applies.
	// If the job has no limit either, there is one attempt.
	MaxAttempts int

	zeroed bool // a block has set all fields to zero, so decoding must not start from the defaults
}

// DefaultTaskHarbor returns the defaults of TaskHarbor: 25 attempts, a first delay of 200ms
// that doubles up to 5s, and a jitter of ±20 %.
func DefaultTaskHarbor() TaskHarbor {
	return TaskHarbor{
		BaseDelay:   200 * time.Millisecond,
		MaxDelay:    5 * time.Second,
		Multiplier:  2,
		Jitter:      0.2,
		MaxAttempts: 25,
	}
}

const taskHarbor = "retrydialect: TaskHarbor"

// UnmarshalJSON reads the parameters. See the package documentation.
func (h *TaskHarbor) UnmarshalJSON(data []byte) error {
	if string(bytes.TrimSpace(data)) == "null" {
		const text = "got null: decode into a *TaskHarbor, " +
			"which null sets to nil, for one attempt; or leave the key out"
		return strict.One(taskHarbor, "", text, nil)
	}
	return strict.Decode(h, data, taskHarbor, `{"max_attempts": 15}`, (*TaskHarbor).read)
}

// UnmarshalYAML reads the parameters. See the package documentation.
func (h *TaskHarbor) UnmarshalYAML(unmarshal func(any) error) error {
	return readYAML(taskHarbor, unmarshal, h.UnmarshalJSON)
}

// Keys returns the keys of the parameters in JSON and YAML.
func (*TaskHarbor) Keys() []string { return strict.Keys((*TaskHarbor).read) }

func (h *TaskHarbor) read(m *strict.Mapping) {
	m.NullIsFault = true
	if *h == (TaskHarbor{}) {
		*h = DefaultTaskHarbor()
	}
	setField(m, "base_delay", strict.WriteDuration, (*strict.Duration)(&h.BaseDelay))
	setField(m, "max_delay", strict.WriteDuration, (*strict.Duration)(&h.MaxDelay))
	setField(m, "multiplier", "a number, such as 0.5", &h.Multiplier)
	setField(m, "jitter", "a number, such as 0.5", &h.Jitter)
	setWhole(m, "max_attempts", &h.MaxAttempts)
	m.RejectRest("TaskHarbor")
	h.zeroed = false
	h.zeroed = *h == (TaskHarbor{})
}

// taskHarborText is the JSON and YAML form of a TaskHarbor. It contains every field, even a
// zero, because a key that is left out gets its default.
type taskHarborText struct {
	BaseDelay   string        `json:"base_delay" yaml:"base_delay"`
	MaxDelay    string        `json:"max_delay" yaml:"max_delay"`
	Multiplier  strict.Number `json:"multiplier" yaml:"multiplier"`
	Jitter      strict.Number `json:"jitter" yaml:"jitter"`
	MaxAttempts int           `json:"max_attempts" yaml:"max_attempts"`
}

func (h TaskHarbor) text() taskHarborText {
	return taskHarborText{
		BaseDelay: h.BaseDelay.String(), MaxDelay: h.MaxDelay.String(),
		Multiplier: strict.Number(h.Multiplier), Jitter: strict.Number(h.Jitter),
		MaxAttempts: h.MaxAttempts,
	}
}

// MarshalJSON writes what UnmarshalJSON reads.
func (h TaskHarbor) MarshalJSON() ([]byte, error) { return json.Marshal(h.text()) }

// MarshalYAML writes what UnmarshalYAML reads.
func (h TaskHarbor) MarshalYAML() (any, error) { return h.text(), nil }

// Policy returns a policy that makes the same decisions as TaskHarbor. If h is nil, the policy
// makes one attempt. The error names each key whose value is invalid. These values are invalid:
//
//   - a multiplier that is between 0 and 1, or not finite
//   - a jitter above 1
//   - a max_delay below the base_delay
func (h *TaskHarbor) Policy() (retry.Policy, error) {
	if h == nil {
		return retry.Policy{NonRetryable: true}, nil
	}
	var f strict.Faults
	if h.MaxDelay > 0 && h.MaxDelay < h.BaseDelay {
		f.Add("max_delay", h.MaxDelay,
			fmt.Sprintf("at least the base_delay, %v, or 0s for no cap", h.BaseDelay))
	}
	if !(h.Multiplier <= 0 || h.Multiplier >= 1 && h.Multiplier <= math.MaxFloat64) {
		f.Add("multiplier", h.Multiplier, "a finite number of 1 or more, or 0 for 2")
	}
	if !(h.Jitter <= 1) {
		f.Add("jitter", h.Jitter, "a share of at most 1, such as 0.2 for ±20 %, or 0 for none")
	}
	if err := f.Err(taskHarbor); err != nil {
		return retry.Policy{}, err
	}

	p := retry.Policy{MaxAttempts: max(0, h.MaxAttempts), MaxDelay: max(0, h.MaxDelay)}
	switch {
	case h.BaseDelay > 0:
		p.Backoff = retry.Exponential{Base: h.BaseDelay, Factor: max(0, h.Multiplier)}
	case h.MaxAttempts > 0:
		p.Backoff = retry.Fixed(0)
	}
	if h.Jitter > 0 {
		p.Jitter = retry.Proportional(h.Jitter)
	}
	return p, nil
}
