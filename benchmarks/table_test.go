package main

import (
	"context"
	"flag"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryBenchmarkRuns takes each measurement once.
func TestEveryBenchmarkRuns(t *testing.T) {
	benchtime := flag.Lookup("test.benchtime").Value
	defer flag.Set("test.benchtime", benchtime.String())
	require.NoError(t, flag.Set("test.benchtime", "16x"))

	offered := map[string]int{}
	for _, w := range works {
		for _, l := range libraries {
			if bench := w.bench(l); bench != nil {
				offered[w.name]++
				assert.Equal(t, 16, testing.Benchmark(bench).N, "%s of %s", w.name, l.name)
			}
		}
	}
	n := len(libraries)
	assert.Equal(t, map[string]int{"FirstTry": n, "FirstTryValue": n, "TwoFailures": n, "TenFailures": n, "Delay8": 8, "Decision": 1}, offered)
}

func TestMeasureCancelsEveryCall(t *testing.T) {
	const n = 50
	var failed, canceled atomic.Int64
	w := waiter{run: func(ctx context.Context, times int, op func(context.Context) error) error {
		assert.Equal(t, 1, times)
		assert.Equal(t, errFailed, op(ctx))
		failed.Add(1)
		<-ctx.Done()
		canceled.Add(1)
		return ctx.Err()
	}}
	w.measure(n)
	assert.EqualValues(t, n, failed.Load())
	assert.EqualValues(t, n, canceled.Load())
}

func TestMedian(t *testing.T) {
	assert.Equal(t, 3.0, median([]float64{3}))
	assert.Equal(t, 2.0, median([]float64{3, 1}))
	assert.Equal(t, 3.0, median([]float64{9, 3, 1}))
	assert.Equal(t, 4.0, median([]float64{9, 3, 1, 5}))
}

// TestTheRatioIsOfEachRound: a round that is ten times as slow says the same.
func TestTheRatioIsOfEachRound(t *testing.T) {
	bare, other := subject{"w", "bare"}, subject{"w", "other"}
	s := series{}
	for _, slow := range []float64{1, 10, 10} {
		s.add(bare, 4*slow)
		s.add(other, 6*slow)
	}
	assert.Equal(t, "1.50x", s.ratio(other, bare))
}

func TestTheTableHasALineForEach(t *testing.T) {
	table := newTable()
	for i, l := range libraries {
		for _, w := range works {
			if w.bench(l) != nil {
				table.ns.add(subject{w.name, l.name}, float64(5*(i+1)))
				table.allocs.add(subject{w.name, l.name}, float64(i))
			}
		}
	}
	for i, w := range waiters() {
		table.bytes.add(subject{name: w.name}, float64(3000+300*i))
		table.cancel.add(subject{name: w.name}, float64(1e8+1e7*i))
	}
	var out strings.Builder
	table.print(&out)
	for _, line := range []string{
		"| bare |  | 5.0 ns, 0 | 5.0 ns, 0 | 5.0 ns, 0 | 5.0 ns, 0 | 5.0 ns, 0 | - |",
		"| cenkalti-v4 | v4.3.0 | 3.00x, 2 | 3.00x, 2 | 3.00x, 2 | 3.00x, 2 | 3.00x, 2 | - |",
		"| eapache | v1.7.0 | 11.00x, 10 | 11.00x, 10 | 11.00x, 10 | 11.00x, 10 | - | - |",
		"| bare |  | 3000 | 100 ms |",
		"| retry-Do-literal |", "| 1.20x | 1.20x |",
	} {
		assert.Contains(t, out.String(), line)
	}
	assert.Regexp(t, `\| retry \| [^|]* \| 2.00x, 1 \|.* 2.00x, 1 \|\n`, out.String(), "its decision is compared with the first try")
}
