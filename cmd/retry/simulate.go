package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/goretry/retry/cmd/retry/internal/explore"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/cmd/retry/internal/rescue"
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
    retry simulate -rescue -page page.html system.yaml
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

With -rescue, it tries what people change in such a system: attempts, budgets,
jitter, timeouts, a queue, cancel, lend; then pairs of what helps. It prints the
verdict, the calls lost and the margin with each of them.

With -compare, calls come to both systems at the same times if their services
have the same names and rates.
`,
}

func simulate(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	other := flags.String("compare", "", "also simulate the system in this `file`, under the same calls")
	page := flags.String("page", "", "write a page about the run to this `file`, which has no scripts")
	svg := flags.String("svg", "", "draw the run as a picture in this `file`")
	rescues := flags.Bool("rescue", false, "try the changes that people make, and pairs of those that help")
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
	if *rescues && *other != "" {
		return c.misused(s, "-rescue is for one system: leave -compare out")
	}
	if *other != "" {
		names = append(names, *other)
	}
	all := make([]explore.Simulation, len(names))
	for i, name := range names {
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
		all[i] = explore.Simulation{Name: file.Name, System: system}
	}
	if status != ok {
		return status
	}
	debug.SetMemoryLimit(512 << 20) // what a run holds is bounded: collect the rest in time
	s.during("simulating", func(say func(string)) {
		if err = simulateAll(all); err == nil && *rescues {
			progress := func(done, of int) { say(fmt.Sprintf("change %d of %d", done+1, of)) }
			all[0].Rescues, all[0].Useless, err = rescue.Find(all[0].System, all[0].Answer, runs, progress)
		}
	})
	if err == nil && *svg != "" {
		err = os.WriteFile(*svg, explore.Picture(all...), 0o644)
	}
	if err == nil && *page != "" {
		var html []byte
		if html, err = explore.SystemPage(all...); err == nil {
			err = os.WriteFile(*page, html, 0o644)
		}
	}
	if err == nil && *asJSON {
		err = json.NewEncoder(s.out).Encode(all)
	} else if err == nil {
		_, err = io.WriteString(s.out, simulationText(all))
	}
	switch {
	case err != nil:
		return c.failed(s, err)
	case all[0].Answer.Outcome.Verdict != retrysim.Recovers:
		return found
	}
	return ok
}

// simulateAll simulates systems. To compare them, all runs are as long as the longest,
// and those that are shown have the same seed.
func simulateAll(all []explore.Simulation) (err error) {
	longest := 0
	for i := range all {
		of := &all[i]
		if of.Answer, err = retrysim.Explain(of.System, runs); err != nil {
			return fmt.Errorf("%s: %w", of.Name, err)
		}
		of.Result = of.Answer.Run
		longest = max(longest, len(of.Result.Seconds))
	}
	if len(all) == 1 {
		return nil
	}
	again := false
	for i := range all {
		all[i].System.Duration = time.Duration(longest) * time.Second
		again = again || len(all[i].Result.Seconds) < longest
	}
	if again {
		return simulateAll(all)
	}
	for i := range all {
		if all[i].Result, err = retrysim.Run(all[i].System, 1); err != nil {
			return err
		}
	}
	return nil
}

// during calls f. If that takes longer than two seconds, it says so on the terminal.
// F says what it does now.
func (s *streams) during(what string, f func(say func(string))) {
	var now atomic.Value
	now.Store(what)
	say := func(text string) { now.Store(text) }
	if !s.shown {
		f(say)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(say)
	}()
	wait := 2 * time.Second
	for n := 2; ; n++ {
		select {
		case <-done:
			if n > 2 {
				fmt.Fprint(s.err, "\r\x1b[K")
			}
			return
		case <-time.After(wait):
			wait = time.Second
			fmt.Fprintf(s.err, "\r\x1b[K%s, %ds", now.Load(), n)
		}
	}
}

func simulationText(all []explore.Simulation) string {
	var b strings.Builder
	for _, of := range all {
		fmt.Fprintf(&b, "%s\n  %s\n", of.Name, strings.ReplaceAll(strings.TrimSpace(of.Answer.String()), "\n", "\n  "))
		for _, event := range of.System.Events {
			fmt.Fprintf(&b, "  %s: %s %v from %v to %v\n", event.Service, event.Change, event.Value, event.At, event.At+event.For)
		}
		b.WriteString("\n")
	}
	if all[0].Rescues != nil || all[0].Useless != nil {
		printRescues(&b, all[0])
	}
	if len(all) > 1 {
		fmt.Fprintf(&b, "B is %s.\n", all[1].Name)
	}
	printRows(&b, all)
	fmt.Fprintf(&b, "\n%s\n", strings.Join(all[0].Answer.Limits, "\n"))
	return b.String()
}

// printRescues prints what helps, and in one line what does not.
func printRescues(b *strings.Builder, of explore.Simulation) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "change\tverdict\tcalls lost\tmargin")
	for _, row := range of.RescueRows() {
		change := strings.Replace(row[0], "; ", "\t\t\t\n  and ", 1)
		fmt.Fprintf(t, "%s\t%s\n", change, strings.Join(row[1:], "\t"))
	}
	_ = t.Flush()
	if len(of.Useless) > 0 {
		fmt.Fprintf(b, "does not help: %s\n", strings.Join(of.Useless, "; "))
	}
	b.WriteString("\n")
}

// A verdict is of so many runs. A table has fewer rows than mostRows, and its longest bar
// has mostBar characters.
const runs, mostRows, mostBar = 10, 25, 16

// printRows prints runs beside each other, with the load of the service that has the
// most of it in the first.
func printRows(b *strings.Builder, all []explore.Simulation) {
	service, most := all[0].Loaded()[0], 1.0
	fmt.Fprintf(b, "queue and load (requests a second): %s\n\n", service)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "time\tcalls/s\t")
	var runs [][]explore.Row
	for i, of := range all {
		runs = append(runs, of.Rows(mostRows))
		fmt.Fprint(t, []string{"work\tqueue\tload\t", "work B\tqueue B\tload B\t"}[i])
	}
	for _, row := range runs[0] {
		most = max(most, row.Requests[service])
	}
	round := func(v float64) string { return preview.Thousands(int64(math.Round(v))) }
	for i, row := range runs[0] {
		mark := map[bool]string{true: "x "}[row.Event]
		fmt.Fprintf(t, "\n%s%s\t%s\t", mark, preview.Brief(row.From), round(row.Calls))
		for _, run := range runs {
			r := run[min(i, len(run)-1)]
			fmt.Fprintf(t, "%.0f%%\t%d\t%s\t", 100*r.Worked/max(r.Calls, 1e-9), r.Queues[service], round(r.Requests[service]))
		}
		if len(all) == 1 {
			fmt.Fprintf(t, "  %s", strings.Repeat("#", int(math.Round(mostBar*row.Requests[service]/most))))
		}
	}
	fmt.Fprintln(t)
	_ = t.Flush()
}
