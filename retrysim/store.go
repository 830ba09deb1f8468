package retrysim

import (
	"math"

	"github.com/goretry/retry"
)

// An event is something that happens at a time. Events of the same time happen in
// the order of their kinds, and of one kind in the order in which they were pushed.
type event struct {
	at    int64
	key   uint64   // the kind in the high byte, and the order below it
	r     *request // that it is about; nil: it is about
	index int32    // this service
	gen   uint32
}

const kindShift = 56

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && a.key < b.key }

// A heap has the earliest event first. Four children a node make it half as deep as
// two do.
type heap struct {
	events []event
	pushed uint64
}

func (h *heap) push(ev event, kind uint64) {
	h.pushed++
	ev.key = kind<<kindShift | h.pushed
	h.events = append(h.events, ev)
	i := len(h.events) - 1
	for up := (i - 1) / 4; i > 0 && ev.before(&h.events[up]); up = (i - 1) / 4 {
		h.events[i] = h.events[up]
		i = up
	}
	h.events[i] = ev
}

func (h *heap) pop() event {
	events := h.events
	top, n := events[0], len(events)-1
	ev := events[n]
	events[n] = event{} // does not hold its request
	h.events = events[:n]
	i := 0
	for first := 1; first < n; first = 4*i + 1 {
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

// A budget is a retry.Budget in simulated time, one for each client.
type budget struct {
	full, share, refill int64
	spent               map[uint32]*bucket // of clients that have spent from it
}

type bucket struct {
	spent int64 // in billionths of a retry
	first int64 // when the first retry was taken; 0: none was
	ticks int64 // how many retries refill has put back
}

const token = 1_000_000_000

func newBudget(of *retry.Budget) *budget {
	b := &budget{full: min(int64(of.Size), math.MaxInt64/token) * token, spent: map[uint32]*bucket{}}
	b.share, b.refill = int64(math.Round(float64(of.Ratio*token))), int64(of.RefillEvery)
	return b
}

// take takes one retry.
func (b *budget) take(client uint32, now int64) bool {
	c := b.spent[client]
	if c == nil {
		c = new(bucket)
		b.spent[client] = c
	}
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
	if c := b.spent[client]; c != nil {
		c.spent -= min(c.spent, b.share)
	}
}
