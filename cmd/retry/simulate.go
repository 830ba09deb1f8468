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
Simulate says whether services that call each other, and retry these calls, come
back after an outage. It simulates ten runs. Then it simulates one of these runs
again, this time without retries. It prints how the runs end, the highest rate
of calls at which the services still come back, and a table of one run. The exit
status is 1 if the system in FILE does not recover.

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

Instead of the key "workers", an event may have one of these keys:

    slower: 3    work takes three times as long
    fail: 0.5    half of the requests fail
    rate: 400/s  calls come from outside at this rate

A service may also have the keys "patience", "clients", "distribution", "queue",
"cancel" and "lend". A call may also have the key "budget". Without the key
"queue", the queue of a service is unlimited. docs/simulate.md explains each
key.

With -rescue, simulate tries changes that people often make to such a system:
fewer attempts, shorter timeouts, a budget, full jitter, and other values of the
keys "queue", "cancel" and "lend". Then it tries pairs of the changes that help.
For each change that helps, it prints the verdict (whether the changed system
recovers), the number of lost calls, and the margin. The margin is the highest
rate of calls at which the changed system comes back.

With -compare, simulate also simulates a second system. Both systems get their
calls at the same times if their services have the same names and rates.
`,
}

func simulate(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	other := flags.String("compare", "",
		"also simulate the system in this `file`")
	page := flags.String("page", "",
		"write an HTML page with charts to this `file`")
	svg := flags.String("svg", "", "write the charts as SVG to this `file`")
	rescues := flags.Bool("rescue", false,
		"try changes that may help the system, alone and in pairs")
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
		return c.misused(s, "-rescue is for one system: leave out -compare")
	}
	if *other != "" {
		names = append(names, *other)
	}
	all, status := c.readSystems(s, names)
	if status != ok {
		return status
	}
	debug.SetMemoryLimit(512 << 20) // a run needs less memory, so more than this is garbage
	s.withProgress("simulating", func(say func(string)) {
		if err = simulateAll(all); err == nil && *rescues {
			progress := func(done, of int) { say(fmt.Sprintf("change %d of %d", done+1, of)) }
			of := &all[0]
			of.Rescues, of.Useless, err = rescue.Find(of.System, of.Answer, runs, progress)
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

// readSystems reads the systems in files. If it fails, it prints the reasons, and `status` is not
// `ok`.
func (c *command) readSystems(s *streams, names []string) (all []explore.Simulation, status int) {
	for _, name := range names {
		file, err := s.readFile(name)
		if err != nil {
			return nil, c.failed(s, err)
		}
		document, fault := file.Document()
		if fault != nil {
			return nil, c.failed(s, fault)
		}
		system, faults := document.System()
		for _, fault := range faults {
			status = c.failed(s, fault)
		}
		all = append(all, explore.Simulation{Name: file.Name, System: system})
	}
	return all, status
}

// simulateAll simulates systems. All runs are as long as the longest run, and the runs that are
// shown have the same seed. So the systems can be compared.
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

// withProgress calls f. If f takes longer than two seconds and standard error is a terminal,
// withProgress shows what f is doing and for how long. At first, withProgress shows the
// parameter `task`. To show another text, f calls the function `say`.
func (s *streams) withProgress(task string, f func(say func(string))) {
	var now atomic.Value
	now.Store(task)
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
		answer := strings.TrimSpace(of.Answer.String())
		fmt.Fprintf(&b, "%s\n  %s\n", of.Name, strings.ReplaceAll(answer, "\n", "\n  "))
		for _, event := range of.System.Events {
			fmt.Fprintf(&b, "  %s: %s %v from %v to %v\n",
				event.Service, event.Change, event.Value, event.At, event.At+event.For)
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

// printRescues prints a table of the changes that help, and one line with the changes that do not
// help.
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

const (
	runs     = 10 // how many runs of each system are simulated
	mostRows = 25 // the limit for Simulation.Rows, which returns fewer rows than the limit
	mostBar  = 16 // the number of characters of the longest bar in a table
)

// printRows prints runs next to each other, with the load of one service. This is the service with
// the most load in the first run.
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
			fmt.Fprintf(t, "%.0f%%\t%d\t%s\t",
				100*r.Worked/max(r.Calls, 1e-9), r.Queues[service], round(r.Requests[service]))
		}
		if len(all) == 1 {
			length := math.Round(mostBar * row.Requests[service] / most)
			fmt.Fprintf(t, "  %s", strings.Repeat("#", int(length)))
		}
	}
	fmt.Fprintln(t)
	_ = t.Flush()
}
