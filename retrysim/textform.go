package retrysim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect/strict"
)

// UnmarshalJSON reads the text form of a system:
//
//	{"services": {
//	   "web": {"rate": "280/s", "patience": "2s", "clients": 10, "calls": [
//	     {"to": "db", "timeout": "1s", "retry": {"max_attempts": 2},
//	      "budget": {"size": 100, "ratio": 0.1}}]},
//	   "db": {"workers": 30, "work": "100ms", "queue": 500, "cancel": "queue"}},
//	 "events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}]}
//
// The keys are the fields of [System], [Service] and [Trigger] in lower case. Without the key
// "queue", the queue is unlimited. "queue": 0 means that there is no queue. In a call, "retry" is
// a [retry.Policy], "timeout" is the AttemptTimeout of this policy, and "budget" is its Budget. A
// budget has the keys "size", "ratio", "refill_every", "remember" and "grace". An event has
// exactly one of the keys "workers", "slower", "fail" and "rate". For example, "slower": 3 makes
// work take three times as long, "fail": 0.5 refuses half of all requests, and "rate": "400/s"
// makes 400 calls a second come from outside.
//
// Decoding is strict: unknown keys, duplicate keys, and values of the wrong kind or out of range
// are errors. An error names up to 20 faults and says what to write. The error has a method
// Findings() []retry.Finding, which returns one Finding for each fault. Use errors.As to find
// this method. After an error, s is unchanged. Without an error, UnmarshalJSON replaces all of s.
// It does not check whether the services fit together, but [System.Validate] does.
func (s *System) UnmarshalJSON(data []byte) error {
	return strict.Decode(s, data, invalidSystem, exampleSystem, (*System).read)
}

// UnmarshalYAML reads the same keys in YAML as [System.UnmarshalJSON] in JSON. The YAML libraries
// that call [retry.Policy.UnmarshalYAML] also call this method.
func (s *System) UnmarshalYAML(unmarshal func(any) error) error {
	data, err := strict.YAML(invalidSystem, unmarshal)
	if err != nil {
		return err
	}
	return s.UnmarshalJSON(data)
}

const (
	exampleSystem  = `{"services": {"web": {"rate": "10/s", "workers": 4, "work": "100ms"}}}`
	exampleService = `{"workers": 30, "work": "100ms"}`
	exampleEvent   = `{"at": "20s", "for": "10s", "service": "db", "workers": 0}`
)

func (s *System) read(m *strict.Mapping) {
	*s = System{Services: map[string]Service{}}
	if services := m.Inner("services", "the services by name"); services != nil {
		for _, name := range services.Keys() {
			inner := services.Inner(name, "a service, such as "+exampleService)
			if inner != nil {
				s.Services[name] = readService(inner)
			}
		}
	}
	for _, event := range m.List("events", "a list such as ["+exampleEvent+"]") {
		s.Events = append(s.Events, readTrigger(event))
	}
	readKeys(m, []key{{"duration", (*strict.Duration)(&s.Duration), true, strict.WriteDuration}})
	m.RejectRest("a system")
}

func readService(m *strict.Mapping) (v Service) {
	readKeys(m, v.keys())
	for _, call := range m.List("calls", `a list such as [{"to": "db", "timeout": "1s"}]`) {
		v.Calls = append(v.Calls, readEdge(call))
	}
	check(m.Fault, "", v.keys())
	m.RejectRest("a service")
	return v
}

func readEdge(m *strict.Mapping) (e Edge) {
	const writePolicy = `a policy such as {"max_attempts": 2}`
	if policy, ok := strict.Take[json.RawMessage](m, "retry", writePolicy, nil); ok {
		var invalid *retry.PolicyError
		if errors.As(e.Policy.UnmarshalJSON(policy), &invalid) {
			faults, path := m.Faults("retry")
			faults.Within(path, invalid)
		}
	}
	if timeout := e.Policy.AttemptTimeout; timeout > 0 && slices.Contains(m.Keys(), "timeout") {
		m.Fault("timeout", "given next to retry.attempt_timeout", "only one of the two")
	}
	timeout := (*strict.Duration)(&e.Policy.AttemptTimeout)
	readKeys(m, []key{
		{"to", &e.To, true, writeService},
		{"timeout", timeout, true, strict.WriteDuration},
	})
	if budget := m.Inner("budget", `a budget such as {"size": 100, "ratio": 0.1}`); budget != nil {
		e.Policy.Budget = readBudget(budget)
	}
	m.RejectRest("a call")
	return e
}

func readBudget(m *strict.Mapping) *retry.Budget {
	const writeRatio = "a share between 0 and 1: 0.1 is one retry for ten successes"
	b := new(retry.Budget)
	readKeys(m, []key{
		{"size", &b.Size, true, "how many retries it holds, at least 1"},
		{"ratio", &b.Ratio, true, writeRatio},
		{"refill_every", (*strict.Duration)(&b.RefillEvery), true, strict.WriteDuration},
		{"remember", (*strict.Duration)(&b.Remember), true, strict.WriteDuration},
		{"grace", (*strict.Duration)(&b.Grace), true, strict.WriteDuration},
	})
	m.RejectRest("a budget")
	return b
}

func readTrigger(m *strict.Mapping) (t Trigger) {
	for _, c := range []Change{Workers, Slower, Fail, Rate} {
		if !slices.Contains(m.Keys(), string(c)) {
			continue
		}
		if t.Change != "" {
			m.Fault(string(c), "given next to "+string(t.Change), "one event for each of the two")
		}
		t.Change = c
	}
	readKeys(m, t.keys())
	check(m.Fault, "", t.keys())
	m.RejectRest("an event")
	return t
}

// A perSecond is a rate. Its text is a number followed by "/s", such as "280/s".
type perSecond float64

func (r perSecond) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%v/s", float64(r)), nil
}

func (r *perSecond) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "/s")
	rate, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(rate >= 0 && rate <= maxRate) {
		return errors.New("not a rate")
	}
	*r = perSecond(rate)
	return nil
}

// The type `number` is for the value of a field such as Workers. In the text form, this value must
// be above 0. In Go, 0 means the default, such as unlimited workers. But a person who writes
// "workers": 0 does not mean unlimited workers.
type number int

func (n *number) UnmarshalJSON(text []byte) error {
	err := json.Unmarshal(text, (*int)(n))
	if err == nil && *n <= 0 {
		err, *n = errors.New("not above 0"), 0
	}
	return err
}

// The type `queue` is for the value of the field Queue of a Service. In the text form, NoQueue is
// written as 0.
type queue int

func (q *queue) UnmarshalJSON(text []byte) error {
	var n uint32
	err := json.Unmarshal(text, &n)
	if *q = queue(n); err == nil && n == 0 {
		*q = NoQueue
	}
	return err
}
