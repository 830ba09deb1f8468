package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/goretry/retry/retrysim"
)

// threeTiers is a chain of three services with an outage of the last service. Each client of the
// first service has a budget.
func threeTiers(b *testing.B, rate, clients int, duration, outage string) (s retrysim.System) {
	const policy = `"timeout": "1s", "retry": {"max_attempts": 3, "backoff": {"type": "exponential", "base": "100ms"}, "jitter": "full"}`
	text := fmt.Sprintf(`{"services": {
		"web": {"rate": "%d/s", "clients": %d, "calls": [{"to": "orders", %s, "budget": {"size": 10, "ratio": 0.1}}]},
		"orders": {"workers": %d, "work": "10ms", "queue": %d, "calls": [{"to": "payments", %s}]},
		"payments": {"workers": %d, "work": "20ms", "queue": %d}},
		"events": [{"at": "20s", "for": %q, "service": "payments", "workers": 0}], "duration": %q}`,
		rate, clients, policy, 20*(15*rate/1000+1), rate, policy, 30*rate/1000+1, rate/2, outage, duration)
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkSimulate reports how many attempts it simulates in a second of CPU time. A million
// clients take minutes, so run it with -benchtime 1x.
func BenchmarkSimulate(b *testing.B) {
	b.Run("1000-a-second", func(b *testing.B) { benchSimulate(b, threeTiers(b, 1000, 100, "90s", "10s")) })
	b.Run("million-clients", func(b *testing.B) { benchSimulate(b, threeTiers(b, 100_000, 1_000_000, "10m", "30s")) })
}

func benchSimulate(b *testing.B, s retrysim.System) {
	attempts, began := 0, cpuTime()
	for b.Loop() {
		r, err := retrysim.Run(s, 1)
		if err != nil {
			b.Fatal(err)
		}
		for _, load := range r.Services {
			attempts += load.Requests
		}
	}
	took := (cpuTime() - began).Seconds()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(attempts)/took/1e6, "M-attempts/CPU-s")
	b.ReportMetric(took/float64(b.N), "CPU-s/op")
	b.ReportMetric(float64(memory.Sys)/(1<<20), "MiB")
}
