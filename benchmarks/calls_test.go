package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// BenchmarkCalls measures calls whose context can be canceled, like the context of a request.
func BenchmarkCalls(b *testing.B) {
	with := func(p plan, set func(*plan)) plan { set(&p); return p }
	fails := func(context.Context) error { return errFailed }
	succeeds := func(context.Context) error { return nil }
	for _, w := range []struct {
		name string
		plan plan
		op   operation
		libs []library
	}{
		{"FirstTry", ordinary, succeeds, append([]library{bare, retryDo}, peers...)},
		{"FirstTryWithBudget", with(ordinary, func(p *plan) { p.budget = true }), succeeds, []library{bare, retryDo}},
		{"TenFailures", noDelay, fails, append([]library{bare, retryDo}, peers...)},
		{"TenFailuresWithClasses", with(noDelay, func(p *plan) { p.classes = true }), fails, []library{bare, retryDo}},
		{"TenFailuresWithOnEvent", with(noDelay, func(p *plan) { p.watched = true }), fails, []library{bare, retryDo}},
		{"FirstTryWithMaxElapsed", with(ordinary, func(p *plan) { p.within = time.Minute }), succeeds, []library{bare, retryDo}},
		{"FirstTryWithAttemptTimeout", with(ordinary, func(p *plan) { p.timeout = time.Minute }), succeeds, []library{bare, retryDo}},
		{"FirstTryWithOnEvent", with(ordinary, func(p *plan) { p.watched = true }), succeeds, []library{bare, retryDo}},
		{"Once", ordinary, succeeds, []library{bare, retryOnce}},
	} {
		b.Run(w.name, func(b *testing.B) {
			for _, l := range w.libs {
				calls := l.prepare(w.plan)
				b.Run("lib="+l.name, func(b *testing.B) {
					ctx, cancel := context.WithCancel(b.Context())
					defer cancel()
					b.ReportAllocs()
					b.ResetTimer()
					began := cpuTime()
					if err := calls(ctx, b.N, w.op); !errors.Is(err, w.op(ctx)) {
						b.Fatal(err)
					}
					b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
					b.ReportMetric(0, "ns/op")
				})
			}
		})
	}
	b.Run("Waiting", benchWaiting)
}
