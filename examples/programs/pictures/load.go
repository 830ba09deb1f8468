package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/goretry/retry"
)

// A load contains the results of two simulations in which each attempt fails with the same
// probability. In the first simulation, each call makes up to three retries. In the second
// simulation, a budget also limits these retries.
type load struct {
	failing      float64 // the probability that an attempt fails
	plain        outcome // the result of the simulation without a budget
	budgeted     outcome // the result of the simulation with a budget
	plainForm    outcome // the same as in the field `plain`, by the formula in threeRetries
	budgetedForm outcome // the same as in the field `budgeted`, by the formula in withinBudget

	// The next two fields are published results of the simulator of Marc Brooker. The tests compare
	// these results with the fields `plain` and `budgeted`.

	known        outcome // Brooker's result with three retries and without a budget
	knownNoRetry float64 // Brooker's result without retries: the share of calls that succeed
}

// An outcome contains the number of attempts and the number of successes, both divided by the
// number of calls.
type outcome struct{ load, success float64 }

// These numbers, and the known results in simulateLoads, are from the simulations in Marc Brooker,
// "Fixing retries with token buckets and circuit breakers" (2022). There are 100 clients. Each
// client has a budget of 5 retries, and makes 600 calls.
const (
	loadClients = 100
	loadCalls   = 600
	loadRetries = 3
	bucketSize  = 5
	bucketRatio = 0.1
)

func simulateLoads(seed uint64) []load {
	loads := []load{
		{failing: 0.01, knownNoRetry: 0.9897, known: outcome{1.010, 1}},
		{failing: 0.05, knownNoRetry: 0.9496, known: outcome{1.052, 1}},
		{failing: 0.10, knownNoRetry: 0.899, known: outcome{1.111, 0.9999}},
		{failing: 0.20, knownNoRetry: 0.797, known: outcome{1.246, 0.9984}},
		{failing: 0.30, knownNoRetry: 0.700, known: outcome{1.414, 0.992}},
		{failing: 0.50, knownNoRetry: 0.502, known: outcome{1.879, 0.937}},
		{failing: 0.75, knownNoRetry: 0.253, known: outcome{2.727, 0.685}},
		{failing: 1.00, knownNoRetry: 0, known: outcome{4, 0}},
	}
	none := func() *retry.Budget { return nil }
	bucket := func() *retry.Budget { return &retry.Budget{Size: bucketSize, Ratio: bucketRatio} }
	for i := range loads {
		l := &loads[i]
		l.plain = simulateLoad(rand.New(rand.NewPCG(seed, uint64(i))), l.failing, none)
		l.budgeted = simulateLoad(rand.New(rand.NewPCG(seed, uint64(i))), l.failing, bucket)
		l.plainForm = threeRetries(l.failing)
		l.budgetedForm = withinBudget(l.failing)
	}
	return loads
}

func simulateLoad(random *rand.Rand, failing float64, budget func() *retry.Budget) outcome {
	attempts, successes := 0, 0
	for range loadClients {
		policy := retry.Policy{MaxRetries: loadRetries, Budget: budget()}
		for range loadCalls {
			err := retry.Do(context.Background(), policy, func(context.Context) error {
				if attempts++; random.Float64() < failing {
					return errDown
				}
				return nil
			})
			if err == nil {
				successes++
			}
		}
	}
	const calls = loadClients * loadCalls
	return outcome{float64(attempts) / calls, float64(successes) / calls}
}

// threeRetries computes by a formula, without a simulation, the number of attempts of a call and
// the share of calls that succeed. An attempt fails with the probability x, and a call makes up to
// three retries. A retry happens if all attempts before it fail.
func threeRetries(x float64) outcome {
	return outcome{1 + x + x*x + x*x*x, 1 - math.Pow(x, loadRetries+1)}
}

// withinBudget computes by a formula, without a simulation, the mean number of attempts of a call
// and the share of calls that succeed. An attempt fails with the probability x. A call makes up to
// three retries, as long as a budget of this library allows them. Each success adds bucketRatio to
// the budget.
//
// Let R be the mean number of retries of a call. Then a call makes 1+R attempts, and the share of
// calls that succeed is (1-x) * (1+R). Without a budget, R is x + x² + x³, as in threeRetries. The
// budget limits R to the solution of R = bucketRatio * (1-x) * (1+R) + bucketSize / loadCalls. The
// last summand is there because the budget is full at the start.
func withinBudget(x float64) outcome {
	pay := bucketRatio * (1 - x)
	retries := min(x+x*x+x*x*x, pay/(1-pay)+bucketSize/(1-pay)/loadCalls)
	return outcome{1 + retries, (1 - x) * (1 + retries)}
}

func printLoads(w io.Writer, loads []load) {
	const title = "60,000 calls whose attempts fail with probability x: " +
		"attempts for each 100 calls / calls that succeed, in %.\n" +
		"Three retries, and three retries within a budget of 5 that each success refills by 0.1."
	const head = "x\tthree retries\t(formula)\t(known)\twith budget\t(formula)\tno retry (known)\t"
	table(w, title, func(w io.Writer) {
		fmt.Fprintln(w, head)
		for _, l := range loads {
			fmt.Fprintf(w, "%.2f\t%v\t(%v)\t(%v)\t%v\t(%v)\t100.0 / %.1f\t\n",
				l.failing, l.plain, l.plainForm, l.known, l.budgeted, l.budgetedForm, 100*l.knownNoRetry)
		}
	})
}

func (o outcome) String() string {
	return fmt.Sprintf("%.1f / %.1f", 100*o.load, 100*o.success)
}

func loadChart(loads []load) chart {
	plain, budgeted := series{name: "three retries"}, series{name: "with a budget"}
	for _, l := range loads {
		plain.points = append(plain.points, point{100 * l.failing, 100 * l.plain.load})
		budgeted.points = append(budgeted.points, point{100 * l.failing, 100 * l.budgeted.load})
	}
	return chart{
		title:  "Load on a target that fails: attempts for each 100 calls",
		x:      axis{label: "attempts that fail, in %", max: 100},
		y:      axis{label: "attempts for each 100 calls", max: 400},
		series: []series{plain, budgeted},
	}
}
