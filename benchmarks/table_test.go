package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	assert.Equal(t, 3.0, median([]float64{3}))
	assert.Equal(t, 2.0, median([]float64{3, 1}))
	assert.Equal(t, 3.0, median([]float64{9, 3, 1}))
	assert.Equal(t, 4.0, median([]float64{9, 3, 1, 5}))
}

// faked returns a table of two works, three libraries, their waiters, and an HTTP
// work of two clients. The results are invented and all differ. Each measurement is
// noted in asked.
func faked(asked *[]string) *table {
	t := newTable()
	ns := 0
	offer := func(work string, but string) func(library) func(*testing.B) {
		return func(l library) func(*testing.B) {
			if l.name == but {
				return nil
			}
			return func(*testing.B) {
				*asked = append(*asked, work+" of "+l.name)
				ns = map[string]int{"w of bare": 40, "w of b": 80, "w of c": 120, "v of bare": 400, "v of b": 1200}[work+" of "+l.name]
			}
		}
	}
	t.works = []work{{name: "w", base: "w", bench: offer("w", "")}, {name: "v", base: "v", bench: offer("v", "c")}}
	t.libraries = []library{{name: "bare"}, {name: "b"}, {name: "c"}}
	t.waiters = []waiter{{name: "bare"}, {name: "b"}, {name: "c"}}
	t.clients = []httpClient{{name: "bare"}, {name: "b"}}
	t.httpWorks = []httpWork{{work{name: "h", base: "h"}, func(c httpClient) func(*testing.B) {
		return func(*testing.B) {
			*asked = append(*asked, "h of "+c.name)
			ns = map[string]int{"bare": 4000, "b": 8000}[c.name]
		}
	}}}
	run := 0
	t.benchmark = func(bench func(*testing.B)) testing.BenchmarkResult {
		bench(nil)
		slower := []int{2, 1, 3}[run%3] // the second of three runs is the fastest
		run++
		return testing.BenchmarkResult{N: 4, T: time.Duration(ns * slower), MemAllocs: uint64(ns * slower / 5), MemBytes: 999}
	}
	t.apart = func(name string, n int) (waited, error) {
		*asked = append(*asked, fmt.Sprint(n, " waiting of ", name))
		return map[string]waited{"bare": {Bytes: 10, Cancel: 1e6}, "b": {Bytes: 20, Cancel: 3e6}, "c": {Bytes: 40, Cancel: 5e6}}[name], nil
	}
	return t
}

// TestMeasure does two rounds. In each of them, every measurement that is offered
// gets one number, the least of three runs.
func TestMeasure(t *testing.T) {
	var asked []string
	table := faked(&asked)
	require.NoError(t, table.measure())
	assert.Len(t, asked, 3*7+3)
	assert.ElementsMatch(t, []string{
		"w of bare", "w of b", "w of c", "v of bare", "v of b", "h of bare", "h of b",
		"100000 waiting of bare", "100000 waiting of b", "100000 waiting of c",
	}, slices.Compact(asked))
	require.NoError(t, table.measure())
	of := func(work, name string) subject { return subject{work, name} }
	assert.Equal(t, series{
		of("w", "bare"): {10, 10}, of("w", "b"): {20, 20}, of("w", "c"): {30, 30},
		of("v", "bare"): {100, 100}, of("v", "b"): {300, 300},
		of("h", "bare"): {1000, 1000}, of("h", "b"): {2000, 2000},
	}, table.ns)
	assert.Equal(t, series{
		of("w", "bare"): {2, 2}, of("w", "b"): {4, 4}, of("w", "c"): {6, 6},
		of("v", "bare"): {20, 20}, of("v", "b"): {60, 60},
		of("h", "bare"): {200, 200}, of("h", "b"): {400, 400},
	}, table.allocs)
	assert.Equal(t, series{of("", "bare"): {10, 10}, of("", "b"): {20, 20}, of("", "c"): {40, 40}}, table.bytes)
	assert.Equal(t, series{of("", "bare"): {1e6, 1e6}, of("", "b"): {3e6, 3e6}, of("", "c"): {5e6, 5e6}}, table.cancel)
}

// TestEveryRoundHasAnOrder checks that within 100 rounds each library, client and
// waiter is the first at least once.
func TestEveryRoundHasAnOrder(t *testing.T) {
	first := map[string]bool{}
	for range 100 {
		var asked []string
		require.NoError(t, faked(&asked).measure())
		asked = slices.Compact(asked)
		first[asked[0]] = true
		first[asked[3]] = true
		first[asked[5]] = true
		first[asked[7]] = true
	}
	assert.Len(t, first, 3+2+2+3)
}

func TestMeasureFails(t *testing.T) {
	var asked []string
	table := faked(&asked)
	table.apart = func(string, int) (waited, error) { return waited{}, errors.New("no process") }
	assert.EqualError(t, table.measure(), "no process")

	table.libraries = table.libraries[:1]
	table.benchmark = func(func(*testing.B)) testing.BenchmarkResult { return testing.BenchmarkResult{} }
	assert.EqualError(t, table.measure(), "w of bare has failed")
}

// TestTheRatioIsOfEachRound checks that the ratio is the median of the ratios of the
// rounds, 3. The ratio of the first round is 1, and that of the medians is 2. The
// time of the bare loop is a median too.
func TestTheRatioIsOfEachRound(t *testing.T) {
	table := newTable()
	bare, other := subject{"w", "bare"}, subject{"w", "other"}
	table.ns = series{bare: {40, 10, 20}, other: {40, 30, 80}}
	table.allocs = series{bare: {0, 0, 0}, other: {5, 1, 3}}
	assert.Equal(t, "3.00x", table.ns.ratio(other, bare))
	assert.Equal(t, "3.00x, 3", table.cell(work{name: "w", base: "w"}, "other"))
	assert.Equal(t, "20.0 ns, 0", table.cell(work{name: "w", base: "w"}, "bare"))
}

// TestTheDifferenceIsOfEachRound checks that a time above another is the median of
// the differences of the rounds, 7. Of the medians it is 0.
func TestTheDifferenceIsOfEachRound(t *testing.T) {
	table := newTable()
	table.ns = series{{"w", "other"}: {47, 20, 30}, {"first", "other"}: {40, 30, 20}, {"first", "bare"}: {1, 1, 1}}
	table.allocs = series{{"w", "other"}: {0, 0, 0}}
	assert.Equal(t, "+7.0 ns, 0", table.cell(work{name: "w", above: "first"}, "other"))
	assert.Equal(t, "-", table.cell(work{name: "w", above: "first"}, "bare"))
	table.ns[subject{"first", "other"}] = []float64{50, 30, 20}
	assert.Equal(t, "-3.0 ns, 0", table.cell(work{name: "w", above: "first"}, "other"))
}

func TestTheTableHasALineForEach(t *testing.T) {
	table := newTable()
	for i, l := range libraries {
		for j, w := range works {
			if w.bench(l) != nil {
				table.ns.add(subject{w.name, l.name}, float64(5*(i+1)*(j+1)))
				table.allocs.add(subject{w.name, l.name}, float64(i))
			}
		}
	}
	for i, c := range httpClients {
		for j, w := range httpWorks {
			table.ns.add(subject{w.name, c.name}, float64(1000*(i+1)*(j+1)))
			table.allocs.add(subject{w.name, c.name}, float64(i))
		}
	}
	for i, w := range waiters() {
		table.bytes.add(subject{name: w.name}, float64(3000+300*i))
		table.cancel.add(subject{name: w.name}, float64(1e8+2e7*i))
	}
	var out strings.Builder
	table.print(&out)
	for _, line := range []string{
		"|  | version | first try | first try, value | first try, MaxElapsed | first try, AttemptTimeout | first try, OnEvent | 2 failures | 10 failures | 10 failures, classes | 10 failures, OnEvent | Once, above the first try | a delay, 8 goroutines | a decision | a line of a log |",
		"| bare |  | 5.0 ns, 0 | 10.0 ns, 0 | 15.0 ns, 0 | 20.0 ns, 0 | 25.0 ns, 0 | 30.0 ns, 0 | 35.0 ns, 0 | - | - | - | 55.0 ns, 0 | - | 65.0 ns, 0 |",
		"| cenkalti-v4 | v4.3.0 | 3.00x, 2 | 3.00x, 2 | - | - | - | 3.00x, 2 | 3.00x, 2 | - | - | - | 3.00x, 2 | - | - |",
		"| eapache | v1.7.0 | 11.00x, 10 | 11.00x, 10 | - | - | - | 11.00x, 10 | 11.00x, 10 | - | - | - | - | - | - |",
		"|  | version | first try, in memory | first try, loopback | two 503, in memory | two 503, loopback |",
		"| bare |  | 1000.0 ns, 0 | 2000.0 ns, 0 | 3000.0 ns, 0 | 4000.0 ns, 0 |",
		"| go-retryablehttp, StandardClient | v0.7.8 | 3.00x, 2 |",
		"|  | version | bytes of a waiting call | cancel of 100,000 |",
		"| bare |  | 3000 | 100 ms |",
		"| bare-deep |  | 3300 | 120 ms |", "| retry-Do | this checkout | 1.20x | 1.40x |", "| retry-Do-deep | this checkout | 1.18x | 1.33x |",
	} {
		assert.Contains(t, out.String(), line)
	}
	// Its classes and its OnEvent are compared with 10 failures (80 / 35, 90 / 35), its
	// Once with its own first try (100 - 10), its decision with the first try (120 / 5).
	assert.Regexp(t, `\| retry \| [^|]* \| 2.00x, 1 \|.* 2.00x, 1 \| 2.29x, 1 \| 2.57x, 1 \| \+90.0 ns, 1 \| 2.00x, 1 \| 24.00x, 1 \| 2.00x, 1 \|\n`, out.String())
}
