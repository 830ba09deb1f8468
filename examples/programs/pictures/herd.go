package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry"
)

var errDown = errors.New("down")

// A herd is a group of clients that fail at the same time. Each client retries five times, and
// every retry fails.
type herd struct {
	name   string
	jitter retry.Jitter
	policy retry.Policy

	peak     float64   // the largest number of retries within 20ms
	latePeak float64   // the largest number of retries within 20ms, not counting first retries
	meanWait float64   // the mean time that a client waits in total, in seconds
	perBin   []float64 // the number of retries in each interval of 0.2 s, in the first trial

	// known contains the results of another simulator for the fields `peak`, latePeak and meanWait.
	// The tests compare these results with the fields.
	known [3]float64
}

const (
	herdSize    = 10_000
	herdRetries = 5
	peakBin     = 20 * time.Millisecond
	chartBin    = 200 * time.Millisecond
)

// simulateHerds counts the retries of 10,000 clients that fail at the same time. The first delay is
// 1s. Each further delay is twice as long, up to 60s.
func simulateHerds(seed uint64, trials int) []herd {
	herds := []herd{
		{name: "no jitter", known: [3]float64{10000, 10000, 31.0}},
		{name: "±10 %", jitter: retry.Proportional(0.1), known: [3]float64{1055, 533, 31.0}},
		{name: "±20 %", jitter: retry.Proportional(0.2), known: [3]float64{544, 284, 31.0}},
		{name: "±50 %", jitter: retry.Proportional(0.5), known: [3]float64{238, 125, 31.0}},
		{name: "equal", jitter: retry.EqualJitter, known: [3]float64{440, 237, 23.2}},
		{name: "full", jitter: retry.FullJitter, known: [3]float64{335, 162, 15.5}},
	}
	for i := range herds {
		h := &herds[i]
		h.policy = retry.Policy{
			MaxRetries: herdRetries,
			Backoff:    retry.Exponential{Base: time.Second},
			MaxDelay:   time.Minute,
			Jitter:     h.jitter,
		}
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		for trial := range trials {
			h.run(random, trial == 0)
		}
		h.peak /= float64(trials)
		h.latePeak /= float64(trials)
		h.meanWait /= float64(trials)
	}
	return herds
}

func (h *herd) run(random *rand.Rand, first bool) {
	all, late := map[time.Duration]float64{}, map[time.Duration]float64{}
	for range herdSize {
		seed, at := random.Uint64(), time.Duration(0)
		for attempt := 1; attempt <= herdRetries; attempt++ {
			at += h.policy.Next(retry.Attempt{Number: attempt, Err: errDown, Seed: seed}).Delay
			all[at/peakBin]++
			if attempt > 1 {
				late[at/peakBin]++
			}
			if first {
				h.count(at)
			}
		}
		h.meanWait += at.Seconds() / herdSize
	}
	h.peak += largest(all)
	h.latePeak += largest(late)
}

func (h *herd) count(at time.Duration) {
	for bin := int(at / chartBin); bin >= len(h.perBin); {
		h.perBin = append(h.perBin, 0)
	}
	h.perBin[at/chartBin]++
}

func largest(bins map[time.Duration]float64) float64 {
	most := 0.0
	for _, n := range bins {
		most = max(most, n)
	}
	return most
}

func printHerds(w io.Writer, herds []herd) {
	const title = "10,000 clients fail at the same time and retry five times in vain: " +
		"1s x2, at most 60s.\n" +
		"The most retries within 20ms, the most without the first retry of each client, " +
		"and the seconds waited."
	table(w, title, func(w io.Writer) {
		fmt.Fprintln(w, "jitter\tpeak\t(known)\tlater peak\t(known)\twaited\t(known)\t")
		for _, h := range herds {
			fmt.Fprintf(w, "%s\t%.0f\t(%.0f)\t%.0f\t(%.0f)\t%.1f\t(%.1f)\t\n",
				h.name, h.peak, h.known[0], h.latePeak, h.known[1], h.meanWait, h.known[2])
		}
	})
}

func herdChart(herds []herd) chart {
	c := chart{
		title: "10,000 clients fail together: retries in each 0.2 s that follow",
		x:     axis{label: "seconds after the failure", max: 20},
		y:     axis{label: "retries in 0.2 s", min: 1, max: 10_000, log: true},
	}
	for _, h := range herds {
		if h.name != "no jitter" && h.name != "±20 %" && h.name != "full" {
			continue
		}
		s := series{name: h.name}
		for bin, n := range h.perBin {
			if x := float64(bin) * chartBin.Seconds(); x <= c.x.max {
				s.points = append(s.points, point{x, n})
			}
		}
		c.series = append(c.series, s)
	}
	return c
}
