package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/retryflow/flowlog"
	"github.com/goretry/retry/retrylog"
)

var explainCommand = &command{
	name: "explain", args: "[flags] LOG", run: explain,
	summary: "print a log of retry events as text that says when and why",
	doc: `
Explain prints a line for each event of a log, which says when it happened and
why. A log has a line of JSON for each event, as retrylog.NewWriter writes it,
or retrylog.Slog with a slog.JSONHandler. On a terminal each line has a color,
unless NO_COLOR is set in the environment.

    retry explain -key order-42 retries.log
    tail -n 1000 retries.log | retry explain
`,
}

var checkCommand = &command{
	name: "check", args: "-policy FILE [flags] LOG", run: check,
	summary: "compare every decision in a log with a policy, and report the first that differs",
	doc: `
Check compares every decision in a log of retry events with the policy in a
file. It reports the first decision that the policy would not have made, and the
first event that cannot have happened. The exit status is 1 if there is one.

    retry check -policy config.yaml -at services.payments.retry retries.log

It reads the logs that explain reads, and ends with a line that counts the
calls. A call is skipped if its retries follow what a file cannot hold: the
rules of a pipeline, or a Classify. It was stopped by code if RetryIf, Classify,
Wait or a mark such as retry.Permanent ended it. If every call is skipped, the
exit status is 1. To check the log of a pipeline, call CheckPipeline of package
flowlog in Go.

A class without a name is not in a log. Check judges its failures by the file,
and reports a correct log where the class decided otherwise: name the classes
that a Classify returns. Those of retryflow.Rules.Classify have no name.
`,
}

func explain(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	key := flags.String("key", "", "explain only the calls with this `key`")
	args, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	name, err := onlyFile(s, args)
	if err != nil {
		return c.misused(s, err)
	}
	title, records, readErr := readLog(s, name, *key)
	text := flowlog.Explain(records)
	if s.colors {
		text = colored(text, records)
	}
	if _, err := io.WriteString(s.out, text); err != nil {
		return c.failed(s, err)
	}
	if readErr != nil {
		return c.failed(s, logFault(title, readErr))
	}
	return ok
}

func check(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	var from source
	from.define(flags)
	file := flags.String("policy", "", "the `file` with the policy, YAML or JSON")
	key := flags.String("key", "", "check only the calls with this `key`")
	args, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	if err := from.check(); err != nil {
		return c.misused(s, err)
	}
	if *file == "" {
		return c.misused(s, "there is no policy: write -policy and the file that has it")
	}
	name, err := onlyFile(s, args)
	if err != nil {
		return c.misused(s, err)
	}
	if *file == "-" && name == "-" {
		return c.misused(s, "the policy and the log cannot both be standard input: name one of them")
	}
	p, status := c.readPolicy(s, *file, from)
	if status != ok {
		return status
	}
	title, records, readErr := readLog(s, name, *key)
	if readErr != nil && !errors.Is(readErr, retrylog.ErrCutOff) {
		return c.failed(s, logFault(title, readErr))
	}
	calls, replayErr := flowlog.Replay(records)
	report := func(err error) {
		if err != nil {
			fmt.Fprintln(s.out, logFault(title, err))
			status = found
		}
	}
	n := compare(calls, p.Policy)
	report(n.first)
	report(replayErr)
	report(readErr)
	verdict := "all as decided by"
	switch {
	case n.differ > 0:
		verdict = counted(n.differ, "call") + " not as decided by"
	case n.skipped == len(calls):
		verdict, status = "none compared with", found
	case replayErr != nil || readErr != nil:
		verdict = "as far as it can be read, " + verdict
	}
	fmt.Fprintf(s.out, "%s %v\n%s: %s checked, %s skipped, %s stopped by code\n", verdict, p.Policy, counted(len(calls), "call"),
		preview.Thousands(len(calls)-n.skipped-n.byCode), preview.Thousands(n.skipped), preview.Thousands(n.byCode))
	return status
}

// A comparison is what the calls of a log have in common with a policy.
type comparison struct {
	differ, skipped, byCode int   // how many calls
	first                   error // what differs first
}

// compare compares calls with the policy of a file.
func compare(calls []flowlog.Call, p retry.Policy) (n comparison) {
	// A program may have a Wait, which ends waits early, and no file can say so.
	p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, nil }
	for _, call := range calls {
		if call.Task != "" {
			n.skipped++
			continue
		}
		if err := call.Check(p); err != nil {
			if n.differ++; n.differ == 1 {
				n.first = err
			}
			continue
		}
		if by := call.ByCode(p); len(by) > 0 && by[len(by)-1].Event.Kind == retry.Stopped {
			n.byCode++
		} else if len(by) > 0 {
			n.skipped++
		}
	}
	return n
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return preview.Thousands(n) + " " + what + "s"
}

// readLog returns the records of a log that have a key, or all records if it is
// "".
func readLog(s *streams, name, key string) (title string, records []flowlog.Record, err error) {
	title, file, err := s.open(name)
	if err != nil {
		return title, nil, err
	}
	defer file.Close()
	r := io.Reader(file)
	if s.shown {
		p := &progress{r: file, out: s.err, next: time.Now().Add(time.Second)}
		if f, ok := file.(*os.File); ok {
			if info, err := f.Stat(); err == nil {
				p.size = info.Size()
			}
		}
		defer p.clear()
		r = p
	}
	records, err = flowlog.Read(r)
	if key != "" {
		records = slices.DeleteFunc(records, func(r flowlog.Record) bool { return r.Key != key })
	}
	if len(records) == 0 && err == nil {
		err = fmt.Errorf("retrylog: line 1: there is no event")
		if key != "" {
			err = fmt.Errorf("retrylog: line 1: there is no event with the key %q", key)
		}
	}
	return title, records, err
}

var logLine = regexp.MustCompile(`^retrylog: (?:line (\d+): |(.*) within line (\d+)$)`)

// logFault returns an error about a line of a log as a fault. It returns any
// other error unchanged.
func logFault(title string, err error) error {
	at := logLine.FindStringSubmatch(err.Error())
	if at == nil {
		return err
	}
	text := at[2]
	if at[1] != "" {
		text = err.Error()[len(at[0]):]
	}
	line, lineErr := strconv.Atoi(at[1] + at[3])
	if lineErr != nil {
		return err
	}
	return &policyfile.Fault{File: title, Line: line, Text: text}
}

// colored returns an explanation in which each line has the color of its event.
func colored(text string, records []flowlog.Record) string {
	var b strings.Builder
	i := 0
	for line := range strings.Lines(text) {
		fmt.Fprintf(&b, "\x1b[%dm%s\x1b[0m\n", color(records[i].Event), strings.TrimSuffix(line, "\n"))
		i++
	}
	return b.String()
}

// color returns the terminal's color number for an event.
func color(e retry.Event) int {
	const red, green, yellow, gray = 31, 32, 33, 90
	switch {
	case e.Kind == retry.AttemptStarted:
		return gray
	case e.Kind == retry.RetryScheduled:
		return yellow
	case e.Err != nil || e.Kind == retry.Stopped && e.Reason != retry.ReasonSuccess:
		return red
	default:
		return green
	}
}

// progress shows on a terminal how much of a long log has been read.
type progress struct {
	r     io.Reader
	out   io.Writer
	size  int64 // 0 if unknown
	read  int64
	next  time.Time // when to print next
	shown bool
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.read += int64(n)
	if now := time.Now(); now.After(p.next) {
		p.next, p.shown = now.Add(200*time.Millisecond), true
		fmt.Fprintf(p.out, "\r%d MiB read", p.read>>20)
		if p.size > 0 {
			fmt.Fprintf(p.out, ", %d%%", 100*p.read/max(p.read, p.size))
		}
	}
	return n, err
}

// clear removes what p has printed.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
