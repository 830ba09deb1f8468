package retrysim

import (
	"math"
	"time"

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
	full, share         int64
	refill, fade, grace int64            // nanoseconds; 0: never
	of                  map[uint32]*held // by the client; a client without an entry has a full budget
}

type held struct {
	spent        int64 // in billionths of a retry; below 0: beyond Size
	first        int64 // the first use
	ticks, fades int64 // how often refill and fade have been
	mark         int64 // the most that was held beyond Size, in billionths; it fades too
	high, empty  int64 // when a retry last found nine tenths, and when nothing, plus one; 0: never
}

// As in retry.Budget.
const (
	graceRetry = 4                  // the last retry of a call that has a Grace
	graceRest  = int64(time.Minute) // without an empty budget before the next Grace
)

func newBudget(b *retry.Budget) *budget {
	return &budget{
		full: fullOf(b.Size), share: shareOf(b.Ratio),
		refill: int64(b.RefillEvery), fade: int64(b.Remember / fadesEach), grace: int64(b.Grace),
		of: map[uint32]*held{},
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
		h.spent -= min(max(0, h.spent), min(passed/b.refill-h.ticks, mostTokens)*token)
		h.ticks = passed / b.refill
	}
	if passed := now - h.first; b.fade > 0 && passed/b.fade > h.fades {
		times := passed/b.fade - h.fades
		h.spent = max(0, h.spent) - faded(max(0, -h.spent), times)
		h.mark = max(-h.spent, faded(h.mark, times))
		h.fades = passed / b.fade
	}
	return h
}

// take takes a retry for the retry of a call with this number. paid is false if the
// retry is allowed because of Grace, and takes nothing.
func (b *budget) take(client uint32, now int64, number int) (allowed, paid bool) {
	h := b.held(client, now)
	holds, most := b.full-h.spent, b.full+h.mark
	if holds >= most-most/10 && since(h.empty, now) >= graceRest {
		h.high = now + 1
	}
	if holds >= token {
		h.spent += token
		return true, true
	}
	h.empty = now + 1
	return number <= graceRetry && since(h.high, now) < b.grace, false
}

// since returns how long ago a time of held was.
func since(at, now int64) int64 {
	if at > 0 {
		return now - at + 1
	}
	return math.MaxInt64
}

// success puts the share of a success back. As in retry.Budget, only a success that
// completes a whole retry lets time pass.
func (b *budget) success(client uint32, now int64) {
	if b.fade > 0 && b.of[client] == nil {
		b.held(client, now)
	}
	if b.putBack(client, b.share) && b.fade > 0 {
		b.held(client, now)
	}
}

// putBack puts n billionths of a retry back, and reports whether they complete a whole one.
func (b *budget) putBack(client uint32, n int64) (whole bool) {
	h := b.of[client]
	if h == nil {
		return false
	}
	least := int64(0)
	if b.fade > 0 {
		least = b.full - mostTokens*token
	}
	before := b.full - h.spent
	h.spent = max(h.spent-n, least)
	return before/token != (b.full-h.spent)/token
}
