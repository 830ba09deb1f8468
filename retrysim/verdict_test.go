package retrysim

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A script is the calls and the queue of each second of a run.
type script struct {
	seconds, worked int
	queue           func(second int) int
}

// Each row is a run of 100 calls a second with an event from 20s to 30s.
func TestVerdict(t *testing.T) {
	flat := func(n int) func(int) int { return func(int) int { return n } }
	ramp := func(from, step int) func(int) int { return func(i int) int { return max(0, from+step*i) } }
	noisy := func(step int) func(int) int { return func(i int) int { return 5000 + step*i + i*7919%97 - 48 } }
	works, fails := script{1000, 100, nil}, script{1000, 0, nil}
	for _, tc := range []struct {
		name    string
		seconds int
		after   []script // from 30s on
		want    Verdict
		in      time.Duration // Recovery or EmptyIn
		relapse int
	}{
		{"nothing was lost", 90, []script{works}, Recovers, 0, 0},
		{"back at once, with dips later", 90, []script{{20, 100, nil}, {2, 10, nil}, {10, 99, nil}, {1, 0, nil}, works}, Recovers, 0, 0},
		{"back after 7s", 90, []script{{7, 20, nil}, works}, Recovers, 7 * time.Second, 0},
		{"a good moment is not recovery", 90, []script{{5, 0, nil}, {9, 100, nil}, {5, 0, nil}, works}, Recovers, 19 * time.Second, 0},
		{"90 % is enough", 90, []script{{1000, 90, nil}}, Recovers, 0, 0},
		{"89 % is not", 90, []script{{1000, 89, flat(50)}}, StaysDown, 0, 0},
		{"a relapse, and back", 120, []script{{15, 100, nil}, {20, 0, nil}, works}, Recovers, 35 * time.Second, 1},
		{"a relapse at the end", 90, []script{{15, 100, nil}, {45, 0, flat(500)}}, StaysDown, 0, 1},
		{"10s are not over yet", 90, []script{{51, 0, ramp(1000, -9)}, works}, Draining, 0, 0},
		{"down, with queues that get longer", 90, []script{{1000, 0, ramp(1000, 40)}}, StaysDown, 0, 0},
		{"down, with a full queue", 90, []script{{1000, 0, flat(600)}}, StaysDown, 0, 0},
		{"down, without a queue", 90, []script{fails}, StaysDown, 0, 0},
		{"down, with queues that get shorter", 90, []script{{1000, 0, ramp(10_000, -50)}}, Draining, 111 * time.Second, 0},
		{"so slowly that it is chance", 90, []script{{1000, 0, noisy(-2)}}, StaysDown, 0, 0},
		{"slowly", 330, []script{{1000, 0, noisy(-12)}}, Draining, 100 * time.Second, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := System{
				Services: map[string]Service{"web": {Rate: 100}}, Duration: time.Duration(tc.seconds) * time.Second,
				Events: []Trigger{{At: 20 * time.Second, For: 10 * time.Second, Service: "web", Change: Fail, Value: 1}},
			}
			rows := make([]LoadSecond, 0, tc.seconds)
			for _, part := range append([]script{{20, 100, nil}, {10, 0, nil}}, tc.after...) {
				for range min(part.seconds, tc.seconds-len(rows)) {
					row := LoadSecond{Calls: 100, Worked: part.worked}
					if part.queue != nil {
						row.Queue = part.queue(len(rows))
					}
					rows = append(rows, row)
				}
			}
			r := Result{Seconds: make([]Second, tc.seconds), Services: map[string]Load{"web": {Seconds: rows}}}
			s.judge(&r)
			assert.Equal(t, tc.want, r.Verdict)
			assert.Equal(t, tc.relapse, r.Relapses)
			switch tc.want {
			case Recovers:
				assert.Equal(t, tc.in, r.Recovery)
			case Draining:
				if tc.in > 0 {
					assert.InEpsilon(t, tc.in, r.EmptyIn, 0.3)
				}
			}
		})
	}
}

// What did not work before the event either has not recovered, but is overloaded.
func TestOverloadedBeforeTheEvent(t *testing.T) {
	s := system(t, hotos(100, 1)+"}")
	s.Services["web"].Calls[0].Policy.AttemptTimeout = 50 * time.Millisecond
	r, err := Run(s, 1)
	require.NoError(t, err)
	assert.Equal(t, Overloaded, r.Verdict)
}

// An entry that stays down is not outvoted by one with more calls.
func TestEveryEntryMustRecover(t *testing.T) {
	s := system(t, `{"services": {
		"big": {"rate": "500/s"},
		"small": {"rate": "21/s", "calls": [{"to": "db", "timeout": "1s", "retry": {"max_attempts": 2}}]},
		"db": {"workers": 3, "work": "100ms"}},
		"events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}]}`)
	r, err := Run(s, 1)
	require.NoError(t, err)
	assert.Equal(t, StaysDown, r.Verdict)
}

// Calls that were answered after 11s have not worked, whatever their timeout.
func TestPatience(t *testing.T) {
	s := system(t, hotos(240, 1)+"}")
	web := s.Services["web"]
	web.Calls[0].Policy.AttemptTimeout = 20 * time.Second
	r, err := Run(s, 1)
	require.NoError(t, err)
	assert.Equal(t, Recovers, r.Verdict)
	assert.Greater(t, r.Recovery, 10*time.Second)
	assert.Greater(t, r.Seconds[30].Late, 100)
	assert.Less(t, r.Seconds[30].Worked, 20)

	web.Patience = 20 * time.Second
	s.Services["web"] = web
	r, err = Run(s, 1)
	require.NoError(t, err)
	assert.Equal(t, Recovers, r.Verdict)
	assert.Zero(t, r.Recovery)
}

// The example of HotOS 2021 with a tenth of the workers, explained: the margin first.
func TestExplain(t *testing.T) {
	s := system(t, `{"services": {
		"web": {"rate": "21/s", "calls": [{"to": "db", "timeout": "1s", "retry": {"max_attempts": 2}}]},
		"db": {"workers": 3, "work": "100ms"}},
		"events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}]}`)
	a, err := Explain(s, 3)
	require.NoError(t, err)
	assert.Equal(t, "web", a.Entry)
	assert.InDelta(t, 14, a.Margin, 1.5)
	assert.Equal(t, StaysDown, a.Verdict)
	assert.Equal(t, 3, a.Agree)
	assert.Equal(t, a.Verdict, a.Run.Verdict)
	assert.Greater(t, a.Wasted, 0.95)
	assert.Equal(t, Recovers, a.WithoutRetries.Verdict)
	assert.NotEmpty(t, a.Limits)
	assert.Regexp(t, `^web comes back up to 1\d\.?\d*/s; you run at 21/s
stays down \(3 of 3 runs\)
without retries: recovers \d+m?\d*s after the end of the last event
`, a.String())

	// What is written has durations as text, and all of the parts.
	written, err := json.Marshal(a)
	require.NoError(t, err)
	var read map[string]any
	require.NoError(t, json.Unmarshal(written, &read))
	assert.Equal(t, "stays down", read["verdict"])
	assert.Equal(t, "0s", read["recovery"])
	run := read["run"].(map[string]any)
	assert.Len(t, run["seconds"], 90)
	assert.IsType(t, "", run["services"].(map[string]any)["db"].(map[string]any)["mean_wait"])

	_, err = Explain(s, 0)
	assert.EqualError(t, err, "retrysim: runs is 0: write how many, such as 10")
}

func TestMargin(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want, by   float64
	}{
		{"no pool, no limit", `{"services": {"web": {"rate": "1/s"}}}`, 100, 0},
		{"capacity, without an event", `{"services": {"web": {"rate": "5/s", "workers": 1, "work": "100ms"}}}`, 10, 0.3},
		{"a rate in proportion", `{"services": {"web": {"rate": "5/s", "workers": 1, "work": "100ms", "queue": 5}},
			"events": [{"at": "10s", "for": "5s", "service": "web", "rate": "50/s"}]}`, 10, 0.8},
		{"none", `{"services": {"web": {"rate": "5/s", "workers": 1, "work": "100000s"}}}`, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Margin(system(t, tc.text))
			require.NoError(t, err)
			assert.InDelta(t, tc.want, got, tc.by)
		})
	}
}
