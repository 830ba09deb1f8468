package convert

import (
	"encoding/json"
	"regexp"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

func writeTasker(p retry.Policy, _ Options) (string, error) {
	if p.NonRetryable && p.AttemptTimeout == 0 {
		return asYAML(retrydialect.Tasker{Retryable: new(bool)}, nil)
	}
	const system = "Tasker"
	var f faults
	s := settingsOf(p)
	s.refuse(&f, system, false)
	attempts := s.limit(&f, system)
	s.double(&f, system)
	block := retrydialect.Tasker{MaxAttempts: &attempts}
	switch s.shape(&f, system, none, fixed, linear, exponential, fibonacci) {
	case none:
		block.Backoff = "none"
	case fixed:
		block.Backoff = "exponential" // with a cap at its first delay, see below
	default:
		block.Backoff = curveNames[s.curve]
	}
	if s.base > 0 {
		ms := milliseconds(&f, "backoff.base", s.base, system)
		block.BackoffBaseMS = &ms
	}
	switch {
	case s.curve == fixed:
		block.MaxBackoffMS = block.BackoffBaseMS
	case s.cap > 0:
		ms := milliseconds(&f, "max_delay", s.cap, system)
		block.MaxBackoffMS = &ms
	}
	return asYAML(block, f)
}

func writeArgyll(p retry.Policy, _ Options) (string, error) {
	const system = "Argyll"
	var f faults
	s := settingsOf(p)
	s.refuse(&f, system, false)
	s.double(&f, system)
	block := retrydialect.Argyll{
		MaxRetries: s.attempts - 1,
		Backoff:    milliseconds(&f, "backoff.base", s.base, system),
		MaxBackoff: milliseconds(&f, "max_delay", s.cap, system),
	}
	if s.attempts == retry.Unlimited {
		block.MaxRetries = retry.Unlimited
	}
	if s.shape(&f, system, none, fixed, linear, exponential) != none {
		block.BackoffType = curveNames[s.curve]
	}
	return asJSON(block, f)
}

func writeTaskHarbor(p retry.Policy, _ Options) (string, error) {
	const system = "TaskHarbor"
	var f faults
	s := settingsOf(p)
	s.refuse(&f, system, true)
	block := retrydialect.TaskHarbor{BaseDelay: s.base, MaxDelay: s.cap, MaxAttempts: s.limit(&f, system)}
	switch s.shape(&f, system, none, fixed, exponential) {
	case fixed:
		block.Multiplier = 1
	case exponential:
		block.Multiplier = s.factor
	}
	switch j := s.jitter.(type) {
	case nil:
	case retry.Proportional:
		block.Jitter = float64(j)
	default:
		f.add("jitter", jitterText(j), "TaskHarbor spreads a delay to both sides: write a share from 0 to 1")
	}
	return asYAML(block, f)
}

func writeGRPC(p retry.Policy, o Options) (string, error) {
	s := settings{}
	if list, ok := p.Backoff.(retry.Schedule); ok && p.MaxDelay == 0 {
		if s.list(list); s.curve == exponential {
			p.Backoff = retry.Exponential{Base: s.base, Factor: s.factor}
		}
	}
	config, err := retrydialect.ToGRPC(p, o.Service, o.Codes...)
	if err != nil {
		return "", refused(err)
	}
	if s.cap > 0 { // gRPC's jitter goes beyond it, which no MaxDelay can say
		config = maxBackoff.ReplaceAllString(config, `"maxBackoff":"`+protoSeconds(s.cap)+`"`)
	}
	return asJSON(json.RawMessage(config), nil)
}

func writeTemporal(p retry.Policy, _ Options) (string, error) {
	settings, err := retrydialect.ToTemporal(p)
	if err != nil {
		return "", refused(err)
	}
	return asJSON(settings, nil)
}

var maxBackoff = regexp.MustCompile(`"maxBackoff":"[^"]*"`)

var (
	refusedBy = regexp.MustCompile(`^retrydialect: [^:]*: `)
	nextField = regexp.MustCompile(`; (?:[A-Z]\w+ \(\w+\)|[A-Z]\w+|service|codes) is `)
)

// refused returns the faults in an error of retrydialect.
func refused(err error) *Error {
	list := refusedBy.ReplaceAllString(err.Error(), "")
	e, start := &Error{}, 0
	for _, at := range nextField.FindAllStringIndex(list, -1) {
		e.Faults = append(e.Faults, list[start:at[0]])
		start = at[0] + len("; ")
	}
	e.Faults = append(e.Faults, list[start:])
	return e
}

// nats are the fields of a JetStream consumer. Each delay is the AckWait of one
// delivery: a message is delivered again if it is not acknowledged until then,
// also while it is still being handled. A Nak delivers it again at once.
type nats struct {
	MaxDeliver int             `json:"max_deliver"`
	BackOff    []time.Duration `json:"backoff,omitempty"`
}

func writeNATS(p retry.Policy, _ Options) (string, error) {
	const system, most = "NATS", 10_000
	var f faults
	s := settingsOf(p)
	s.refuse(&f, system, false)
	consumer := nats{MaxDeliver: s.attempts}
	if s.attempts != 1 {
		for _, d := range p.Delays(most) {
			if d <= 0 {
				f.add("backoff", "a delay of 0s", "NATS redelivers after a delay above 0s only")
				break
			}
			consumer.BackOff = append(consumer.BackOff, d)
		}
	}
	// NATS repeats the last delay, so duplicates of it can be left out.
	for n := len(consumer.BackOff); n > 1 && consumer.BackOff[n-1] == consumer.BackOff[n-2]; n-- {
		consumer.BackOff = consumer.BackOff[:n-1]
	}
	if len(consumer.BackOff) == most {
		f.add("backoff", "longer than a list of 10000 delays", "set max_delay")
	}
	return asJSON(consumer, f)
}
