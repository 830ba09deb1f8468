package main

import (
	"bytes"
	"context"
	_ "embed"
	"sync"
	"testing"
)

// A work is one measurement of the libraries. bench returns nil for a library that
// cannot do it.
type work struct {
	name  string // of its benchmark
	title string // of its column
	base  string // the work of the bare loop that it is compared with
	above string // the work of the same library above which its time is printed, if not as a ratio
	bench func(library) func(*testing.B)
}

var works = []work{
	{name: "FirstTry", title: "first try", base: "FirstTry", bench: func(l library) func(*testing.B) { return benchRun(l, ordinary, 0) }},
	{name: "FirstTryValue", title: "first try, value", base: "FirstTryValue", bench: benchValue},
	{name: "FirstTryMaxElapsed", title: "first try, MaxElapsed", base: "FirstTryMaxElapsed", bench: func(l library) func(*testing.B) { return benchDuty(l, bounded) }},
	{name: "FirstTryAttemptTimeout", title: "first try, AttemptTimeout", base: "FirstTryAttemptTimeout", bench: func(l library) func(*testing.B) { return benchDuty(l, timed) }},
	{name: "FirstTryOnEvent", title: "first try, OnEvent", base: "FirstTryOnEvent", bench: func(l library) func(*testing.B) { return benchDuty(l, observed) }},
	{name: "TwoFailures", title: "2 failures", base: "TwoFailures", bench: func(l library) func(*testing.B) { return benchRun(l, noDelay, 2) }},
	{name: "TenFailures", title: "10 failures", base: "TenFailures", bench: func(l library) func(*testing.B) { return benchRun(l, noDelay, always) }},
	{name: "TenFailuresClasses", title: "10 failures, classes", base: "TenFailures", bench: benchClasses},
	{name: "TenFailuresOnEvent", title: "10 failures, OnEvent", base: "TenFailures", bench: benchEvents},
	{name: "Once", title: "Once, above the first try", above: "FirstTry", bench: benchOnce},
	{name: "Delay8", title: "a delay, 8 goroutines", base: "Delay8", bench: benchDelay},
	{name: "Decision", title: "a decision", base: "FirstTry", bench: benchDecide},
	{name: "LogLine", title: "a line of a log", base: "LogLine", bench: benchRead},
}

// always means that an operation never succeeds.
const always = -1

// failing returns an operation that fails this many times, then succeeds once, and
// then starts again.
func failing(times int) opFunc {
	switch times {
	case 0:
		return func(context.Context) error { return nil }
	case always:
		return func(context.Context) error { return errFailed }
	}
	n := 0
	return func(context.Context) error {
		if n == times {
			n = 0
			return nil
		}
		n++
		return errFailed
	}
}

// benchRun measures calls of an operation without a value. Their context can
// be canceled, like the context of a request.
func benchRun(l library, p plan, failures int) func(*testing.B) {
	return benchCalls(l.prepare(p).run, failing(failures), failures == always)
}

func benchCalls(run func(context.Context, int, opFunc) error, op opFunc, fails bool) func(*testing.B) {
	return func(b *testing.B) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		b.ReportAllocs()
		b.ResetTimer()
		if err := run(ctx, b.N, op); (err != nil) != fails {
			b.Fatalf("the last call returned %v", err)
		}
	}
}

// benchDuty is benchRun for a plan with a duty.
func benchDuty(l library, p plan) func(*testing.B) {
	if !l.duties {
		return nil
	}
	return benchRun(l, p, 0)
}

// benchEvents measures calls that report each step of ten failures.
func benchEvents(l library) func(*testing.B) {
	if !l.classes {
		return nil
	}
	return benchRun(l, eventful, always)
}

// benchClasses is benchRun for failures that have classes.
func benchClasses(l library) func(*testing.B) {
	if !l.classes {
		return nil
	}
	return benchRun(l, classed, always)
}

// benchOnce measures single attempts that succeed.
func benchOnce(l library) func(*testing.B) {
	once := l.prepare(ordinary).once
	if once == nil {
		return nil
	}
	return benchCalls(once, failing(0), false)
}

// benchValue measures calls of an operation that succeeds with a value.
func benchValue(l library) func(*testing.B) {
	value := l.prepare(ordinary).value
	op := func(context.Context) (int, error) { return 42, nil }
	return func(b *testing.B) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		b.ReportAllocs()
		b.ResetTimer()
		if v, err := value(ctx, b.N, op); v != 42 || err != nil {
			b.Fatal(v, err)
		}
	}
}

// benchDelay measures the delay after the third failure, computed by 8
// goroutines at once.
func benchDelay(l library) func(*testing.B) {
	delay := l.prepare(ordinary).delay
	if delay == nil {
		return nil
	}
	const goroutines = 8
	return func(b *testing.B) {
		b.ReportAllocs()
		var all sync.WaitGroup
		for i := range goroutines {
			all.Go(func() {
				if n := (b.N + i) / goroutines; n > 0 && delay(n, 3) <= 0 {
					b.Error("no delay")
				}
			})
		}
		all.Wait()
	}
}

// benchDecide measures the decision after the third failure.
func benchDecide(l library) func(*testing.B) {
	decide := l.prepare(ordinary).decide
	if decide == nil {
		return nil
	}
	return func(b *testing.B) {
		b.ReportAllocs()
		if decide(b.N, 3) <= 0 {
			b.Fatal("no delay")
		}
	}
}

// logLines are the events of a call that gives up after two retries.
//
//go:embed log.jsonl
var logLines []byte

// benchRead measures reading a log, for each line.
func benchRead(l library) func(*testing.B) {
	read := l.prepare(ordinary).read
	if read == nil {
		return nil
	}
	return func(b *testing.B) {
		const most = 900 // lines at a time, so that the cost of setting up hardly counts
		log := bytes.Repeat(logLines, most/bytes.Count(logLines, []byte("\n")))
		b.ReportAllocs()
		b.ResetTimer()
		for left := b.N; left > 0; left -= most {
			want := min(left, most)
			if got, err := read(first(want, log)); got != want || err != nil {
				b.Fatal(got, err)
			}
		}
	}
}

// first returns the first n lines of text.
func first(n int, text []byte) []byte {
	end := 0
	for range n {
		end += bytes.IndexByte(text[end:], '\n') + 1
	}
	return text[:end]
}
