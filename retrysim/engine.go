package retrysim

import (
	"cmp"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/goretry/retry"
)

// An engine simulates one run. Everything that happens is an event in a heap. An event or a queue
// entry is never removed early. Instead, it carries the generation of its request. The engine skips
// the event or the entry if the request has a newer generation by then.
type engine struct {
	now      int64 // nanoseconds since the start
	epoch    time.Time
	second   int // the current second, from 0
	patience int // for how many seconds after the Duration the engine waits for the last calls
	events   heap
	popped   int
	err      error
	services []service
	triggers []Trigger
	live     int        // requests that have not ended
	free     []*request // requests that have ended, to be used again with a new generation
	ended    int        // calls from outside that have ended
}

// A service is the state of a Service in a run.
type service struct {
	Service
	name    string
	index   int32
	edges   []edge
	arrives stream // draws the times between the calls that come from outside
	works   stream // draws the time that each request takes, and whether it fails
	chooses stream // chooses at random which instance of the service handles a request
	seeds   stream // draws the seeds of delays
	clients uint32

	// Triggers change the next five fields.

	pool    int // workers, or Unlimited
	mean    float64
	fail    float64
	rate    float64
	arrival uint32 // the generation of the next arrival event

	busy    int // workers that handle a request
	queue   []entry
	queued  int  // how many entries of `queue` are not stale
	feeding bool // true while the method `feed` runs
	calls   uint32

	// The fields below are counters.

	rows            []LoadSecond
	requests        int
	waited, started int
	wait            float64 // the sum of the waits of all requests that got a worker

	// integral is the sum of `busy` x time in this second, up to the time that the field `since`
	// contains.
	integral, since int64

	// work is the time for which the requests that ended in this second occupied their workers.
	// wasted is the part of `work` that was done for callers that had given up.
	work, wasted float64
}

// An edge is the state of an Edge, a call from one service to another, during a run.
type edge struct {
	policy retry.Policy
	to     *service
	limit  int // EffectiveMax
	budget *budget

	// timeouts contains an entry for each attempt in flight. All timeouts of an edge are equally long,
	// so they expire in the order in which the attempts began. The heap contains only the first
	// timeout of each edge.
	timeouts []entry
}

// These are the kinds of events. Events at the same time happen in the order of this list.
const (
	evSecond  = iota // a second is over
	evTrigger        // a trigger of a service begins or ends
	evWorked         // the work of a request is done
	evTimeout        // the oldest pending timeout of an edge is due; see event.gen
	evRetry          // the delay before a retry is over
	evArrive         // a call comes from outside
)

func newEngine(s System, seed uint64) *engine {
	e := &engine{
		triggers: s.Events,
		epoch:    time.Unix(0, 0).UTC(),
		services: make([]service, len(s.Services)),
		patience: s.patience(),
	}
	index := map[string]int32{}
	for i, name := range s.names() {
		index[name] = int32(i)
	}
	for name, i := range index {
		v := &e.services[i]
		*v = service{
			Service: s.Services[name], name: name, index: i,
			arrives: newStream(seed, name, "arrivals"), works: newStream(seed, name, "work"),
			chooses: newStream(seed, name, "clients"), seeds: newStream(seed, name, "seeds"),
		}
		v.clients = uint32(max(1, v.Clients))
		v.Patience = cmp.Or(v.Patience, defaultPatience)
		// Services run in different processes, so their policies never share a budget.
		own := map[*retry.Budget]*budget{nil: nil}
		for _, c := range v.Calls {
			p := c.Policy
			p.Source, p.Classify = v.seeds.Uint64, nil
			if _, shared := own[p.Budget]; !shared {
				own[p.Budget] = newBudget(p.Budget)
			}
			v.edges = append(v.edges, edge{
				policy: p,
				to:     &e.services[index[c.To]],
				limit:  p.EffectiveMax(),
				budget: own[p.Budget],
			})
		}
	}
	for _, t := range s.Events {
		e.push(int64(t.At), evTrigger, index[t.Service], 0)
		e.push(int64(t.At+t.For), evTrigger, index[t.Service], 0)
	}
	for i := range e.services {
		e.services[i].rows = make([]LoadSecond, s.seconds()+e.patience)
		e.applyTriggers(&e.services[i])
	}
	e.push(int64(time.Second), evSecond, 0, 0)
	return e
}

// The method `run` simulates until as many seconds have passed as the parameter `seconds` says.
func (e *engine) run(seconds int) error {
	for e.second < seconds && e.err == nil {
		e.handleNext()
	}
	return e.err
}

// checkEvery is the number of events between two checks of the memory that the engine holds.
const checkEvery = 1 << 14

// mostBytes is the most memory that an engine may hold, not counting the Result. Tests change it.
var mostBytes = 256 << 20

// handleNext takes the earliest event out of the heap and handles it.
func (e *engine) handleNext() {
	if e.popped++; e.popped%checkEvery == 0 && e.bytes() > mostBytes {
		e.err = fmt.Errorf("retrysim: a run takes more than %d MB of memory "+
			"after %v of simulated time: shorten timeouts or duration, lower the rate, "+
			"or limit the attempts, the queue or the clients",
			mostBytes>>20, time.Duration(e.now))
		return
	}
	if e.popped > MaxEvents {
		e.err = fmt.Errorf("retrysim: more than %d events after %v of simulated time: "+
			"shorten duration, lower the rate, or limit the attempts",
			MaxEvents, time.Duration(e.now))
		return
	}
	ev := e.events.pop()
	e.now = ev.at
	if ev.r != nil && ev.r.gen != ev.gen {
		return
	}
	switch v := &e.services[ev.index]; ev.key >> kindShift {
	case evArrive:
		if v.arrival == ev.gen {
			e.arrive(v)
		}
	case evWorked:
		ev.r.gen++
		e.proceed(ev.r)
	case evTimeout:
		e.timeOut(v, ev.gen)
	case evRetry:
		e.startAttempt(ev.r)
	case evTrigger:
		e.applyTriggers(v)
	case evSecond:
		e.endSecond()
	}
}

// bytes returns how much memory the requests, the queues, the timers and the budgets of clients
// take. It counts stale entries too, but not the Result.
func (e *engine) bytes() int {
	const perClient = 16 // bytes of a map entry in addition to the value
	entries, clients := 0, 0
	for i := range e.services {
		v := &e.services[i]
		entries += cap(v.queue)
		for k := range v.edges {
			entries += cap(v.edges[k].timeouts)
			if b := v.edges[k].budget; b != nil {
				clients += len(b.accounts)
			}
		}
	}
	return (e.live+len(e.free))*int(unsafe.Sizeof(request{})) +
		cap(e.events.events)*int(unsafe.Sizeof(event{})) +
		entries*int(unsafe.Sizeof(entry{})) +
		clients*(perClient+int(unsafe.Sizeof(account{})))
}

func (e *engine) push(at int64, kind uint64, index int32, gen uint32) {
	e.events.push(event{at: at, index: index, gen: gen}, kind)
}

// schedule pushes an event about a request. The event happens after the delay d.
func (e *engine) schedule(d int64, kind uint64, r *request) {
	e.events.push(event{at: e.now + min(d, math.MaxInt64-e.now), r: r, gen: r.gen}, kind)
}

// A trigger can change the number of workers, the work, the failures or the rate of a service.
// applyTriggers computes these values of the service v again, from the triggers that are active
// now.
func (e *engine) applyTriggers(v *service) {
	rate := v.rate
	v.pool, v.mean = cmp.Or(v.Workers, retry.Unlimited), float64(v.Work)
	v.fail, v.rate = 0, v.Rate
	for _, t := range e.triggers {
		if t.Service != v.name || e.now < int64(t.At) || e.now >= int64(t.At+t.For) {
			continue
		}
		switch t.Change {
		case Workers:
			v.pool = int(t.Value)
		case Slower:
			v.mean *= t.Value
		case Fail:
			v.fail = max(v.fail, t.Value)
		case Rate:
			v.rate = t.Value
		}
	}
	if v.rate != rate {
		v.arrival++
		e.scheduleArrival(v)
	}
	e.feed(v)
}

func (e *engine) scheduleArrival(v *service) {
	if v.rate > 0 {
		e.push(e.now+v.arrives.exponential(1e9/v.rate), evArrive, v.index, v.arrival)
	}
}

// arrive starts a call from outside, and schedules the arrival of the next call.
func (e *engine) arrive(v *service) {
	e.scheduleArrival(v)
	v.rows[e.second].Calls++
	r, err := e.admit(v, int32(cmp.Or(v.Lend, retry.Unlimited)), nil)
	if err != nil {
		e.ended++
		return
	}
	r.outside = true
	e.enter(r)
}

func (v *service) hasWorker() bool { return v.pool < 0 || v.busy < v.pool }

// integrate brings v.integral, the sum of `busy` x time, up to the present time.
func (e *engine) integrate(v *service) {
	v.integral += int64(v.busy) * (e.now - v.since)
	v.since = e.now
}

func (e *engine) time() time.Time { return e.epoch.Add(time.Duration(e.now)) }

// endSecond completes the rows of the second that has just ended.
func (e *engine) endSecond() {
	for i := range e.services {
		v := &e.services[i]
		e.integrate(v)
		row := &v.rows[e.second]
		row.Queue = v.queued
		row.Busy = float64(v.integral) / float64(time.Second)
		if v.work > 0 {
			row.Wasted = v.wasted / v.work
		}
		v.integral, v.work, v.wasted = 0, 0, 0
	}
	if e.second++; e.second < len(e.services[0].rows) {
		e.push(e.now+int64(time.Second), evSecond, 0, 0)
	}
}

// result returns the counts of the run. It leaves out the time after the Duration of s, in
// which the engine only waits for the last calls.
func (e *engine) result(s System) Result {
	r := Result{
		Seconds:  make([]Second, s.seconds()),
		Services: make(map[string]Load, len(e.services)),
	}
	normal, begin := s.load(), int(s.firstAt()/time.Second)
	work, wasted := 0.0, 0.0
	for i := range e.services {
		v := &e.services[i]
		l := v.load(len(r.Seconds), max(1, s.part), normal[v.name])
		for k, row := range l.Seconds {
			r.Seconds[k].Calls += row.Calls
			r.Seconds[k].Worked += row.Worked
			r.Outcome.Calls += row.Calls
			r.Outcome.Worked += row.Worked
			if v.Workers > 0 && k >= begin { // with unlimited workers, wasted work delays nobody
				work += row.Busy
				wasted += float64(row.Busy * row.Wasted)
			}
		}
		r.Services[v.name] = l
	}
	r.Outcome.Wasted = wasted / max(work, 1e-9)
	return r
}
