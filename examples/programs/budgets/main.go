// Budgets simulates 24 outages of a database, for 1, 10, 100 and 1,000 processes that call
// it under retry.Default, each with a Budget or with none. The default of
// retryhttp.Transport.Budgets comes from its table, which docs/budget.md has.
//
//	go run .
package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysim"
)

const capacity = 300 // requests a second that the database can answer

var (
	loads     = []float64{0.5, 0.65, 0.8} // of its capacity
	processes = []int{1, 10, 100, 1000}

	events = []retrysim.Trigger{
		{Change: retrysim.Workers, Value: 0, For: 2 * time.Second},
		{Change: retrysim.Workers, Value: 0, For: 10 * time.Second},
		{Change: retrysim.Workers, Value: 0, For: time.Minute},
		{Change: retrysim.Workers, Value: 10, For: 30 * time.Second},
		{Change: retrysim.Slower, Value: 5, For: 10 * time.Second},
		{Change: retrysim.Fail, Value: 1, For: 10 * time.Second},
		{Change: retrysim.Fail, Value: 0.5, For: time.Minute},
		{Change: retrysim.Slower, Value: 20, For: 5 * time.Second},
	}

	budgets = []struct {
		name   string
		budget *retry.Budget
	}{
		{"none", nil},
		{"10 and 0.1, one more every 10s", &retry.Budget{Size: 10, Ratio: 0.1, RefillEvery: 10 * time.Second}},
		{"10 and 0.1, one more every minute", &retry.Budget{Size: 10, Ratio: 0.1, RefillEvery: time.Minute}},
		{"**10 and 0.1, one more every 5 minutes**", &retry.Budget{Size: 10, Ratio: 0.1, RefillEvery: 5 * time.Minute}},
		{"10 and 0.1", &retry.Budget{Size: 10, Ratio: 0.1}},
	}
)

// system returns processes that call a database, in which something goes wrong after 20s.
func system(load float64, processes int, b *retry.Budget, event retrysim.Trigger) retrysim.System {
	p := retry.Default()
	p.AttemptTimeout, p.Budget = time.Second, b
	event.At, event.Service = 20*time.Second, "db"
	return retrysim.System{
		Services: map[string]retrysim.Service{
			"web": {Rate: load * capacity, Clients: processes, Patience: time.Minute, Calls: []retrysim.Edge{{To: "db", Policy: p}}},
			"db":  {Workers: 30, Work: 100 * time.Millisecond},
		},
		Events:   []retrysim.Trigger{event},
		Duration: event.At + event.For + 10*time.Minute,
	}
}

// staysDown returns in how many outages the database is not back after ten minutes.
func staysDown(loads []float64, processes int, b *retry.Budget) (down int, err error) {
	for _, event := range events {
		for _, load := range loads {
			r, err := retrysim.Run(system(load, processes, b, event), 1)
			if err != nil {
				return 0, err
			}
			if r.Outcome.Verdict != retrysim.Recovers {
				down++
			}
		}
	}
	return down, nil
}

// lost returns how many calls do not work while 2 % of the requests fail, and of how many.
func lost(b *retry.Budget) (lost, calls int, err error) {
	r, err := retrysim.Run(system(loads[2], 10, b, retrysim.Trigger{Change: retrysim.Fail, Value: 0.02, For: 10 * time.Minute}), 1)
	for _, second := range r.Seconds {
		calls += second.Calls
		lost += second.Calls - second.Worked
	}
	return lost, calls, err
}

// row returns the row of a budget in the table.
func row(name string, b *retry.Budget) (string, error) {
	text := "| " + name
	for _, n := range processes {
		down, err := staysDown(loads, n, b)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf(" | %d", down)
	}
	lost, calls, err := lost(b)
	return text + fmt.Sprintf(" | %d of %d |", lost, calls), err
}

func main() {
	rows, errs := make([]string, len(budgets)), make([]error, len(budgets))
	var all sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for i, of := range budgets {
		all.Go(func() {
			slots <- struct{}{}
			rows[i], errs[i] = row(of.name, of.budget)
			<-slots
		})
	}
	all.Wait()
	fmt.Println("| budget of each process | 1 process | 10 | 100 | 1,000 | calls lost in 2 % noise |\n|---|---|---|---|---|---|")
	fmt.Println(strings.Join(rows, "\n"))
	for _, err := range errs {
		if err != nil {
			fmt.Fprintln(os.Stderr, "budgets:", err)
			os.Exit(1)
		}
	}
}
