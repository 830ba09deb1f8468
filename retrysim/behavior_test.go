package retrysim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// run runs a system in its text form.
func run(t *testing.T, text string) Result {
	t.Helper()
	r, err := Run(system(t, text), 1)
	require.NoError(t, err)
	return r
}

// Three layers of four attempts are 64 requests to the lowest for each call, and 4
// where the call lends 3 retries.
func TestLentBudgetBoundsAllLayers(t *testing.T) {
	for _, tc := range []struct {
		lend, timeout, dead string
		want                float64
	}{
		{``, ``, "d", 64},
		{`, "lend": 3`, ``, "d", 4},
		{`, "lend": 1`, ``, "d", 2},
		{`, "lend": 3`, ``, "b", 4},                    // refused, with all that was lent
		{`, "lend": 3`, `"timeout": "50ms", `, "d", 4}, // answers are lost, and with them what was lent
	} {
		call := func(to string) string {
			return fmt.Sprintf(`"calls": [{"to": %q, %s"retry": {"max_attempts": 4}}]`, to, tc.timeout)
		}
		fails := `"fail": 1`
		if tc.timeout != "" {
			fails = `"workers": 0`
		}
		r := run(t, `{"services": {"a": {"rate": "10/s"`+tc.lend+`, `+call("b")+`}, "b": {`+call("c")+`}, "c": {`+call("d")+`}, "d": {"work": "1ns", "cancel": "work"}},
			"events": [{"at": "0s", "for": "1m", "service": "`+tc.dead+`", "`+fails[1:]+`}], "duration": "70s"}`)
		calls, _ := sum(r.Services["a"].Seconds[:59])
		requests := 0
		for _, row := range r.Services[tc.dead].Seconds[:59] {
			requests += row.Requests
		}
		assert.InDelta(t, tc.want, float64(requests)/float64(calls), 0.05, tc)
	}
}

// A request that its caller has left: what stops, and how much of the work is for
// nobody. A chain of two, where the upper caller gives up after 50ms of 100ms.
func TestCancel(t *testing.T) {
	for _, tc := range []struct {
		cancel string
		wasted float64 // share of the work of db
		busy   float64 // workers of db
	}{
		{"none", 1, 1}, {"queue", 1, 1}, {"work", 1, 0.5},
	} {
		t.Run(tc.cancel, func(t *testing.T) {
			r := run(t, fmt.Sprintf(`{"services": {
				"web": {"rate": "10/s", "calls": [{"to": "mid", "timeout": "50ms"}]},
				"mid": {"cancel": %q, "calls": [{"to": "db"}]},
				"db": {"workers": 100, "work": "100ms", "distribution": "fixed", "cancel": %q}}}`, tc.cancel, tc.cancel))
			busy, wasted := 0.0, 0.0
			for _, row := range r.Services["db"].Seconds {
				busy += row.Busy / 60
				wasted += row.Wasted / 60
			}
			assert.InDelta(t, tc.busy, busy, 0.15)
			assert.InDelta(t, tc.wasted, wasted, 0.02)
			assert.Zero(t, r.Worked)
		})
	}
	// In a queue that nobody serves, canceled requests leave room for others.
	queue := func(cancel string) Load {
		return run(t, fmt.Sprintf(`{"services": {
			"web": {"rate": "10/s", "calls": [{"to": "db", "timeout": "1s"}]}, "db": {"workers": 1, "queue": 20, "cancel": %q}},
			"events": [{"at": "0s", "for": "20s", "service": "db", "workers": 0}], "duration": "30s"}`, cancel)).Services["db"]
	}
	assert.Greater(t, queue("none").Rejected, 150)
	assert.Less(t, queue("queue").Rejected, 10)
	assert.Less(t, queue("work").Rejected, 10)
}

// What each trigger does while it lasts, and no longer.
func TestTriggers(t *testing.T) {
	for _, tc := range []struct {
		event string
		check func(t *testing.T, during, after LoadSecond)
	}{
		{`"workers": 5`, func(t *testing.T, during, after LoadSecond) {
			assert.Equal(t, []int{5, 50}, []int{during.Workers, after.Workers})
			assert.InDelta(t, 5, during.Busy, 0.01)
		}},
		{`"slower": 3`, func(t *testing.T, during, after LoadSecond) {
			assert.InDelta(t, 30, during.Busy, 5)
			assert.InDelta(t, 10, after.Busy, 3)
		}},
		{`"fail": 0.5`, func(t *testing.T, during, after LoadSecond) {
			assert.InDelta(t, 0.5, float64(during.Rejected)/float64(during.Requests), 0.1)
			assert.Zero(t, after.Rejected)
			assert.InDelta(t, 5, during.Busy, 2)
		}},
		{`"rate": "300/s"`, func(t *testing.T, during, after LoadSecond) {
			assert.InDelta(t, 300, during.Calls, 60)
			assert.InDelta(t, 100, after.Calls, 40)
		}},
	} {
		t.Run(tc.event, func(t *testing.T) {
			r := run(t, `{"services": {"db": {"rate": "100/s", "workers": 50, "work": "100ms"}},
				"events": [{"at": "10s", "for": "5s", "service": "db", `+tc.event+`}], "duration": "40s"}`)
			rows := r.Services["db"].Seconds
			tc.check(t, rows[13], rows[38])
			assert.InDelta(t, 100, rows[9].Calls, 40)
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
		s := system(t, `{"services": {"web": {"rate": "100/s", "calls": [
				{"to": "db", "retry": {"max_attempts": 2}, "budget": {"size": 10}}]},
			"app": {"calls": [{"to": "db", "retry": {"max_attempts": 2}, "budget": {"size": 10}}]}, "db": {}},
			"events": [{"at": "0s", "for": "30s", "service": "db", "fail": 0.5}], "duration": "40s"}`)
		s.edit("web", func(v *Service) {
			v.Clients = tc.clients
			again := v.Calls[0]
			if !tc.shared {
				again.Policy.Budget = s.Services["app"].Calls[0].Policy.Budget
			}
			v.Calls = append(v.Calls, again)
		})
		spent := 0
		e := newEngine(s, 1)
		require.NoError(t, e.run())
		for _, b := range e.budgets {
			for _, c := range b.clients {
				spent += int(c.spent / token)
			}
		}
		assert.Equal(t, tc.want, spent, tc)
	}
}

// Two policies are compared under the same calls from outside.
func TestSameArrivalsUnderAnotherPolicy(t *testing.T) {
	one, two := run(t, hotos(100, 1)+"}"), run(t, hotos(100, 2)+"}")
	for i := range one.Seconds {
		require.Equal(t, one.Seconds[i].Calls, two.Seconds[i].Calls)
	}
	assert.NotEqual(t, one.Services["db"].Requests, two.Services["db"].Requests)
}

// What the limits on the input cannot see ends with an error, not without memory.
func TestTooMuchInFlight(t *testing.T) {
	s := system(t, `{"services": {"web": {"rate": "1000000/s", "workers": 1, "work": "1h"}}, "duration": "20s"}`)
	e := newEngine(s, 1)
	e.requests.live = MaxInFlight - 5
	assert.ErrorContains(t, e.run(), "more than 10000000 requests are in flight after ")
	e = newEngine(s, 1)
	e.popped = MaxEvents - 1000
	assert.ErrorContains(t, e.run(), "more than 1000000000 events after ")
}

// The numbers of the whole run are the sums of its seconds.
func TestSums(t *testing.T) {
	r := run(t, hotos(200, 2)+"}")
	calls, worked, requests, peak := 0, 0, 0, 0
	for i, sec := range r.Seconds {
		calls += sec.Calls
		worked += sec.Worked
		requests += r.Services["db"].Seconds[i].Requests
		peak = max(peak, r.Services["db"].Seconds[i].Queue)
	}
	assert.Equal(t, []int{calls, worked, requests, peak}, []int{r.Calls, r.Worked, r.Services["db"].Requests, r.Services["db"].Peak})
	assert.Equal(t, 200.0, r.Services["db"].Normal)
	assert.InDelta(t, 100*time.Millisecond, r.Seconds[10].P50, 4e7)
	assert.Greater(t, r.Seconds[10].P99, r.Seconds[10].P50)
	lost := 0
	for _, sec := range r.Seconds[20:] {
		lost += sec.Calls - sec.Worked
	}
	assert.Equal(t, lost, r.Lost)
}
