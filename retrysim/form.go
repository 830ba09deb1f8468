package retrysim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
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
// ratio and refill_every. An event has one of workers, slower (3: three times),
// fail (0.5: half of all requests) and rate ("400/s").
//
// Decoding is strict: unknown keys, duplicate keys, and values of the wrong kind or
// out of range are errors that say what to write, up to 20 at once, and s stays as
// it was. It replaces what s had. Whether the services fit together is for
// [System.Validate].
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
	readDuration(m, "duration", &s.Duration)
	m.RejectRest("a system")
}

func readService(m *strict.Mapping) (v Service) {
	v.Rate = readRate(m)
	readDuration(m, "patience", &v.Patience)
	v.Clients = readCount(m, "clients", writeClients)
	v.Workers = readCount(m, "workers", writeWorkers)
	readDuration(m, "work", &v.Work)
	v.Distribution, _ = strict.Take[Distribution](m, "distribution", "a name", nil)
	queue, ok := strict.Take(m, "queue", "how many requests may wait, or leave it out for no limit", func(n int) bool { return n >= 0 })
	if v.Queue = queue; ok && queue == 0 {
		v.Queue = NoQueue
	}
	v.Cancel, _ = strict.Take[Cancel](m, "cancel", "a name", nil)
	for _, call := range m.List("calls", `a list such as [{"to": "db", "timeout": "1s"}]`) {
		v.Calls = append(v.Calls, readEdge(call))
	}
	v.Lend = readCount(m, "lend", writeLend)
	v.check(m.Fault)
	m.RejectRest("a service")
	return v
}

// readCount returns a number above 0, or 0 if the key is not there: 0 would be no
// limit, which is not what a person means by it.
func readCount(m *strict.Mapping, key, write string) int {
	n, _ := strict.Take(m, key, write, func(n int) bool { return n > 0 })
	return n
}

func readEdge(m *strict.Mapping) (e Edge) {
	e.To, _ = strict.Need[string](m, "to", "the name of a service", nil)
	timeout, hasTimeout := strict.Take(m, "timeout", strict.WriteDuration, func(d strict.Duration) bool { return d >= 0 })
	if policy, ok := strict.Take[json.RawMessage](m, "retry", `a policy such as {"max_attempts": 2}`, nil); ok {
		if err := e.Policy.UnmarshalJSON(policy); err != nil {
			m.Error("retry", errors.New(strings.TrimPrefix(err.Error(), "retry: invalid policy: ")))
		}
	}
	if hasTimeout {
		if e.Policy.AttemptTimeout > 0 {
			m.Fault("timeout", time.Duration(timeout), "it once, here or as attempt_timeout of retry")
		}
		e.Policy.AttemptTimeout = time.Duration(timeout)
	}
	if budget := m.Inner("budget", `a budget such as {"size": 100, "ratio": 0.1}`); budget != nil {
		e.Policy.Budget = readBudget(budget)
	}
	m.RejectRest("a call")
	return e
}

func readBudget(m *strict.Mapping) *retry.Budget {
	b := new(retry.Budget) // judged with its Policy
	b.Size, _ = strict.Need[int](m, "size", "how many retries it holds, at least 1", nil)
	b.Ratio, _ = strict.Take[float64](m, "ratio", "a share between 0 and 1: 0.1 is one retry for ten successes", nil)
	readDuration(m, "refill_every", &b.RefillEvery)
	m.RejectRest("a budget")
	return b
}

func readTrigger(m *strict.Mapping) (t Trigger) {
	readDuration(m, "at", &t.At)
	readDuration(m, "for", &t.For)
	t.Service, _ = strict.Need[string](m, "service", "the name of a service", nil)
	for _, c := range []Change{Workers, Slower, Fail, Rate} {
		if !slices.Contains(m.Keys(), string(c)) {
			continue
		}
		if t.Change != "" {
			m.Fault(string(c), "given beside "+string(t.Change), "an event for each")
		}
		if t.Change = c; c == Rate {
			t.Value = readRate(m)
		} else {
			t.Value, _ = strict.Take[float64](m, string(c), "a number", nil)
		}
	}
	t.check(m.Fault)
	m.RejectRest("an event")
	return t
}

// readRate returns the calls a second that m says, 0 if it does not.
func readRate(m *strict.Mapping) (rate float64) {
	_, ok := strict.Take(m, "rate", writeRate, func(text string) bool {
		number, perSecond := strings.CutSuffix(text, "/s")
		var err error
		rate, err = strconv.ParseFloat(number, 64)
		return perSecond && err == nil && soundRate(rate)
	})
	if !ok {
		return 0
	}
	return rate
}

func readDuration(m *strict.Mapping, key string, d *time.Duration) {
	v, _ := strict.Take[strict.Duration](m, key, strict.WriteDuration, nil)
	*d = time.Duration(v)
}

// MarshalJSON writes s for [System.UnmarshalJSON], which reads the same system
// back, except for the functions of its Policies. Zero fields are left out. It is an
// error if a Policy has no text form, see [retry.Policy.MarshalJSON].
func (s System) MarshalJSON() ([]byte, error) {
	services := keys{}
	for name, v := range s.Services {
		m := keys{}
		put(m, "rate", rateText(v.Rate), "0/s")
		put(m, "patience", strict.Duration(v.Patience), 0)
		put(m, "clients", v.Clients, 0)
		put(m, "workers", v.Workers, 0)
		put(m, "work", strict.Duration(v.Work), 0)
		put(m, "distribution", v.Distribution, "")
		put(m, "cancel", v.Cancel, "")
		put(m, "lend", v.Lend, 0)
		if v.Queue != 0 {
			m["queue"] = max(0, v.Queue)
		}
		var calls []keys
		for _, e := range v.Calls {
			calls = append(calls, e.keys())
		}
		if calls != nil {
			m["calls"] = calls
		}
		services[name] = m
	}
	var events []keys
	for _, t := range s.Events {
		m := keys{"at": strict.Duration(t.At), "for": strict.Duration(t.For), "service": t.Service, string(t.Change): t.Value}
		if t.Change == Rate {
			m["rate"] = rateText(t.Value)
		}
		events = append(events, m)
	}
	all := keys{"services": services, "events": events}
	put(all, "duration", strict.Duration(s.Duration), 0)
	return json.Marshal(all)
}

type keys map[string]any

// put sets a key whose value is not its zero.
func put[T comparable](m keys, key string, value, zero T) {
	if value != zero {
		m[key] = value
	}
}

func (e Edge) keys() keys {
	p := e.Policy
	m := keys{"to": e.To}
	put(m, "timeout", strict.Duration(p.AttemptTimeout), 0)
	if b := p.Budget; b != nil {
		m["budget"] = keys{"size": b.Size, "ratio": b.Ratio, "refill_every": strict.Duration(b.RefillEvery)}
	}
	p.AttemptTimeout, p.Budget = 0, nil
	m["retry"] = p
	return m
}

func rateText(rate float64) string { return fmt.Sprintf("%v/s", rate) }
