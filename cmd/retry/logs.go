package main

import (
	"bufio"
	"cmp"
	"context"
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
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/retryflow/flowlog"
)

var explainCommand = &command{
	name: "explain", args: "[flags] LOG ...", run: explain,
	summary: "say which calls gave up in a log, when, where and why; print each",
	doc: `
Explain reads the log of a program that logs its retries, by retrylog.NewWriter
or retrylog.Slog, as JSON or text, and the access logs of Envoy. First it counts
the calls: how many gave up, for which reasons, from which sources, with which
errors, and when. Then it prints them, the events of each call together. All
times are UTC.

    retry explain -failed -since 1h -source 'pod/web-*' web.log
    retry explain -policy config.yaml -at services.payments.retry web.log
    kubectl logs --prefix deploy/web | retry explain

A source is what kubectl, docker compose, syslog or journald write before an
event, or a field such as "pod" or "host" around it, or else the file. Lines of
anything else are skipped. Several files, also of gzip, are merged by time.

A file is read twice. From a pipe, and with -json, a call is printed when it has
ended, and the numbers come at the end, or on Ctrl-C.

With -policy every decision is compared with the policy in a file, and the calls
are printed whose decisions differ. The exit status is 1 if there is one, if an
event cannot have happened, or if no call can be compared. A call is skipped,
and named, if its beginning or its end is not in the log, or if its retries
follow what a file cannot hold: classes, or the rules of a pipeline. It was
stopped by code, and is listed, if the program decided that its error is not
retried. A class without a name is not in a log: give classes names.
`,
}

// A selection says which calls of a log to look at.
type selection struct {
	key, source *regexp.Regexp // nil: all
	since       time.Time
	until       time.Time // the zero time: no limit
	flags       []string  // that are set
}

func (o *selection) define(flags *flag.FlagSet) {
	define := func(name, usage string, set func(text string) error) {
		flags.Func(name, usage, func(text string) error {
			o.flags = append(o.flags, "-"+name)
			return set(text)
		})
	}
	define("key", "only calls with this `key`; order-* is every key that begins so", glob(&o.key))
	define("source", "only calls from this `source` or file; pod/web-* is every source that begins so", glob(&o.source))
	define("since", "only calls that ended since this `time`: 90m ago, or 2026-11-22T10:00:00Z", instantOf(&o.since))
	define("until", "only calls that ended until this `time`", instantOf(&o.until))
}

// glob sets a pattern in which * is any text.
func glob(to **regexp.Regexp) func(string) error {
	return func(text string) (err error) {
		*to, err = regexp.Compile(`^(?s:` + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, `.*`) + `)$`)
		return err
	}
}

func instantOf(to *time.Time) func(string) error {
	return func(text string) error {
		ago, err := time.ParseDuration(text)
		if *to = time.Now().Add(-ago); err != nil {
			*to, err = time.Parse(time.RFC3339, text)
		}
		if err != nil {
			return errors.New("write a duration such as 90m, or a time such as 2026-11-22T10:00:00Z")
		}
		return nil
	}
}

// has reports whether a call is selected.
func (o *selection) has(c *eventlog.Trace) bool {
	matches := func(pattern *regexp.Regexp, text string) bool { return pattern == nil || pattern.MatchString(text) }
	last := c.Last().Time
	return matches(o.key, c.Key) && matches(o.source, c.From()) && !last.Before(o.since) && (o.until.IsZero() || !last.After(o.until))
}

// An explanation is one run of explain.
type explanation struct {
	selection
	streams   *streams
	out       *bufio.Writer // main remembers what cannot be written
	sum       *summary
	line      eventlog.Explainer
	printed   bool   // an event
	gap       string // before the first event
	separator string // before the next call in JSON; "": the calls are printed as text
}

func explain(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	x := explanation{streams: s, sum: newSummary()}
	var from source
	x.define(flags)
	from.define(flags)
	file := flags.String("policy", "", "the `file` with the policy to compare with, YAML or JSON")
	flags.BoolVar(&x.sum.failed, "failed", false, "print only the calls that gave up; the numbers are of all calls")
	asJSON := flags.Bool("json", false, "print JSON: the numbers, and the list of calls")
	names, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	names, err := logs(s, names)
	switch {
	case err != nil:
	case *file == "" && from != source{}:
		err = errors.New("there is no policy: write -policy and the file that has it")
	case *file == "-" && slices.Contains(names, "-"):
		err = errors.New("the policy and the log cannot both be standard input: name one of them")
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
	x.out = bufio.NewWriterSize(s.out, 64<<10)
	if *asJSON {
		x.separator = `{"calls_list":[`
	}
	if !*asJSON && regular(names) {
		err = x.twice(names)
	} else {
		err = x.once(names)
	}
	if err = cmp.Or(x.out.Flush(), err); err != nil {
		return c.failed(s, err)
	}
	return x.sum.status()
}

// twice prints what the calls of files have in common, and then the calls.
func (x *explanation) twice(names []string) error {
	if err := x.read(names, nil, func(c *eventlog.Trace) { x.sum.add(c) }); err != nil && x.sum.Calls == 0 {
		return err
	}
	x.out.WriteString(x.sum.text())
	x.gap = "\n"
	return x.read(names, nil, func(c *eventlog.Trace) { x.print(c, x.sum.differs(c)) })
}

// once prints calls when they end, and what they have in common at the end.
func (x *explanation) once(names []string) error {
	ctx, stop := signal.NotifyContext(x.streams.ctx, os.Interrupt)
	defer stop()
	wrap := func(in io.Reader) io.Reader { return newLive(ctx, in, x.out.Flush) }
	err := x.read(names, wrap, func(c *eventlog.Trace) { x.print(c, x.sum.add(c)) })
	switch {
	case x.sum.Calls == 0 && err != nil: // it says why
	case x.separator != "":
		numbers, _ := json.Marshal(x.sum) // of texts and numbers
		fmt.Fprintf(x.out, "%s\n],%s\n", strings.TrimPrefix(x.separator, ","), numbers[1:])
	default:
		if x.printed {
			x.out.WriteString("\n")
		}
		x.out.WriteString(x.sum.text())
	}
	return err
}

// read hands on the selected calls of a log when they end, and completes the summary. A log
// without one is an error.
func (x *explanation) read(names []string, wrap func(io.Reader) io.Reader, each func(*eventlog.Trace)) error {
	debug.SetMemoryLimit(48 << 20) // a log may be longer than the machine has: collect in time
	log, first := &eventlog.Files{Decode: flowlog.Decode}, ""
	for _, name := range names {
		title, file, err := x.streams.open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		in := io.Reader(file)
		if wrap != nil {
			in = wrap(file)
		}
		log.Add(title, in)
		first = cmp.Or(first, title)
	}
	for c, err := range log.Traces() {
		if err != nil {
			x.sum.finish(log)
			return err
		}
		if x.has(c) {
			each(c)
		}
	}
	x.sum.finish(log)
	if x.sum.Calls == 0 && (x.sum.comparison == nil || log.Bad == 0) {
		return x.nothing(log, first)
	}
	return nil
}

// nothing is the error for a log in which no call is selected.
func (o *selection) nothing(log *eventlog.Files, first string) error {
	text := "there is no event"
	switch skipped := log.Skipped + log.Bad; {
	case log.Events > 0 && len(o.flags) > 0:
		text = "no call is selected by " + strings.Join(o.flags, ", ")
	case skipped > 0:
		text += fmt.Sprintf(" of a retry in %s", counted(skipped, "line"))
	}
	if log.Torn > 0 {
		text += fmt.Sprintf(" (cut off: %s)", counted(log.Torn, "line"))
	}
	return &policyfile.Fault{File: first, Line: 1, Text: text}
}

// print prints a call.
func (x *explanation) print(c *eventlog.Trace, differs bool) {
	switch {
	case x.sum.failed && !gaveUp(c), x.sum.comparison != nil && !differs:
	case x.separator != "":
		fmt.Fprintf(x.out, "%s\n%s", x.separator, asJSON(c))
		x.separator = ","
	default:
		for _, r := range c.Records {
			if x.sum.failed && r.Event.Kind == retry.CallFinished {
				x.line = eventlog.Explainer{} // to a search for "stopped", the cause is not said yet
			}
			x.out.WriteString(x.gap + x.line.Line(r))
			x.printed, x.gap = true, ""
		}
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if root, ok := strings.CutSuffix(what, "y"); ok {
		what = root + "ie"
	}
	return preview.Thousands(n) + " " + what + "s"
}

// logs returns the names of the files to read, which is standard input if there is none
// and no person would have to type it.
func logs(s *streams, names []string) ([]string, error) {
	if len(names) > 1 {
		return names, nil
	}
	name, err := onlyFile(s, names)
	return []string{name}, err
}

// regular reports whether all files can be read twice.
func regular(names []string) bool {
	for _, name := range names {
		if info, err := os.Stat(name); name == "-" || err == nil && !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// A live reader ends when a context is done, although a Read of a pipe does not. It
// calls before when it may have to wait.
type live struct {
	io.Reader
	before func() error
}

func newLive(ctx context.Context, in io.Reader, before func() error) live {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { w.Close() })
	return live{r, before}
}

func (l live) Read(b []byte) (int, error) {
	if err := l.before(); err != nil {
		return 0, err
	}
	return l.Reader.Read(b)
}
