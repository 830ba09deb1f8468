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

// small is the system that the function hotos returns, with a tenth of the workers.
const small = `{"services": {
	"web": {"rate": "21/s", "calls": [{"to": "db", "timeout": "1s", "retry": {"max_attempts": 2}}]},
	"db": {"workers": 3, "work": "100ms"}},
	"events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}]}`

// String begins with the margin. JSON contains all fields of an Answer.
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
	// Lost and LostWithoutRetries are counts of the same run.
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
	assert.EqualError(t, second(Explain(system(t, small), 0)), "retrysim: runs is 0: write how many runs to simulate, such as 10")
}

// testdata/margins.json lists systems, their margins to within 7 %, and the entry that fails first.
// An entry is a service that is called from outside. The loads of all entries grow together.
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

// Near the margin the runs disagree. The margin is below the load if, and only if, one of
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
			assert.NotEqual(t, Recovers, a.Outcome.Verdict, "the worst of all runs")
		}
	}
	assert.Positive(t, disagree)
}
