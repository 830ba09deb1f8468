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

// UnmarshalJSON reads a system as people write it:
//
//	{"services": {
//	   "web": {"rate": "280/s", "patience": "2s", "clients": 10, "calls": [
//	     {"to": "db", "timeout": "1s", "retry": {"max_attempts": 2}, "budget": {"size": 100, "ratio": 0.1}}]},
//	   "db": {"workers": 30, "work": "100ms", "queue": 500, "cancel": "queue"}},
//	 "events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}]}
//
// The keys are those of [System], [Service] and [Trigger] in lower case. Without a
// queue the queue is unlimited, and "queue": 0 is none. In a call, retry is a
// [retry.Policy], timeout its AttemptTimeout, and budget its Budget, with size,
// ratio, refill_every, remember and grace. An event has one of workers, slower (3: three
// times), fail (0.5: half of all requests) and rate ("400/s").
//
// Decoding is strict: unknown keys, duplicate keys, and values of the wrong kind or
// out of range are errors that say what to write, up to 20 at once, and s stays as
// it was. It replaces what s had. Whether the services fit together is for
// [System.Validate]. An error has a method Findings() []retry.Finding, which errors.As
// finds: it says what is wrong with each key.
func (s *System) UnmarshalJSON(data []byte) error {
	return strict.Decode(s, data, invalidSystem, exampleSystem, (*System).read)
}

// UnmarshalYAML reads in YAML what [System.UnmarshalJSON] reads in JSON. It is what
// YAML libraries look for, as with [retry.Policy].
func (s *System) UnmarshalYAML(unmarshal func(any) error) error {
	data, err := strict.YAML(invalidSystem, unmarshal)
	if err != nil {
		return err
	}
	return s.UnmarshalJSON(data)
}

func (s *System) read(m *strict.Mapping) {
	*s = System{Services: map[string]Service{}}
	if services := m.Inner("services", "the services by name"); services != nil {
		for _, name := range services.Keys() {
			if inner := services.Inner(name, `a service, such as {"workers": 30, "work": "100ms"}`); inner != nil {
				s.Services[name] = readService(inner)
			}
		}
	}
	for _, event := range m.List("events", `a list such as [{"at": "20s", "for": "10s", "service": "db", "workers": 0}]`) {
		s.Events = append(s.Events, readTrigger(event))
	}
	read(m, []key{{"duration", (*strict.Duration)(&s.Duration), true, strict.WriteDuration}})
	m.RejectRest("a system")
}

// read sets the values of the keys that m has.
func read(m *strict.Mapping, keys []key) {
	for _, k := range keys {
		strict.Take(m, k.name, k.write, func(text json.RawMessage) bool { return json.Unmarshal(text, k.value) == nil })
	}
}

func readService(m *strict.Mapping) (v Service) {
	read(m, v.keys())
	for _, call := range m.List("calls", `a list such as [{"to": "db", "timeout": "1s"}]`) {
		v.Calls = append(v.Calls, readEdge(call))
	}
	check(m.Fault, "", v.keys())
	m.RejectRest("a service")
	return v
}

func readEdge(m *strict.Mapping) (e Edge) {
	if policy, ok := strict.Take[json.RawMessage](m, "retry", `a policy such as {"max_attempts": 2}`, nil); ok {
		var invalid *retry.PolicyError
		if errors.As(e.Policy.UnmarshalJSON(policy), &invalid) {
			faults, path := m.Faults("retry")
			faults.Within(path, invalid)
		}
	}
	if timeout := e.Policy.AttemptTimeout; timeout > 0 && slices.Contains(m.Keys(), "timeout") {
		m.Fault("timeout", "given beside attempt_timeout of retry", "one of them")
	}
	read(m, []key{{"to", &e.To, true, writeService}, {"timeout", (*strict.Duration)(&e.Policy.AttemptTimeout), true, strict.WriteDuration}})
	if budget := m.Inner("budget", `a budget such as {"size": 100, "ratio": 0.1}`); budget != nil {
		b := new(retry.Budget)
		read(budget, []key{
			{"size", &b.Size, true, "how many retries it holds, at least 1"},
			{"ratio", &b.Ratio, true, "a share between 0 and 1: 0.1 is one retry for ten successes"},
			{"refill_every", (*strict.Duration)(&b.RefillEvery), true, strict.WriteDuration},
			{"remember", (*strict.Duration)(&b.Remember), true, strict.WriteDuration},
			{"grace", (*strict.Duration)(&b.Grace), true, strict.WriteDuration},
		})
		e.Policy.Budget = b
		budget.RejectRest("a budget")
	}
	m.RejectRest("a call")
	return e
}

func readTrigger(m *strict.Mapping) (t Trigger) {
	for _, c := range []Change{Workers, Slower, Fail, Rate} {
		if !slices.Contains(m.Keys(), string(c)) {
			continue
		}
		if t.Change != "" {
			m.Fault(string(c), "given beside "+string(t.Change), "an event for each")
		}
		t.Change = c
	}
	read(m, t.keys())
	check(m.Fault, "", t.keys())
	m.RejectRest("an event")
	return t
}

// perSecond is a rate as text.
type perSecond float64

func (r perSecond) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%v/s", float64(r)), nil }

func (r *perSecond) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "/s")
	rate, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(rate >= 0 && rate <= maxRate) {
		return errors.New("no rate")
	}
	*r = perSecond(rate)
	return nil
}

// A number is above 0 in text: 0 is no limit, which is not what a person means by it.
type number int

func (n *number) UnmarshalJSON(text []byte) error {
	err := json.Unmarshal(text, (*int)(n))
	if err == nil && *n <= 0 {
		err, *n = errors.New("not above 0"), 0
	}
	return err
}

// A queue of 0 in text is none.
type queue int

func (q *queue) UnmarshalJSON(text []byte) error {
	var n uint32
	err := json.Unmarshal(text, &n)
	if *q = queue(n); err == nil && n == 0 {
		*q = NoQueue
	}
	return err
}
