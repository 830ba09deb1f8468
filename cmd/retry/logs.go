package main

import (
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
	"github.com/goretry/retry/retrylog"
)

var explainCommand = &command{
	name: "explain", args: "[flags] LOG", run: explain,
	summary: "print a log of retry events as text that says when and why",
	doc: `
Explain prints a line for each event of a log, which says when it happened and
why. A log has a line of JSON for each event, as retrylog.NewWriter writes it.
On a terminal each line has a color, unless NO_COLOR is set in the environment.

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

A log has a line of JSON for each event, as retrylog.NewWriter writes it. The
calls of a pipeline follow its rules instead of a policy: check reports them,
and compares only the others. To check a pipeline's log, call CheckPipeline of
package retrylog in Go.
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
	text := retrylog.Explain(records)
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
	calls, replayErr := retrylog.Replay(records)
	differ, ruled := 0, 0
	report := func(err error) {
		if err != nil {
			fmt.Fprintln(s.out, logFault(title, err))
			status = found
		}
	}
	for _, call := range calls {
		if call.Task != "" {
			if ruled++; ruled == 1 {
				report(&policyfile.Fault{File: title, Line: call.Records[0].Line,
					Text: fmt.Sprintf("task %q is part of a pipeline, whose rules decide instead of a policy", call.Task)})
			}
		} else if err := call.Check(p.Policy); err != nil {
			if differ++; differ == 1 {
				report(err)
			}
		}
	}
	report(replayErr)
	report(readErr)
	all := "all"
	if ruled > 0 {
		all = "all except " + counted(ruled, "call") + " of a pipeline"
	}
	verdict := all + " as decided by"
	switch {
	case differ > 0:
		verdict = counted(differ, "call") + " not as decided by"
	case ruled > 0 && ruled == len(calls):
		verdict = "none compared with"
	case replayErr != nil || readErr != nil:
		verdict = "as far as it can be read, " + verdict
	}
	fmt.Fprintf(s.out, "%s, %s: %s %v\n", counted(len(calls), "call"), counted(len(records), "event"), verdict, p.Policy)
	return status
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// readLog returns the records of a log that have a key, or all records if it is
// "".
func readLog(s *streams, name, key string) (title string, records []retrylog.Record, err error) {
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
	records, err = retrylog.Read(r)
	if key != "" {
		records = slices.DeleteFunc(records, func(r retrylog.Record) bool { return r.Key != key })
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
func colored(text string, records []retrylog.Record) string {
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
