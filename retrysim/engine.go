package retrysim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// An engine simulates one run. Everything that happens is an event in a heap. An event or a queue
// entry is never removed before its turn. Instead, it carries the generation of its request. It
// is skipped if the request has a newer generation when its turn comes.
type engine struct {
	now      int64 // nanoseconds since the start
	epoch    time.Time
	second   int // the current second, from 0
	patience int // how many seconds after the end the engine waits for the last calls
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
	arrives stream // draws the times between calls from outside
	works   stream // draws the times of work and which requests fail
	chooses stream // draws the client that handles a request
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
	queued  int  // how many entries of queue are not stale
	feeding bool // true while the method feed runs
	calls   uint32

	// The fields below are counters.

	rows            []LoadSecond
	requests        int
	waited, started int
	wait            float64 // the sum of the waits of all requests that got a worker

	// integral is busy x time, summed over this second up to the time since.
	integral, since int64

	// work is the time for which the requests that ended in this second occupied their workers.
	// wasted is the part of work for callers that had given up.
	work, wasted float64
}

// An edge is the state of an Edge in a run.
type edge struct {
	policy retry.Policy
	to     *service
	limit  int // EffectiveMax
	budget *budget

	// timeouts contains an entry for each attempt in flight. All timeouts of an edge are equally
	// long, so they end in the order in which they began. The heap contains only the first timeout.
	timeouts []entry
}

// A request is one request to a service. It also contains the state of the call that the request
// is making to another service.
type request struct {
	*service
	came     int64
	began    int64 // when the request got a worker
	sent     int64 // when the attempt in flight began
	called   int64 // when the first attempt of the call began
	seed     uint64
	up       *request // the request that waits for the answer; nil if no request waits
	down     *request // the request of the attempt in flight
	attempt  int32    // the number of the attempt; after HealthyAfter it counts from 1 again
	left     int32    // retries that are left of the lent Budget; -1 if no Budget was lent
	gen      uint32
	client   uint32
	call     uint32 // the number of the call, among all calls of its service
	before   int32  // how many attempts the call made before its last attempt past HealthyAfter
	step     uint16 // the index of the call in Calls
	handled  bool   // the request has a worker
	outside  bool   // the request is a call from outside
	deserted bool   // the caller, or a caller of the caller, has given up
	paid     bool   // the budget of the edge paid for a retry that has not begun yet
}

// An entry is a request in a queue. The entry is stale if its gen differs from the gen of the
// request.
type entry struct {
	at  int64
	r   *request
	gen uint32
}

// These are the kinds of events. Events at the same time happen in the order of this list.
const (
	evSecond  = iota // a second is over
	evTrigger        // a trigger of a service begins or ends
	evWorked         // the work of a request is done
	evTimeout        // the first timeout of an edge is due; gen is the index of the edge
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

// run simulates this many seconds.
func (e *engine) run(seconds int) error {
	for e.second < seconds && e.err == nil {
		e.handleNext()
	}
	return e.err
}

// checkEvery is the number of events between two checks of the memory that a run holds.
const checkEvery = 1 << 14

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

func (e *engine) push(at int64, kind uint64, index int32, gen uint32) {
	e.events.push(event{at: at, index: index, gen: gen}, kind)
}

// schedule pushes an event about a request. The event happens after the delay d.
func (e *engine) schedule(d int64, kind uint64, r *request) {
	e.events.push(event{at: e.now + min(d, math.MaxInt64-e.now), r: r, gen: r.gen}, kind)
}

// applyTriggers computes the fields of a service that triggers change. It applies the triggers
// that are active now.
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

// admit returns a new request to a service, or the error with which the service refuses it.
func (e *engine) admit(v *service, left int32, up *request) (*request, error) {
	row := &v.rows[e.second]
	row.Requests++
	v.requests++
	switch {
	case v.fail > 0 && v.works.share() < v.fail:
		row.Rejected++
		return nil, ErrFailed
	case !v.hasWorker() && v.Queue != 0 && v.queued >= max(0, v.Queue):
		row.Rejected++
		return nil, ErrRejected
	}
	if e.live++; e.live > MaxInFlight {
		e.err = fmt.Errorf("retrysim: more than %d requests are in flight "+
			"after %v of simulated time: shorten duration, lower the rate, or limit the queue",
			MaxInFlight, time.Duration(e.now))
	}
	r := e.newRequest()
	*r = request{
		gen: r.gen, service: v, came: e.now, left: left, up: up,
		deserted: up != nil && up.deserted,
	}
	if v.clients > 1 {
		r.client = uint32(v.chooses.Uint64() % uint64(v.clients))
	}
	return r, nil
}

// newRequest reuses a request that has ended. If no request has ended, it allocates a new one.
func (e *engine) newRequest() (r *request) {
	if len(e.free) == 0 {
		return new(request)
	}
	r, e.free = e.free[len(e.free)-1], e.free[:len(e.free)-1]
	return r
}

// enter starts an admitted request if a worker is idle. If no worker is idle, enter puts the
// request into the queue.
func (e *engine) enter(r *request) {
	if r.hasWorker() {
		e.start(r)
		return
	}
	r.waited++
	r.queued++
	r.queue = append(r.queue, entry{e.now, r, r.gen})
}

func (v *service) hasWorker() bool { return v.pool < 0 || v.busy < v.pool }

// start gives a worker to a request.
func (e *engine) start(r *request) {
	v := r.service
	e.integrate(v)
	v.busy++
	v.started++
	v.wait += float64(e.now - r.came)
	r.handled, r.began = true, e.now
	r.gen++
	switch {
	case v.mean == 0:
		e.proceed(r)
	case v.Distribution == Fixed:
		e.schedule(nanoseconds(v.mean), evWorked, r)
	case v.Distribution == Normal:
		e.schedule(v.works.normal(v.mean), evWorked, r)
	default:
		e.schedule(v.works.exponential(v.mean), evWorked, r)
	}
}

// integrate extends the integral of busy to the present time.
func (e *engine) integrate(v *service) {
	v.integral += int64(v.busy) * (e.now - v.since)
	v.since = e.now
}

// proceed starts the next call of a request. If the request has no further call, proceed answers
// the request.
func (e *engine) proceed(r *request) {
	if int(r.step) == len(r.edges) {
		e.answer(r, nil)
		return
	}
	r.calls++
	r.attempt, r.called, r.seed, r.before, r.call = 1, e.now, 0, 0, r.calls
	e.startAttempt(r)
}

func (r *request) edge() *edge { return &r.edges[r.step] }

// startAttempt starts an attempt of the current call of a request.
func (e *engine) startAttempt(r *request) {
	to := r.edge()
	r.sent, r.paid = e.now, false
	r.gen++
	e.tell(r, retry.Event{Kind: retry.AttemptStarted})
	lent := int32(retry.Unlimited)
	if r.left >= 0 {
		lent = r.left
		if to.limit < 0 || int(r.attempt) < to.limit { // keep one retry for this call
			lent = max(0, lent-1)
		}
		r.left -= lent
	}
	down, err := e.admit(to.to, lent, r)
	if err != nil {
		r.left += max(0, lent)
		e.attempted(r, err)
		return
	}
	r.down = down
	gen := r.gen
	e.enter(down)
	// A changed gen means that the attempt has been answered.
	if timeout := int64(to.policy.AttemptTimeout); timeout > 0 && r.gen == gen {
		at := e.now + min(timeout, math.MaxInt64-e.now)
		if to.timeouts = append(to.timeouts, entry{at, r, gen}); len(to.timeouts) == 1 {
			e.push(at, evTimeout, r.index, uint32(r.step))
		}
	}
}

// timeOut ends the attempts of an edge whose timeout has passed.
func (e *engine) timeOut(v *service, step uint32) {
	for to := &v.edges[step]; len(to.timeouts) > 0; to.timeouts = to.timeouts[1:] {
		switch first := to.timeouts[0]; {
		case first.r.gen != first.gen: // the attempt has been answered
		case first.at > e.now:
			e.push(first.at, evTimeout, v.index, step)
			return
		default:
			e.abandon(first.r.down)
			e.attempted(first.r, ErrTimeout)
		}
	}
}

// abandon handles a request whose caller has given up. The Cancel of the service decides whether
// the request ends or goes on.
func (e *engine) abandon(r *request) {
	r.up = nil
	switch {
	case !r.handled && (r.Cancel == CancelQueue || r.Cancel == CancelWork):
		r.queued--
		e.finish(r)
	case r.handled && r.Cancel == CancelWork:
		r.deserted = true
		if r.down != nil {
			e.abandon(r.down)
		}
		if r.paid {
			r.edge().budget.putBack(r.client, token)
		}
		e.release(r)
	default:
		for ; r != nil; r = r.down {
			r.deserted = true
		}
	}
}

// attempted ends an attempt of the current call of a request. err is nil if the attempt
// succeeded.
func (e *engine) attempted(r *request, err error) {
	r.gen++
	r.down = nil
	took := time.Duration(e.now - r.sent)
	e.tell(r, retry.Event{Kind: retry.AttemptFinished, Err: err, Took: took})
	if err == nil {
		if b := r.edge().budget; b != nil {
			b.success(r.client, e.now)
		}
		success := retry.Decision{Reason: retry.ReasonSuccess}
		e.tell(r, retry.Event{Kind: retry.CallFinished, Decision: success})
		r.step++
		e.proceed(r)
		return
	}
	if d := e.decide(r, err); d >= 0 {
		e.schedule(int64(d), evRetry, r)
		return
	}
	e.answer(r, ErrFailed)
}

// decide returns the delay before the next attempt of a call. The delay is negative if there is
// no next attempt.
func (e *engine) decide(r *request, err error) time.Duration {
	p := &r.edge().policy
	took := time.Duration(e.now - r.sent)
	timedOut := p.AttemptTimeout > 0 && took >= p.AttemptTimeout
	if p.HealthyAfter > 0 && took >= p.HealthyAfter && !timedOut {
		r.seed = 0 // after an attempt past HealthyAfter, delays are drawn from a new seed
	}
	a := retry.Attempt{
		Number: int(r.attempt), Err: err,
		Took: took, Elapsed: time.Duration(e.now - r.called), Seed: r.seed,
	}
	d := p.Next(a)
	r.seed = cmp.Or(d.Seed, r.seed)
	if d.Reset {
		r.before += r.attempt - 1
		r.attempt, r.called = 1, e.now
	}
	if d.Retry() && !d.Reset && !e.pay(r) {
		d.Reason = retry.ReasonBudget
	}
	if !d.Retry() {
		e.tell(r, retry.Event{
			Kind: retry.CallFinished, Err: err,
			Decision: retry.Decision{Reason: d.Reason, Reset: d.Reset},
		})
		return -1
	}
	e.tell(r, retry.Event{
		Kind: retry.RetryScheduled, Err: err, Decision: d, Due: e.time().Add(d.Delay),
	})
	r.attempt++
	return d.Delay
}

// tell sends an event of a call to the OnEvent of its policy. The key of the call consists of the
// name of the calling service and the number of the call: "web-17" is the 17th call of web.
func (e *engine) tell(r *request, ev retry.Event) {
	to := r.edge()
	if to.policy.OnEvent == nil {
		return
	}
	ev.Time, ev.Elapsed = e.time(), time.Duration(e.now-r.called)
	ev.Attempt, ev.Number, ev.Max = int(r.before+r.attempt), int(r.attempt), to.limit
	key := fmt.Sprintf("%s-%d", r.name, r.call)
	to.policy.OnEvent(retrylog.WithKey(context.Background(), key), ev)
}

func (e *engine) time() time.Time { return e.epoch.Add(time.Duration(e.now)) }

// pay takes a retry out of the lent Budget and out of the budget of the edge. It reports whether
// both of them allow the retry.
func (e *engine) pay(r *request) (allowed bool) {
	if r.left == 0 {
		return false
	}
	allowed = true
	if b := r.edge().budget; b != nil {
		allowed, r.paid = b.take(r.client, e.now, int(r.attempt))
	}
	if allowed && r.left > 0 {
		r.left--
	}
	return allowed
}

// answer ends a request. If a caller waits for the answer, it also ends the attempt of the
// caller.
func (e *engine) answer(r *request, err error) {
	up, left := r.up, max(0, r.left)
	if r.outside {
		e.ended++
		if err == nil && e.now-r.came <= int64(r.Patience) {
			r.rows[r.came/int64(time.Second)].Worked++
		}
	}
	e.release(r)
	if up != nil {
		up.left += left
		e.attempted(up, err)
	}
}

// release ends a request that has a worker, and gives the worker to the next request.
func (e *engine) release(r *request) {
	e.integrate(r.service)
	r.busy--
	took := float64(e.now - r.began)
	r.work += took
	if r.deserted {
		r.wasted += took
	}
	v := r.service
	e.finish(r)
	e.feed(v)
}

// finish makes the events and queue entries of a request stale, and keeps the request for reuse.
func (e *engine) finish(r *request) {
	r.gen++
	e.live--
	e.free = append(e.free, r)
}

// feed starts requests from the queue while a worker is idle. A request may end as soon as it
// starts, and then calls feed again. This inner call returns at once, because the loop of the
// outer call goes on.
func (e *engine) feed(v *service) {
	if v.feeding {
		return
	}
	v.feeding = true
	for len(v.queue) > 0 && v.hasWorker() {
		first := v.queue[0]
		if v.queue = v.queue[1:]; first.r.gen == first.gen {
			v.queued--
			e.start(first.r)
		}
	}
	v.feeding = false
}

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
