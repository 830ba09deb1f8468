package retrysim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// A System lists services that call each other, the calls that come from outside, and
// the events of an outage. [System.UnmarshalJSON] describes its text form.
type System struct {
	Services map[string]Service // the services by name; at least one service must have a Rate
	Events   []Trigger          // what goes wrong during the simulation; may be empty

	// Duration is how long to simulate, rounded up to whole seconds. 0 means until one minute after
	// the end of the last event, or one minute if there is no event.
	Duration time.Duration

	// Counted helps to compare systems whose Durations differ. Outcome.Lost counts only calls that
	// begin before Counted, which is rounded down to whole seconds. 0 means that Lost counts all
	// calls. Counted has no key in the text form.
	Counted time.Duration

	part int // this system is 1/part of a larger system; 0: it is a whole system
}

// A Service handles requests. Each request waits for a worker. The worker works, then makes the
// calls of the request one after the other, and then answers. It handles no other request before
// it has answered. If a call fails after its last attempt, the request fails.
type Service struct {
	// Rate is the number of calls a second that come from outside, at random times (a Poisson
	// process). 0 means that no calls come from outside.
	Rate float64

	// Patience is how long a caller from outside waits. A call whose answer takes longer than the
	// Patience counts as failed. 0 means 5s.
	Patience time.Duration

	// Clients is how many instances this service has. A random instance handles each request. Each
	// instance has its own copy of the Budgets in Calls. 0 means one instance. So a service of a
	// thousand processes has only one copy of each Budget if Clients is not set.
	Clients int

	// Workers is how many requests all instances together can handle at the same time. 0 means
	// unlimited.
	Workers int

	// Work is the mean time that a worker works for a request. It does not include the time in which
	// the worker waits for the calls that the request makes to other services. 0 means that requests
	// take no work.
	Work time.Duration

	Distribution Distribution // how the times of Work vary; "" means Exponential

	// Queue is how many requests may wait for a worker, in the order of arrival. 0 means unlimited.
	// NoQueue means that no request may wait.
	Queue int

	Cancel Cancel // what stops when a caller gives up; "" means CancelNone

	Calls []Edge // the calls that each request makes, in this order

	// Lend gives each call from outside a Budget of this many retries. All services that handle the
	// call share this Budget, as with retryhttp.LendBudget and BorrowBudget. Each retry takes one
	// retry out of this Budget and one out of the Budget of its Policy. 0 means that no Budget is
	// lent.
	Lend int
}

// NoQueue is the Queue of a service that refuses each request for which no worker is idle.
const NoQueue = -1

// An Edge is a call from one service to another.
type Edge struct {
	To string // the name of the service that is called

	// Policy decides about the attempts of each call, with [retry.Policy.Next]. AttemptTimeout
	// is how long the caller waits for each answer. An AttemptTimeout of 0 means that the caller
	// waits without a limit. RetryIf gets ErrTimeout, ErrRejected or ErrFailed. The simulation
	// does not use Classify, Wait and Source.
	//
	// The simulation takes no retry out of the Budget of Policy. It keeps a simulated Budget with
	// the same fields. Policies of one service that share a Budget also share the simulated
	// Budget.
	//
	// OnEvent gets the events of each call. Their times are simulated and start in 1970. The
	// context of an event has a key, see retrylog.WithKey. The key "web-17" means the 17th call
	// that web made.
	Policy retry.Policy
}

// An attempt fails with one of these errors.
var (
	// ErrTimeout means that no answer came within AttemptTimeout.
	ErrTimeout = errors.New("no answer in time")

	// ErrRejected means that no worker was idle and that the queue was full.
	ErrRejected = errors.New("rejected: the queue is full")

	// ErrFailed means that a Fail event refused the request, or that a call of the service failed
	// after its last attempt.
	ErrFailed = errors.New("the service, or a service that it calls, has failed")
)

// A Distribution says how the times of Work vary from request to request.
type Distribution string

const (
	Exponential Distribution = "exponential" // most requests are short, and a few are long
	Fixed       Distribution = "fixed"       // all requests take the same time
	Normal      Distribution = "normal"      // the standard deviation is a quarter of the mean
)

// A Cancel says what stops when the caller of a request has given up.
type Cancel string

const (
	// CancelNone means that nothing stops. The service goes on working for callers that have given
	// up.
	CancelNone Cancel = "none"

	// CancelQueue means that a request leaves the queue when its caller gives up. If the request
	// already has a worker, the worker finishes the request.
	CancelQueue Cancel = "queue"

	// CancelWork means that a request leaves the queue when its caller gives up. If the request
	// already has a worker, the request ends too, and gives up on the call that it is making.
	CancelWork Cancel = "work"
)

// A Trigger is an event of an outage. It changes one property of one service for a while.
type Trigger struct {
	At      time.Duration // when the event begins
	For     time.Duration // how long the event lasts; must be above 0
	Service string        // the name of the service that the event changes
	Change  Change
	Value   float64 // see Change
}

// A Change is the property of a service that a [Trigger] changes.
type Change string

const (
	// Workers limits the number of workers that take new requests. The limit is the Value of the
	// Trigger. With a Value of 0, no new request gets a worker. Requests that already have a worker go
	// on.
	Workers Change = "workers"

	// Slower means that work which begins during the event takes longer. The Value of the Trigger is
	// the factor, so a Value of 3 means three times as long.
	Slower Change = "slower"

	// Fail means that the service immediately refuses a share of the requests. The share is the Value
	// of the Trigger, so a Value of 1 refuses all requests.
	Fail Change = "fail"

	// Rate replaces the Rate of the service until the event ends. The Value of the Trigger is the new
	// number of calls a second that come from outside.
	Rate Change = "rate"
)

// These are the limits of a simulation.
const (
	MaxServices = 1000
	MaxEvents   = 1_000_000_000 // a billion events take minutes; an attempt takes two or three events
	MaxInFlight = 1_000_000     // requests that wait or are handled at the same time
)

const (
	defaultPatience = 5 * time.Second
	defaultTail     = time.Minute // how long to simulate after the last event
	maxTime         = 1000 * time.Hour
	maxClients      = 100_000_000
	maxRate         = 1e9
)

// names returns the names of the services, sorted, because the order of a map
// differs from run to run.
func (s System) names() []string { return slices.Sorted(maps.Keys(s.Services)) }

// entries returns the names of the services that are called from outside, sorted.
func (s System) entries() []string {
	return slices.DeleteFunc(s.names(), func(name string) bool {
		return s.Services[name].Rate == 0
	})
}

// edited returns a copy of s in which the function `edit` has changed each service.
func (s System) edited(edit func(name string, v *Service)) System {
	s.Services = maps.Clone(s.Services)
	for name, v := range s.Services {
		v.Calls = slices.Clone(v.Calls)
		edit(name, &v)
		s.Services[name] = v
	}
	return s
}
