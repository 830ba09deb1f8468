package retry_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// Each benchmark runs this package beside the loop that a careful engineer
// would write by hand, so that one run shows the ratio:
//
//	go test -run '^$' -bench . -count 10 . | benchstat -col /loop -

// bare checks its context, calls fn, and waits on a timer and its context.
func bare(ctx context.Context, attempts int, delay func(int) time.Duration, fn func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := fn(ctx)
		if err == nil || attempt == attempts {
			return err
		}
		if d := delay(attempt); d > 0 {
			t := time.NewTimer(d)
			select {
			case <-ctx.Done():
				t.Stop()
				return ctx.Err()
			case <-t.C:
			}
		}
	}
}

// bareValue is bare for a function that returns a value.
func bareValue[T any](ctx context.Context, attempts int, delay func(int) time.Duration, fn func(context.Context) (T, error)) (T, error) {
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return *new(T), err
		}
		v, err := fn(ctx)
		if err == nil || attempt == attempts {
			return v, err
		}
		if d := delay(attempt); d > 0 {
			t := time.NewTimer(d)
			select {
			case <-ctx.Done():
				t.Stop()
				return *new(T), ctx.Err()
			case <-t.C:
			}
		}
	}
}

var (
	errBoom = errors.New("boom")

	benchPolicy = retry.Default()
	noDelay     = retry.Policy{MaxAttempts: 10}
	hourly      = retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Hour}, MaxDelay: 2 * time.Hour, Jitter: retry.Proportional(0.2)}
)

func noWait(int) time.Duration { return 0 }

func BenchmarkFirstTry(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	succeed := func(context.Context) error { return nil }
	b.Run("loop=bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := bare(ctx, 5, noWait, succeed); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("loop=Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := retry.Do(ctx, benchPolicy, succeed); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkFirstTryValue(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	succeed := func(context.Context) (int, error) { return 42, nil }
	b.Run("loop=bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if v, err := bareValue(ctx, 5, noWait, succeed); v != 42 || err != nil {
				b.Fatal(v, err)
			}
		}
	})
	b.Run("loop=Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if v, err := retry.DoValue(ctx, benchPolicy, succeed); v != 42 || err != nil {
				b.Fatal(v, err)
			}
		}
	})
}

func BenchmarkTenFailures(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	fail := func(context.Context) error { return errBoom }
	b.Run("loop=bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := bare(ctx, 10, noWait, fail); err == nil {
				b.Fatal("no error")
			}
		}
	})
	b.Run("loop=Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := retry.Do(ctx, noDelay, fail); err == nil {
				b.Fatal("no error")
			}
		}
	})
}

// BenchmarkNext can be compared with the first attempt of the bare loop.
func BenchmarkNext(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if d := benchPolicy.Next(retry.Attempt{Number: 3, Err: errBoom, Seed: 42}); !d.Retry() {
			b.Fatal(d)
		}
	}
}

// waiting starts a call that sleeps before its second attempt. Each subject is
// called in its own goroutine, directly or, where the name says so, through one
// function, so that the goroutine's first stack holds little more than the
// call.
var waiting = map[string]func(ctx context.Context, fn func(context.Context) error, returned func()){
	"bare": func(ctx context.Context, fn func(context.Context) error, returned func()) {
		go func() {
			defer returned()
			_ = bare(ctx, 5, func(int) time.Duration { return time.Hour }, fn)
		}()
	},
	"Do": func(ctx context.Context, fn func(context.Context) error, returned func()) {
		go func() {
			defer returned()
			_ = retry.Do(ctx, hourly, fn)
		}()
	},
	"DoLiteral": func(ctx context.Context, fn func(context.Context) error, returned func()) {
		go func() {
			defer returned()
			_ = retry.Do(ctx,
				retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Hour}, MaxDelay: 2 * time.Hour, Jitter: retry.Proportional(0.2)},
				fn)
		}()
	},
	"DoValue": func(ctx context.Context, fn func(context.Context) error, returned func()) {
		go func() {
			defer returned()
			_, _ = retry.DoValue(ctx, hourly, func(ctx context.Context) (int, error) { return 0, fn(ctx) })
		}()
	},
	"DoValueLiteral": func(ctx context.Context, fn func(context.Context) error, returned func()) {
		go func() {
			defer returned()
			_, _ = retry.DoValue(ctx,
				retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Hour}, MaxDelay: 2 * time.Hour, Jitter: retry.Proportional(0.2)},
				func(ctx context.Context) (int, error) { return 0, fn(ctx) })
		}()
	},
	"DoValueLiteralInFunction": func(ctx context.Context, fn func(context.Context) error, returned func()) {
		go func() {
			_, _ = doValueLiteral(ctx, fn)
			returned()
		}()
	},
}

//go:noinline
func doValueLiteral(ctx context.Context, fn func(context.Context) error) (int, error) {
	return retry.DoValue(ctx,
		retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Hour}, MaxDelay: 2 * time.Hour, Jitter: retry.Proportional(0.2)},
		func(ctx context.Context) (int, error) { return 0, fn(ctx) })
}

// BenchmarkWaiting starts 100,000 calls, lets them sleep, and cancels them.
// Each subject runs in its own process, because the first one in a process pays
// for growing the heap. Run it with -benchtime 1x.
func BenchmarkWaiting(b *testing.B) {
	for _, subject := range []string{"bare", "Do", "DoLiteral", "DoValue", "DoValueLiteral", "DoValueLiteralInFunction"} {
		b.Run("loop="+subject, func(b *testing.B) {
			var held, cancel float64
			for b.Loop() {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), "RETRY_WAITING="+subject)
				out, err := cmd.Output()
				if err != nil {
					b.Fatal(err)
				}
				fields := strings.Fields(string(out))
				held, _ = strconv.ParseFloat(fields[0], 64)
				cancel, _ = strconv.ParseFloat(fields[1], 64)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(held, "B/call")
			b.ReportMetric(cancel, "cancel-ms")
		})
	}
}

func TestMain(m *testing.M) {
	if subject := os.Getenv("RETRY_WAITING"); subject != "" {
		measureWaiting(waiting[subject])
		return
	}
	os.Exit(m.Run())
}

// measureWaiting prints the bytes that a waiting call holds, and the
// milliseconds that 100,000 of them take to return after they are canceled.
func measureWaiting(start func(context.Context, func(context.Context) error, func())) {
	const n = 100_000
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	ctx, cancel := context.WithCancel(context.Background())
	var failed, returned sync.WaitGroup
	failed.Add(n)
	returned.Add(n)
	fail := func(context.Context) error { failed.Done(); return errBoom }
	before := inUse()
	for range n {
		start(ctx, fail, returned.Done)
	}
	failed.Wait()
	time.Sleep(500 * time.Millisecond) // until the last of them reach their select
	after := inUse()
	canceled := time.Now()
	cancel()
	returned.Wait()
	fmt.Println(float64(after-before)/n, float64(time.Since(canceled).Microseconds())/1000)
}
