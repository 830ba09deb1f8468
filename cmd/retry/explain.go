package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/logs"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/retrylog"
)

var explainCommand = &command{
	name: "explain", args: "[flags] LOG ...", run: explain,
	summary: "print the retries in a log, and count the calls that gave up",
	doc: `
Explain reads the log, in JSON or text, of a program that logs its retries with
retrylog.NewWriter or retrylog.Slog. It also reads the access logs of Envoy.
When a call has ended, explain prints all events of this call. At the end of the
log, or on Ctrl-C, it prints how many calls gave up, with tables of their
reasons, sources, errors and times. In the table of times, three dots stand for
a period in which no call retried or gave up. All times are UTC.

    retry explain -failed -since 1h -source 'pod/web-*' web.log
    retry explain -policy config.yaml -at services.payments.retry web.log
    kubectl logs --prefix deploy/web | retry explain

The source of an event is the prefix that kubectl, docker compose, syslog or
journald writes before the event. It can also be a field such as "pod" or "host"
in the JSON around the event. Without a prefix or a field, the source is the
file. Explain skips lines without an event. It also skips an event that is part
of another message, such as a logged request, because a client could have forged
this event. If there are several files, explain merges them by time. The first
line of each file must be the oldest.

With -policy, explain compares every decision in the log with the policy in a
file. It prints only the calls that differ from the policy. The exit status is 1
if a call differs, if no call can be compared, or if an event is unreadable or
out of order. A call also differs if its limit on attempts is not the policy's
limit, even if its first attempt succeeded.

A call is "skipped" if the log lacks its start or its end. It is also skipped if
a retry.Class or a retryflow.Pipeline decided when to retry, because a policy
file cannot contain classes or pipelines. A call is "stopped by code" if code of
the program decided not to retry, for example with RetryIf or retry.Permanent.
Give each retry.Class a Name, because a log does not show a class without a
name.
`,
}

// An explanation is one run of the command `explain`, with the values of its flags.
type explanation struct {
	*streams
	sum         summary
	json        bool
	separator   string // the text to print before the next call, or before the summary
	key, source *regexp.Regexp
	since       time.Time
	until       time.Time // the zero time means no limit
}

func (x *explanation) define(flags *flag.FlagSet) {
	x.key, x.source = regexp.MustCompile(""), regexp.MustCompile("")
	flags.Func("key", "select the calls whose events have this `key` in the log, such as "+
		"order-*, where * stands for any text", glob(&x.key))
	flags.Func("source", "select the calls from this `source` or file, such as pod/web-*, "+
		"where * stands for any text", glob(&x.source))
	flags.Func("since", "select the calls that ended at this `time` or later: "+
		"2026-11-22T10:00:00Z, or 90m for 90 minutes ago", instantOf(&x.since))
	flags.Func("until", "select the calls that ended at this `time` or earlier",
		instantOf(&x.until))
	flags.BoolVar(&x.sum.failed, "failed", false,
		"print only the calls that gave up, but count every call")
	flags.BoolVar(&x.json, "json", false, "print JSON with the counts and the list of calls")
}

// glob returns the function for a flag whose value is a pattern. In a pattern, * stands for any
// text.
func glob(to **regexp.Regexp) func(string) error {
	return func(text string) (err error) {
		*to, err = regexp.Compile(`^(?s:` + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, `.*`) + `)$`)
		return err
	}
}

// instantOf returns the function for a flag whose value is a time, or a duration before now.
func instantOf(to *time.Time) func(string) error {
	return func(text string) error {
		ago, err := time.ParseDuration(text)
		if *to = time.Now().Add(-ago); err != nil {
			*to, err = time.Parse(time.RFC3339, text)
		}
		if err != nil {
			return errors.New("write a time such as 2026-11-22T10:00:00Z, or a duration such as 90m")
		}
		return nil
	}
}

// selects reports whether a call has the key, the source and the time that the flags select.
func (x *explanation) selects(t *logs.Trace) bool {
	last := t.Last().Time
	return x.key.MatchString(t.Key) && x.source.MatchString(t.From()) &&
		!last.Before(x.since) && (x.until.IsZero() || !last.After(x.until))
}

func explain(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	x := explanation{streams: s, sum: summary{reasons: groups{}, sources: groups{}}}
	var from source
	x.define(flags)
	from.define(flags)
	file := flags.String("policy", "",
		"compare each decision with the policy in this `file` of YAML or JSON")
	names, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	var err error
	if len(names) < 2 {
		name, missing := onlyFile(s, names)
		names, err = []string{name}, missing
	}
	switch {
	case err != nil:
	case *file == "" && from != source{}:
		err = errors.New("-from and -at need a policy: write -policy and the file of the policy")
	case *file == "-" && slices.Contains(names, "-"):
		err = errors.New("the policy and the log cannot both be standard input: " +
			"write a file for one of them")
	}
	if err != nil {
		return c.misused(s, err)
	}
	if *file != "" {
		p, status := c.readPolicy(s, *file, from)
		if status != ok {
			return status
		}
		x.sum.comparison = newComparison(p.Policy)
	}
	if x.json {
		x.separator = `{"calls_list":[`
	}
	err = x.read(names)
	if x.sum.Calls > 0 || err == nil {
		x.writeSummary()
	}
	if err != nil {
		return c.failed(s, err)
	}
	return x.sum.status()
}

// read prints each selected call when the call ends, and completes the summary. If no call is
// selected, the error is a *policyfile.Fault.
func (x *explanation) read(names []string) error {
	debug.SetMemoryLimit(48 << 20) // a log may exceed the memory, so collect garbage early
	ctx, stop := signal.NotifyContext(x.ctx, os.Interrupt)
	defer stop()
	unbuffered := x.out
	out := bufio.NewWriterSize(unbuffered, 64<<10)
	x.out = out
	defer func() {
		_ = out.Flush() // `unbuffered` keeps the error of a failed write, for the function `run`
		x.out = unbuffered
	}()
	first := ""
	for _, name := range names {
		title, file, err := x.open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		x.sum.Add(title, flushing{interruptible(ctx, file), out})
		first = cmp.Or(first, title)
	}
	defer x.sum.finish()
	err := x.sum.Each(func(t *logs.Trace) {
		if x.selects(t) {
			x.print(t, x.sum.add(t))
		}
	})
	if err != nil {
		return err
	}
	if x.sum.Calls == 0 && (x.sum.comparison == nil || x.sum.Bad == 0) {
		return &policyfile.Fault{File: first, Line: 1, Text: x.whyNone()}
	}
	return nil
}

// whyNone returns the reason why the flags select no call of the log.
func (x *explanation) whyNone() string {
	if x.sum.Events > 0 {
		return "no call has the key, the source and the time that the flags select"
	}
	text := fmt.Sprintf("no line is an event of a retry: %s skipped, %s cut off",
		counted(x.sum.Files.Skipped, "line"), counted(x.sum.Torn, "line"))
	if x.sum.First != nil {
		text += fmt.Sprintf("; %s cannot be read, and the first is %v",
			counted(x.sum.Bad, "event"), differenceOf(x.sum.First))
	}
	return text
}

// writeSummary writes the counts of the calls.
func (x *explanation) writeSummary() {
	if x.json {
		numbers, _ := json.Marshal(&x.sum) // cannot fail: x.sum has only strings and finite numbers
		fmt.Fprintf(x.out, "%s\n],%s\n", strings.TrimPrefix(x.separator, ","), numbers[1:])
		return
	}
	fmt.Fprint(x.out, x.separator+x.sum.text())
}

// print prints a call, unless the flag -failed or -policy leaves the call out.
func (x *explanation) print(t *logs.Trace, differs bool) {
	switch {
	case x.sum.failed && !gaveUp(t), x.sum.comparison != nil && !differs:
	case x.json:
		fmt.Fprintf(x.out, "%s\n%s", x.separator, asJSON(t))
		x.separator = ","
	default:
		x.separator = "\n"
		fmt.Fprint(x.out, retrylog.Explain(t.Records))
	}
}

// asJSON returns a call as JSON.
func asJSON(t *logs.Trace) []byte {
	first, last := t.Records[0], t.Last()
	failure, failures := "", failuresOf(t)
	if len(failures) > 0 && t.Reason != retry.ReasonSuccess {
		failure = failures[len(failures)-1].Error()
	}
	data, _ := json.Marshal(struct { // cannot fail: all fields are strings or whole numbers
		Source   string       `json:"source,omitempty"`
		Key      string       `json:"key,omitempty"`
		File     string       `json:"file"`
		Line     int          `json:"line"`
		Began    string       `json:"began"`
		Ended    string       `json:"ended"`
		Attempts int          `json:"attempts"`
		Reason   retry.Reason `json:"reason,omitempty"` // "" if the log lacks the end of the call
		Class    string       `json:"class,omitempty"`
		Error    string       `json:"error,omitempty"`
	}{
		Source:   first.Source,
		Key:      t.Key,
		File:     t.File(),
		Line:     first.Line,
		Began:    instant(first.Event.Time.Add(-first.Event.Elapsed)),
		Ended:    instant(last.Time),
		Attempts: last.Attempt,
		Reason:   last.Reason,
		Class:    last.Class,
		Error:    failure,
	})
	return data
}

// counted returns a number with its noun: 1 policy, 2 policies.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if root, ok := strings.CutSuffix(what, "y"); ok {
		what = root + "ie"
	}
	return preview.Thousands(n) + " " + what + "s"
}

// A flushing reader writes the buffered output before it reads more of a log, because a Read may
// have to wait until the log grows.
type flushing struct {
	io.Reader
	out *bufio.Writer
}

func (f flushing) Read(p []byte) (int, error) {
	_ = f.out.Flush() // f.out keeps the error and returns it from a later Flush
	return f.Reader.Read(p)
}
