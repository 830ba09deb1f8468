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
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/logfile"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/retryflow/flowlog"
)

var explainCommand = &command{
	name: "explain", args: "[flags] LOG ...", run: explain,
	summary: "say which calls gave up in a log, when and why, and print each",
	doc: `
Explain reads the log of a program that logs its retries, by retrylog.NewWriter
or retrylog.Slog, as JSON or text. First it counts the calls: how many gave up,
for which reasons, with the commonest error of each, and when. Then it prints
them, the events of each call together. All times are UTC.

    retry explain -failed -since 1h retries.log
    retry explain -key 'order-*' retries.log retries.log.1.gz
    kubectl logs --prefix deploy/web | retry explain
    retry explain -f retries.log

Lines of anything else are skipped and counted. The prefixes of kubectl, docker
compose and syslog may stand before a line, a container's JSON or CRI line may
be around it, and a file may be compressed by gzip. Several files are merged in
the order of time.

A file is read twice. From a pipe, and with -f, each event is printed as it
comes, and the count at the end, which Ctrl-C is too. -since then leaves out
earlier events of a call. With -failed or -json a call is printed when it has
ended, with all its events.
`,
}

var checkCommand = &command{
	name: "check", args: "-policy FILE [flags] LOG ...", run: check,
	summary: "compare the decisions in a log with a policy: the first that differs",
	doc: `
Check compares every decision in a log with the policy in a file. It reports the
first decision that the policy would not have made, and the first event that
cannot have happened. The exit status is 1 if there is one.

    retry check -policy config.yaml -at services.payments.retry retries.log

It reads the logs that explain reads. A call is skipped, and named, if its
beginning or its end is not in the log, or if its retries follow what a file
cannot hold: classes, or the rules of a pipeline. It was stopped by code, and is
listed, if the program decided that its error is not retried. The last line
counts the calls. If every call is skipped, the exit status is 1.

A class without a name is not in a log. Check judges its failures by the file,
and reports a correct log where the class decided otherwise: give classes names.
`,
}

// A selection says which calls of a log to look at.
type selection struct {
	key    string
	begins time.Time
}

func (o *selection) define(flags *flag.FlagSet) {
	flags.StringVar(&o.key, "key", "", "only calls with this `key`; order-* is every key that begins so")
	flags.Func("since", "only calls that ended since this `time`: 90m ago, or 2026-11-22T10:00:00Z", func(text string) error {
		ago, err := time.ParseDuration(text)
		if o.begins = time.Now().Add(-ago); err != nil {
			o.begins, err = time.Parse(time.RFC3339, text)
		}
		if err != nil {
			return errors.New("write a duration such as 90m, or a time such as 2026-11-22T10:00:00Z")
		}
		return nil
	})
}

// has reports whether a call with this key is selected, whose last event came then.
func (o *selection) has(key string, last time.Time) bool {
	prefix, more := strings.CutSuffix(o.key, "*")
	return (o.key == "" || key == o.key || more && strings.HasPrefix(key, prefix)) && !last.Before(o.begins)
}

func explain(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	var x explanation
	x.define(flags)
	flags.BoolVar(&x.failed, "failed", false, "print only the calls that gave up")
	flags.BoolVar(&x.json, "json", false, "print JSON: the numbers, and the list of calls")
	follow := flags.Bool("f", false, "wait for further lines at the end of the file")
	names, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	names, err := logs(s, names)
	if err == nil && *follow && (len(names) > 1 || names[0] == "-") {
		err = errors.New("-f follows one file: write one")
	}
	if err != nil {
		return c.misused(s, err)
	}
	x.streams, x.out, x.sum = s, bufio.NewWriterSize(s.out, 64<<10), newSummary()
	if !x.json && !*follow && regular(names) {
		err = x.twice(names)
	} else {
		err = x.once(names, *follow)
	}
	if err = cmp.Or(x.out.Flush(), err); err != nil {
		return c.failed(s, err)
	}
	return ok
}

// An explanation is one run of explain.
type explanation struct {
	selection
	failed, json bool
	streams      *streams
	out          *bufio.Writer // main remembers what cannot be written
	sum          *summary
	line         flowlog.Explainer
	separator    string // before the next call in JSON
}

// twice prints what the calls of files have in common, and then the calls.
func (x *explanation) twice(names []string) error {
	if err := x.read(names, nil, nil, x.sum.add); err != nil && x.sum.Calls == 0 {
		return err
	}
	x.out.WriteString(x.sum.text() + "\n")
	return x.read(names, nil, nil, x.print)
}

// once prints events or calls as they come, and what they have in common at the end.
func (x *explanation) once(names []string, follow bool) error {
	ctx, stop := signal.NotifyContext(x.streams.ctx, os.Interrupt)
	defer stop()
	wrap := func(in io.Reader) io.Reader { return newLive(ctx, in, follow, x.out.Flush) }
	event, each := x.event, x.sum.add
	if x.json || x.failed {
		event, each = nil, func(c *logfile.Call) {
			x.sum.add(c)
			x.print(c)
		}
	}
	x.separator = `{"calls_list":[`
	err := x.read(names, wrap, event, each)
	switch {
	case x.sum.Calls == 0: // the error says why
	case x.json:
		numbers, _ := json.Marshal(x.sum) // of texts and numbers
		fmt.Fprintf(x.out, "%s\n],%s\n", strings.TrimPrefix(x.separator, ","), numbers[1:])
	default:
		x.out.WriteString("\n" + x.sum.text())
	}
	return err
}

// nothing is the error for a log in which no call is selected.
func (o *selection) nothing(log *logfile.Log, names []string) error {
	text := "there is no event"
	switch skipped := log.Skipped + log.Bad; {
	case log.Events > 0 && o.key == "":
		text = "there is no call that -since selects"
	case log.Events > 0 && o.begins.IsZero():
		text = "there is no call that -key selects"
	case log.Events > 0:
		text = "there is no call that -key and -since select"
	case skipped > 0:
		text += fmt.Sprintf(" of a retry in %s", counted(skipped, "line"))
	}
	if log.Torn > 0 {
		text += fmt.Sprintf(" (cut off: %s)", counted(log.Torn, "line"))
	}
	return &policyfile.Fault{File: title(names[0]), Line: 1, Text: text}
}

// walk hands on the events of a log as they come, if event is not nil, and its calls when
// they end, as far as they are selected.
func (o *selection) walk(s *streams, names []string, wrap func(io.Reader) io.Reader, event func(logfile.Record),
	each func(*logfile.Call)) (*logfile.Log, error) {
	log, closeAll, err := open(s, names, wrap)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	if event != nil {
		log.Each = func(r logfile.Record) {
			if o.has(r.Key, r.Event.Time) {
				event(r)
			}
		}
	}
	for c, err := range log.Calls() {
		if err != nil {
			return log, err
		}
		if o.has(c.Key, c.Last().Time) {
			each(c)
		}
	}
	return log, nil
}

// read walks, and completes the summary. A log without calls is an error.
func (x *explanation) read(names []string, wrap func(io.Reader) io.Reader, event func(logfile.Record), each func(*logfile.Call)) error {
	log, err := x.walk(x.streams, names, wrap, event, each)
	if log != nil {
		x.sum.finish(log)
	}
	if err == nil && x.sum.Calls == 0 {
		err = x.nothing(log, names)
	}
	return err
}

// print prints a call.
func (x *explanation) print(c *logfile.Call) {
	switch {
	case x.failed && !gaveUp(c):
	case x.json:
		fmt.Fprintf(x.out, "%s\n%s", x.separator, asJSON(c))
		x.separator = ","
	default:
		for _, r := range c.Records {
			x.event(r)
		}
	}
}

func (x *explanation) event(r logfile.Record) {
	if x.failed && r.Event.Kind == retry.CallFinished {
		x.line = flowlog.Explainer{} // to a search for "stopped", the cause is not said yet
	}
	r.Record.Key = r.Origin().String()
	line := x.line.Line(r.Record)
	if x.streams.colors {
		line = fmt.Sprintf("\x1b[%dm%s\x1b[0m\n", color(r.Event), strings.TrimSuffix(line, "\n"))
	}
	x.out.WriteString(line)
}

func check(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	var from source
	from.define(flags)
	var of selection
	of.define(flags)
	file := flags.String("policy", "", "the `file` with the policy, YAML or JSON")
	names, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	names, err := logs(s, names)
	switch {
	case *file == "":
		err = errors.New("there is no policy: write -policy and the file that has it")
	case *file == "-" && slices.Contains(names, "-"):
		err = errors.New("the policy and the log cannot both be standard input: name one of them")
	}
	if err != nil {
		return c.misused(s, err)
	}
	p, status := c.readPolicy(s, *file, from)
	if status != ok {
		return status
	}
	// A program may have a Wait, which ends waits early, and no file can say so.
	p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, nil }
	var n comparison
	log, err := of.walk(s, names, nil, nil, func(call *logfile.Call) { n.add(call, p.Policy) })
	if err == nil && n.calls == 0 && log.Bad == 0 {
		err = of.nothing(log, names)
	}
	if err != nil {
		return c.failed(s, err)
	}
	text, status := n.text(log, p.Policy)
	if _, err := io.WriteString(s.out, text); err != nil {
		return c.failed(s, err)
	}
	return status
}

// A comparison is what the calls of a log have in common with a policy.
type comparison struct {
	calls, differ int
	first         error // what differs first
	skipped       list
	byCode        list
}

// A list counts calls, and names the first of them.
type list struct {
	calls int
	names []string
}

const mostNamed = 10

func (l *list) add(c *logfile.Call, why string) {
	if l.calls++; l.calls > mostNamed {
		return
	}
	if origin := c.Origin.String(); origin != "" {
		why = eventlog.Printable(origin) + ": " + why
	}
	l.names = append(l.names, fmt.Sprintf("%s:%d: %s", c.Records[0].File.Name, c.Records[0].Line, why))
}

func (l *list) text(b *strings.Builder, title string) {
	for _, name := range l.names {
		fmt.Fprintf(b, "%s: %s\n", title, name)
	}
	if n := l.calls - len(l.names); n > 0 {
		fmt.Fprintf(b, "%s: and %s more\n", title, preview.Thousands(n))
	}
}

// add compares a call with the policy of a file.
func (n *comparison) add(c *logfile.Call, p retry.Policy) {
	n.calls++
	call, cut, err := c.Replay()
	if call.Task != "" {
		cut = "it follows the rules of a pipeline"
	} else if err == nil && len(call.Records) > 0 {
		err = call.Check(p)
	}
	switch by := call.ByCode(p); {
	case err != nil:
		if n.differ++; n.differ == 1 {
			n.first = lineFault(c, err)
		}
	case call.Task != "":
		n.skipped.add(c, cut)
	case len(by) > 0 && by[len(by)-1].Event.Kind == retry.CallFinished:
		e := by[len(by)-1].Event
		n.byCode.add(c, eventlog.Printable(strings.TrimSuffix(fmt.Sprintf("%s: %v", e.Reason, cmp.Or(e.Err, e.Cause)), ": <nil>")))
	case len(by) > 0:
		n.skipped.add(c, "a class of the program decided")
	case cut != "":
		n.skipped.add(c, cut)
	}
}

// text returns the report, and the exit status.
func (n *comparison) text(log *logfile.Log, p retry.Policy) (text string, status int) {
	var b strings.Builder
	if n.first != nil {
		fmt.Fprintln(&b, n.first)
		status = found
	}
	if bad := log.First; bad != nil {
		fmt.Fprintln(&b, bad)
		status = found
	}
	n.skipped.text(&b, "skipped")
	n.byCode.text(&b, "stopped by code")
	verdict, checked := "all as decided by", n.calls-n.skipped.calls-n.byCode.calls
	switch {
	case n.differ > 0:
		verdict = counted(n.differ, "call") + " not as decided by"
	case n.skipped.calls == n.calls:
		verdict, status = "none compared with", found
	case checked == 0:
		verdict = "none compared with"
	}
	if log.Bad+log.Torn > 0 {
		fmt.Fprintf(&b, "%s cut off, %s that cannot be read\n", counted(log.Torn, "line"), preview.Thousands(log.Bad))
	}
	fmt.Fprintf(&b, "%s %v\n%s: %s checked, %s skipped, %s stopped by code\n", verdict, p, counted(n.calls, "call"),
		preview.Thousands(checked), preview.Thousands(n.skipped.calls), preview.Thousands(n.byCode.calls))
	return b.String(), status
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

func title(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// open opens files as one log. It reads each through wrap, unless that is nil.
func open(s *streams, names []string, wrap func(io.Reader) io.Reader) (log *logfile.Log, closeAll func(), err error) {
	debug.SetMemoryLimit(48 << 20) // a log may be longer than the machine has: collect in time
	all, ends := []*logfile.File{}, []func(){}
	closeAll = func() {
		for _, end := range ends {
			end()
		}
	}
	for _, name := range names {
		title, file, err := s.open(name)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		ends = append(ends, func() { file.Close() })
		r := io.Reader(file)
		if wrap != nil {
			r = wrap(file)
		}
		if s.shown {
			p := &progress{r: r, out: s.err, next: time.Now().Add(time.Second)}
			ends, r = append(ends, p.clear), p
		}
		all = append(all, logfile.Open(title, r))
	}
	return logfile.New(all...), closeAll, nil
}

// lineFault returns an error about a line of a replayed call as a fault.
func lineFault(c *logfile.Call, err error) error {
	var line int
	if _, other := fmt.Sscanf(err.Error(), "retrylog: line %d: ", &line); other != nil {
		return err
	}
	_, text, _ := strings.Cut(err.Error(), fmt.Sprintf("line %d: ", line))
	r := c.Records[line-1]
	return &policyfile.Fault{File: r.File.Name, Line: r.Line, Text: logfile.Plain(text)}
}

// color returns the terminal's color number for an event.
func color(e retry.Event) int {
	const red, green, yellow, gray = 31, 32, 33, 90
	switch {
	case e.Kind == retry.AttemptStarted:
		return gray
	case e.Kind == retry.RetryScheduled:
		return yellow
	case e.Err != nil || e.Kind == retry.CallFinished && e.Reason != retry.ReasonSuccess:
		return red
	default:
		return green
	}
}

// progress shows on a terminal how much of a long log has been read.
type progress struct {
	r     io.Reader
	out   io.Writer
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
	}
	return n, err
}

// clear removes what p has printed.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// A live reader ends when a context is done, although a Read of a pipe does not. It
// calls before when it may have to wait.
type live struct {
	io.Reader
	before func() error
}

const followEvery = 250 * time.Millisecond

// newLive returns a live reader of in, which is a file that grows if follow is true.
func newLive(ctx context.Context, in io.Reader, follow bool, before func() error) live {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		for follow && err == nil {
			time.Sleep(followEvery)
			_, err = io.Copy(w, in)
		}
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
