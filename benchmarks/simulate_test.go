package main

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysim"
)

// threeTiers is a chain of three services with an outage of the last. Each client of
// the first has a budget.
func threeTiers(rate float64, clients int, duration, outage time.Duration) retrysim.System {
	tier := func(v retrysim.Service, to string) retrysim.Service {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: 100 * time.Millisecond}, Jitter: retry.FullJitter, AttemptTimeout: time.Second}
		if v.Clients > 0 {
			p.Budget = &retry.Budget{Size: 10, Ratio: 0.1}
		}
		v.Calls = []retrysim.Edge{{To: to, Policy: p}}
		return v
	}
	workers := func(work time.Duration) int { return int(1.5*rate*work.Seconds()) + 1 }
	return retrysim.System{
		Services: map[string]retrysim.Service{
			"web":      tier(retrysim.Service{Rate: rate, Clients: clients}, "orders"),
			"orders":   tier(retrysim.Service{Workers: 20 * workers(10*time.Millisecond), Work: 10 * time.Millisecond, Queue: int(rate)}, "payments"),
			"payments": {Workers: workers(20 * time.Millisecond), Work: 20 * time.Millisecond, Queue: int(rate) / 2},
		},
		Events:   []retrysim.Trigger{{At: 20 * time.Second, For: outage, Service: "payments", Change: retrysim.Workers}},
		Duration: duration,
	}
}

// BenchmarkSimulate reports the attempts for each second of CPU. A million takes
// minutes: run it with -benchtime 1x.
func BenchmarkSimulate(b *testing.B) {
	b.Run("1000-a-second", func(b *testing.B) { benchSimulate(b, threeTiers(1000, 100, 90*time.Second, 10*time.Second)) })
	b.Run("million-clients", func(b *testing.B) { benchSimulate(b, threeTiers(100_000, 1_000_000, 10*time.Minute, 30*time.Second)) })
}

func benchSimulate(b *testing.B, s retrysim.System) {
	attempts, began := 0, cpuTime(b)
	for b.Loop() {
		r, err := retrysim.Run(s, 1)
		if err != nil {
			b.Fatal(err)
		}
		for _, load := range r.Services {
			attempts += load.Requests
		}
	}
	took := cpuTime(b) - began
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(attempts)/took.Seconds()/1e6, "M-attempts/CPU-s")
	b.ReportMetric(took.Seconds()/float64(b.N), "CPU-s/op")
	b.ReportMetric(float64(memory.Sys)/(1<<20), "MiB")
}

// cpuTime returns the processor time of this process, which other processes do not
// change.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
