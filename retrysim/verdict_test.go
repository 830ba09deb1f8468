package retrysim

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testdata/verdicts.json has runs of 100 calls a second with an event from 20s to 30s,
// and what becomes of them after it: for how many seconds how many calls work, and the
// queue at the start of the run, its growth in a second, and its noise.
func TestVerdict(t *testing.T) {
	var cases []struct {
		Name, Want                    string
		Seconds, Before, In, Relapses int // Before: how many work before; In: until it recovers, or its queues are empty
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

// small is the example of HotOS 2021 with a tenth of the workers.
const small = `{"services": {
	"web": {"rate": "21/s", "calls": [{"to": "db", "timeout": "1s", "retry": {"max_attempts": 2}}]},
	"db": {"workers": 3, "work": "100ms"}},
	"events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}]}`

// An answer has the margin first, and in JSON all of its parts.
func TestExplain(t *testing.T) {
	a, err := Explain(system(t, small), 3)
	require.NoError(t, err)
	assert.Equal(t, StaysDown, a.Run.Outcome.Verdict)
	assert.Greater(t, a.Outcome.Wasted, 0.95)
	assert.Regexp(t, `^web comes back up to 14\.\d/s, (?:69|70|71)% of your load; you run at 21/s
stays down \(3 of 3 runs\)
without retries: recovers \d+m?\d*s after the end of the last event
\d+ of \d+ calls lost \(9[\d.]+%\), \d+ without retries \([1-8][\d.]+%\)
`, a.String())
	// What is lost is counted over the calls of one run, with and without retries.
	s := system(t, small)
	s.Duration = time.Duration(len(a.Run.Seconds)) * time.Second
	var lost [2][]int
	for seed := range uint64(3) {
		for i, s := range []System{s, s.withoutRetries()} {
			r, err := Run(s, seed+1)
			require.NoError(t, err)
			lost[i] = append(lost[i], r.Outcome.Lost)
		}
	}
	middle := slices.Index(lost[0], slices.Sorted(slices.Values(lost[0]))[1])
	assert.Equal(t, []int{lost[0][middle], lost[1][middle]}, []int{a.Lost, a.LostWithoutRetries})
	calls := 0
	for _, row := range a.Run.Seconds[20:] {
		calls += row.Calls
	}
	assert.Equal(t, calls, a.Calls)
	written, err := json.Marshal(a)
	require.NoError(t, err)
	for _, part := range []string{`"verdict":"stays down"`, `"recovery":"0s"`, `"mean_wait":"`, `"without_retries":{`, `"limits":["`} {
		assert.Contains(t, string(written), part)
	}
	assert.EqualError(t, second(Explain(system(t, small), 0)), "retrysim: runs is 0: write how many, such as 10")
}

// testdata/margins.json has systems, up to what they come back within 7 %, and with
// several entries the one that fails first: all are scaled together.
func TestMargin(t *testing.T) {
	var rows []struct {
		Name, Verdict, Entry string
		Margin               float64
		System               json.RawMessage
	}
	readRows(t, "testdata/margins.json", &rows)
	for _, tc := range rows {
		a, err := Explain(system(t, string(tc.System)), 3)
		require.NoError(t, err)
		assert.EqualValues(t, tc.Verdict, a.Outcome.Verdict, tc.Name)
		assert.Equal(t, tc.Entry, a.Entry, tc.Name)
		assert.InDelta(t, tc.Margin, a.Margin, 0.07*tc.Margin, tc.Name)
		assert.Equal(t, strings.Contains(tc.Name, "entries"), strings.Contains(a.String(), "fail above that"), tc.Name)
	}
}

// Near their margin, where the runs disagree, systems are below it exactly if one of
// the runs stays down.
func TestMarginAndVerdictAgree(t *testing.T) {
	disagree := 0
	for rate := 13.0; rate < 15.6; rate += 0.2 {
		s := system(t, small)
		s.edit("web", func(v *Service) { v.Rate = rate })
		a, err := Explain(s, 5)
		require.NoError(t, err)
		assert.Equal(t, a.Outcome.back(), a.MarginShare >= 1, a)
		if a.Outcome.Agree < 5 {
			disagree++
			assert.NotEqual(t, Recovers, a.Outcome.Verdict, "the worst of the runs")
		}
	}
	assert.Positive(t, disagree)
}
