package retrysim

import (
	"cmp"
	"time"
)

// The method `seconds` returns the length of the simulation of s in whole seconds.
func (s System) seconds() int { return wholeSeconds(cmp.Or(s.Duration, s.lastEnd()+defaultTail)) }

func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// lastEnd returns when the last event ends, or 0 if there is no event.
func (s System) lastEnd() (end time.Duration) {
	for _, t := range s.Events {
		end = max(end, t.At+t.For)
	}
	return end
}

// firstAt returns when the first event begins. Without an event it returns the end of the
// simulation.
func (s System) firstAt() time.Duration {
	at := time.Duration(s.seconds()) * time.Second
	for _, t := range s.Events {
		at = min(at, t.At)
	}
	return at
}

// patience returns the longest Patience of the services of s, in seconds. After the Duration of
// s, a run goes on for this time to see whether the last calls succeed.
func (s System) patience() (seconds int) {
	for _, v := range s.Services {
		if v.Rate > 0 {
			seconds = max(seconds, wholeSeconds(cmp.Or(v.Patience, defaultPatience)))
		}
	}
	return seconds
}
