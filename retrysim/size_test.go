package retrysim

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// large takes 1.44 million events, and the capacity of its db is 4,500 requests a second.
func large() System {
	call := Edge{To: "db", Policy: retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}}
	return System{
		Services: map[string]Service{"web": {Rate: 4000, Calls: []Edge{call}}, "db": {Workers: 450, Work: 100 * time.Millisecond}},
		Events:   []Trigger{{20 * time.Second, 10 * time.Second, "db", Workers, 0}},
	}
}

// Each row changes what a large system has, and it is divided by less.
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
		"as it is":                    {func(*System) {}, 7},
		"not large":                   {func(s *System) { s.edit("web", func(v *Service) { v.Rate = 500 }) }, 1},
		"no pool":                     {func(s *System) { s.edit("db", func(v *Service) { v.Workers = 0 }) }, 7},
		"a pool of 149":               {func(s *System) { s.edit("db", func(v *Service) { v.Workers = 149 }) }, 2},
		"a pool of 49":                {func(s *System) { s.edit("db", func(v *Service) { v.Workers = 49 }) }, 1},
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
			assert.Equal(t, max(1, s.Services["web"].Clients)*b.Size, clients*now.Size*tc.want, "as many retries at once")
			assert.Equal(t, []any{b.Ratio, b.Remember, b.Grace}, []any{now.Ratio, now.Remember, now.Grace}, "by the same rule")
			assert.InDelta(t, float64(max(1, s.Services["web"].Clients))/b.RefillEvery.Seconds(), float64(tc.want*clients)/now.RefillEvery.Seconds(), 1e-6, "and each second")
		}
	}
}

// What a part of a system says is true of the whole.
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

	// Ten runs that would take hours are refused, and clients that spend nothing take no memory.
	s.Services["db"], s.Duration = Service{Workers: 10}, 10*time.Hour
	assert.ErrorContains(t, second(Explain(s, 10)), "10 runs take about 3.5e+09 events without a single retry, more than 1000000000: write a shorter duration or a lower rate")
	few := system(t, small)
	few.Services["web"].Calls[0].Policy.Budget = &retry.Budget{Size: 1}
	few.edit("web", func(v *Service) { v.Clients = maxClients })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, second(Run(few, 1)))
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20))
}
