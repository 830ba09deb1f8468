package retrysim

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// A System lists services that call each other, the calls that come from outside, and
// the events of an outage. [System.UnmarshalJSON] describes its text form.
type System struct {
	Services map[string]Service // by name; at least one has a Rate
	Events   []Trigger          // what goes wrong; none: nothing does

	// Duration is how long to simulate, rounded up to whole seconds. 0: until 1m after the
	// end of the last event, or 1m if there is no event.
	Duration time.Duration

	// Counted is for comparing systems whose Durations differ. The Lost of an Outcome
	// counts only calls that begin before this time, in whole seconds. 0: all calls. Counted
	// has no key in the text form.
	Counted time.Duration

	part int // the system is this fraction of a larger one, such as 7 for a seventh; 0: the whole
}

// A Service handles requests. A request waits for a worker. The worker works, then makes
// the calls of the request one after the other, and then answers. The worker is held until
// the answer. A call that fails after its last attempt fails the request.
type Service struct {
	// Rate is how many calls come from outside in a second, at random times (Poisson).
	// 0: none.
	Rate float64

	// Patience is how long a caller from outside waits. A call whose answer takes longer
	// has not worked. 0: 5s.
	Patience time.Duration

	// Clients is how many instances of this service there are. Each instance has its own
	// Budget for each of its calls. A random instance handles each request. 0: 1, so a
	// service of a thousand processes is simulated with one Budget for all of them.
	Clients int

	// Workers is how many requests all instances together handle at the same time.
	// 0: unlimited.
	Workers int

	// Work is the mean time that a worker works for a request, without the calls of the
	// request. 0: none.
	Work time.Duration

	Distribution Distribution // of the times of Work; "": Exponential

	// Queue is how many requests may wait for a worker, in the order of arrival.
	// 0: unlimited. NoQueue: none.
	Queue int

	Cancel Cancel // what stops when a caller gives up; "": CancelNone

	Calls []Edge // the calls that each request makes, in this order

	// Lend gives each call from outside a Budget of this many retries. All services that
	// handle the call share it, as with retryhttp.LendBudget and BorrowBudget. A retry
	// needs this Budget and the Budget of its Policy. 0: none.
	Lend int
}

// NoQueue is the Queue of a service that refuses each request for which no worker is idle.
const NoQueue = -1

// An Edge is a call from one service to another.
type Edge struct {
	To string // the name of the service that is called

	// Policy decides about the attempts of each call, with [retry.Policy.Next]. Its
	// AttemptTimeout is how long the caller waits for the answer to a request. 0: without
	// limit. Its Budget is never used: the simulation reads its fields, and keeps a Budget
	// of its own. Policies of one service that share a Budget share the simulated Budget
	// too. RetryIf gets ErrTimeout, ErrRejected or ErrFailed. OnEvent gets the events of
	// each call, in simulated time that starts in 1970. Its context has a key as set by
	// retrylog.WithKey, such as "web-17" for the 17th call of web. Classify, Wait and
	// Source are not used.
	Policy retry.Policy
}

// The errors with which an attempt fails.
var (
	// ErrTimeout: no answer came within AttemptTimeout.
	ErrTimeout = errors.New("no answer in time")

	// ErrRejected: no worker was idle, and the queue had no place.
	ErrRejected = errors.New("rejected: the queue is full")

	// ErrFailed: a Fail event refused the request, or a call that the service made failed
	// after its last attempt.
	ErrFailed = errors.New("the service or what it calls has failed")
)

// A Distribution says how the times of Work vary from request to request.
type Distribution string

const (
	Exponential Distribution = "exponential" // most requests are short and a few are long, as usual
	Fixed       Distribution = "fixed"       // all requests take the same time
	Normal      Distribution = "normal"      // the standard deviation is a quarter of the mean
)

// A Cancel says what stops when the caller of a request has given up.
type Cancel string

const (
	// CancelNone: nothing stops. The service works for callers that have given up.
	CancelNone Cancel = "none"

	// CancelQueue: a request that waits for a worker leaves the queue.
	CancelQueue Cancel = "queue"

	// CancelWork: as CancelQueue, and a request that has a worker leaves it and gives up on
	// the call that it is making.
	CancelWork Cancel = "work"
)

// A Trigger is an event: it changes one thing about one service for a while.
type Trigger struct {
	At      time.Duration // when the event begins
	For     time.Duration // how long the event lasts; must be above 0
	Service string        // the name of the service
	Change  Change
	Value   float64 // see Change
}

// A Change is what a [Trigger] changes about its service.
type Change string

const (
	// Workers: only Value workers take new requests. Requests that have a worker go on.
	// 0: no new request gets a worker.
	Workers Change = "workers"

	// Slower: work that begins during the event takes Value times as long.
	Slower Change = "slower"

	// Fail: the service refuses this share of the requests at once. 1: all requests.
	Fail Change = "fail"

	// Rate: Value calls come from outside in a second.
	Rate Change = "rate"
)

// Limits of a simulation.
const (
	MaxServices = 1000
	MaxEvents   = 1_000_000_000 // two or three for each attempt; so many take some minutes
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

// firstAt returns when the first event begins. Without an event it returns the end of s.
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
	return slices.DeleteFunc(s.names(), func(name string) bool {
		return s.Services[name].Rate == 0
	})
}

// normal returns the requests to each service in a second if no attempt fails. rate
// returns the calls from outside to a service in a second.
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

// load returns the requests to each service in a second at the Rates of s, if no attempt
// fails.
func (s System) load() map[string]float64 {
	order, _ := s.order()
	return s.normal(order, func(name string) float64 { return s.Services[name].Rate })
}

// with returns s with each service as edit changes it.
func (s System) with(edit func(name string, v *Service)) System {
	s.Services = maps.Clone(s.Services)
	for name, v := range s.Services {
		v.Calls = slices.Clone(v.Calls)
		edit(name, &v)
		s.Services[name] = v
	}
	return s
}
