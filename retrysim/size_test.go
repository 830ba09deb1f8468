package retrysim

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// large returns a system whose run takes 1.44 million events. Its db can handle 4,500
// requests a second.
func large() System {
	call := Edge{To: "db", Policy: retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}}
	return System{
		Services: map[string]Service{"web": {Rate: 4000, Calls: []Edge{call}}, "db": {Workers: 450, Work: 100 * time.Millisecond}},
		Events:   []Trigger{{20 * time.Second, 10 * time.Second, "db", Workers, 0}},
	}
}

// Each row changes a large system in a way that limits its Scale.
func TestScale(t *testing.T) {
	budget := func(size, clients int) func(*System) {
		return func(s *System) {
			s.Services["web"].Calls[0].Policy.Budget = &retry.Budget{Size: size, Ratio: 0.1, RefillEvery: time.Second, Remember: time.Minute, Grace: time.Second}
			s.edit("web", func(v *Service) { v.Clients = clients })
		}
	}
	for name, tc := range map[string]struct {
		edit func(*System)
		want int
	}{
		"unchanged":                   {func(*System) {}, 7},
		"not large":                   {func(s *System) { s.edit("web", func(v *Service) { v.Rate = 500 }) }, 1},
		"unlimited workers":           {func(s *System) { s.edit("db", func(v *Service) { v.Workers = 0 }) }, 7},
		"149 workers":                 {func(s *System) { s.edit("db", func(v *Service) { v.Workers = 149 }) }, 2},
		"49 workers":                  {func(s *System) { s.edit("db", func(v *Service) { v.Workers = 49 }) }, 1},
		"a queue of 150":              {func(s *System) { s.edit("db", func(v *Service) { v.Queue = 150 }) }, 3},
		"no queue":                    {func(s *System) { s.edit("db", func(v *Service) { v.Queue = NoQueue }) }, 7},
		"an event of 60 workers":      {func(s *System) { s.Events[0].Value = 60 }, 1},
		"a budget of 200":             {budget(200, 1), 4},
		"300 budgets of 10":           {budget(10, 300), 6},
		"an event of 40,000 a second": {func(s *System) { s.Events[0] = Trigger{0, 1, "web", Rate, 40_000} }, 9},
	} {
		s := large()
		tc.edit(&s)
		require.NoError(t, s.Validate(), name)
		assert.Equal(t, tc.want, s.scale(), name)
		capacity := func(s System) float64 { return float64(s.Services["db"].Workers) / s.Services["db"].Work.Seconds() }
		part := s.divided(tc.want)
		assert.InEpsilon(t, 1+capacity(s), 1+capacity(part)*float64(tc.want), 1e-6, name)
		if b := s.Services["web"].Calls[0].Policy.Budget; b != nil {
			now, clients := part.Services["web"].Calls[0].Policy.Budget, max(1, part.Services["web"].Clients)
			assert.Equal(t, max(1, s.Services["web"].Clients)*b.Size, clients*now.Size*tc.want, "the budgets hold as many retries in all")
			assert.Equal(t, []any{b.Ratio, b.Remember, b.Grace}, []any{now.Ratio, now.Remember, now.Grace}, "the other fields are unchanged")
			assert.InDelta(t, float64(max(1, s.Services["web"].Clients))/b.RefillEvery.Seconds(), float64(tc.want*clients)/now.RefillEvery.Seconds(), 1e-6, "the budgets refill as many retries a second in all")
		}
	}
}

// The simulation of a part of a large system gives the results of the whole system.
func TestLargeSystem(t *testing.T) {
	s := large()
	s.edit("web", func(v *Service) { v.Rate = 2400 })
	s.edit("db", func(v *Service) { v.Workers = 270 })
	a, err := Explain(s, 1)
	require.NoError(t, err)
	assert.Equal(t, 4, a.Scale)
	assert.Contains(t, a.String(), "simulated with 1/4 of the calls")
	assert.InEpsilon(t, 2700/2, a.Margin, 0.04)
	s.Duration = time.Duration(len(a.Run.Seconds)) * time.Second
	whole, err := Run(s, 1)
	require.NoError(t, err)
	assert.Equal(t, whole.Outcome.Verdict, a.Outcome.Verdict)
	for _, pair := range [][2]int{
		{whole.Outcome.Lost, a.Lost}, {whole.Outcome.Calls, a.Run.Outcome.Calls}, {whole.Outcome.since, a.Calls},
		{whole.Services["db"].Requests, a.Run.Services["db"].Requests}, {whole.Services["db"].Peak, a.Run.Services["db"].Peak},
		{whole.Seconds[60].Calls, a.Run.Seconds[60].Calls}, {whole.Services["db"].Seconds[60].Queue, a.Run.Services["db"].Seconds[60].Queue},
	} {
		assert.InEpsilon(t, pair[0], pair[1], 0.1)
	}

	// Explain refuses ten runs that would take hours.
	s.Services["db"], s.Duration = Service{Workers: 10}, 10*time.Hour
	assert.ErrorContains(t, second(Explain(s, 10)), "10 runs take about 3.5e+09 events without a single retry, more than 1000000000: write a shorter duration or a lower rate")

	// Clients that take nothing from their budget use no memory.
	few := system(t, small)
	few.Services["web"].Calls[0].Policy.Budget = &retry.Budget{Size: 1}
	few.edit("web", func(v *Service) { v.Clients = maxClients })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, second(Run(few, 1)))
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20))
}

// The memory of a run is bounded, however short the text of its system is. Each row fills
// the memory in another way.
func TestBoundedInBytes(t *testing.T) {
	defer func(before int) { mostBytes = before }(mostBytes)
	mostBytes = 32 << 20
	const web = `{"services": {"web": {"rate": "10000/s", "calls": [{"to": "db", "timeout": "1ms", "retry": {"max_attempts": -1}}]}, "db": `
	for _, row := range []struct{ name, json, says string }{
		{"requests", web + `{"workers": 1, "work": "1h"}}}`, "a run takes more than 32 MB of memory"},
		{"timers of work that was canceled", web + `{"work": "900h", "cancel": "work"}}}`, "a run takes more than 32 MB of memory"},
		{"stale entries of a queue", web + `{"workers": 1, "work": "900h", "cancel": "queue"}}}`, "a run takes more than 32 MB of memory"},
		{"timeouts of attempts that were answered", `{"services": {"web": {"rate": "1000000/s", "calls": [{"to": "db", "timeout": "900h"}]}, "db": {"work": "1ms"}}}`,
			"a run takes more than 32 MB of memory"},
		{"budgets of clients", `{"services": {"web": {"rate": "1000000/s", "clients": 100000000, "calls": [` +
			`{"to": "db", "retry": {"max_attempts": 2}, "budget": {"size": 3, "ratio": 0.1}}]}, "db": {"workers": 1, "work": "900h", "queue": 1}}}`,
			"a run takes more than 32 MB of memory"},
		{"rows of a result: patience", `{"services": {"web": {"rate": "1/s", "patience": "100000h"}}}`, "the result would have 3.6e+08 rows"},
		{"rows of a result: duration", `{"services": {"web": {"rate": "1/s"}}, "duration": "900h"}`, "the result would have 3.2e+06 rows"},
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
