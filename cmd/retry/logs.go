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

	"github.com/goretry/retry/cmd/retry/internal/logs"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/retrylog"
)

var explainCommand = &command{
	name: "explain", args: "[flags] LOG ...", run: explain,
	summary: "say which calls gave up in a log, when, where and why; print each",
	doc: `
Explain reads the log of a program that logs its retries, by retrylog.NewWriter
or retrylog.Slog, as JSON or text, and the access logs of Envoy. It prints each
call when it has ended, its events together. At the end, or on Ctrl-C, it counts
the calls: how many gave up, for which reasons, from which sources, with which
errors, and when; "..." is time without retries and failures. Times are UTC.

    retry explain -failed -since 1h -source 'pod/web-*' web.log
    retry explain -policy config.yaml -at services.payments.retry web.log
    kubectl logs --prefix deploy/web | retry explain

A source is what kubectl, docker compose, syslog or journald write before an
event, or a field such as "pod" or "host" around it, or else the file. Lines of
anything else are skipped, and so is an event in a text that a program logged.
Several files are merged by time. The oldest line of each must be first.

With -policy every decision is compared with the policy in a file, and the calls
are printed whose decisions differ. The exit status is 1 if there is one, if an
event cannot have happened, or if no call can be compared. Skipped are calls
whose beginning or end is not in the log, or whose retries a retry.Class or a
pipeline decided, which the file does not have. Stopped by code are calls whose
error the program itself did not retry, by RetryIf or retry.Permanent. Give each
retry.Class a Name: a log does not show one without, and its retries differ.
`,
}

// An explanation is one run of explain.
type explanation struct {
	*streams    // main remembers what cannot be written
	sum         summary
	json        bool
	separator   string // before what is printed next
	key, source *regexp.Regexp
	since       time.Time
	until       time.Time // the zero time: no limit
}

func (x *explanation) define(flags *flag.FlagSet) {
	x.key, x.source = regexp.MustCompile(""), regexp.MustCompile("")
	flags.Func("key", "only calls with this `key`; order-* is every key that begins so", glob(&x.key))
	flags.Func("source", "only calls from this `source` or file; pod/web-* is every source that begins so", glob(&x.source))
	flags.Func("since", "only calls that ended since this `time`: 90m ago, or 2026-11-22T10:00:00Z", instantOf(&x.since))
	flags.Func("until", "only calls that ended until this `time`", instantOf(&x.until))
	flags.BoolVar(&x.sum.failed, "failed", false, "print only the calls that gave up; the numbers are of all calls")
	flags.BoolVar(&x.json, "json", false, "print JSON: the numbers, and the list of calls")
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

// selects reports whether a call is one to look at.
func (x *explanation) selects(t *logs.Trace) bool {
	last := t.Last().Time
	return x.key.MatchString(t.Key) && x.source.MatchString(t.From()) && !last.Before(x.since) && (x.until.IsZero() || !last.After(x.until))
}

func explain(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	x := explanation{streams: s, sum: summary{reasons: groups{}, sources: groups{}}}
	var from source
	x.define(flags)
	from.define(flags)
	file := flags.String("policy", "", "the `file` with the policy to compare with, YAML or JSON")
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

// read prints the selected calls of a log when they end, and completes the summary. A log
// without one is an error.
func (x *explanation) read(names []string) error {
	debug.SetMemoryLimit(48 << 20) // a log may be longer than the machine has: collect in time
	ctx, stop := signal.NotifyContext(x.ctx, os.Interrupt)
	defer stop()
	unbuffered := x.out
	out := bufio.NewWriterSize(unbuffered, 64<<10)
	x.out = out
	defer func() {
		_ = out.Flush() // unbuffered remembers its error
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
		text := "no call is selected"
		if x.sum.Events == 0 {
			text = fmt.Sprintf("there is no event of a retry in %s, and %s cut off", counted(x.sum.Files.Skipped, "line"), counted(x.sum.Torn, "line"))
			if x.sum.First != nil {
				text += fmt.Sprintf("; %s cannot be read, the first in %v", counted(x.sum.Bad, "event"), differenceOf(x.sum.First))
			}
		}
		return &policyfile.Fault{File: first, Line: 1, Text: text}
	}
	return nil
}

// writeSummary writes what the calls have in common.
func (x *explanation) writeSummary() {
	if x.json {
		numbers, _ := json.Marshal(&x.sum) // of texts and numbers
		fmt.Fprintf(x.out, "%s\n],%s\n", strings.TrimPrefix(x.separator, ","), numbers[1:])
		return
	}
	fmt.Fprint(x.out, x.separator+x.sum.text())
}

// print prints a call.
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

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if root, ok := strings.CutSuffix(what, "y"); ok {
		what = root + "ie"
	}
	return preview.Thousands(n) + " " + what + "s"
}

// interruptible returns a reader that ends when a context is done, although a Read of a pipe does
// not.
func interruptible(ctx context.Context, in io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { w.Close() })
	return r
}

// flushing writes what has been printed before it waits for more of a log, which may still be
// written.
type flushing struct {
	io.Reader
	out *bufio.Writer
}

func (f flushing) Read(p []byte) (int, error) {
	_ = f.out.Flush() // out keeps its error
	return f.Reader.Read(p)
}
