package retrysim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// testdata/verdicts.json lists runs of 100 calls a second with an event from 20s to 30s. The key
// "after" describes the time after the event. Each list under this key is about a number of
// seconds. The numbers in the list are: how many seconds there are, how many calls succeed in each
// of these seconds, the length that the queue would have had at the start of the run, the growth of
// the queue in a second, and the noise in its length.
func TestVerdict(t *testing.T) {
	var cases []struct {
		Name, Want                    string
		Seconds, Before, In, Relapses int // Before: how many calls succeed in each second before the event; In: seconds until the system recovers, or until its queues are empty
		After                         [][5]int
	}
	readRows(t, "testdata/verdicts.json", &cases)
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			s := System{
				Services: map[string]Service{"web": {Rate: 100}}, Duration: time.Duration(tc.Seconds) * time.Second,
				Events: []Trigger{{At: 20 * time.Second, For: 10 * time.Second, Service: "web", Change: Fail, Value: 1}},
			}
			var rows []LoadSecond
			for _, part := range append([][5]int{{20, tc.Before}, {10, 0}}, tc.After...) {
				for range min(part[0], tc.Seconds-len(rows)) {
					i := len(rows)
					rows = append(rows, LoadSecond{Calls: 100, Worked: part[1], Queue: max(0, part[2]+part[3]*i+i*7919%max(1, part[4]))})
				}
			}
			r := Result{Seconds: make([]Second, tc.Seconds), Services: map[string]Load{"web": {Seconds: rows}}}
			s.judge(&r)
			assert.EqualValues(t, tc.Want, r.Outcome.Verdict)
			assert.Equal(t, tc.Relapses, r.Outcome.Relapses)
			if tc.Want == string(Recovers) {
				assert.EqualValues(t, tc.In, r.Outcome.Recovery.Seconds())
			} else if tc.In > 0 {
				assert.InEpsilon(t, tc.In, r.Outcome.EmptyIn.Seconds(), 0.3)
			}
		})
	}
}
