package retrysim

// An event happens at a point in time. Events at the same time happen in the order of their
// kinds. Events of the same kind at the same time happen in the order in which they were pushed.
type event struct {
	at    int64    // nanoseconds since the start
	key   uint64   // the kind in the high byte, and the number of the push in the other bytes
	r     *request // the request that the event is about; nil if the event is about a service
	index int32    // the index of the service; used only if r is nil

	// gen shows whether the event is stale when its turn comes. A stale event is skipped:
	//
	//   - If r is not nil, gen is the generation that r had (r.gen) when the event was pushed. The
	//     event is stale if r has a newer generation.
	//   - In an event of the kind evArrive, gen is the value that the field `arrival` of the service
	//     had when the event was pushed. The event is stale if `arrival` has changed, because the rate
	//     of calls has changed.
	//   - In an event of the kind evTimeout, gen is not a generation. It is the index of the edge (a
	//     call from one service to another) in the field `edges` of the service.
	gen uint32
}

const kindShift = 56

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && a.key < b.key }

// A heap returns the earliest event first. Each node has four children, so the heap is half as
// deep as a binary heap.
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
	events[n] = event{} // so that the array does not keep the request in memory
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
