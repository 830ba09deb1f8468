package retrysim

import (
	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/bucket"
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
	full, share  int64
	refill, fade int64            // nanoseconds; 0: never
	of           map[uint32]*held // by the client, where it is not full
}

type held struct {
	spent        int64 // in billionths of a retry; below 0: beyond Size
	first        int64 // the first use, and 1
	ticks, fades int64 // how often refill and fade have been
}

func newBudget(b *retry.Budget) *budget {
	return &budget{
		full: bucket.Full(b.Size), share: bucket.Share(b.Ratio),
		refill: int64(b.RefillEvery), fade: int64(b.Remember / bucket.Fades), of: map[uint32]*held{},
	}
}

// held returns what a client holds now.
func (b *budget) held(client uint32, now int64) *held {
	h := b.of[client]
	if h == nil {
		h = &held{first: now}
		b.of[client] = h
	}
	if passed := now - h.first; b.refill > 0 && passed/b.refill > h.ticks {
		h.spent -= min(max(0, h.spent), min(passed/b.refill-h.ticks, bucket.Most)*bucket.Token)
		h.ticks = passed / b.refill
	}
	if passed := now - h.first; b.fade > 0 && passed/b.fade > h.fades {
		h.spent = max(0, h.spent) - bucket.Faded(max(0, -h.spent), passed/b.fade-h.fades)
		h.fades = passed / b.fade
	}
	return h
}

func (b *budget) take(client uint32, now int64) bool {
	h := b.held(client, now)
	if b.full-h.spent < bucket.Token {
		return false
	}
	h.spent += bucket.Token
	return true
}

func (b *budget) success(client uint32, now int64) {
	if b.fade > 0 {
		h := b.held(client, now)
		h.spent = max(h.spent-b.share, b.full-bucket.Most*bucket.Token)
	} else if h := b.of[client]; h != nil {
		h.spent -= min(h.spent, b.share)
	}
}
