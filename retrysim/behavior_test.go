package retrysim

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// testdata/behavior.json has systems, and what a service of theirs does on average in
// some seconds.
func TestBehavior(t *testing.T) {
	var rows []struct {
		Name, Service string
		System        json.RawMessage
		From, To      int
		Want, Near    map[string]float64
	}
	readRows(t, "testdata/behavior.json", &rows)
	for _, tc := range rows {
		t.Run(tc.Name, func(t *testing.T) {
			r, err := Run(system(t, string(tc.System)), 1)
			require.NoError(t, err)
			n, calls := float64(tc.To-tc.From), 0.0
			got := map[string]float64{}
			for i, row := range r.Services[tc.Service].Seconds[tc.From:tc.To] {
				got["requests"] += float64(row.Requests) / n
				got["refused"] += float64(row.Rejected) / float64(max(1, row.Requests)) / n
				got["busy"] += row.Busy / n
				got["wasted"] += row.Wasted / n
				calls += float64(r.Seconds[tc.From+i].Calls) / n
			}
			got["per_call"] = got["requests"] / calls
			for key, want := range tc.Want {
				assert.InDelta(t, want, got[key], tc.Near[key], key)
			}
		})
	}
}

// Each client has a budget of its own, and Policies that share one here share it
// there.
func TestBudgetsOfClients(t *testing.T) {
	for _, tc := range []struct {
		clients int
		shared  bool
		want    int
	}{{1, false, 20}, {1, true, 10}, {7, false, 140}, {7, true, 70}} {
		retries := 0
		s := system(t, `{"services": {"db": {}, "web": {"rate": "100/s", "calls": [
				{"to": "db", "retry": {"max_attempts": 2}, "budget": {"size": 10}}]}},
			"events": [{"at": "0s", "for": "30s", "service": "db", "fail": 0.5}], "duration": "40s"}`)
		s.edit("web", func(v *Service) {
			v.Clients = tc.clients
			v.Calls[0].Policy.OnEvent = func(_ context.Context, ev retry.Event) {
				if ev.Kind == retry.RetryScheduled {
					retries++
				}
			}
			again := v.Calls[0]
			if !tc.shared {
				again.Policy.Budget = &retry.Budget{Size: 10}
			}
			v.Calls = append(v.Calls, again)
		})
		require.NoError(t, second(s.simulate(1)))
		assert.Equal(t, tc.want, retries, tc)
	}
}

// What the limits on the input cannot see ends with an error, not without memory.
func TestTooMuchInFlight(t *testing.T) {
	s := system(t, `{"services": {"web": {"rate": "1000000/s", "workers": 1, "work": "1h"}}, "duration": "20s"}`)
	e := newEngine(s, 1)
	e.live = MaxInFlight - 5
	assert.ErrorContains(t, second(s.goOn(e)), "more than 1000000 requests are in flight after ")
	e = newEngine(s, 1)
	e.popped = MaxEvents - 1000
	assert.ErrorContains(t, second(s.goOn(e)), "more than 1000000000 events after ")
}

// However small its text is, what a run holds is bounded in bytes: requests and queues, entries
// that are stale, timers of requests that have ended, the budgets of clients, and results.
func TestBoundedInBytes(t *testing.T) {
	defer func(before int) { mostBytes = before }(mostBytes)
	mostBytes = 32 << 20
	const web = `{"services": {"web": {"rate": "10000/s", "calls": [{"to": "db", "timeout": "1ms", "retry": {"max_attempts": -1}}]}, "db": `
	for _, row := range []struct{ name, json, says string }{
		{"requests", web + `{"workers": 1, "work": "1h"}}}`, "a run takes more than 32 MB of memory"},
		{"work that has stopped", web + `{"work": "900h", "cancel": "work"}}}`, "a run takes more than 32 MB of memory"},
		{"a queue that is left", web + `{"workers": 1, "work": "900h", "cancel": "queue"}}}`, "a run takes more than 32 MB of memory"},
		{"timeouts of what is answered", `{"services": {"web": {"rate": "1000000/s", "calls": [{"to": "db", "timeout": "900h"}]}, "db": {"work": "1ms"}}}`,
			"a run takes more than 32 MB of memory"},
		{"clients", `{"services": {"web": {"rate": "1000000/s", "clients": 100000000, "calls": [` +
			`{"to": "db", "retry": {"max_attempts": 2}, "budget": {"size": 3, "ratio": 0.1}}]}, "db": {"workers": 1, "work": "900h", "queue": 1}}}`,
			"a run takes more than 32 MB of memory"},
		{"patience", `{"services": {"web": {"rate": "1/s", "patience": "100000h"}}}`, "its results are 3.6e+08 rows"},
		{"duration", `{"services": {"web": {"rate": "1/s"}}, "duration": "900h"}`, "its results are 3.2e+06 rows"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s System
			require.NoError(t, json.Unmarshal([]byte(row.json), &s))
			err := s.Validate()
			if err == nil {
				e := newEngine(s, 1)
				err = second(s.goOn(e))
				assert.Less(t, e.bytes(), mostBytes+mostBytes/4)
			}
			assert.ErrorContains(t, err, row.says)
		})
	}
}
