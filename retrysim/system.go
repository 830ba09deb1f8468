package retrysim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// A System is services that call each other, the calls that come from outside, and
// what goes wrong. [System.UnmarshalJSON] has the text form.
type System struct {
	Services map[string]Service // by name; at least one has a Rate
	Events   []Trigger          // what goes wrong; none: nothing does

	// Duration is how long to simulate, in whole seconds. 0: until 1m after the last
	// event has ended, or 1m if there is none.
	Duration time.Duration
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

	// Lend gives each call from outside a Budget of so many retries for all services
	// that handle it, as retryhttp.LendBudget and BorrowBudget do. It comes on top of
	// the Budgets of the Policies. 0: none.
	Lend int
}

// NoQueue is the Queue of a service that refuses what it cannot handle at once.
const NoQueue = -1

// An Edge is a call from one service to another.
type Edge struct {
	To string // the name of the service that is called

	// Policy has the attempts of each call, from [retry.Policy.Next]. Its
	// AttemptTimeout is when the caller gives up on a request; 0: never. Its
	// Budget is simulated, not used: only Size, Ratio and RefillEvery are read, and
	// Policies of one service that share a Budget share it here. RetryIf and Classify
	// get ErrTimeout, ErrRejected or ErrFailed. Wait, OnEvent and Source are not used.
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
	MaxInFlight = 10_000_000    // requests that wait or are handled at the same time: some gigabytes
)

const (
	defaultPatience = 5 * time.Second
	defaultTail     = time.Minute // how long to simulate after the last event
	maxRows         = 10_000_000  // seconds times services
)

// duration returns how long s is simulated, in seconds.
func (s System) seconds() int {
	d := s.Duration
	if d == 0 {
		d = s.lastEnd() + defaultTail
	}
	return int((d + time.Second - 1) / time.Second)
}

// lastEnd returns when the last event ends, 0 if there is none.
func (s System) lastEnd() (end time.Duration) {
	for _, t := range s.Events {
		end = max(end, t.At+t.For)
	}
	return end
}

// firstAt returns when the first event begins, and whether there is one.
func (s System) firstAt() (at time.Duration, ok bool) {
	for i, t := range s.Events {
		if i == 0 || t.At < at {
			at = t.At
		}
	}
	return at, len(s.Events) > 0
}

// names returns the names of the services, sorted, because the order of a map
// differs from run to run.
func (s System) names() []string { return slices.Sorted(maps.Keys(s.Services)) }

// entries returns the names of the services that are called from outside, sorted.
func (s System) entries() (entries []string) {
	for _, name := range s.names() {
		if s.Services[name].Rate > 0 {
			entries = append(entries, name)
		}
	}
	return entries
}

// Validate returns nil if s can be simulated. Otherwise its error names up to 20
// faults, each with the key, the value and what to write instead. Run, Explain,
// Margin and Check call it first.
func (s System) Validate() error {
	var f strict.Faults
	names := s.names()
	if len(names) == 0 || len(names) > MaxServices {
		f.Add("services", len(names), fmt.Sprintf("between 1 and %d services", MaxServices))
		return f.Err(invalidSystem)
	}
	const write = "the name of a service"
	for _, name := range names {
		v, in := s.Services[name], fault(f.Add).in("services."+name)
		v.check(in)
		for i, e := range v.Calls {
			at := fmt.Sprintf("calls[%d]", i)
			_, known := s.Services[e.To]
			in.unless(known, at+".to", quoted(e.To), write)
			if err := e.Policy.Validate(); err != nil {
				f.Error("services."+name+"."+at+".retry", err)
			}
		}
	}
	if s.entries() == nil {
		f.Add("rate", "missing in all services", `how many calls come from outside, such as "280/s", in one of them`)
	}
	for i, t := range s.Events {
		in := fault(f.Add).in(fmt.Sprintf("events[%d]", i))
		t.check(in)
		v, known := s.Services[t.Service]
		in.unless(known, "service", quoted(t.Service), write)
		in.unless(t.Change != Rate || !known || v.Rate > 0, "rate", t.Value, "the name of a service that has a rate, because others get no calls from outside")
	}
	if s.Duration < 0 || s.Duration > maxTime {
		f.Add("duration", s.Duration, "how long to simulate, at most "+maxTime.String()+", or 0s for 1m after the last event")
	}
	if least := s.lastEnd() + hold*time.Second; s.Duration != 0 && s.Duration < least {
		f.Add("duration", s.Duration, fmt.Sprintf("at least %v, which is 10s after the end of the last event, or leave it out", least))
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
	maxTime       = 1000 * time.Hour
	maxClients    = 100_000_000

	writeRate    = `calls a second, such as "280/s" or "0.5/s"`
	writeClients = "how many instances of this service there are, such as 10"
	writeWorkers = "how many workers there are, such as 30, or leave it out for no limit"
	writeLend    = "how many retries a call from outside may cost in all, such as 3"
)

// A fault is what reports a key with a value that is out of range.
type fault func(key string, value any, write string)

func (f fault) unless(sound bool, key string, value any, write string) {
	if !sound {
		f(key, value, write)
	}
}

// in returns f for the keys of an inner mapping.
func (f fault) in(at string) fault {
	return func(key string, value any, write string) { f(at+"."+key, value, write) }
}

// check reports what is wrong with v by itself.
func (v Service) check(f fault) {
	f.unless(soundRate(v.Rate), "rate", v.Rate, writeRate)
	f.unless(v.Patience >= 0, "patience", v.Patience, strict.WriteDuration)
	f.unless(v.Clients >= 0 && v.Clients <= maxClients, "clients", v.Clients, writeClients)
	f.unless(v.Workers >= 0 && v.Workers <= MaxInFlight, "workers", v.Workers, writeWorkers)
	f.unless(v.Work >= 0 && v.Work <= maxTime, "work", v.Work, strict.WriteDuration)
	f.unless(slices.Contains([]Distribution{"", Exponential, Fixed, Normal}, v.Distribution), "distribution", quoted(v.Distribution), "exponential, fixed or normal")
	f.unless(v.Queue >= NoQueue, "queue", v.Queue, "how many requests may wait, 0 for unlimited, or NoQueue")
	f.unless(slices.Contains([]Cancel{"", CancelNone, CancelQueue, CancelWork}, v.Cancel), "cancel", quoted(v.Cancel), "none, queue or work")
	f.unless(v.Lend >= 0 && v.Lend <= math.MaxInt32, "lend", v.Lend, writeLend)
	f.unless(v.Lend <= 0 || v.Rate > 0, "lend", v.Lend, "it beside the rate of calls from outside: it is they that bring retries")
}

// check reports what is wrong with t by itself.
func (t Trigger) check(f fault) {
	f.unless(t.At >= 0 && t.At <= maxTime, "at", t.At, "when it begins, such as 20s")
	f.unless(t.For > 0 && t.For <= maxTime, "for", t.For, "how long it lasts, such as 10s")
	v, key := t.Value, string(t.Change)
	switch t.Change {
	case Workers:
		f.unless(v >= 0 && v <= MaxInFlight && v == math.Trunc(v), key, v, "how many workers take new requests, such as 0")
	case Slower:
		f.unless(v > 0 && v <= 1e6, key, v, "how many times as long work takes, such as 3")
	case Fail:
		f.unless(v >= 0 && v <= 1, key, v, "the share of requests that is refused, between 0 and 1")
	case Rate:
		f.unless(soundRate(v), key, v, writeRate)
	default:
		f("change", quoted(t.Change), `what happens: "workers": 0, "slower": 3, "fail": 0.5 or "rate": "400/s"`)
	}
}

func quoted[T ~string](text T) string { return fmt.Sprintf("%q", text) }

// soundRate reports whether a number of calls a second can be simulated.
func soundRate(rate float64) bool { return rate >= 0 && rate <= 1e9 }

// order returns the names of the services, each before those that it calls. It is
// an error if a service calls itself, directly or through others.
func (s System) order() ([]string, error) {
	var order []string
	state := map[string]int{} // 1: its calls are being followed; 2: done
	var visit func(name string, path []string) error
	visit = func(name string, path []string) error {
		switch state[name] {
		case 1:
			return fmt.Errorf("%s: services call each other in a circle: %s: take one of these calls out", invalidSystem, circle(append(path, name)))
		case 2:
			return nil
		}
		state[name] = 1
		for _, e := range s.Services[name].Calls {
			if err := visit(e.To, append(path, name)); err != nil {
				return err
			}
		}
		state[name] = 2
		order = append(order, name)
		return nil
	}
	for _, name := range s.names() {
		if err := visit(name, nil); err != nil {
			return nil, err
		}
	}
	slices.Reverse(order)
	return order, nil
}

// circle writes a path that ends where it has been before.
func circle(path []string) string {
	last := path[len(path)-1]
	text := last
	for _, name := range path[slices.Index(path, last)+1:] {
		text += " -> " + name
	}
	return text
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

// checkSize refuses a system that takes too long to simulate even if no attempt
// fails.
func (s System) checkSize(order []string) error {
	seconds := float64(s.seconds())
	if rows := seconds * float64(len(order)); rows > maxRows {
		return fmt.Errorf("%s: %v seconds of %d services are more than %d lines of results: write a shorter duration", invalidSystem, seconds, len(order), maxRows)
	}
	peak := func(name string) float64 {
		rate := s.Services[name].Rate
		for _, t := range s.Events {
			if t.Change == Rate && t.Service == name {
				rate = max(rate, t.Value)
			}
		}
		return rate
	}
	events := 0.0
	for _, load := range s.normal(order, peak) {
		events += 2 * load * seconds
	}
	if events > MaxEvents {
		return fmt.Errorf("%s: it takes about %.2g events without a single retry, more than %d: write a shorter duration or a lower rate", invalidSystem, events, MaxEvents)
	}
	return nil
}
