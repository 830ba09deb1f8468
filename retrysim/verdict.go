package retrysim

import (
	"cmp"
	"math"
	"time"
)

const (
	window    = 3   // calls are counted over this many seconds
	hold      = 10  // a recovery or a relapse counts after it has lasted this many seconds
	goodShare = 0.9 // the share of calls that must succeed, as a part of the usual share
)

// A Verdict says whether a system recovers after its events, such as an outage.
type Verdict string

const (
	// Recovers means that, after the last event, enough calls succeed for 10 consecutive seconds at
	// each service that is called from outside. Enough calls succeed if, in every 3 consecutive
	// seconds of these 10, the share of calls that succeed is at least 90 % of the share before the
	// first event. A system without events recovers if its calls succeed from the start.
	Recovers Verdict = "recovers"

	// Draining means that the system has not recovered when the run ends. But its queues are getting
	// shorter, or its calls have succeeded again for less than 10 seconds.
	Draining Verdict = "not back yet"

	// StaysDown means that the system has not recovered and that its queues do not get shorter. If its
	// events had not happened, the system would work. So its own retries and queues keep it down.
	StaysDown Verdict = "stays down"

	// Overloaded means that the system would not work even if its events did not happen.
	Overloaded Verdict = "overloaded"
)

// judge sets the Outcome of a run from the calls that succeeded. A call counts in the second in
// which it began, so that a burst of late answers does not hide new failures.
func (s System) judge(r *Result) {
	up, overloaded := s.judgeCalls(r)
	end := wholeSeconds(s.lastEnd())
	back, relapses := recovery(up, end)
	r.Outcome.Relapses = relapses
	switch {
	case overloaded || back < 0 && len(s.Events) == 0:
		r.Outcome.Verdict = Overloaded
	case back >= 0:
		r.Outcome.Verdict, r.Outcome.Recovery = Recovers, time.Duration(back-end)*time.Second
	default:
		r.Outcome.Verdict = StaysDown
		r.Outcome.EmptyIn, r.growing = emptyIn(r, end)
		if r.Outcome.EmptyIn > 0 || up[len(up)-1] {
			r.Outcome.Verdict = Draining
		}
	}
}

// judgeCalls counts the lost calls. up[i] reports whether enough calls succeed in the window of 3
// seconds that starts at second i. It is true only if enough calls succeed at every service that is
// called from outside. `overloaded` is true if too few calls succeeded before the first event.
func (s System) judgeCalls(r *Result) (up []bool, overloaded bool) {
	before, most := int(s.firstAt()/time.Second), -1.0
	up = make([]bool, len(r.Seconds)-window+1)
	for i := range up {
		up[i] = true
	}
	for _, name := range s.entries() {
		rows := r.Services[name].Seconds
		usual := 1.0
		// The first half of the time before the first event is skipped, because the queues are still
		// filling.
		if calls, worked := sum(rows[before/2 : before]); calls > 0 {
			usual = float64(worked) / float64(calls)
		}
		overloaded = overloaded || usual < goodShare
		for i := range up {
			calls, worked := sum(rows[i : i+window])
			up[i] = up[i] && enoughWorked(calls, worked, usual, max(1, s.part))
		}
		counted := min(len(rows), cmp.Or(int(s.Counted/time.Second), len(rows)))
		calls, worked := sum(rows[before:max(before, counted)])
		lost := max(0, int(math.Round(float64(usual*float64(calls))))-worked)
		r.Outcome.Lost += lost
		r.Outcome.since += calls
		if share := float64(lost) / float64(max(1, calls)); share > most {
			r.fails, most = name, share
		}
	}
	return up, overloaded
}

// recovery returns the second at which the last recovery begins. It ignores all seconds before
// `end`, so the result is at least `end`. It returns -1 if the system has not recovered, or has
// failed again after its last recovery. The result `relapses` is how often the system failed again.
// It has failed again if too few calls succeed for as many seconds as the constant `hold` says.
func recovery(up []bool, end int) (back, relapses int) {
	back = -1
	for i, run := end, 0; i < len(up); i++ {
		if run++; i > end && up[i] != up[i-1] {
			run = 1
		}
		if run != hold-window+1 {
			continue
		}
		switch {
		case up[i] && back < 0:
			back = i - run + 1
		case !up[i] && back >= 0:
			back = -1
			relapses++
		}
	}
	return back, relapses
}

func sum(rows []LoadSecond) (calls, worked int) {
	for _, row := range rows {
		calls += row.Calls
		worked += row.Worked
	}
	return calls, worked
}

// enoughWorked reports whether enough calls succeeded. Enough is at least 90 % of the calls that
// usually succeed, less a tolerance. The parameter `usual` is the share of calls that usually
// succeed. The tolerance is for random differences: it is two standard deviations of the number of
// calls that succeed. One simulated call may represent several calls of a larger system. The
// parameter `scale` is the number of these calls. The larger `scale` is, the larger is the
// tolerance. If all calls usually succeed, the tolerance is 0.
func enoughWorked(calls, worked int, usual float64, scale int) bool {
	n := float64(calls)
	chance := 2 * math.Sqrt(float64(n*usual)*(1-usual)*float64(scale))
	return float64(worked) >= float64(goodShare*usual*n)-chance
}

// emptyIn estimates the time until the queues are empty. The parameter `end` is the second at which
// the last event ends. emptyIn looks at the last third of the time between `end` and the end of the
// run, and assumes that the queues go on changing as in this third. It returns 0 unless the queues
// get shorter by more than chance explains. The result `growing` reports whether the queues get
// longer by more than chance explains.
func emptyIn(r *Result, end int) (left time.Duration, growing bool) {
	from := len(r.Seconds) - (len(r.Seconds)-end)/3
	n := len(r.Seconds) - from
	queue := make([]float64, n)
	for _, l := range r.Services {
		for i, row := range l.Seconds[from:] {
			queue[i] += float64(row.Queue)
		}
	}
	var steps, squares, slope, weights float64
	for i := range queue {
		x := float64(i) - float64(n-1)/2
		slope += float64(x * queue[i])
		weights += float64(x * x)
		if i > 0 {
			step := queue[i] - queue[i-1]
			steps += step
			squares += float64(step * step)
		}
	}
	slope /= weights
	// If a line is fitted to a queue that changes by n random steps, the slope of the line has a
	// variance of 1.2 v / n, where v is the variance of one step. Chance explains a slope of up to two
	// standard deviations.
	mean := steps / float64(n-1)
	variance := squares/float64(n-1) - float64(mean*mean)
	chance := 2 * math.Sqrt(max(0, 1.2*variance/float64(n)))
	last := queue[n-1]
	if slope >= -chance || last == 0 {
		return 0, slope > chance
	}
	return min(time.Duration(last/-slope)*time.Second, maxTime), false
}

// inDoubt reports whether a longer run may have another Verdict.
func (r *Result) inDoubt() bool {
	return !r.growing && (r.Outcome.Verdict == StaysDown || r.Outcome.Verdict == Draining)
}

// isOverloaded reports whether some service gets more work than its workers can do even if no
// attempt fails.
func (s System) isOverloaded() bool {
	normal := s.load()
	for name, v := range s.Services {
		if v.Workers > 0 && normal[name]*v.Work.Seconds() >= float64(v.Workers) {
			return true
		}
	}
	return false
}
