package explore

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/preview"
)

var errDown = errors.New("down")

// herdRetries is how many retries of each client the herd figure covers.
const herdRetries = 10

// herdBins is the number of parts of its time.
const herdBins = 100

// horizon returns the time that these retries of the slowest policy take.
func horizon(policies []policyView) time.Duration {
	longest := time.Duration(0)
	for _, p := range policies {
		sum := time.Duration(0)
		for _, step := range p.policy.Plan(herdRetries) {
			sum = preview.Add(sum, step.Hi)
		}
		if most := p.policy.MaxElapsed; most > 0 {
			sum = min(sum, most)
		}
		longest = max(longest, sum)
	}
	if longest == 0 {
		return time.Second
	}
	return longest
}

// herd counts the retries in each part of the time. All clients fail at the
// same instant, and their retries fail at once.
func herd(ctx context.Context, p retry.Policy, clients int, end time.Duration) (counts [herdBins]int, err error) {
	random := rand.New(rand.NewPCG(1, 2))
	for range clients {
		if err := ctx.Err(); err != nil {
			return counts, err
		}
		seed, at := max(1, random.Uint64()), time.Duration(0)
		for n := 1; n <= herdRetries; n++ {
			d := p.Next(retry.Attempt{Number: n, Err: errDown, Elapsed: at, Seed: seed})
			if !d.Retry() || d.Delay > end-at {
				break
			}
			at += d.Delay
			counts[min(herdBins-1, int(float64(at)/float64(end)*herdBins))]++
		}
	}
	return counts, nil
}

// herdFigure shows the retries that hit a server after a common failure.
func herdFigure(ctx context.Context, policies []policyView, clients int) figure {
	end := horizon(policies)
	c := lineChart{
		label: fmt.Sprintf("Retries of %s clients in each hundredth of %s after they failed together", preview.Thousands(clients), preview.Brief(end)),
		x:     axis{title: "time after the failure", max: float64(end), format: func(v float64) string { return preview.Brief(time.Duration(v)) }, ticks: timeTicks(end)},
		y:     axis{title: "retries", max: 1},
	}
	var words []string
	for _, p := range policies {
		counts, err := herd(ctx, p.policy, clients, end)
		if err != nil {
			return tooLong()
		}
		line := line{name: p.Name, class: p.Class}
		total, most := 0, 0
		for i, n := range counts {
			total, most = total+n, max(most, n)
			line.points = append(line.points, point{float64(end) * float64(i) / herdBins, float64(n)}, point{float64(end) * float64(i+1) / herdBins, float64(n)})
		}
		c.y.max = max(c.y.max, float64(most))
		c.lines = append(c.lines, line)
		words = append(words, fmt.Sprintf("Policy %s: %s retries within %s of the failure, of which at most %s in any %s.",
			p.Name, preview.Thousands(total), preview.Brief(end), preview.Thousands(most), preview.Brief(end/herdBins)))
	}
	c.y.ticks, c.y.max = niceTicks(c.y.max)
	return figure{c.svg(), words}
}

// loadCalls calls are simulated, each with at most loadAttempts.
const (
	loadCalls    = 1000
	loadAttempts = 30
	loadStep     = 5 // step of the share of failures, in percent
)

// load returns the number of attempts for 100 calls, if each attempt fails with
// a given probability.
func load(ctx context.Context, p retry.Policy, failing float64, budget *retry.Budget) (float64, error) {
	random := rand.New(rand.NewPCG(3, 4))
	attempts := 0
	for range loadCalls {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		seed, elapsed := max(1, random.Uint64()), time.Duration(0)
		for n := 1; ; n++ {
			attempts++
			if random.Float64() >= failing {
				budget.Success()
				break
			}
			d := p.Next(retry.Attempt{Number: n, Err: errDown, Elapsed: elapsed, Seed: seed})
			if !d.Retry() || n == loadAttempts || !budget.Take() {
				break
			}
			elapsed = preview.Add(elapsed, d.Delay)
		}
	}
	return 100 * float64(attempts) / loadCalls, nil
}

// loadFigure shows the load against the share of failures.
func loadFigure(ctx context.Context, policies []policyView, size int, ratio float64) figure {
	percent := func(v float64) string { return fmt.Sprintf("%.0f%%", v) }
	c := lineChart{
		label: "Attempts for each 100 calls, against the share of attempts that fail, with and without a budget",
		x:     axis{title: "attempts that fail", max: 100, format: percent, ticks: []float64{0, 20, 40, 60, 80, 100}},
		y:     axis{title: "attempts for 100 calls", max: 100},
	}
	var words []string
	for _, p := range policies {
		plain, budgeted := line{name: p.Name, class: p.Class}, line{name: p.Name + ", budget", class: p.Class + " dashed"}
		for percent := 0; percent <= 100; percent += loadStep {
			failing := float64(percent) / 100
			without, err := load(ctx, p.policy, failing, nil)
			if err != nil {
				return tooLong()
			}
			with, err := load(ctx, p.policy, failing, &retry.Budget{Size: size, Ratio: ratio})
			if err != nil {
				return tooLong()
			}
			plain.points = append(plain.points, point{float64(percent), without})
			budgeted.points = append(budgeted.points, point{float64(percent), with})
			c.y.max = max(c.y.max, without, with)
			if percent == 50 || percent == 100 {
				words = append(words, fmt.Sprintf("Policy %s: where %d%% of attempts fail, %.0f attempts for 100 calls, and %.0f with the budget.", p.Name, percent, without, with))
			}
		}
		c.lines = append(c.lines, plain, budgeted)
		if limit := p.policy.EffectiveMax(); limit == retry.Unlimited || limit > loadAttempts {
			words = append(words, fmt.Sprintf("Policy %s is shown with at most %d attempts for each call.", p.Name, loadAttempts))
		}
	}
	c.y.ticks, c.y.max = niceTicks(c.y.max)
	return figure{c.svg(), words}
}

func tooLong() figure {
	return figure{template.HTML(""), []string{fmt.Sprintf("This was stopped after %v.", maxTime)}}
}
