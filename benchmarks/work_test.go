package main

import (
	"context"
	"errors"
	"flag"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// benchmarksTake sets -benchtime for the benchmarks that a test runs.
func benchmarksTake(t *testing.T, benchtime string) {
	t.Helper()
	old := flag.Lookup("test.benchtime").Value.String()
	require.NoError(t, flag.Set("test.benchtime", benchtime))
	t.Cleanup(func() { flag.Set("test.benchtime", old) })
}

// TestEveryBenchmarkRuns takes each measurement once.
func TestEveryBenchmarkRuns(t *testing.T) {
	benchmarksTake(t, "16x")
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
	assert.Equal(t, map[string]int{"FirstTry": n, "FirstTryValue": n, "FirstTryMaxElapsed": 2, "FirstTryAttemptTimeout": 2, "FirstTryOnEvent": 2, "TwoFailures": n, "TenFailures": n, "TenFailuresClasses": 1, "TenFailuresOnEvent": 1, "Once": 1, "Delay8": 10, "Decision": 1, "LogLine": 2}, offered)
}

// A seen is what a benchmark has demanded of a library.
type seen struct {
	plan       plan
	calls      int
	attempts   int
	once       bool
	attempt    int // whose delay
	cancelable bool
}

// watched is the loop written by hand, and notes what is demanded of it. Its delay
// returns only once 8 goroutines have called it.
func watched(s *seen) library {
	return library{name: "watched", duties: true, classes: true, prepare: func(p plan) calls {
		s.plan = p
		loop := bareLoop.prepare(p)
		var mu sync.Mutex
		var all sync.WaitGroup
		all.Add(8)
		run := func(ctx context.Context, n int, op opFunc) error {
			s.calls, s.cancelable = n, ctx.Done() != nil
			return loop.run(ctx, n, func(ctx context.Context) error { s.attempts++; return op(ctx) })
		}
		return calls{
			run: run,
			once: func(ctx context.Context, n int, op opFunc) error {
				s.once = true
				return run(ctx, n, op)
			},
			value: func(ctx context.Context, n int, op valueFunc) (int, error) {
				s.calls, s.cancelable = n, ctx.Done() != nil
				return loop.value(ctx, n, func(ctx context.Context) (int, error) { s.attempts++; return op(ctx) })
			},
			delay: func(n, attempt int) time.Duration {
				mu.Lock()
				s.calls, s.attempt = s.calls+n, attempt
				mu.Unlock()
				all.Done()
				all.Wait()
				return loop.delay(n, attempt)
			},
			decide: func(n, attempt int) time.Duration {
				s.calls, s.attempt = n, attempt
				return loop.delay(n, attempt)
			},
			read: func(log []byte) (int, error) {
				n, err := loop.read(log)
				s.calls += n
				return n, err
			},
		}
	}}
}

// Both readers find all events of a log, also if it has more lines than benchRead
// reads at once.
func TestBothReadTheLog(t *testing.T) {
	for _, l := range []library{bareLoop, ours} {
		n, err := l.prepare(ordinary).read(logLines)
		require.NoError(t, err)
		assert.Equal(t, 9, n, l.name)
		_, err = l.prepare(ordinary).read(logLines[:len(logLines)-20])
		assert.Error(t, err, l.name)
		(benchRead(l))(&testing.B{N: 2000})
	}
}

// TestEveryWorkIsThatOfItsTitle checks that each column measures what its title
// says.
func TestEveryWorkIsThatOfItsTitle(t *testing.T) {
	want := map[string]seen{
		"first try":                 {plan: ordinary, calls: 17, attempts: 17, cancelable: true},
		"first try, value":          {plan: ordinary, calls: 17, attempts: 17, cancelable: true},
		"first try, MaxElapsed":     {plan: bounded, calls: 17, attempts: 17, cancelable: true},
		"first try, AttemptTimeout": {plan: timed, calls: 17, attempts: 17, cancelable: true},
		"first try, OnEvent":        {plan: observed, calls: 17, attempts: 17, cancelable: true},
		"2 failures":                {plan: noDelay, calls: 17, attempts: 3 * 17, cancelable: true},
		"10 failures":               {plan: noDelay, calls: 17, attempts: 10 * 17, cancelable: true},
		"10 failures, classes":      {plan: classed, calls: 17, attempts: 10 * 17, cancelable: true},
		"10 failures, OnEvent":      {plan: eventful, calls: 17, attempts: 10 * 17, cancelable: true},
		"Once, above the first try": {plan: ordinary, calls: 17, attempts: 17, once: true, cancelable: true},
		"a delay, 8 goroutines":     {plan: ordinary, calls: 17, attempt: 3},
		"a decision":                {plan: ordinary, calls: 17, attempt: 3},
		"a line of a log":           {plan: ordinary, calls: 17},
	}
	got := map[string]seen{}
	for _, w := range works {
		synctest.Test(t, func(*testing.T) {
			var s seen
			w.bench(watched(&s))(&testing.B{N: 17})
			got[w.title] = s
		})
	}
	assert.Equal(t, want, got)
}

// TestClasses checks that each failure has a class with a name and a limit of its own,
// which the policy reaches no earlier.
func TestClasses(t *testing.T) {
	var events []retry.Event
	policy := classed.policy()
	policy.OnEvent = func(_ context.Context, e retry.Event) { events = append(events, e) }
	attempts := 0
	err := retry.Do(t.Context(), policy, func(context.Context) error { attempts++; return errFailed })
	assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
	assert.Equal(t, 10, attempts)
	for _, e := range events {
		if e.Kind == retry.RetryScheduled || e.Kind == retry.CallFinished {
			assert.Equal(t, "refused", e.Class)
		}
	}
	assert.Nil(t, policy.Classify(errors.New("another")))
	assert.Equal(t, 10, policy.Classify(errFailed).MaxAttempts)
	assert.Nil(t, noDelay.policy().Classify)
}

// TestOnce checks that each of the n operations is attempted once, although the
// policy would retry.
func TestOnce(t *testing.T) {
	attempts := 0
	err := ours.prepare(ordinary).once(t.Context(), 3, func(context.Context) error { attempts++; return errFailed })
	assert.Equal(t, retry.ReasonRetry, retry.ReasonOf(err))
	assert.Equal(t, 3, attempts)
}

// TestNoBenchmarkIsOfAnotherOutcome checks that the benchmark of a library that does
// not do the work fails, so that the library has no number.
func TestNoBenchmarkIsOfAnotherOutcome(t *testing.T) {
	benchmarksTake(t, "16x")
	other := errors.New("another outcome")
	outcomes := map[string]calls{
		"FirstTry":               {run: func(context.Context, int, opFunc) error { return other }},
		"FirstTryValue":          {value: func(context.Context, int, valueFunc) (int, error) { return 42, other }},
		"FirstTryMaxElapsed":     {run: func(context.Context, int, opFunc) error { return other }},
		"FirstTryAttemptTimeout": {run: func(context.Context, int, opFunc) error { return other }},
		"FirstTryOnEvent":        {run: func(context.Context, int, opFunc) error { return other }},
		"TwoFailures":            {run: func(context.Context, int, opFunc) error { return other }},
		"TenFailures":            {run: func(context.Context, int, opFunc) error { return nil }},
		"TenFailuresClasses":     {run: func(context.Context, int, opFunc) error { return nil }},
		"TenFailuresOnEvent":     {run: func(context.Context, int, opFunc) error { return nil }},
		"Once":                   {once: func(context.Context, int, opFunc) error { return other }},
		"Delay8":                 {delay: func(int, int) time.Duration { return 0 }},
		"Decision":               {decide: func(int, int) time.Duration { return 0 }},
		"LogLine":                {read: func([]byte) (int, error) { return 0, nil }},
	}
	for _, w := range works {
		l := library{name: "other", duties: true, classes: true, prepare: func(plan) calls { return outcomes[w.name] }}
		assert.Zero(t, testing.Benchmark(w.bench(l)).N, w.name)
	}
}
