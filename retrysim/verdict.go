package retrysim

import (
	"cmp"
	"math"
	"time"
)

const (
	window    = 3   // seconds in which the calls that work are counted
	hold      = 10  // seconds for which they must work, to be believed
	goodShare = 0.9 // of those that worked before
)

// judge sets the Outcome of a run by what became of its calls. Calls are counted in
// the second in which they began, so that a burst of old answers does not hide new
// failures.
func (s System) judge(r *Result) {
	end, before := wholeSeconds(s.lastEnd()), int(s.firstAt()/time.Second)
	overloaded, most := false, -1.0
	up := make([]bool, len(r.Seconds)-window+1) // whether the window that begins then is good, at each entry
	for i := range up {
		up[i] = true
	}
	for _, name := range s.entries() {
		rows := r.Services[name].Seconds
		usual := 1.0
		if calls, worked := sum(rows[before/2 : before]); calls > 0 { // the first half is for the queues to fill
			usual = float64(worked) / float64(calls)
		}
		overloaded = overloaded || usual < goodShare
		for i := range up {
			calls, worked := sum(rows[i : i+window])
			up[i] = up[i] && good(calls, worked, usual, max(1, s.part))
		}
		calls, worked := sum(rows[before:max(before, min(len(rows), cmp.Or(int(s.Counted/time.Second), len(rows))))])
		lost := max(0, int(math.Round(float64(usual*float64(calls))))-worked)
		r.Outcome.Lost += lost
		r.Outcome.since += calls
		if share := float64(lost) / float64(max(1, calls)); share > most {
			r.fails, most = name, share
		}
	}

	back := -1 // since when
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
			r.Outcome.Relapses++
		}
	}
	switch {
	case overloaded || back < 0 && len(s.Events) == 0:
		r.Outcome.Verdict = Overloaded
	case back >= 0:
		r.Outcome.Verdict, r.Outcome.Recovery = Recovers, time.Duration(back-end)*time.Second
	default:
		r.Outcome.Verdict = StaysDown
		if r.Outcome.EmptyIn, r.growing = emptyIn(r, end); r.Outcome.EmptyIn > 0 || up[len(up)-1] {
			r.Outcome.Verdict = Draining
		}
	}
}

func sum(rows []LoadSecond) (calls, worked int) {
	for _, row := range rows {
		calls += row.Calls
		worked += row.Worked
	}
	return calls, worked
}

// good reports whether enough calls worked: 90 % of what is usual, less what chance
// explains, where only one of so many was simulated. Where usually all of them work,
// chance explains nothing.
func good(calls, worked int, usual float64, of int) bool {
	n := float64(calls)
	chance := 2 * math.Sqrt(float64(n*usual)*(1-usual)*float64(of))
	return float64(worked) >= float64(goodShare*usual*n)-chance
}

// emptyIn returns when the queues will be empty if they go on as in the last third
// of the time since the second end, 0 if they do not get shorter, and whether they
// get longer: by more than chance explains.
func emptyIn(r *Result, end int) (in time.Duration, growing bool) {
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
	// The sum of n random steps has this deviation, and the slope of a line through
	// them a fifth more of it for each step.
	mean := steps / float64(n-1)
	chance := 2 * math.Sqrt(max(0, 1.2*(squares/float64(n-1)-float64(mean*mean))/float64(n)))
	last := queue[n-1]
	if slope >= -chance || last == 0 {
		return 0, slope > chance
	}
	return min(time.Duration(last/-slope)*time.Second, maxTime), false
}
