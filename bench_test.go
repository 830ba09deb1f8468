package retry

import (
	"context"
	"errors"
	"testing"
	"time"
)

var errBoom = errors.New("boom")

// bare is the loop that a careful engineer writes by hand.
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
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return ctx.Err()
			}
		}
	}
}

var benchPolicy = Policy{MaxAttempts: 5, Backoff: Exponential{Base: 200 * time.Millisecond, Factor: 2}, MaxDelay: 5 * time.Second, Jitter: Proportional(.2)}
var noDelay = Policy{MaxAttempts: 10}

func noWait(int) time.Duration { return 0 }

func BenchmarkFirstTry(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	fn := func(context.Context) error { return nil }
	fv := func(context.Context) (int, error) { return 1, nil }
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if bare(ctx, 5, noWait, fn) != nil {
				b.Fatal()
			}
		}
	})
	b.Run("Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if Do(ctx, benchPolicy, fn) != nil {
				b.Fatal()
			}
		}
	})
	b.Run("DoValue", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DoValue(ctx, benchPolicy, fv); err != nil {
				b.Fatal()
			}
		}
	})
	b.Run("Loop", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var err error
			for _, ctx := range Loop(ctx, benchPolicy, &err) {
				err = fn(ctx)
			}
			if err != nil {
				b.Fatal()
			}
		}
	})
	b.Run("Next", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !benchPolicy.Next(Attempt{Number: 3, Err: errBoom, Seed: 42}).Retry() {
				b.Fatal()
			}
		}
	})
}

func BenchmarkTenFailures(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	fn := func(context.Context) error { return errBoom }
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if bare(ctx, 10, noWait, fn) == nil {
				b.Fatal()
			}
		}
	})
	b.Run("Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if Do(ctx, noDelay, fn) == nil {
				b.Fatal()
			}
		}
	})
}
