package retrysim

import (
	"fmt"
	"time"
)

// A request is one request to a service. It also contains the state of the call that the request
// is making to another service.
type request struct {
	*service
	came     int64
	began    int64 // when the request got a worker
	sent     int64 // when the attempt in flight began
	called   int64 // when the call began, or when its last attempt past HealthyAfter ended
	seed     uint64
	up       *request // the request that waits for this request; nil if no request waits
	down     *request // the request that the attempt in flight has sent
	attempt  int32    // the number of the attempt; 1 if the attempt ran past HealthyAfter
	left     int32    // retries that are left of the lent Budget; -1 if no Budget was lent
	gen      uint32   // the generation of this request; an event or entry with a lower one is stale
	client   uint32
	call     uint32 // the number of the call, among all calls that the service makes
	before   int32  // how many attempts came before the last attempt that ran past HealthyAfter
	step     uint16 // the index of the call in Calls
	handled  bool   // whether the request has a worker
	outside  bool   // whether the request is a call from outside
	deserted bool   // whether the caller, or a caller of the caller, has given up
	paid     bool   // whether the budget of the call paid for a retry that has not begun yet
}

func (r *request) edge() *edge { return &r.edges[r.step] }

// An entry is a request in a queue, or in the list of timeouts of an edge. The entry is stale if
// its gen differs from the gen of the request.
type entry struct {
	at  int64
	r   *request
	gen uint32
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

// The method `enter` starts an admitted request if a worker is idle. If no worker is idle, `enter`
// puts the request into the queue.
func (e *engine) enter(r *request) {
	if r.hasWorker() {
		e.start(r)
		return
	}
	r.waited++
	r.queued++
	r.queue = append(r.queue, entry{e.now, r, r.gen})
}

// The method `start` gives a worker to a request.
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

// The method `proceed` starts the next call of a request. If the request has no further call,
// `proceed` answers the request.
func (e *engine) proceed(r *request) {
	if int(r.step) == len(r.edges) {
		e.answer(r, nil)
		return
	}
	r.calls++
	r.attempt, r.called, r.seed, r.before, r.call = 1, e.now, 0, 0, r.calls
	e.startAttempt(r)
}

// The method `answer` ends the request r. If another request waits for r, the method also ends the
// attempt of the waiting request.
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

// The method `release` ends a request that has a worker, and gives the worker to the next request.
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

// The method `feed` starts requests from the queue while a worker is idle. If a request ends as
// soon as it starts, the method `release` calls `feed` again, although the first call of `feed` has
// not returned. The second call does nothing, because the loop of the first call goes on.
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

// The method `finish` makes the events and queue entries of a request stale, and keeps the request
// for reuse.
func (e *engine) finish(r *request) {
	r.gen++
	e.live--
	e.free = append(e.free, r)
}

// The method `abandon` handles a request whose caller has given up. The Cancel of the service
// decides whether the request ends or goes on.
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
