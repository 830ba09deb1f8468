// Budgets simulates processes that call a database according to retry.Default with a Budget. After
// an outage the database should recover. In a blip, which is a short outage, no call should fail.
// This program prints the two tables of docs/budget.md. The default Budget of retryhttp, retrygrpc
// and retryconnect was chosen with these tables.
//
//	go run .         # outages: ten minutes of CPU
//	go run . -blips  # half a minute of CPU
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
	before   = time.Minute // the time from the start of the simulation to the event
)

var (
	loads     = []float64{0.5, 0.65, 0.8}  // the usual loads, as shares of capacity
	border    = []float64{0.85, 0.9, 0.95} // loads near the capacity, as shares of capacity
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

// The function `system` returns a system of processes that call a database. The events begin after
// a minute.
func system(
	rate float64, processes int, b *retry.Budget, db retrysim.Service, events ...retrysim.Trigger,
) retrysim.System {
	p := retry.Default()
	p.AttemptTimeout, p.Budget = time.Second, b
	for i := range events {
		events[i].At = before
	}
	return retrysim.System{
		Services: map[string]retrysim.Service{
			"web": {
				Rate: rate, Clients: processes, Patience: time.Minute,
				Calls: []retrysim.Edge{{To: "db", Policy: p}},
			},
			"db": db,
		},
		Events: events,
	}
}

// The variable `database` is a service that can answer 300 requests a second.
var database = retrysim.Service{Workers: 30, Work: 100 * time.Millisecond}

// The function `outage` returns a system with one event after a minute. The parameter `load` is the
// share of capacity that the usual calls use.
func outage(load float64, processes int, b *retry.Budget, event retrysim.Trigger) retrysim.System {
	event.Service = "db"
	s := system(load*capacity, processes, b, database, event)
	s.Duration = before + event.For + 10*time.Minute
	return s
}

// staysDown simulates an outage for each event in the list `events`. It returns the number of
// events from which the database has not recovered after ten minutes.
func staysDown(load float64, processes int, b *retry.Budget, seed uint64) (down int) {
	for _, event := range events {
		if run(outage(load, processes, b, event), seed).Outcome.Verdict != retrysim.Recovers {
			down++
		}
	}
	return down
}

// A blip is a short outage of a target. It happens once in a simulation. If the field `every` is
// set, it happens twelve times.
type blip struct {
	name    string
	rate    float64       // calls a second
	warm    time.Duration // the time from the start of the simulation to the blip
	fails   time.Duration // the length of the blip, in which requests fail
	burst   bool          // whether about 100 more calls come at the start of the blip
	noise   float64       // the share of requests that fail outside the blip
	every   time.Duration // the time from one blip to the next; 0: there is only one blip
	partial float64       // the share of requests that fail in the blip; 0: all requests fail
}

var blips = []blip{
	{name: "cold, 100 ms", rate: 100, fails: 100 * time.Millisecond, burst: true},
	{name: "cold, 1 s", rate: 100, fails: time.Second, burst: true},
	{name: "300 ms", rate: 100, warm: before, fails: 300 * time.Millisecond, burst: true},
	{name: "1 s", rate: 100, warm: before, fails: time.Second, burst: true},
	{name: "1.5 s", rate: 100, warm: before, fails: 1500 * time.Millisecond, burst: true},
	{name: "2 s", rate: 100, warm: before, fails: 2 * time.Second, burst: true},
	{
		name: "2 % noise, 300 ms", rate: 100, warm: before,
		fails: 300 * time.Millisecond, burst: true, noise: 0.02,
	},
	{
		name: "5 % noise, 300 ms", rate: 100, warm: before,
		fails: 300 * time.Millisecond, burst: true, noise: 0.05,
	},
	{
		name: "300 ms, every 10 s", rate: 100, warm: before,
		fails: 300 * time.Millisecond, every: 10 * time.Second,
	},
	{
		name: "1 s, every 20 s", rate: 100, warm: before,
		fails: time.Second, every: 20 * time.Second,
	},
	{
		name: "a quarter fails for 5 s, every 20 s", rate: 100, warm: before,
		fails: 5 * time.Second, every: 20 * time.Second, partial: 0.25,
	},
}

// The method `lost` returns the number of calls that fail, as the mean of ten runs.
func (b blip) lost(processes int, budget *retry.Budget) int {
	const seeds = 10
	times := 1
	if b.every > 0 {
		times = 12
	}
	s := system(b.rate, processes, budget, retrysim.Service{Work: 10 * time.Millisecond})
	s.Duration = b.warm + time.Duration(times)*b.every + 20*time.Second
	fail := b.partial
	if fail == 0 {
		fail = 1
	}
	for n := range times {
		s.Events = append(s.Events, retrysim.Trigger{
			At: b.warm + time.Duration(n)*b.every, For: b.fails,
			Service: "db", Change: retrysim.Fail, Value: fail,
		})
	}
	if b.noise > 0 { // let some requests fail before and after the blip
		after := b.warm + b.fails
		for _, e := range []retrysim.Trigger{{For: b.warm}, {At: after, For: 5 * time.Second}} {
			e.Service, e.Change, e.Value = "db", retrysim.Fail, b.noise
			s.Events = append(s.Events, e)
		}
	}
	if b.burst {
		s.Events = append(s.Events, retrysim.Trigger{
			At: b.warm, For: 10 * time.Millisecond,
			Service: "web", Change: retrysim.Rate, Value: 10_100,
		})
	}
	lost := 0
	for seed := range uint64(seeds) {
		r := run(s, seed+1)
		lost += r.Outcome.Calls - r.Outcome.Worked
	}
	return (lost + seeds/2) / seeds
}

// A herd is a group of 1,000 calls that come at the same time, in addition to the usual calls. They
// come at the start of the processes or at the start of a blip.
type herd struct {
	name   string
	load   float64       // the usual calls, as a share of the database's capacity
	warm   time.Duration // the time from the start of the simulation to the herd
	within time.Duration // the time within which the calls of the herd come
	fails  time.Duration // how long the database refuses all requests, from the start of the herd
}

var herds = []herd{
	{name: "at the start", load: 0.8, within: time.Second},
	{
		name: "in a blip of 0.3 s", load: 0.65, warm: before,
		within: 10 * time.Millisecond, fails: 300 * time.Millisecond,
	},
	{
		name: "in a blip of 1 s", load: 0.65, warm: before,
		within: 10 * time.Millisecond, fails: time.Second,
	},
}

// The method `lost` makes ten runs. It returns the mean number of calls that fail, and the number
// of runs in which the database has not recovered after ten minutes.
func (h herd) lost(processes int, b *retry.Budget) (lost, down int) {
	const seeds = 10
	rate := h.load * capacity
	s := system(rate, processes, b, database)
	s.Events = []retrysim.Trigger{{
		At: h.warm, For: h.within,
		Service: "web", Change: retrysim.Rate, Value: rate + 1000/h.within.Seconds(),
	}}
	if h.fails > 0 {
		s.Events = append(s.Events, retrysim.Trigger{
			At: h.warm, For: h.fails,
			Service: "db", Change: retrysim.Fail, Value: 1,
		})
	}
	s.Duration = h.warm + 10*time.Minute
	for seed := range uint64(seeds) {
		r := run(s, seed+1)
		lost += r.Outcome.Calls - r.Outcome.Worked
		if r.Outcome.Verdict != retrysim.Recovers {
			down++
		}
	}
	return (lost + seeds/2) / seeds, down
}

// The function `layers` simulates three services that call one another, and a database that the
// last service calls. It returns the number of requests to the database for each call to the first
// service. Each service has its own Budget. The load is four fifths of the capacity of the
// database. The database hangs for two seconds. The function counts the requests and calls of these
// two seconds and of the ten seconds after them.
func layers(processes int, b *retry.Budget) float64 {
	service := func(rate float64, to string, timeout time.Duration) retrysim.Service {
		p := retry.Default()
		p.AttemptTimeout = timeout
		if b != nil {
			p.Budget = &retry.Budget{
				Size: b.Size, Ratio: b.Ratio, RefillEvery: b.RefillEvery,
				Remember: b.Remember, Grace: b.Grace,
			}
		}
		calls := []retrysim.Edge{{To: to, Policy: p}}
		return retrysim.Service{
			Rate: rate, Clients: processes, Patience: 5 * time.Second, Calls: calls,
		}
	}
	const hangs = 2 * time.Second
	r := run(retrysim.System{
		Services: map[string]retrysim.Service{
			"app": service(0.8*capacity, "web", 5*time.Second),
			"web": service(0, "api", 3*time.Second),
			"api": service(0, "db", time.Second),
			"db":  database,
		},
		Events: []retrysim.Trigger{
			{At: before, For: hangs, Service: "db", Change: retrysim.Workers},
		},
		Duration: before + hangs + 10*time.Second,
	}, 1)
	calls, requests := 0, 0
	for i := int(before.Seconds()); i < len(r.Seconds); i++ {
		calls += r.Seconds[i].Calls
		requests += r.Services["db"].Seconds[i].Requests
	}
	return float64(requests) / float64(calls)
}

// The function `run` simulates a system.
func run(s retrysim.System, seed uint64) retrysim.Result {
	r, err := retrysim.Run(s, seed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "budgets:", err)
		os.Exit(1)
	}
	return r
}

// A row is one line of the tables in docs/budget.md. Each line is about a different Budget.
type row struct {
	name   string
	budget *retry.Budget
}

// newRow returns the row of a Budget. The parameters `refill` and `remember` are numbers of
// seconds, and `grace` is a number of tenths of a second.
func newRow(name string, size int, ratio float64, refill, remember, grace int) row {
	return row{name, &retry.Budget{
		Size: size, Ratio: ratio, RefillEvery: time.Duration(refill) * time.Second,
		Remember: time.Duration(remember) * time.Second, Grace: time.Duration(grace) * time.Second / 10,
	}}
}

var (
	usual = newRow("**10, 0.1, 5m, 1m, 1s**", 10, 0.1, 300, 60, 10)
	rows  = []row{
		{"none", nil},
		newRow("10, 0.1, 10s", 10, 0.1, 10, 0, 0),
		newRow("10, 0.1, 5m", 10, 0.1, 300, 0, 0),
		newRow("10, 0.1, 5m, 1m", 10, 0.1, 300, 60, 0),
		usual,
		newRow("10, 0.1, 5m, 1m, 1.5s", 10, 0.1, 300, 60, 15),
		newRow("10, 0.1, 5m, 1m, 2s", 10, 0.1, 300, 60, 20),
		newRow("20, 0.1, 5m, 1m, 1s", 20, 0.1, 300, 60, 10),
		newRow("10, 0.2, 5m, 1m, 1s", 10, 0.2, 300, 60, 10),
	}
)

// The method `outages` returns one line of the table of outages: the line for the Budget of r. The
// cells contain the number of outages from which the database has not recovered after ten minutes.
// The last cells are the cells that the method `price` returns.
func (r row) outages() string {
	line := "| " + r.name
	for _, n := range processes {
		down := 0
		for _, load := range loads {
			down += staysDown(load, n, r.budget, 1)
		}
		line += fmt.Sprintf(" | %d", down)
	}
	for _, load := range border {
		down := 0
		for _, n := range processes {
			down += staysDown(load, n, r.budget, 1)
		}
		line += fmt.Sprintf(" | %d", down)
	}
	return line + r.price() + " |"
}

// The method `price` returns the last cells in the line of r. They show what the Grace of the
// Budget costs. A herd is a group of 1,000 calls that come at about the same time. For each herd,
// one cell has the number of calls that fail. The last cell has the number of requests that the
// database gets for each call through three layers of services.
func (r row) price() (line string) {
	for _, h := range herds {
		var lost []string
		for _, n := range processes[:3] {
			calls, down := h.lost(n, r.budget)
			cell := fmt.Sprint(calls)
			if down > 0 {
				cell = "never"
			}
			lost = append(lost, cell)
		}
		line += " | " + strings.Join(lost, ", ")
	}
	var requests []string
	for _, n := range processes[:3] {
		requests = append(requests, fmt.Sprintf("%.1f", layers(n, r.budget)))
	}
	return line + " | " + strings.Join(requests, ", ")
}

// The method `lost` returns one line of the table of blips, which are short outages: the line for
// the Budget of r. The cells contain the number of calls that fail.
func (r row) lost() string {
	line := "| " + r.name
	for _, b := range blips {
		var lost []string
		for _, n := range processes[:3] {
			lost = append(lost, fmt.Sprint(b.lost(n, r.budget)))
		}
		line += " | " + strings.Join(lost, ", ")
	}
	return line + " |"
}

func main() {
	short := flag.Bool("blips", false, "print only the table of blips, which are short outages")
	flag.Parse()
	line, head := row.outages,
		"| budget of each process |"+
			" how many of 24 outages are not over after ten minutes, with 1 process |"+
			" how many of 24 outages are not over after ten minutes, with 10 processes |"+
			" how many of 24 outages are not over after ten minutes, with 100 processes |"+
			" how many of 24 outages are not over after ten minutes, with 1,000 processes |"+
			" how many of 32 outages are not over after ten minutes, at 85 % load |"+
			" how many of 32 outages are not over after ten minutes, at 90 % load |"+
			" how many of 32 outages are not over after ten minutes, at 95 % load |"
	for _, h := range herds {
		head += " calls lost if 1,000 more calls come " + h.name + " |"
	}
	head += " requests to the database for each call through three layers |"
	if *short {
		line, head = row.lost, "| budget of each process |"
		for _, b := range blips {
			head += " " + b.name + " |"
		}
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
