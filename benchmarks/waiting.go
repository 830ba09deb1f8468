package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// A waiter is a way to call a library with the plan hourly. run is the same as in
// calls.
type waiter struct {
	name   string
	module string
	run    func(ctx context.Context, n int, op opFunc) error
}

// waiters returns one waiter for each library, and for this library one for each
// way to call it.
func waiters() []waiter {
	var all []waiter
	for _, l := range libraries {
		switch {
		case l.name == ours.name:
			all = append(all, ourWaiters...)
		case l.name == bareLoop.name:
			run := l.prepare(hourly).run
			all = append(all, waiter{l.name, l.module, run}, waiter{l.name + deeper, l.module, deep(run)})
		case l.wait != nil:
			all = append(all, waiter{l.name, l.module, l.wait})
		default:
			all = append(all, waiter{l.name, l.module, l.prepare(hourly).run})
		}
	}
	return all
}

// deeper is the end of the name of a waiter that is called below other frames.
const deeper = "-deep"

// deep calls run as the handler of a server does, below 8 KiB of other frames.
func deep(run func(context.Context, int, opFunc) error) func(context.Context, int, opFunc) error {
	return func(ctx context.Context, n int, op opFunc) error {
		var frames [8 << 10]byte
		frames[n] = 1
		err := run(ctx, n, op)
		frames[0] += frames[n] // so that they are still needed
		return err
	}
}

// waited is the cost of waiting calls.
type waited struct {
	Bytes  float64 // held by each
	Cancel float64 // until all of them have returned, in nanoseconds
}

// measure makes n calls that fail and wait for their second attempt, and then
// cancels them.
func (w waiter) measure(n int) waited {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var failed, returned sync.WaitGroup
	failed.Add(n)
	returned.Add(n)
	op := func(context.Context) error { failed.Done(); return errFailed }

	before, idle := inUse(), asleep()
	for range n {
		go func() {
			w.run(ctx, 1, op)
			returned.Done()
		}()
	}
	failed.Wait()
	for asleep() < idle+uint64(n) {
		time.Sleep(time.Millisecond)
	}
	held := inUse() - before

	start := time.Now()
	cancel()
	returned.Wait()
	return waited{Bytes: held / float64(n), Cancel: float64(time.Since(start))}
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

// waitingCalls is how many calls are measured at once, as the table says.
const waitingCalls = 100_000

// waiterEnv is the environment variable that says what a separate process has to
// measure: "100000 bare".
const waiterEnv = "RETRY_BENCHMARKS_WAITER"

// measureApart measures n calls of a waiter in a separate process, because the
// first measurement in a process pays for the heap and the stacks that later ones
// find there.
func measureApart(name string, n int) (w waited, err error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", waiterEnv, n, name))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &w)
	}
	if err != nil {
		err = fmt.Errorf("waiter %s: %w", name, err)
	}
	return w, err
}

// apart makes the measurement for which measureApart has started this process, and
// reports whether it was started for one.
func apart() bool {
	request, ok := os.LookupEnv(waiterEnv)
	if !ok {
		return false
	}
	if err := answer(request, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s=%s: %v\n", waiterEnv, request, err)
		os.Exit(1)
	}
	return true
}

func answer(request string, out io.Writer) error {
	var n int
	var name string
	if _, err := fmt.Sscan(request, &n, &name); err != nil {
		return fmt.Errorf("write it as \"100000 bare\": %w", err)
	}
	all := waiters()
	i := slices.IndexFunc(all, func(w waiter) bool { return w.name == name })
	if i < 0 {
		return fmt.Errorf("unknown waiter %q", name)
	}
	return json.NewEncoder(out).Encode(all[i].measure(n))
}
