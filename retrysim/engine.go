package retrysim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// An engine simulates one run. All that happens is an event of a heap. Requests are
// kept in chunks that never move, and are known by their number. Nothing is taken out
// of the heap or a queue before its turn: each entry has the generation of what it is
// about, and is skipped if that has changed.
type engine struct {
	now      int64 // nanoseconds since the start
	second   int   // the row that counts
	events   heap
	popped   int
	err      error
	requests slab

	services []service
	edges    []edge
	budgets  []budget
	triggers []trigger
	classes  map[int32]map[string]int // earlier failures of a call by class, where its policy has a Classify
	firstAt  int64                    // when the first trigger begins

	begun, ended int // calls from outside
	seconds      []Second
	took         histogram // of the calls that were answered in this second
}

// A service is a Service while it is simulated.
type service struct {
	Service
	name    string
	arrives stream // times between calls from outside
	works   stream // work, and which requests fail
	chooses stream // the client
	seeds   stream // the seeds of delays

	// What triggers may change.
	pool    int // workers, Unlimited
	mean    float64
	fail    float64
	rate    float64
	arrival uint32 // the generation of the next arrival

	first   int // its first edge
	clients uint32
	busy    int
	queue   ring // of requests
	queued  int  // those that still wait
	feeding bool

	// What is counted.
	rows             []LoadSecond
	requests         int
	waited, started  int
	wait             float64 // of all that started
	integral, since  int64   // of busy, in this second
	work, wasted     float64 // that ended in this second
	allWork, allLost float64 // since the first trigger
}

// An edge is an Edge while it is simulated.
type edge struct {
	policy  retry.Policy
	to      int32
	limit   int32 // EffectiveMax
	budget  int32 // -1: none
	timeout int64 // 0: none

	// All timeouts of an edge are equally long, so they end in the order in which
	// they began, and only the first of them is in the heap.
	timeouts ring
	armed    bool
}

// A request is one request to a service, and the call that it is making.
type request struct {
	came     int64
	began    int64 // when it got a worker
	sent     int64 // when the attempt in flight began
	called   int64 // when the first attempt of the call began
	seed     uint64
	up       int32 // the request that waits for the answer; -1: none
	down     int32 // the attempt in flight; -1: none
	attempt  int32 // of the call
	left     int32 // retries that were lent; -1: no such Budget
	gen      uint32
	client   uint32
	service  uint16
	step     uint16 // which call
	state    state
	outside  bool
	deserted bool // its caller, or a caller of that, has given up
}

type state uint8

const (
	free state = iota
	waiting
	handled
)

// What an event is. Of those that happen at the same time the first of this list
// comes first.
const (
	evSecond  = iota // a second is over
	evTrigger        // a trigger begins or ends
	evWorked         // the work of a request is done
	evTimeout        // the first timeout of an edge
	evRetry          // the delay of a request's call is over
	evArrive         // a call from outside; of a service
)

type trigger struct {
	Trigger
	service int32
}

func newEngine(s System, seed uint64) *engine {
	e := &engine{classes: map[int32]map[string]int{}, seconds: make([]Second, s.seconds()+s.patience()), firstAt: math.MaxInt64}
	names := s.names()
	index := func(name string) int32 { i, _ := slices.BinarySearch(names, name); return int32(i) }
	for _, name := range names {
		v := service{
			Service: s.Services[name], name: name, first: len(e.edges), rows: make([]LoadSecond, len(e.seconds)),
			arrives: newStream(seed, name, "arrivals"), works: newStream(seed, name, "work"),
			chooses: newStream(seed, name, "clients"), seeds: newStream(seed, name, "seeds"),
		}
		v.clients = uint32(max(1, v.Clients))
		if v.Patience == 0 {
			v.Patience = defaultPatience
		}
		own := len(e.budgets) // Budgets of other services are of other processes
		for _, c := range v.Calls {
			p := c.Policy
			p.Source = v.seeds.Uint64
			to := edge{policy: p, to: index(c.To), limit: int32(min(p.EffectiveMax(), math.MaxInt32)), budget: -1, timeout: int64(p.AttemptTimeout)}
			if p.Budget != nil {
				if i := slices.IndexFunc(e.budgets[own:], func(b budget) bool { return b.of == p.Budget }); i >= 0 {
					to.budget = int32(own + i)
				} else {
					to.budget = int32(len(e.budgets))
					e.budgets = append(e.budgets, newBudget(p.Budget, v.clients))
				}
			}
			e.edges = append(e.edges, to)
		}
		e.services = append(e.services, v)
	}
	for i, t := range s.Events {
		e.triggers = append(e.triggers, trigger{t, index(t.Service)})
		e.push(int64(t.At), evTrigger, int32(i), 0)
		e.push(int64(t.At+t.For), evTrigger, int32(i), 0)
		e.firstAt = min(e.firstAt, int64(t.At))
	}
	for i := range e.services {
		e.change(int32(i))
	}
	e.push(int64(time.Second), evSecond, 0, 0)
	return e
}

// patience returns how long the calls of the last second are waited for, in seconds.
func (s System) patience() int {
	longest := time.Duration(0)
	for _, name := range s.entries() {
		patience := s.Services[name].Patience
		if patience == 0 {
			patience = defaultPatience
		}
		longest = max(longest, patience)
	}
	return int((longest + time.Second - 1) / time.Second)
}

// run simulates until all seconds are over.
func (e *engine) run() error {
	for e.second < len(e.seconds) && e.err == nil {
		e.next()
	}
	return e.err
}

// next makes the next event happen.
func (e *engine) next() {
	if e.popped++; e.popped > MaxEvents {
		e.err = fmt.Errorf("retrysim: more than %d events after %v of simulated time: shorten duration, lower the rate, or limit the attempts", MaxEvents, time.Duration(e.now))
		return
	}
	ev := e.events.pop()
	e.now = ev.at
	switch ev.key >> kindShift {
	case evArrive:
		if e.services[ev.idx].arrival == ev.gen {
			e.arrive(ev.idx)
		}
	case evWorked:
		if r := e.requests.at(ev.idx); r.gen == ev.gen {
			r.gen++
			e.proceed(ev.idx)
		}
	case evTimeout:
		e.timeOut(ev.idx)
	case evRetry:
		if e.requests.at(ev.idx).gen == ev.gen {
			e.try(ev.idx)
		}
	case evTrigger:
		e.change(e.triggers[ev.idx].service)
	case evSecond:
		e.endSecond()
	}
}

func (e *engine) push(at int64, kind uint64, idx int32, gen uint32) {
	e.events.push(at, kind, idx, gen)
}

// change sets what the triggers of this moment make of a service.
func (e *engine) change(i int32) {
	v := &e.services[i]
	rate := v.rate
	v.pool, v.mean, v.fail, v.rate = v.Workers, float64(v.Work), 0, v.Rate
	if v.pool == 0 {
		v.pool = retry.Unlimited
	}
	for _, t := range e.triggers {
		if t.service != i || e.now < int64(t.At) || e.now >= int64(t.At+t.For) {
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
		e.scheduleArrival(i)
	}
	e.feed(v)
}

func (e *engine) scheduleArrival(i int32) {
	if v := &e.services[i]; v.rate > 0 {
		e.push(e.now+v.arrives.exponential(1e9/v.rate), evArrive, i, v.arrival)
	}
}

// arrive makes a call from outside.
func (e *engine) arrive(i int32) {
	e.scheduleArrival(i)
	v := &e.services[i]
	e.begun++
	v.rows[e.second].Calls++
	lent := int32(retry.Unlimited)
	if v.Lend > 0 {
		lent = int32(v.Lend)
	}
	id, err := e.admit(i, lent, false)
	if err != nil {
		e.ended++
		return
	}
	r := e.requests.at(id)
	r.up, r.outside = -1, true
	e.enter(id, r)
}

// admit takes a request into a service, or refuses it.
func (e *engine) admit(i int32, left int32, deserted bool) (int32, error) {
	v := &e.services[i]
	row := &v.rows[e.second]
	row.Requests++
	v.requests++
	switch {
	case v.fail > 0 && v.works.share() < v.fail:
		row.Rejected++
		return -1, ErrFailed
	case !v.hasWorker() && v.Queue != 0 && v.queued >= max(0, v.Queue):
		row.Rejected++
		return -1, ErrRejected
	}
	id, r := e.requests.take()
	if e.requests.live > MaxInFlight {
		e.err = fmt.Errorf("retrysim: more than %d requests are in flight after %v of simulated time: shorten duration, lower the rate, or limit the queue", MaxInFlight, time.Duration(e.now))
	}
	*r = request{gen: r.gen, came: e.now, service: uint16(i), left: left, down: -1, deserted: deserted, state: waiting}
	if v.clients > 1 {
		r.client = v.chooses.below(v.clients)
	}
	return id, nil
}

// enter starts a request that was admitted, or puts it into the queue.
func (e *engine) enter(id int32, r *request) {
	v := &e.services[r.service]
	if v.hasWorker() {
		e.start(v, id, r)
		return
	}
	v.waited++
	v.queued++
	v.queue.push(entry{e.now, id, r.gen})
}

func (v *service) hasWorker() bool { return v.pool < 0 || v.busy < v.pool }

// start gives a request a worker.
func (e *engine) start(v *service, id int32, r *request) {
	e.integrate(v)
	v.busy++
	v.started++
	v.wait += float64(e.now - r.came)
	r.state, r.began = handled, e.now
	r.gen++
	var work int64
	switch {
	case v.mean == 0:
		e.proceed(id)
		return
	case v.Distribution == Fixed:
		work = whole(v.mean)
	case v.Distribution == Normal:
		work = v.works.normal(v.mean)
	default:
		work = v.works.exponential(v.mean)
	}
	e.push(e.now+work, evWorked, id, r.gen)
}

func (e *engine) integrate(v *service) {
	v.integral += int64(v.busy) * (e.now - v.since)
	v.since = e.now
}

// proceed makes the next call of a request, or answers it.
func (e *engine) proceed(id int32) {
	r := e.requests.at(id)
	if int(r.step) == len(e.services[r.service].Calls) {
		e.answer(id, nil)
		return
	}
	r.attempt, r.called, r.seed = 1, e.now, 0
	if len(e.classes) > 0 {
		delete(e.classes, id)
	}
	e.try(id)
}

func (e *engine) edgeOf(r *request) *edge {
	return &e.edges[e.services[r.service].first+int(r.step)]
}

// try makes an attempt of a request's call.
func (e *engine) try(id int32) {
	r := e.requests.at(id)
	to := e.edgeOf(r)
	r.sent = e.now
	r.gen++
	lent := int32(retry.Unlimited)
	if r.left >= 0 {
		lent = r.left
		if to.limit < 0 || r.attempt < to.limit { // it may need one itself
			lent = max(0, lent-1)
		}
		r.left -= lent
	}
	child, err := e.admit(to.to, lent, r.deserted)
	if err != nil {
		r.left += max(0, lent)
		e.attempted(id, err)
		return
	}
	r.down = child
	c := e.requests.at(child)
	c.up = id
	gen := r.gen
	e.enter(child, c)
	if to.timeout > 0 && r.gen == gen { // else it has been answered
		at := e.now + min(to.timeout, math.MaxInt64-e.now)
		to.timeouts.push(entry{at, id, gen})
		if !to.armed {
			to.armed = true
			e.push(at, evTimeout, int32(e.services[r.service].first)+int32(r.step), 0)
		}
	}
}

// timeOut ends the attempts of an edge whose time is up.
func (e *engine) timeOut(i int32) {
	to := &e.edges[i]
	for to.timeouts.n > 0 {
		first := to.timeouts.first()
		r := e.requests.at(first.id)
		switch {
		case r.gen != first.gen: // answered
		case first.at > e.now:
			e.push(first.at, evTimeout, i, 0)
			return
		default:
			child := r.down
			r.down = -1
			e.abandon(child)
			e.attempted(first.id, ErrTimeout)
		}
		to.timeouts.pop()
	}
	to.armed = false
}

// abandon ends a request whose caller has given up, or lets it go on.
func (e *engine) abandon(id int32) {
	r := e.requests.at(id)
	v := &e.services[r.service]
	r.up = -1
	switch {
	case r.state == waiting && (v.Cancel == CancelQueue || v.Cancel == CancelWork):
		v.queued--
		e.requests.put(id)
	case r.state == handled && v.Cancel == CancelWork:
		r.deserted = true
		if r.down >= 0 {
			e.abandon(r.down)
		}
		e.leave(id, r)
	default:
		for id >= 0 {
			r := e.requests.at(id)
			r.deserted = true
			id = r.down
		}
	}
}

// attempted ends an attempt of a request's call.
func (e *engine) attempted(id int32, err error) {
	r := e.requests.at(id)
	to := e.edgeOf(r)
	r.gen++
	r.down = -1
	if err == nil {
		if to.budget >= 0 {
			e.budgets[to.budget].success(r.client)
		}
		r.step++
		e.proceed(id)
		return
	}
	if d := e.decide(id, r, to, err); d >= 0 {
		e.push(e.now+min(int64(d), math.MaxInt64-e.now), evRetry, id, r.gen)
		return
	}
	e.answer(id, ErrFailed)
}

// decide returns the delay before the next attempt of a call, below 0 if there is
// none.
func (e *engine) decide(id int32, r *request, to *edge, err error) time.Duration {
	p := &to.policy
	a := retry.Attempt{Number: int(r.attempt), Err: err, Took: time.Duration(e.now - r.sent), Elapsed: time.Duration(e.now - r.called), Seed: r.seed}
	if p.HealthyAfter > 0 && a.Took >= p.HealthyAfter && (p.AttemptTimeout == 0 || a.Took < p.AttemptTimeout) {
		a.Seed = 0 // the call begins anew
	}
	if p.Classify != nil {
		if a.Classes = e.classes[id]; a.Classes == nil {
			a.Classes = map[string]int{}
			e.classes[id] = a.Classes
		}
	}
	d := p.Next(a)
	if d.Seed != 0 {
		r.seed = d.Seed
	}
	if d.Reset {
		r.attempt, r.called = 1, e.now
		clear(a.Classes)
	}
	if d.Class != "" {
		a.Classes[d.Class]++
	}
	if !d.Retry() || !d.Reset && !e.pay(r, to) {
		return -1
	}
	r.attempt++
	return d.Delay
}

// pay takes a retry out of the Budget that was lent, and out of the edge's own.
func (e *engine) pay(r *request, to *edge) bool {
	if r.left == 0 || to.budget >= 0 && !e.budgets[to.budget].take(r.client, e.now) {
		return false
	}
	if r.left > 0 {
		r.left--
	}
	return true
}

// answer ends a request.
func (e *engine) answer(id int32, err error) {
	r := *e.requests.at(id)
	e.leave(id, &r)
	switch {
	case r.outside:
		e.end(&r, err)
	case r.up >= 0:
		if r.left > 0 {
			e.requests.at(r.up).left += r.left
		}
		e.attempted(r.up, err)
	}
}

// leave frees a request and its worker.
func (e *engine) leave(id int32, r *request) {
	v := &e.services[r.service]
	e.integrate(v)
	v.busy--
	took := float64(e.now - r.began)
	v.work += took
	if r.deserted {
		v.wasted += took
	}
	e.requests.put(id)
	e.feed(v)
}

// feed starts the requests in the queue for which there are workers. A start can end
// at once and come back here, so the loop is run by the first only.
func (e *engine) feed(v *service) {
	if v.feeding {
		return
	}
	v.feeding = true
	for v.queue.n > 0 && v.hasWorker() {
		first := v.queue.pop()
		if r := e.requests.at(first.id); r.gen == first.gen {
			v.queued--
			e.start(v, first.id, r)
		}
	}
	v.feeding = false
}

// end ends a call from outside.
func (e *engine) end(r *request, err error) {
	e.ended++
	if err != nil {
		return
	}
	v := &e.services[r.service]
	began, took := r.came/int64(time.Second), e.now-r.came
	e.took.add(took)
	if took > int64(v.Patience) {
		e.seconds[began].Late++
		return
	}
	v.rows[began].Worked++
}

// endSecond completes the rows of a second.
func (e *engine) endSecond() {
	for i := range e.services {
		v := &e.services[i]
		e.integrate(v)
		row := &v.rows[e.second]
		row.Queue, row.Workers = v.queued, max(0, v.pool)
		row.Busy = float64(v.integral) / float64(time.Second)
		if v.work > 0 {
			row.Wasted = v.wasted / v.work
		}
		if e.now > e.firstAt {
			v.allWork += v.work
			v.allLost += v.wasted
		}
		v.integral, v.work, v.wasted = 0, 0, 0
	}
	sec := &e.seconds[e.second]
	sec.P50, sec.P99 = e.took.at(0.5), e.took.at(0.99)
	e.took.reset()
	if e.second++; e.second < len(e.seconds) {
		e.push(e.now+int64(time.Second), evSecond, 0, 0)
	}
}
