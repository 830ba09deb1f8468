package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/goretry/retry/cmd/retry/internal/explore"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/retrysim"
)

var simulateCommand = &command{
	name: "simulate", args: "[flags] FILE", run: simulate,
	summary: "say whether a system of services comes back after an outage",
	doc: `
Simulate says whether services that call and retry each other come back after an
outage. It prints up to which rate of calls they do, how ten runs end, how they
end without retries, and a run as a table. The exit status is 1 if the system in
FILE does not recover.

    retry simulate system.yaml
    retry simulate -compare with-budget.yaml -svg outage.svg system.yaml

The file is YAML or JSON. This system has 30 database workers that hang for 10s:

    services:
      web:
        rate: 280/s
        calls:
          - {to: db, timeout: 1s, retry: {max_attempts: 2}}
      db: {workers: 30, work: 100ms}
    events:
      - {at: 20s, for: 10s, service: db, workers: 0}

Instead of workers, an event may have slower: 3 (times), fail: 0.5 (the share of
requests) or rate: 400/s. A service may have patience, clients, distribution,
queue, cancel and lend, and a call a budget. Without a queue, the queue of a
service is unlimited. docs/simulate.md explains each key.

With -compare, calls come to both systems at the same times if their services
have the same names and rates. A run has at most a billion events.
`,
}

// runs is how many runs a verdict is about.
const runs = 10

// A simulated is a system with its answer.
type simulated struct {
	File   string          `json:"file"`
	Answer retrysim.Answer `json:"answer"`

	explore.Simulation `json:"-"`
}

func simulate(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	other := flags.String("compare", "", "also simulate the system in this `file`, under the same calls")
	svg := flags.String("svg", "", "draw the run as a picture in this `file`")
	asJSON := flags.Bool("json", false, "print JSON, for programs")
	args, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	name, err := onlyFile(s, args)
	if err != nil {
		return c.misused(s, err)
	}
	names := []string{name}
	if *other != "" {
		names = append(names, *other)
	}
	var all []simulated
	for _, name := range names {
		file, err := s.readFile(name)
		if err != nil {
			return c.failed(s, err)
		}
		document, fault := file.Document()
		if fault != nil {
			return c.failed(s, fault)
		}
		system, faults := document.System()
		for _, fault := range faults {
			status = c.failed(s, fault)
		}
		all = append(all, simulated{File: file.Name, Simulation: explore.Simulation{Name: file.Name, System: system}})
	}
	if status != ok {
		return status
	}
	s.during("simulating", func() { err = simulateAll(all) })
	if err != nil {
		return c.failed(s, err)
	}
	if *svg != "" {
		var pictures []explore.Simulation
		for _, of := range all {
			pictures = append(pictures, of.Simulation)
		}
		picture, err := explore.Picture(pictures...)
		if err == nil {
			err = os.WriteFile(*svg, picture, 0o644)
		}
		if err != nil {
			return c.failed(s, err)
		}
	}
	if all[0].Answer.Verdict != retrysim.Recovers {
		status = found
	}
	if *asJSON {
		err = json.NewEncoder(s.out).Encode(all)
	} else {
		_, err = io.WriteString(s.out, simulationText(all))
	}
	if err != nil {
		return c.failed(s, err)
	}
	return status
}

// simulateAll simulates systems. To compare them, the runs that are shown have the same
// seed.
func simulateAll(all []simulated) (err error) {
	for i := range all {
		of := &all[i]
		if of.Answer, err = retrysim.Explain(of.System, runs); err != nil {
			return errors.New(of.File + ": " + strings.TrimPrefix(err.Error(), "retrysim: "))
		}
		of.Result = of.Answer.Run
		if len(all) > 1 {
			if of.Result, err = retrysim.Run(of.System, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// during calls f. If that takes longer than a second, it says so on the terminal.
func (s *streams) during(what string, f func()) {
	if !s.shown {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	for n := 1; ; n++ {
		select {
		case <-done:
			if n > 1 {
				fmt.Fprint(s.err, "\r\x1b[K")
			}
			return
		case <-seconds.C:
			fmt.Fprintf(s.err, "\r%s, %ds", what, n)
		}
	}
}

// columns is how wide the text is.
const columns = 80

func simulationText(all []simulated) string {
	var b strings.Builder
	for _, of := range all {
		fmt.Fprintf(&b, "%s\n", of.File)
		for line := range strings.Lines(of.Answer.String()) {
			wrap(&b, "  ", line)
		}
		for _, event := range of.System.Events {
			wrap(&b, "  ", fmt.Sprintf("event: %s: %s %v from %v to %v", event.Service, event.Change, event.Value, event.At, event.At+event.For))
		}
		b.WriteString("\n")
	}
	if len(all) == 1 {
		printTimeline(&b, all[0])
	} else {
		printComparison(&b, all[0], all[1])
	}
	b.WriteString("\n")
	for _, limit := range all[0].Answer.Limits {
		wrap(&b, "", limit)
	}
	return b.String()
}

// wrap writes text in lines that are not longer than columns, if its words are not.
func wrap(b *strings.Builder, indent, text string) {
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > columns && strings.TrimSpace(line) != "" {
			fmt.Fprintln(b, line)
			line = indent + "  "
		}
		if strings.TrimSpace(line) != "" {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(b, line)
}

// mostRows is how many lines a table has.
const mostRows = 24

const bar = 16

// printTimeline prints a run, with the load of the service that has the most of it.
func printTimeline(w io.Writer, of simulated) {
	rows, service := of.Rows(mostRows), of.Loaded()[0]
	most := 1.0
	for _, row := range rows {
		most = max(most, row.Requests[service])
	}
	fmt.Fprintf(w, "%11s %8s %5s  %-*s %8s %8s\n", "time", "calls/s", "work", bar+9, short("requests/s at "+service, bar+9), "queue", "p99")
	for _, row := range rows {
		p99 := "-"
		if row.P99 > 0 {
			p99 = preview.Brief(row.P99.Round(time.Millisecond))
		}
		requests := row.Requests[service]
		fmt.Fprintf(w, "%s %8s %5s %8s %-*s %8s %8s\n", rowStart(row), count(row.Calls), worked(row), count(requests),
			bar+1, strings.Repeat("#", int(math.Round(bar*requests/most))), count(float64(row.Queues[service])), p99)
	}
}

// printComparison prints two runs beside each other.
func printComparison(w io.Writer, a, b simulated) {
	service := a.Loaded()[0]
	rows, others := a.Rows(mostRows), b.Rows(mostRows)
	fmt.Fprintf(w, "%20s  %-13s %-20s %s\n%11s %8s %6s %6s %9s %9s %9s %9s\n", "", "calls that work", short("requests/s at "+service, 19), "its queue",
		"time", "calls/s", "A", "B", "A", "B", "A", "B")
	for i, row := range rows[:min(len(rows), len(others))] {
		o := others[i]
		fmt.Fprintf(w, "%s %8s %6s %6s %9s %9s %9s %9s\n", rowStart(row), count(row.Calls), worked(row), worked(o),
			count(row.Requests[service]), count(o.Requests[service]), count(float64(row.Queues[service])), count(float64(o.Queues[service])))
	}
	fmt.Fprintf(w, "A is %s, B is %s.\n", a.File, b.File)
}

// rowStart returns the beginning of a line: the time, marked if something goes wrong.
func rowStart(row explore.Row) string {
	mark := " "
	if row.Event {
		mark = "x"
	}
	return fmt.Sprintf("%s %9s", mark, preview.Brief(row.From))
}

// worked returns the share of the calls that work.
func worked(row explore.Row) string {
	if row.Calls == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*row.Worked/row.Calls)
}

// count writes a number with at most six characters.
func count(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.1fM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.1fk", v/1e3)
	case v < 10 && v != math.Trunc(v):
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}

// short cuts a text after n characters.
func short(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}
