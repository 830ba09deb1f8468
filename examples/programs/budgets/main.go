// Budgets simulates what a Budget does for processes that call a database under
// retry.Default: in outages, after which the database should come back, and in blips, in
// which no call should be lost. The Budget of a target, which retryhttp, retrygrpc and
// retryconnect set, comes from its tables, which docs/budget.md has.
//
//	go run .          # a minute of CPU
//	go run . -border  # four minutes of CPU
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysim"
)

const (
	capacity = 300         // requests a second that the database can answer
	before   = time.Minute // of calls, before something goes wrong
)

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
)

// system returns processes that call a database, in which something goes wrong after a minute.
func system(rate float64, processes int, b *retry.Budget, db retrysim.Service, events ...retrysim.Trigger) retrysim.System {
	p := retry.Default()
	p.AttemptTimeout, p.Budget = time.Second, b
	for i := range events {
		events[i].At = before
	}
	return retrysim.System{
		Services: map[string]retrysim.Service{
			"web": {Rate: rate, Clients: processes, Patience: time.Minute, Calls: []retrysim.Edge{{To: "db", Policy: p}}},
			"db":  db,
		},
		Events: events,
	}
}

// outage returns a system whose database can answer so many requests.
func outage(load float64, processes int, b *retry.Budget, event retrysim.Trigger) retrysim.System {
	event.Service = "db"
	s := system(load*capacity, processes, b, retrysim.Service{Workers: 30, Work: 100 * time.Millisecond}, event)
	s.Duration = before + event.For + 10*time.Minute
	return s
}

// staysDown returns in how many outages the database is not back after ten minutes.
func staysDown(load float64, processes int, b *retry.Budget) (down int) {
	for _, event := range events {
		if run(outage(load, processes, b, event), 1).Outcome.Verdict != retrysim.Recovers {
			down++
		}
	}
	return down
}

// noise returns how many calls do not work while 2 % of the requests fail, and of how many.
func noise(b *retry.Budget) (lost, calls int) {
	r := run(outage(0.8, 10, b, retrysim.Trigger{Change: retrysim.Fail, Value: 0.02, For: 10 * time.Minute}), 1)
	return r.Outcome.Calls - r.Outcome.Worked, r.Outcome.Calls
}

// blip returns how many calls do not work on average where the target fails for a moment:
// there are 100 a second, and about 100 come at the same time when it begins.
func blip(processes int, b *retry.Budget, fails time.Duration) int {
	const seeds = 10
	lost := 0
	for seed := range uint64(seeds) {
		s := system(100, processes, b, retrysim.Service{Work: 10 * time.Millisecond},
			retrysim.Trigger{Service: "db", Change: retrysim.Fail, Value: 1, For: fails},
			retrysim.Trigger{Service: "web", Change: retrysim.Rate, Value: 10_100, For: 10 * time.Millisecond})
		s.Duration = before + 20*time.Second
		r := run(s, seed+1)
		lost += r.Outcome.Calls - r.Outcome.Worked
	}
	return (lost + seeds/2) / seeds
}

// run simulates a system.
func run(s retrysim.System, seed uint64) retrysim.Result {
	r, err := retrysim.Run(s, seed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "budgets:", err)
		os.Exit(1)
	}
	return r
}

// A row is a Budget in a table.
type row struct {
	name   string
	budget *retry.Budget
}

// of returns the row of a Budget. refill and remember are in seconds.
func of(name string, size int, ratio float64, refill, remember int) row {
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	return row{name, &retry.Budget{Size: size, Ratio: ratio, RefillEvery: seconds(refill), Remember: seconds(remember)}}
}

var (
	known = []row{
		{"none", nil},
		of("10 and 0.1, one more every 10s", 10, 0.1, 10, 0),
		of("10 and 0.1, one more every minute", 10, 0.1, 60, 0),
		of("10 and 0.1, one more every 5 minutes", 10, 0.1, 300, 0),
		usual,
	}
	usual = of("**the same, and Remember 1m**", 10, 0.1, 300, 60)

	near = []row{
		of("10, 0.1, none", 10, 0.1, 300, 0),
		of("10, 0.1, 10s", 10, 0.1, 300, 10),
		of("10, 0.1, 30s", 10, 0.1, 300, 30),
		of("**10, 0.1, 1m**", 10, 0.1, 300, 60),
		of("10, 0.1, 2m", 10, 0.1, 300, 120),
		of("10, 0.2, none", 10, 0.2, 300, 0),
		of("10, 0.2, 10s", 10, 0.2, 300, 10),
		of("10, 0.2, 30s", 10, 0.2, 300, 30),
		of("10, 0.2, 1m", 10, 0.2, 300, 60),
		of("5, 0.1, 1m", 5, 0.1, 300, 60),
		of("20, 0.1, 1m", 20, 0.1, 300, 60),
	}
)

// outages returns the line of r in the table of 24 outages.
func (r row) outages() string {
	line := "| " + r.name
	for _, n := range processes {
		down := 0
		for _, load := range loads {
			down += staysDown(load, n, r.budget)
		}
		line += fmt.Sprintf(" | %d", down)
	}
	lost, calls := noise(r.budget)
	return line + fmt.Sprintf(" | %d of %d", lost, calls) + r.blips(300*time.Millisecond)
}

// border returns the line of r in the table of higher loads and longer blips.
func (r row) border() string {
	line := "| " + r.name
	for _, load := range []float64{0.7, 0.75, 0.8, 0.85, 0.9, 0.95} {
		down := 0
		for _, n := range processes {
			down += staysDown(load, n, r.budget)
		}
		line += fmt.Sprintf(" | %d", down)
	}
	return line + r.blips(100*time.Millisecond, 300*time.Millisecond, 500*time.Millisecond, time.Second, 3*time.Second)
}

// blips returns what is lost in each blip, by the number of processes.
func (r row) blips(blips ...time.Duration) (cells string) {
	for _, fails := range blips {
		var lost []string
		for _, n := range processes {
			lost = append(lost, fmt.Sprint(blip(n, r.budget, fails)))
		}
		cells += " | " + strings.Join(lost, ", ")
	}
	return cells + " |"
}

func main() {
	border := flag.Bool("border", false, "print the table of other loads and blips")
	flag.Parse()
	rows, line, head := known, row.outages, "| budget of each process | 1 process | 10 | 100 | 1,000 | lost in 2 % noise | lost in 300 ms |"
	if *border {
		rows, line, head = near, row.border, "| Size, Ratio, Remember | 70 % | 75 % | 80 % | 85 % | 90 % | 95 % | 100 ms | 300 ms | 500 ms | 1 s | 3 s |"
	}
	lines := make([]string, len(rows))
	var all sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for i, r := range rows {
		all.Go(func() {
			slots <- struct{}{}
			lines[i] = line(r)
			<-slots
		})
	}
	all.Wait()
	fmt.Println(head + "\n|" + strings.Repeat("---|", strings.Count(head, "|")-1))
	fmt.Println(strings.Join(lines, "\n"))
}
