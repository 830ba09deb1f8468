package main

import (
	"container/heap"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry"
)

// In a contest each client wants to write the same row once, under optimistic
// concurrency: it reads the version and writes if the version is still the same;
// otherwise it backs off and begins again. This is the simulation of Brooker,
// "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): every message
// takes |N(10, 2)| ms, and the backoff is 10ms x2, at most 2s.
type contest struct {
	clients int
	results map[string]result
}

// A result is the mean over all trials.
type result struct {
	ms    float64 // until the last client has written
	calls float64 // writes, refused ones included
}

// contestants are the backoffs that compete, in the order of the tables.
var contestants = []struct {
	name   string
	policy retry.Policy
}{
	{"none", retry.Policy{}},
	{"exponential", retry.Policy{Backoff: contestCurve, MaxDelay: contestCap}},
	{"equal", retry.Policy{Backoff: contestCurve, MaxDelay: contestCap, Jitter: retry.EqualJitter}},
	{"full", retry.Policy{Backoff: contestCurve, MaxDelay: contestCap, Jitter: retry.FullJitter}},
}

var contestCurve = retry.Exponential{Base: 10 * time.Millisecond}

const contestCap = 2 * time.Second

// knownContests are the results of one run of the article's own simulator, because
// the article has only charts.
var knownContests = map[int]map[string]result{
	10:  {"none": {381, 51.0}, "exponential": {3610, 51.2}, "equal": {728, 42.4}, "full": {473, 39.2}},
	20:  {"none": {603, 151.6}, "exponential": {14877, 151.7}, "equal": {1620, 107.5}, "full": {955, 100.2}},
	50:  {"none": {1143, 689.8}, "exponential": {35952, 619.9}, "equal": {4308, 347.3}, "full": {2928, 332.6}},
	100: {"none": {2029, 2423}, "exponential": {63177, 1848}, "equal": {6672, 812.3}, "full": {4887, 796.3}},
	150: {"none": {2881, 5146}, "exponential": {85853, 3538}, "equal": {8334, 1324}, "full": {6331, 1319}},
	190: {"none": {3539, 8005}, "exponential": {101152, 5155}, "equal": {9401, 1760}, "full": {7415, 1772}},
}

func simulateContests(seed uint64, trials int) []contest {
	var contests []contest
	for clients := 10; clients <= 190; clients += 10 {
		contests = append(contests, simulateContest(seed, clients, trials))
	}
	return contests
}

func simulateContest(seed uint64, clients, trials int) contest {
	c := contest{clients: clients, results: map[string]result{}}
	for i, contestant := range contestants {
		random := rand.New(rand.NewPCG(seed, uint64(1000*clients+i)))
		var sum result
		for range trials {
			r := compete(random, contestant.policy, clients)
			sum.ms += r.ms / float64(trials)
			sum.calls += r.calls / float64(trials)
		}
		c.results[contestant.name] = sum
	}
	return c
}

// A message is on its way to the server or back to a client.
type message struct {
	at     float64 // ms
	client *client
	step   step
}

type step int

const (
	readArrives  step = iota // at the server
	readReturns              // to the client, with the version
	writeArrives             // at the server, which takes it if the version is still the same
	writeReturns             // to the client
)

type client struct {
	seed    uint64
	attempt int
	version int
	wrote   bool
}

// compete runs one contest until every client has written.
func compete(random *rand.Rand, policy retry.Policy, clients int) (r result) {
	version := 0
	var inFlight messages
	send := func(at float64, c *client, s step) {
		heap.Push(&inFlight, message{at + math.Abs(10+2*random.NormFloat64()), c, s})
	}
	for range clients {
		send(0, &client{seed: random.Uint64()}, readArrives)
	}
	for len(inFlight) > 0 {
		m := heap.Pop(&inFlight).(message)
		c := m.client
		switch m.step {
		case readArrives:
			c.version = version
			send(m.at, c, readReturns)
		case readReturns:
			send(m.at, c, writeArrives)
		case writeArrives:
			r.calls++
			if c.wrote = c.version == version; c.wrote {
				version++
			}
			send(m.at, c, writeReturns)
		case writeReturns:
			r.ms = m.at
			if !c.wrote {
				c.attempt++
				delay := policy.Next(retry.Attempt{Number: c.attempt, Err: errDown, Seed: c.seed}).Delay
				send(m.at+float64(delay)/float64(time.Millisecond), c, readArrives)
			}
		}
	}
	return r
}

// messages is a heap, the earliest first.
type messages []message

func (m messages) Len() int           { return len(m) }
func (m messages) Less(i, j int) bool { return m[i].at < m[j].at }
func (m messages) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *messages) Push(x any)        { *m = append(*m, x.(message)) }
func (m *messages) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

func printContests(w io.Writer, contests []contest) {
	table(w, "Clients that compete to write one row, 10ms x2, at most 2s: milliseconds until the last has written / writes.", func(w io.Writer) {
		fmt.Fprint(w, "clients\t")
		for _, contestant := range contestants {
			fmt.Fprintf(w, "%s\t(known)\t", contestant.name)
		}
		fmt.Fprintln(w)
		for _, c := range contests {
			fmt.Fprintf(w, "%d\t", c.clients)
			for _, contestant := range contestants {
				known := ""
				if r, ok := knownContests[c.clients][contestant.name]; ok {
					known = fmt.Sprintf("(%v)", r)
				}
				fmt.Fprintf(w, "%v\t%s\t", c.results[contestant.name], known)
			}
			fmt.Fprintln(w)
		}
	})
}

func (r result) String() string { return fmt.Sprintf("%.0f / %.0f", r.ms, r.calls) }

func callsChart(contests []contest) chart {
	return chart{
		title:  "Clients that compete to write one row: writes",
		x:      axis{label: "clients", max: 200},
		y:      axis{label: "writes, refused ones included", max: 8000},
		series: contestSeries(contests, func(r result) float64 { return r.calls }),
	}
}

func timeChart(contests []contest) chart {
	return chart{
		title:  "Clients that compete to write one row: time",
		x:      axis{label: "clients", max: 200},
		y:      axis{label: "seconds until the last has written", min: 0.1, max: 1000, log: true},
		series: contestSeries(contests, func(r result) float64 { return r.ms / 1000 }),
	}
}

func contestSeries(contests []contest, value func(result) float64) []series {
	all := make([]series, len(contestants))
	for i, contestant := range contestants {
		all[i].name = contestant.name
		for _, c := range contests {
			all[i].points = append(all[i].points, point{float64(c.clients), value(c.results[contestant.name])})
		}
	}
	return all
}
