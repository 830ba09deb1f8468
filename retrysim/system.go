package retrysim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect/strict"
)

// A System is services that call each other, the calls that come from outside, and
// what goes wrong. [System.UnmarshalJSON] has the text form.
type System struct {
	Services map[string]Service // by name; at least one has a Rate
	Events   []Trigger          // what goes wrong; none: nothing does

	// Duration is how long to simulate, in whole seconds. 0: until 1m after the last
	// event has ended, or 1m if there is none.
	Duration time.Duration

	// Counted is up to when calls come of which Lost of an Outcome counts those that are
	// lost, in whole seconds, to compare systems of which one is simulated for longer. It
	// has no text form. 0: until the end.
	Counted time.Duration

	part int // of a larger system, which has so many times as much; 0: it is the whole
}

// A Service handles requests: it waits for a worker, works, then makes its calls one
// after the other, and answers. A call that fails for good fails the request. The
// worker is held until the answer.
type Service struct {
	Rate     float64       // calls a second from outside, at random times (Poisson); 0: none
	Patience time.Duration // a call from outside that takes longer has not worked; 0: 5s

	// Clients is how many instances of this service there are. Each has its own
	// Budget for each of its calls, and a request comes to any of them. Without it a
	// thousand processes are simulated with one Budget between them. 0: 1.
	Clients int

	Workers      int           // requests that are handled at the same time, in all instances; 0: unlimited
	Work         time.Duration // mean time of a worker for a request, beside its calls; 0: none
	Distribution Distribution  // of Work; "": Exponential
	Queue        int           // requests that may wait for a worker, first come first served; 0: unlimited; NoQueue: none
	Cancel       Cancel        // what stops when a caller gives up; "": CancelNone

	Calls []Edge // what each request calls, in this order

	// Lend gives each call from outside a Budget of this many retries for all
	// services that handle it, as retryhttp.LendBudget and BorrowBudget do. It comes
	// on top of the Budgets of the Policies. 0: none.
	Lend int
}

// NoQueue is the Queue of a service that refuses what it cannot handle at once.
const NoQueue = -1

// An Edge is a call from one service to another.
type Edge struct {
	To string // the name of the service that is called

	// Policy has the attempts of each call, from [retry.Policy.Next]. Its
	// AttemptTimeout is when the caller gives up on a request; 0: never. Its
	// Budget is simulated, not used: only its numbers are read, and
	// Policies of one service that share a Budget share it here. RetryIf
	// gets ErrTimeout, ErrRejected or ErrFailed. OnEvent gets the events of each call, in
	// simulated time from 1970 on, with a key as retrylog.WithKey sets it, such as
	// "web-17" for the 17th call of web. Classify, Wait and Source are not used.
	Policy retry.Policy
}

// What an attempt fails with.
var (
	ErrTimeout  = errors.New("no answer in time")                       // AttemptTimeout has passed
	ErrRejected = errors.New("rejected: the queue is full")             // there was neither a worker nor a place in the queue
	ErrFailed   = errors.New("the service or what it calls has failed") // a Fail event, or a call of the service failed for good
)

// A Distribution says how the work for one request differs from that for another.
type Distribution string

const (
	Exponential Distribution = "exponential" // many short, a few long: what is usual
	Fixed       Distribution = "fixed"       // always the same
	Normal      Distribution = "normal"      // with a standard deviation of a quarter of the mean
)

// Cancel says what stops when the caller of a request has given up.
type Cancel string

const (
	CancelNone  Cancel = "none"  // nothing: the service works for callers that are gone
	CancelQueue Cancel = "queue" // requests that wait for a worker leave the queue
	CancelWork  Cancel = "work"  // work stops too, and with it the calls that the request makes
)

// A Trigger is one thing that goes wrong for a while.
type Trigger struct {
	At      time.Duration // when it begins
	For     time.Duration // how long it lasts; must be above 0
	Service string
	Change  Change
	Value   float64
}

// A Change is what a [Trigger] changes about its service.
type Change string

const (
	Workers Change = "workers" // only Value workers take new requests; 0: all hang, and what has begun goes on
	Slower  Change = "slower"  // the work that begins takes Value times as long
	Fail    Change = "fail"    // a share of Value of the requests is refused at once: 1 is all of them
	Rate    Change = "rate"    // Value calls a second come from outside
)

// Limits on what is simulated.
const (
	MaxServices = 1000
	MaxEvents   = 1_000_000_000 // of the simulation, two or three for each attempt: some minutes
	MaxInFlight = 1_000_000     // requests that wait or are handled at the same time
)

const (
	defaultPatience = 5 * time.Second
	defaultTail     = time.Minute // how long to simulate after the last event
	maxTime         = 1000 * time.Hour
	maxClients      = 100_000_000
	maxRate         = 1e9
)

// seconds returns how long s is simulated.
func (s System) seconds() int { return wholeSeconds(cmp.Or(s.Duration, s.lastEnd()+defaultTail)) }

func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// lastEnd returns when the last event ends, 0 if there is none.
func (s System) lastEnd() (end time.Duration) {
	for _, t := range s.Events {
		end = max(end, t.At+t.For)
	}
	return end
}

// firstAt returns when the first event begins, or the end if there is none.
func (s System) firstAt() time.Duration {
	at := time.Duration(s.seconds()) * time.Second
	for _, t := range s.Events {
		at = min(at, t.At)
	}
	return at
}

// names returns the names of the services, sorted, because the order of a map
// differs from run to run.
func (s System) names() []string { return slices.Sorted(maps.Keys(s.Services)) }

// entries returns the names of the services that are called from outside, sorted.
func (s System) entries() []string {
	return slices.DeleteFunc(s.names(), func(name string) bool { return s.Services[name].Rate == 0 })
}

// Validate returns nil if s can be simulated. Otherwise its error names up to 20
// faults, each with the key, the value and what to write instead, and has them as a
// method Findings() []retry.Finding. Run, Explain and Check call Validate first.
func (s System) Validate() error { return s.validate() }

func (s System) validate() error {
	var f strict.Faults
	if n := len(s.Services); n == 0 || n > MaxServices {
		f.Add("services", n, fmt.Sprintf("between 1 and %d services", MaxServices))
		return f.Err(invalidSystem)
	}
	for _, name := range s.names() {
		v, at := s.Services[name], "services."+name+"."
		check(f.Add, at, v.keys())
		for i, e := range v.Calls {
			at := fmt.Sprintf("%scalls[%d].", at, i)
			if _, known := s.Services[e.To]; !known {
				f.Add(at+"to", fmt.Sprintf("%q", e.To), writeService)
			}
			var invalid *retry.PolicyError
			if errors.As(e.Policy.Validate(), &invalid) {
				f.Within(at+"retry", invalid)
			}
		}
	}
	if len(s.entries()) == 0 {
		f.Add("rate", "missing in all services", `how many calls come from outside, such as "280/s", in one of them`)
	}
	for i, t := range s.Events {
		at := fmt.Sprintf("events[%d].", i)
		check(f.Add, at, t.keys())
		switch v, known := s.Services[t.Service]; {
		case !known:
			f.Add(at+"service", fmt.Sprintf("%q", t.Service), writeService)
		case t.Change == Rate && v.Rate == 0:
			f.Add(at+"rate", t.Value, "the name of a service that has a rate, because others get no calls from outside")
		}
	}
	if least := s.lastEnd() + hold*time.Second; s.Duration != 0 && (s.Duration < least || s.Duration > maxTime) {
		f.Add("duration", s.Duration, fmt.Sprintf("at least %v, which is 10s after the end of the last event, and at most %v, or leave it out", least, maxTime))
	}
	if err := f.Err(invalidSystem); err != nil {
		return err
	}
	order, err := s.order()
	if err != nil {
		return err
	}
	return s.checkSize(order)
}

const (
	invalidSystem = "retrysim: invalid system"
	exampleSystem = `{"services": {"web": {"rate": "10/s", "workers": 4, "work": "100ms"}}}`
	writeRate     = `calls a second, at most 1e9, such as "280/s" or "0.5/s"`
	writeService  = "the name of a service"
)

// A key is a key of the text form, and of the errors about a value.
type key struct {
	name  string
	value any // a pointer that JSON reads and writes
	sound bool
	write string // what to write, if the value is not sound
}

func (v *Service) keys() []key {
	return []key{
		{"rate", (*perSecond)(&v.Rate), v.Rate >= 0 && v.Rate <= maxRate, writeRate},
		{"patience", (*strict.Duration)(&v.Patience), v.Patience >= 0, strict.WriteDuration},
		{"clients", (*number)(&v.Clients), v.Clients >= 0 && v.Clients <= maxClients, "how many instances of this service there are, at most 100000000, such as 10"},
		{"workers", (*number)(&v.Workers), v.Workers >= 0 && v.Workers <= MaxInFlight, "how many workers there are, such as 30, or leave it out for no limit"},
		{"work", (*strict.Duration)(&v.Work), v.Work >= 0 && v.Work <= maxTime, strict.WriteDuration},
		{"distribution", &v.Distribution, slices.Contains([]Distribution{"", Exponential, Fixed, Normal}, v.Distribution), "exponential, fixed or normal"},
		{"queue", (*queue)(&v.Queue), v.Queue >= NoQueue, "how many requests may wait, or leave it out for no limit"},
		{"cancel", &v.Cancel, slices.Contains([]Cancel{"", CancelNone, CancelQueue, CancelWork}, v.Cancel), "none, queue or work"},
		{"lend", (*number)(&v.Lend), v.Lend == 0 || v.Lend > 0 && v.Lend <= math.MaxInt32 && v.Rate > 0,
			"how many retries a call from outside may cost in all, such as 3, in a service that has a rate"},
	}
}

func (t *Trigger) keys() []key {
	v := t.Value
	change := map[Change]key{
		Workers: {value: &t.Value, sound: v >= 0 && v <= MaxInFlight && v == math.Trunc(v), write: "how many workers take new requests, such as 0"},
		Slower:  {value: &t.Value, sound: v > 0 && v <= 1e6, write: "how many times as long work takes, such as 3"},
		Fail:    {value: &t.Value, sound: v >= 0 && v <= 1, write: "the share of requests that is refused, between 0 and 1"},
		Rate:    {value: (*perSecond)(&t.Value), sound: v >= 0 && v <= maxRate, write: writeRate},
	}[t.Change]
	if change.name = string(t.Change); change.value == nil {
		change = key{"change", &t.Change, false, `what happens: "workers": 0, "slower": 3, "fail": 0.5 or "rate": "400/s"`}
	}
	return []key{
		{"at", (*strict.Duration)(&t.At), t.At >= 0 && t.At <= maxTime, "when it begins, such as 20s"},
		{"for", (*strict.Duration)(&t.For), t.For > 0 && t.For <= maxTime, "how long it lasts, such as 10s"},
		{"service", &t.Service, true, writeService},
		change,
	}
}

// check reports the values that are not sound.
func check(fault func(key string, value any, write string), at string, keys []key) {
	for _, k := range keys {
		if !k.sound {
			text, _ := json.Marshal(k.value)
			fault(at+k.name, cmp.Or(string(text), "no number"), k.write)
		}
	}
}

// fault returns an error about a key, or "" for a system as a whole.
func fault(key, format string, args ...any) error {
	return strict.One(invalidSystem, key, fmt.Sprintf(format, args...), nil)
}

// order returns the names of the services, each before those that it calls. It is
// an error if a service calls itself, directly or through others.
func (s System) order() (order []string, err error) {
	done := map[string]bool{}
	var visit func(path []string)
	visit = func(path []string) {
		last := len(path) - 1
		name := path[last]
		if i := slices.Index(path, name); i < last {
			circle := strings.Join(path[i:], " -> ")
			err = fault("services", "services call each other in a circle: %s: take one of these calls out", circle)
		}
		if done[name] || err != nil {
			return
		}
		for _, e := range s.Services[name].Calls {
			visit(append(path, e.To))
		}
		done[name] = true
		order = append(order, name)
	}
	for _, name := range s.names() {
		visit([]string{name})
	}
	slices.Reverse(order)
	return order, err
}

// normal returns the requests to each service in a second if no attempt fails, from
// the calls from outside that rate has.
func (s System) normal(order []string, rate func(name string) float64) map[string]float64 {
	load := make(map[string]float64, len(order))
	for _, name := range order {
		load[name] += rate(name)
		for _, e := range s.Services[name].Calls {
			load[e.To] += load[name]
		}
	}
	return load
}

// load is normal for the usual rates.
func (s System) load() map[string]float64 {
	order, _ := s.order()
	return s.normal(order, func(name string) float64 { return s.Services[name].Rate })
}
