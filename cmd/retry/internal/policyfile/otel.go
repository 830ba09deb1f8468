package policyfile

import (
	"strings"
	"time"

	"github.com/goretry/retry"
)

// readOTel reads the retry_on_failure of an exporter or a receiver.
func readOTel(f *form) {
	f.attempts = retry.Unlimited
	// A receiver does not retry by default.
	receiver := f.b.beside != nil && f.b.beside.up != nil && f.b.beside.up.key == "receivers"
	first := 5 * time.Second
	if receiver {
		first = time.Second
	}
	f.base = f.time("initial_interval", 0, first)
	isShare := func(x float64) bool { return x >= 0 && x <= 1 }
	spread := f.number("randomization_factor", "a share from 0 to 1", 0.5, isShare)
	if spread > 0 {
		f.jitter, f.around = retry.Proportional(spread), true
	}
	f.factor = f.number("multiplier", "1 or more", 1.5, fromOne)
	f.cap = f.time("max_interval", 0, 30*time.Second)
	f.elapsed = f.time("max_elapsed_time", 0, 5*time.Minute)
	if !take(f, "enabled", "true or false", !receiver, nil) {
		f.attempts = 1
		return
	}
	if longest := max(f.base, f.cap); f.elapsed > 0 && f.elapsed < longest {
		f.fault("max_elapsed_time", f.elapsed,
			say("at least the initial_interval and the max_interval, %v, or 0s for no bound", longest))
	}
	if f.base > f.cap {
		f.delays = retry.Schedule{f.base, f.cap} // max_interval does not limit the first delay
	}
}

// exporterTimeout returns the default timeout of one attempt of an exporter.
func exporterTimeout(b *Block) time.Duration {
	switch name, _, _ := strings.Cut(b.beside.key, "/"); {
	case b.beside.up == nil || b.beside.up.key != "exporters":
		return 0
	case name == "otlp_http" || name == "otlphttp":
		return 30 * time.Second
	default:
		return 5 * time.Second
	}
}

var defaultExporters = []string{"otlp", "otlp_grpc", "otlphttp", "otlp_http"}
