package retrysim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

const (
	writeRate         = `calls a second, such as "280/s" or "0.5/s"`
	writeWorkers      = "how many workers there are, such as 30, or leave it out for no limit"
	writeDistribution = "exponential, fixed or normal"
	writeCancel       = "none, queue or work"
	writeLend         = "how many retries a call from outside may cost in all, such as 3"
	writeWorkersLeft  = "how many workers take new requests, such as 0"
	writeSlower       = "how many times as long work takes, such as 3"
	writeFail         = "the share of requests that is refused, between 0 and 1"
	writeChange       = `what happens: "workers": 0, "slower": 3, "fail": 0.5 or "rate": "400/s"`
)

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
	v.Rate = readRate(m, "rate")
	readDuration(m, "patience", &v.Patience)
	atLeast := func(least int) func(int) bool {
		return func(n int) bool { return n >= least && n <= math.MaxInt32 }
	}
	v.Clients, _ = strict.Take(m, "clients", "how many instances of this service there are, such as 10", atLeast(1))
	v.Workers, _ = strict.Take(m, "workers", writeWorkers, atLeast(1))
	readDuration(m, "work", &v.Work)
	v.Distribution, _ = strict.Take(m, "distribution", writeDistribution, func(d Distribution) bool {
		return slices.Contains([]Distribution{Exponential, Fixed, Normal}, d)
	})
	queue, ok := strict.Take(m, "queue", "how many requests may wait, or leave it out for no limit", atLeast(0))
	if v.Queue = queue; ok && queue == 0 {
		v.Queue = NoQueue
	}
	v.Cancel, _ = strict.Take(m, "cancel", writeCancel, func(c Cancel) bool {
		return slices.Contains([]Cancel{CancelNone, CancelQueue, CancelWork}, c)
	})
	for _, call := range m.List("calls", `a list such as [{"to": "db", "timeout": "1s"}]`) {
		v.Calls = append(v.Calls, readEdge(call))
	}
	v.Lend, _ = strict.Take(m, "lend", writeLend, atLeast(1))
	m.RejectRest("a service")
	return v
}

func readEdge(m *strict.Mapping) (e Edge) {
	e.To, _ = strict.Need[string](m, "to", "the name of a service", nil)
	timeout, hasTimeout := strict.Take(m, "timeout", strict.WriteDuration, notNegative)
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
	b := new(retry.Budget)
	b.Size, _ = strict.Need(m, "size", "how many retries it holds, at least 1", func(n int) bool { return n >= 1 })
	b.Ratio, _ = strict.Take(m, "ratio", "a share between 0 and 1: 0.1 is one retry for ten successes", func(r float64) bool { return r >= 0 && r <= 1 })
	readDuration(m, "refill_every", &b.RefillEvery)
	m.RejectRest("a budget")
	return b
}

func readTrigger(m *strict.Mapping) (t Trigger) {
	at, _ := strict.Need(m, "at", "when it begins, such as 20s", notNegative)
	for_, _ := strict.Need(m, "for", "how long it lasts, such as 10s", func(d strict.Duration) bool { return d > 0 })
	t.At, t.For = time.Duration(at), time.Duration(for_)
	t.Service, _ = strict.Need[string](m, "service", "the name of a service", nil)
	keys := m.Keys()
	set := func(c Change, v float64) {
		if slices.Contains(keys, string(c)) {
			if t.Change != "" {
				m.Fault(string(c), "given beside "+string(t.Change), "an event for each")
			}
			t.Change, t.Value = c, v
		}
	}
	workers, _ := strict.Take(m, "workers", writeWorkersLeft, func(n int) bool { return n >= 0 })
	set(Workers, float64(workers))
	slower, _ := strict.Take(m, "slower", writeSlower, func(v float64) bool { return v > 0 })
	set(Slower, slower)
	fail, _ := strict.Take(m, "fail", writeFail, func(v float64) bool { return v >= 0 && v <= 1 })
	set(Fail, fail)
	set(Rate, readRate(m, "rate"))
	if t.Change == "" {
		m.Fault("change", "missing", writeChange)
	}
	m.RejectRest("an event")
	return t
}

// readRate returns the calls a second that a key says, 0 if it is not there.
func readRate(m *strict.Mapping, key string) (rate float64) {
	strict.Take(m, key, writeRate, func(text string) (ok bool) {
		rate, ok = parseRate(text)
		return ok
	})
	return rate
}

func parseRate(text string) (float64, bool) {
	number, ok := strings.CutSuffix(text, "/s")
	rate, err := strconv.ParseFloat(number, 64)
	return rate, ok && err == nil && soundRate(rate)
}

func readDuration(m *strict.Mapping, key string, d *time.Duration) {
	if v, ok := strict.Take(m, key, strict.WriteDuration, notNegative); ok {
		*d = time.Duration(v)
	}
}

func notNegative(d strict.Duration) bool { return d >= 0 }

// MarshalJSON writes s for [System.UnmarshalJSON], which reads the same system
// back, except for the functions of its Policies. Zero fields are left out. It is an
// error if a Policy has no text form, see [retry.Policy.MarshalJSON].
func (s System) MarshalJSON() ([]byte, error) {
	form := systemForm{Services: map[string]serviceForm{}, Duration: strict.Duration(s.Duration)}
	for name, v := range s.Services {
		form.Services[name] = v.form()
	}
	for _, t := range s.Events {
		event := eventForm{At: strict.Duration(t.At), For: strict.Duration(t.For), Service: t.Service}
		switch t.Change {
		case Workers:
			event.Workers = &t.Value
		case Slower:
			event.Slower = t.Value
		case Fail:
			event.Fail = &t.Value
		case Rate:
			event.Rate = rateText(t.Value)
		}
		form.Events = append(form.Events, event)
	}
	return json.Marshal(form)
}

type systemForm struct {
	Services map[string]serviceForm `json:"services"`
	Events   []eventForm            `json:"events,omitzero"`
	Duration strict.Duration        `json:"duration,omitzero"`
}

type serviceForm struct {
	Rate         string          `json:"rate,omitzero"`
	Patience     strict.Duration `json:"patience,omitzero"`
	Clients      int             `json:"clients,omitzero"`
	Workers      int             `json:"workers,omitzero"`
	Work         strict.Duration `json:"work,omitzero"`
	Distribution Distribution    `json:"distribution,omitzero"`
	Queue        *int            `json:"queue,omitzero"`
	Cancel       Cancel          `json:"cancel,omitzero"`
	Calls        []edgeForm      `json:"calls,omitzero"`
	Lend         int             `json:"lend,omitzero"`
}

type edgeForm struct {
	To      string          `json:"to"`
	Timeout strict.Duration `json:"timeout,omitzero"`
	Retry   *retry.Policy   `json:"retry,omitzero"`
	Budget  *budgetForm     `json:"budget,omitzero"`
}

type budgetForm struct {
	Size        int             `json:"size"`
	Ratio       float64         `json:"ratio,omitzero"`
	RefillEvery strict.Duration `json:"refill_every,omitzero"`
}

type eventForm struct {
	At      strict.Duration `json:"at"`
	For     strict.Duration `json:"for"`
	Service string          `json:"service"`
	Workers *float64        `json:"workers,omitzero"`
	Slower  float64         `json:"slower,omitzero"`
	Fail    *float64        `json:"fail,omitzero"`
	Rate    string          `json:"rate,omitzero"`
}

func (v Service) form() serviceForm {
	form := serviceForm{
		Patience: strict.Duration(v.Patience), Clients: v.Clients, Workers: v.Workers, Work: strict.Duration(v.Work),
		Distribution: v.Distribution, Cancel: v.Cancel, Lend: v.Lend,
	}
	if v.Rate > 0 {
		form.Rate = rateText(v.Rate)
	}
	if queue := max(0, v.Queue); v.Queue != 0 {
		form.Queue = &queue
	}
	for _, e := range v.Calls {
		call := edgeForm{To: e.To, Timeout: strict.Duration(e.Policy.AttemptTimeout)}
		if b := e.Policy.Budget; b != nil {
			call.Budget = &budgetForm{b.Size, b.Ratio, strict.Duration(b.RefillEvery)}
		}
		e.Policy.AttemptTimeout = 0
		call.Retry = &e.Policy
		form.Calls = append(form.Calls, call)
	}
	return form
}

func rateText(rate float64) string { return fmt.Sprintf("%v/s", rate) }
