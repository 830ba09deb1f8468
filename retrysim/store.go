package retrysim

import (
	"math"
	"math/bits"
	"time"

	"github.com/goretry/retry"
)

// An event is something that happens at a time. Events of the same time happen in
// the order of their kinds, and of one kind in the order in which they were pushed.
type event struct {
	at  int64
	key uint64 // the kind in the high byte, and the order below it
	idx int32  // of what it is about
	gen uint32
}

const kindShift = 56

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && a.key < b.key }

// A heap has the earliest event first. Four children a node make it half as deep as
// two do.
type heap struct {
	events []event
	pushed uint64
}

func (h *heap) push(at int64, kind uint64, idx int32, gen uint32) {
	h.pushed++
	ev := event{at, kind<<kindShift | h.pushed, idx, gen}
	h.events = append(h.events, ev)
	i := len(h.events) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !ev.before(&h.events[up]) {
			break
		}
		h.events[i] = h.events[up]
		i = up
	}
	h.events[i] = ev
}

func (h *heap) pop() event {
	top := h.events[0]
	n := len(h.events) - 1
	ev := h.events[n]
	h.events = h.events[:n]
	events := h.events
	i := 0
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, n); c++ {
			if events[c].before(&events[least]) {
				least = c
			}
		}
		if !events[least].before(&ev) {
			break
		}
		events[i] = events[least]
		i = least
	}
	if n > 0 {
		events[i] = ev
	}
	return top
}

// A slab holds requests in chunks that never move, so that a pointer to one stays
// good while others come and go.
type slab struct {
	chunks []*[chunk]request
	unused []int32
	live   int
}

const chunk = 1 << 12

func (s *slab) at(id int32) *request { return &s.chunks[uint32(id)/chunk][uint32(id)%chunk] }

// take returns an unused request. Its gen goes on from what it was used for before.
func (s *slab) take() (int32, *request) {
	if len(s.unused) == 0 {
		first := int32(len(s.chunks) * chunk)
		s.chunks = append(s.chunks, new([chunk]request))
		for id := first + chunk - 1; id >= first; id-- {
			s.unused = append(s.unused, id)
		}
	}
	last := len(s.unused) - 1
	id := s.unused[last]
	s.unused = s.unused[:last]
	s.live++
	return id, s.at(id)
}

func (s *slab) put(id int32) {
	r := s.at(id)
	r.gen++
	r.state = free
	s.unused = append(s.unused, id)
	s.live--
}

// An entry is a request in a ring, which is stale if the gen of the request is
// another one.
type entry struct {
	at  int64
	id  int32
	gen uint32
}

// A ring is a queue.
type ring struct {
	entries []entry // their number is a power of two
	head, n int
}

func (r *ring) push(e entry) {
	if r.n == len(r.entries) {
		grown := make([]entry, max(16, 2*r.n))
		for i := range r.n {
			grown[i] = r.entries[(r.head+i)&(r.n-1)]
		}
		r.entries, r.head = grown, 0
	}
	r.entries[(r.head+r.n)&(len(r.entries)-1)] = e
	r.n++
}

func (r *ring) first() entry { return r.entries[r.head] }

func (r *ring) pop() entry {
	e := r.first()
	r.head = (r.head + 1) & (len(r.entries) - 1)
	r.n--
	return e
}

// A budget is a retry.Budget in simulated time, one for each client.
type budget struct {
	of                  *retry.Budget
	full, share, refill int64
	clients             []bucket
}

type bucket struct {
	spent int64 // in billionths of a retry
	first int64 // when the first retry was taken; 0: none was
	ticks int64 // how many retries refill has put back
}

const token = 1_000_000_000

func newBudget(of *retry.Budget, clients uint32) budget {
	b := budget{of: of, full: min(int64(of.Size), math.MaxInt64/token) * token, clients: make([]bucket, clients)}
	b.share, b.refill = int64(math.Round(float64(of.Ratio*token))), int64(of.RefillEvery)
	return b
}

// take takes one retry.
func (b *budget) take(client uint32, now int64) bool {
	c := &b.clients[client]
	if b.refill > 0 {
		if c.first == 0 {
			c.first = now + 1 // the start of the simulation is 0
		}
		if due := (now + 1 - c.first) / b.refill; due > c.ticks {
			c.spent -= min(c.spent, min(due-c.ticks, math.MaxInt64/token)*token)
			c.ticks = due
		}
	}
	if b.full-c.spent < token {
		return false
	}
	c.spent += token
	return true
}

func (b *budget) success(client uint32) {
	c := &b.clients[client]
	c.spent -= min(c.spent, b.share)
}

// A histogram counts times, to 3 %.
type histogram struct {
	counts [64 * 32]int32
	n      int
}

// cell returns where a time is counted: by its highest bit and the five below.
func cell(d int64) int {
	if d < 32 {
		return int(d)
	}
	e := bits.Len64(uint64(d)) - 6
	return e*32 + int(d>>e)
}

// middle returns the time in the middle of a cell.
func middle(cell int) time.Duration {
	if cell < 64 {
		return time.Duration(cell)
	}
	e := cell/32 - 1
	return time.Duration(cell%32+32)<<e + 1<<e/2
}

func (h *histogram) add(d int64) {
	h.counts[cell(d)]++
	h.n++
}

// at returns the time that a share of the times does not exceed, 0 if there is none.
func (h *histogram) at(share float64) time.Duration {
	seen, want := 0, int(math.Ceil(share*float64(h.n)))
	for i, n := range h.counts {
		if seen += int(n); n > 0 && seen >= want {
			return middle(i)
		}
	}
	return 0
}

func (h *histogram) reset() { *h = histogram{} }
