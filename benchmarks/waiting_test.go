package main

import (
	"context"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"
)

// benchWaiting makes 100,000 calls that wait for their second attempt, and cancels them. Each call
// is made on a stack that already has 8 KiB of other frames, as in the handler of a server. The
// benchmark needs -benchtime 1x and a new process for each library. Otherwise only the first
// measurement in a process would allocate the heap and the stacks.
func benchWaiting(b *testing.B) {
	for _, l := range append([]library{bare, retryDo}, peers...) {
		b.Run("lib="+l.name, func(b *testing.B) {
			const n = 100_000
			calls := l.prepare(hourly)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			var failed, returned sync.WaitGroup
			failed.Add(n)
			op := func(context.Context) error { failed.Done(); return errFailed }
			before, idle := inUse(), asleep()
			for range n {
				returned.Go(func() { deep(ctx, calls, op) })
			}
			failed.Wait()
			for asleep() < idle+n {
				time.Sleep(time.Millisecond)
			}
			held := inUse() - before
			began := cpuTime()
			cancel()
			returned.Wait()
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(held/n, "B/call")
			b.ReportMetric(float64(cpuTime()-began)/n, "cpu-ns/call")
		})
	}
}

func deep(ctx context.Context, calls func(context.Context, int, operation) error, op operation) error {
	var frames [8 << 10]byte
	frames[len(frames)-1] = 1
	err := calls(ctx, 1, op)
	frames[0] += frames[len(frames)-1] // so that the compiler keeps the frames
	return err
}

// inUse returns the bytes that the heap and the stacks use.
func inUse() float64 {
	runtime.GC()
	runtime.GC() // a second time, to free what a sync.Pool has kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}

// asleep returns how many goroutines are waiting.
func asleep() uint64 {
	s := []metrics.Sample{{Name: "/sched/goroutines/waiting:goroutines"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
