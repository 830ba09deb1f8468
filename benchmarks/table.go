package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// A table is what each round has measured.
type table struct {
	works     []work
	libraries []library
	waiters   []waiter
	benchmark func(func(*testing.B)) testing.BenchmarkResult
	apart     func(waiter string, n int) (waited, error)

	ns     series // of a work by a library
	allocs series
	bytes  series // held by a waiting call
	cancel series // of all waiting calls, in nanoseconds
}

// A series has one number for each round.
type series map[subject][]float64

type subject struct {
	work string // empty for waiting calls
	name string // of the library, or of the waiter
}

func newTable() *table {
	return &table{
		works: works, libraries: libraries, waiters: waiters(), benchmark: testing.Benchmark, apart: measureApart,
		ns: series{}, allocs: series{}, bytes: series{}, cancel: series{},
	}
}

func (s series) add(of subject, x float64) { s[of] = append(s[of], x) }

// measure does one round. Nobody is always the first one, or right after the
// bare loop.
func (t *table) measure() error {
	for _, w := range t.works {
		for _, l := range shuffled(t.libraries) {
			bench := w.bench(l)
			if bench == nil {
				continue
			}
			r := t.benchmark(bench)
			if r.N == 0 {
				return fmt.Errorf("%s of %s has failed", w.name, l.name)
			}
			of := subject{w.name, l.name}
			t.ns.add(of, float64(r.T)/float64(r.N))
			t.allocs.add(of, float64(r.MemAllocs)/float64(r.N))
		}
	}
	for _, w := range shuffled(t.waiters) {
		r, err := t.apart(w.name, waitingCalls)
		if err != nil {
			return err
		}
		t.bytes.add(subject{name: w.name}, r.Bytes)
		t.cancel.add(subject{name: w.name}, r.Cancel)
	}
	return nil
}

func shuffled[T any](xs []T) []T {
	xs = slices.Clone(xs)
	rand.Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
	return xs
}

// print prints the medians of all rounds as Markdown.
func (t *table) print(out io.Writer) {
	fmt.Fprintf(out, "%s, %s %s/%s, %d CPUs\n\n", time.Now().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())

	head := []string{"", "version"}
	for _, w := range t.works {
		head = append(head, w.title)
	}
	rows := [][]string{head}
	for _, l := range t.libraries {
		row := []string{l.name, version(l.module)}
		for _, w := range t.works {
			row = append(row, t.cell(w, l.name))
		}
		rows = append(rows, row)
	}
	printRows(out, rows)

	rows = [][]string{{"", "version", "bytes of a waiting call", "cancel of 100,000"}}
	bare := subject{name: bareLoop.name}
	for _, w := range t.waiters {
		of := subject{name: w.name}
		bytes, cancel := t.bytes.ratio(of, bare), t.cancel.ratio(of, bare)
		if of == bare {
			bytes, cancel = fmt.Sprintf("%.0f", median(t.bytes[bare])), fmt.Sprintf("%.0f ms", median(t.cancel[bare])/1e6)
		}
		rows = append(rows, []string{w.name, version(w.module), bytes, cancel})
	}
	printRows(out, rows)
}

// cell returns what a library needs for a work: as a multiple of what the bare
// loop needs, whose own time is in nanoseconds, and the allocations.
func (t *table) cell(w work, library string) string {
	of, bare := subject{w.name, library}, subject{w.base, bareLoop.name}
	if t.ns[of] == nil {
		return "-"
	}
	took := t.ns.ratio(of, bare)
	if of == bare {
		took = fmt.Sprintf("%.1f ns", median(t.ns[bare]))
	}
	return fmt.Sprintf("%s, %.0f", took, median(t.allocs[of]))
}

// ratio returns the median of the ratios of the rounds: what disturbs a round
// disturbs both of its numbers.
func (s series) ratio(of, bare subject) string {
	var ratios []float64
	for round := range s[of] {
		ratios = append(ratios, s[of][round]/s[bare][round])
	}
	return fmt.Sprintf("%.2fx", median(ratios))
}

// median returns the middle one of some numbers, or the mean of the two.
func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

// version returns the version of a module that is in this program.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == module && m.Replace != nil {
			return "this checkout"
		}
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

func printRows(out io.Writer, rows [][]string) {
	for i, row := range rows {
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(out, "|%s\n", strings.Repeat(" --- |", len(row)))
		}
	}
	fmt.Fprintln(out)
}
