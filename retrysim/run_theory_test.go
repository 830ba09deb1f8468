package retrysim

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A single service is a queue of queueing theory: calls at random times, exponential work, c
// workers, and a limited or unlimited queue. The test compares the share of calls that wait, the
// share of calls that are refused, and the mean wait with the theory. The difference is at most
// four standard errors of 20 runs. In .ci/soak it is at most 2 % in 8 million calls. The share of
// refused calls is compared if the queue is limited. The share of calls that wait and the mean wait
// are compared if the queue is unlimited. If the work is not exponential, the mean wait is known
// only for one worker, by the formula of Pollaczek and Khinchine.
func TestQueueingTheory(t *testing.T) {
	for _, tc := range []struct {
		c, queue int
		load     float64 // the utilization of each worker
		work     Distribution
	}{
		{1, 0, 0.5, ""}, {1, 0, 0.8, ""}, {2, 0, 0.7, ""}, {10, 0, 0.7, ""}, {50, 0, 0.8, ""}, {1, 0, 0.8, Fixed}, {1, 0, 0.8, Normal},
		{1, 1, 0.5, ""}, {1, 4, 0.8, ""}, {1, 19, 1.2, ""}, {10, NoQueue, 0.8, ""}, {10, 10, 0.95, ""},
	} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			work := time.Duration(tc.c) * 10 * time.Millisecond
			v := Service{Workers: tc.c, Work: work, Rate: tc.load * 100, Queue: tc.queue, Distribution: tc.work}
			runs, calls := often(20, 1), float64(often(5000, 8e6))
			s := System{Services: map[string]Service{"db": v}, Duration: time.Duration(calls/v.Rate) * time.Second}
			var waited, wait, refused []float64
			for seed := range runs {
				r, err := Run(s, uint64(seed))
				require.NoError(t, err)
				db := r.Services["db"]
				waited = append(waited, db.Waited)
				wait = append(wait, db.MeanWait.Seconds())
				refused = append(refused, float64(db.Rejected)/float64(db.Requests))
			}
			if tc.queue != 0 {
				near(t, "refused", blocking(tc.c, tc.c+max(0, tc.queue), tc.load), refused)
				return
			}
			b := blocking(tc.c, tc.c, tc.load)
			erlangC := b / (1 - tc.load*(1-b))
			near(t, "wait", erlangC, waited)
			variance := map[Distribution]float64{"": 1, Normal: 1.0 / 16}[tc.work]
			near(t, "mean wait", (1+variance)/2*erlangC*work.Seconds()/(float64(tc.c)*(1-tc.load)), wait)
		})
	}
}

// The function `near` compares the mean of several runs with the theory. A single run may differ by
// 2 %.
func near(t *testing.T, name string, want float64, got []float64) {
	mean, deviation := moments(got)
	t.Logf("%s: theory %.6f, simulated %.6f (%+.2f %%)", name, want, mean, 100*(mean/want-1))
	limit := 0.02 * want
	if n := float64(len(got)); n > 1 {
		limit = 4 * deviation / math.Sqrt(n-1)
	}
	assert.InDelta(t, want, mean, limit, name)
}

// The function `moments` returns the mean and the standard deviation of xs.
func moments(xs []float64) (mean, deviation float64) {
	n, sum, squares := float64(max(1, len(xs))), 0.0, 0.0
	for _, x := range xs {
		sum += x
		squares += x * x
	}
	mean = sum / n
	return mean, math.Sqrt(max(0, squares/n-mean*mean))
}

// The function `blocking` returns the share of calls that the queue M/M/c/K of queueing theory
// refuses.
func blocking(c, k int, load float64) float64 {
	p, sum := 1.0, 1.0
	for n := 1; n <= k; n++ {
		p *= load * float64(c) / float64(min(n, c))
		sum += p
	}
	return p / sum
}

// hotos returns the example of Bronson et al., "Metastable Failures in Distributed Systems"
// (HotOS 2021), section 2.1: a database that can do 300 queries a second, an outage of 10 s,
// and clients that make n attempts with a timeout of a second.
func hotos(rate float64, n int) string {
	return fmt.Sprintf(`{"services": {
		"web": {"rate": "%v/s", "calls": [{"to": "db", "timeout": "1s", "retry": {"max_attempts": %d}}]},
		"db": {"workers": 30, "work": "100ms"}},
		"events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}]`, rate, n)
}

// HotOS 2021 says up to which rate the example recovers: up to its capacity of 300/s without
// retries, up to 150/s with one retry, and up to 100/s with two retries. Above that rate it
// stays down.
func TestMetastableFailure(t *testing.T) {
	for _, tc := range []struct {
		rate, attempts int
		want           Verdict
		seconds        int
		long           bool
	}{
		{120, 2, Recovers, 100, false}, {140, 2, Recovers, 600, true}, {145, 2, Recovers, 600, true},
		{152, 2, StaysDown, 600, true}, {160, 2, StaysDown, 100, false}, {200, 2, StaysDown, 100, false}, {290, 2, StaysDown, 600, true},
		{60, 3, Recovers, 100, false}, {90, 3, Recovers, 600, true}, {95, 3, Recovers, 600, true},
		{102, 3, StaysDown, 600, true}, {148, 3, StaysDown, 100, false},
		{240, 1, Recovers, 100, false}, {280, 1, Recovers, 600, true}, {290, 1, Recovers, 900, true},
		{301, 1, Overloaded, 100, false}, {310, 1, Overloaded, 100, false}, {310, 2, Overloaded, 100, false},
	} {
		if tc.long && os.Getenv("RETRY_LONG") == "" {
			continue
		}
		t.Run(fmt.Sprintf("%d of %d attempts", tc.rate, tc.attempts), func(t *testing.T) {
			s := system(t, hotos(float64(tc.rate), tc.attempts)+fmt.Sprintf(`, "duration": "%ds"}`, tc.seconds))
			o, err := s.runSeeds(often(2, 10))
			require.NoError(t, err)
			assert.Equal(t, tc.want, o.Verdict, o)
			assert.Equal(t, o.Runs, o.Agree, o)
		})
	}
}
