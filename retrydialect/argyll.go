package retrydialect

import (
	"github.com/goretry/retry"
)

// Argyll is the work_config of a step in Argyll:
//
//	{"max_retries": 3, "backoff": 1000, "max_backoff": 60000, "backoff_type": "exponential"}
//
// Newer blocks call backoff init_backoff; a block may have one of the two. A
// field that is zero is off. What a block leaves to the settings of the engine
// is not guessed: the zero Argyll executes once.
type Argyll struct {
	MaxRetries  int    `json:"max_retries,omitempty" yaml:"max_retries,omitempty"`   // executions after the first; 0: none; -1: unlimited
	Backoff     int64  `json:"backoff,omitempty" yaml:"backoff,omitempty"`           // the first delay in milliseconds; 0: no delay, which unlimited retries may not have
	MaxBackoff  int64  `json:"max_backoff,omitempty" yaml:"max_backoff,omitempty"`   // no delay is longer, in milliseconds, at least Backoff; 0: no cap
	BackoffType string `json:"backoff_type,omitempty" yaml:"backoff_type,omitempty"` // fixed, linear or exponential; "" where there is no Backoff
	Parallelism int    `json:"parallelism,omitempty" yaml:"parallelism,omitempty"`   // for the engine alone, and no part of the policy
}

const argyllBackoffTypes = "fixed, linear or exponential"

// UnmarshalJSON reads the block, see the package documentation.
func (a *Argyll) UnmarshalJSON(data []byte) error { return a.read(jsonBlock(data)) }

// UnmarshalYAML reads the block, see the package documentation.
func (a *Argyll) UnmarshalYAML(unmarshal func(any) error) error { return a.read(yamlBlock(unmarshal)) }

func (a *Argyll) read(b *block, err error) error {
	const dialect = "Argyll"
	if b == nil {
		return unreadable(dialect, err)
	}
	next := *a
	if n, ok := b.count("max_retries"); ok {
		next.MaxRetries = n
	}
	older, hasOlder := b.whole("backoff", 64)
	newer, hasNewer := b.whole("init_backoff", 64)
	switch {
	case hasOlder && hasNewer:
		b.faults.add("init_backoff", newer, "either init_backoff or backoff, for they are two names of the same")
	case hasOlder:
		next.Backoff = older
	case hasNewer:
		next.Backoff = newer
	}
	if n, ok := b.whole("max_backoff", 64); ok {
		next.MaxBackoff = n
	}
	if s, ok := b.text("backoff_type", argyllBackoffTypes); ok {
		next.BackoffType = s
	}
	if n, ok := b.count("parallelism"); ok {
		next.Parallelism = n
	}
	if err := b.err(dialect); err != nil {
		return err
	}
	*a = next
	return nil
}

// Policy returns the policy that decides as Argyll does. The error names each
// key whose value means nothing: max_retries below -1, a negative backoff or
// max_backoff, a max_backoff below the backoff, an unknown backoff_type or
// none beside a backoff, no backoff beside unlimited retries.
func (a Argyll) Policy() (retry.Policy, error) {
	var f faults
	if a.MaxRetries < retry.Unlimited {
		f.add("max_retries", a.MaxRetries, "how often to execute after the first time, or -1 for unlimited")
	}
	switch {
	case a.Backoff < 0:
		f.add("backoff", a.Backoff, "milliseconds, 0 for no delay or more")
	case a.Backoff == 0 && a.MaxRetries == retry.Unlimited:
		f.add("backoff", a.Backoff, "milliseconds, 1 or more, for max_retries is -1 and nothing else slows it down")
	}
	switch {
	case a.MaxBackoff < 0:
		f.add("max_backoff", a.MaxBackoff, "milliseconds, or 0 for no cap")
	case a.MaxBackoff > 0 && a.MaxBackoff < a.Backoff:
		f.add("max_backoff", a.MaxBackoff, "at least the backoff, "+show(a.Backoff)+", or 0 for no cap")
	}

	p := retry.Policy{MaxAttempts: retry.Retries(a.MaxRetries), MaxDelay: milliseconds(max(0, a.MaxBackoff))}
	base := milliseconds(max(0, a.Backoff))
	switch {
	case a.BackoffType == "fixed":
		p.Backoff = retry.Fixed(base)
	case a.BackoffType == "linear":
		p.Backoff = retry.Linear(base)
	case a.BackoffType == "exponential":
		p.Backoff = retry.Exponential{Base: base, Factor: 2}
	case a.BackoffType != "" || a.Backoff > 0:
		f.add("backoff_type", a.BackoffType, argyllBackoffTypes)
	}

	if err := f.err("Argyll"); err != nil {
		return retry.Policy{}, err
	}
	return p, nil
}
