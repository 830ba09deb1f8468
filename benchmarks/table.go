package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// A table holds the measurements of all rounds.
type table struct {
	works     []work
	libraries []library
	waiters   []waiter
	httpWorks []httpWork
	clients   []httpClient
	benchmark func(func(*testing.B)) testing.BenchmarkResult
	apart     func(waiter string, n int) (waited, error)

	ns     series // time of a work by a library
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
		works: works, libraries: libraries, waiters: waiters(), httpWorks: httpWorks, clients: httpClients, benchmark: testing.Benchmark, apart: measureApart,
		ns: series{}, allocs: series{}, bytes: series{}, cancel: series{},
	}
}

func (s series) add(of subject, x float64) { s[of] = append(s[of], x) }

// measure does one round. The order is random, so that no library is always the
// first, or right after the bare loop.
func (t *table) measure() error {
	for _, w := range t.works {
		for _, l := range shuffled(t.libraries) {
			if bench := w.bench(l); bench != nil {
				if err := t.take(subject{w.name, l.name}, bench); err != nil {
					return err
				}
			}
		}
	}
	for _, w := range t.httpWorks {
		for _, c := range shuffled(t.clients) {
			if err := t.take(subject{w.name, c.name}, w.bench(c)); err != nil {
				return err
			}
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

// take makes one measurement: the fastest of three runs, because other work on the
// machine can only make a run slower.
func (t *table) take(of subject, bench func(*testing.B)) error {
	ns, allocs := math.Inf(1), math.Inf(1)
	for range 3 {
		r := t.benchmark(bench)
		if r.N == 0 {
			return fmt.Errorf("%s of %s has failed", of.work, of.name)
		}
		ns = min(ns, float64(r.T)/float64(r.N))
		allocs = min(allocs, float64(r.MemAllocs)/float64(r.N))
	}
	t.ns.add(of, ns)
	t.allocs.add(of, allocs)
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

	head = []string{"", "version"}
	for _, w := range t.httpWorks {
		head = append(head, w.title)
	}
	rows = [][]string{head}
	for _, c := range t.clients {
		row := []string{c.name, version(c.module)}
		for _, w := range t.httpWorks {
			row = append(row, t.cell(w.work, c.name))
		}
		rows = append(rows, row)
	}
	printRows(out, rows)

	rows = [][]string{{"", "version", "bytes of a waiting call", "cancel of 100,000"}}
	for _, w := range t.waiters {
		of, bare := subject{name: w.name}, subject{name: bareLoop.name}
		if strings.HasSuffix(w.name, deeper) {
			bare.name += deeper
		}
		bytes, cancel := t.bytes.ratio(of, bare), t.cancel.ratio(of, bare)
		if of == bare { // the loops by hand
			bytes, cancel = fmt.Sprintf("%.0f", median(t.bytes[bare])), fmt.Sprintf("%.0f ms", median(t.cancel[bare])/1e6)
		}
		rows = append(rows, []string{w.name, version(w.module), bytes, cancel})
	}
	printRows(out, rows)
}

// cell returns the time of a library for a work, as a multiple of the bare loop's or
// in nanoseconds above another work, and its allocations. For the bare loop the time
// is in nanoseconds.
func (t *table) cell(w work, library string) string {
	of, bare := subject{w.name, library}, subject{w.base, bareLoop.name}
	if t.ns[of] == nil {
		return "-"
	}
	var took string
	switch {
	case w.above != "":
		took = fmt.Sprintf("%+.1f ns", t.ns.paired(of, subject{w.above, library}, func(a, b float64) float64 { return a - b }))
	case of == bare:
		took = fmt.Sprintf("%.1f ns", median(t.ns[bare]))
	default:
		took = t.ns.ratio(of, bare)
	}
	return fmt.Sprintf("%s, %.0f", took, median(t.allocs[of]))
}

// ratio returns the median of the ratios of all rounds.
func (s series) ratio(of, bare subject) string {
	return fmt.Sprintf("%.2fx", s.paired(of, bare, func(a, b float64) float64 { return a / b }))
}

// paired returns the median of what a function makes of the numbers of each round.
// Both are of the same round, because a disturbance in a round affects both.
func (s series) paired(of, base subject, compare func(a, b float64) float64) float64 {
	var compared []float64
	for round := range s[of] {
		compared = append(compared, compare(s[of][round], s[base][round]))
	}
	return median(compared)
}

// median returns the middle one of some numbers, or the mean of the middle two.
func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

// version returns the version of a module in this program.
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
