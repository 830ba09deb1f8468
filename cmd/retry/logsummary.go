package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/logs"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/cmd/retry/internal/printable"
)

// A summary counts the calls of a log. Its size does not grow with the log.
type summary struct {
	group                   // counts all calls; it has no reason and no source
	Succeeded   int         `json:"succeeded"`
	Canceled    int         `json:"canceled"`
	Open        int         `json:"without_end"`
	Keyless     int         `json:"without_key"`
	Retried     int         `json:"retried"` // calls with at least one retry
	Retries     int         `json:"retries"`
	Peak        *bar        `json:"peak,omitempty"` // the bar of Histogram with the most retries
	Envoy       int         `json:"envoy"`          // calls from access logs of Envoy
	Reasons     []*group    `json:"reasons"`
	Sources     []*group    `json:"sources"`
	Errors      []errorLine `json:"errors"`
	Histogram   []*bar      `json:"histogram"`
	Reversed    string      `json:"newest_line_first,omitempty"` // the file with its newest line first
	logs.Files              // the files of the log, with counts of their lines
	*comparison             // nil without -policy

	from, to  time.Time // the times of the first and the last event
	started   bool      // whether the log contains attempts
	failed    bool      // whether -failed is set; then only calls that gave up are printed
	reasons   groups
	sources   groups
	histogram histogram
}

// instant returns a time in UTC as text. Unlike time.Time.MarshalJSON it accepts every year.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// gaveUp reports whether a call stopped without success, and was not canceled.
func gaveUp(t *logs.Trace) bool {
	return t.Stopped() && t.Reason != retry.ReasonSuccess && t.Reason != retry.ReasonCanceled
}

// The function `one` returns 1 for true and 0 for false.
func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// add adds a call, and reports whether the call differs from the policy. Without -policy no call
// differs.
func (s *summary) add(t *logs.Trace) (differs bool) {
	first, last, attempts, retries := t.Records[0].Event.Time, t.Last(), len(t.Attempts), 0
	if s.from.IsZero() || first.Before(s.from) && !first.IsZero() {
		s.from = first
	}
	if last.Time.After(s.to) {
		s.to = last.Time
	}
	for _, r := range t.Records {
		s.started = s.started || r.Event.Kind == retry.AttemptStarted
		if r.Event.Kind == retry.RetryScheduled {
			s.histogram.add(r.Event.Time, 0, 1)
			retries++
		}
	}
	if attempts == 0 || t.Foreign() { // the log has no events of the attempts, only their number
		attempts = last.Attempt
	}
	if t.Foreign() {
		s.started, retries = true, attempts-1
		s.histogram.add(last.Time, 0, retries)
	}
	s.Envoy += one(t.Foreign())
	s.Keyless += one(t.Key == "")
	s.Retried += one(retries > 0)
	s.Retries += retries
	s.Open += one(!t.Stopped())
	s.Succeeded += one(t.Reason == retry.ReasonSuccess)
	s.Canceled += one(t.Reason == retry.ReasonCanceled)
	if s.comparison != nil {
		differs = s.comparison.add(t)
	}
	source := s.sources.get([3]string{2: t.From()}, [3]string{2: "other"})
	failures := failuresOf(t)
	s.group.add(t, attempts, differs, failures...)
	source.add(t, attempts, differs, failures...)
	if t.Stopped() && t.Reason != retry.ReasonSuccess {
		s.histogram.add(last.Time, one(gaveUp(t)), 0)
		reason := s.reasons.get([3]string{string(t.Reason), last.Class}, [3]string{"other"})
		reason.add(t, attempts, false, failures[max(0, len(failures)-1):]...)
	}
	return differs
}

// failuresOf returns the errors of the attempts of a call. If the log contains none of them,
// failuresOf returns the error with which the call ended.
func failuresOf(t *logs.Trace) (all []error) {
	for _, a := range t.Attempts {
		if a.Err != nil {
			all = append(all, a.Err)
		}
	}
	if err := cmp.Or(t.Last().Err, t.Cause); all == nil && err != nil {
		all = append(all, err)
	}
	return all
}

// finish sets the fields that are known only after all calls have been added.
func (s *summary) finish() {
	s.Reversed = s.NewestFirst()
	s.Errors = s.errors.most(namedErrors)
	s.Reasons, s.Sources = s.reasons.sorted(), s.sources.sorted()
	s.Histogram = []*bar{}
	for _, begin := range slices.Sorted(maps.Keys(s.histogram.bars)) {
		b := s.histogram.bars[begin]
		s.Histogram = append(s.Histogram, b)
		if b.Retries > 0 && (s.Peak == nil || b.Retries > s.Peak.Retries) {
			s.Peak = b
		}
	}
}

// status returns the exit status of the command `explain`.
func (s *summary) status() int {
	n := s.comparison
	switch {
	case s.Reversed != "":
		return found
	case n != nil && (len(n.Differs) > 0 || s.First != nil || n.Checked+n.ByCode == 0):
		return found
	default:
		return ok
	}
}

// A paragraph is a text that consists of sentences, each with a condition.
type paragraph struct{ strings.Builder }

// say adds a sentence if the condition is true.
func (p *paragraph) say(condition bool, format string, args ...any) {
	if condition {
		fmt.Fprintf(p, format, args...)
	}
}

// text returns the summary as text. With -policy, the text consists of the first line and the
// comparison. Without -policy, the text consists of all sentences and tables.
func (s *summary) text() string {
	var p paragraph
	p.say(true, "%s, %s gave up, %.2f attempts a call\n",
		counted(s.Calls, "call"), preview.Thousands(s.GaveUp),
		float64(s.Attempts)/float64(max(1, s.Calls)))
	p.say(s.Reversed != "", "%s starts with its newest line, so the events of a call are torn apart\n"+
		"and the numbers are wrong: reverse its lines, for example with tac.\n",
		printable.Line(s.Reversed))
	if s.comparison != nil {
		s.comparison.addTo(&p, s)
		return p.String()
	}
	s.sentences(&p)
	s.tables(&p)
	return trailing.ReplaceAllString(p.String(), "")
}

var trailing = regexp.MustCompile(`(?m) +$`) // blanks after the last column of a table

// sentences writes the counts of all calls, and says what is missing in the log.
func (s *summary) sentences(p *paragraph) {
	number := preview.Thousands[int]
	p.say(s.failed, "The numbers and tables cover every call. -failed prints only the calls that "+
		"gave up, %s of %s.\n", number(s.GaveUp), number(s.Calls))
	p.say(true, "%s succeeded, %s canceled, %s without an end in the log",
		number(s.Succeeded), number(s.Canceled), number(s.Open))
	p.say(!s.to.IsZero(), ", from %s to %s", s.from.UTC().Format(clock), s.to.UTC().Format(clock))
	p.say(true, ".\n%s had %s", counted(s.Retried, "call"), counted(s.Retries, "retry"))
	if s.Peak != nil {
		p.say(true, ". The busiest %s had %s, from %s on",
			widths[s.histogram.width].name, number(s.Peak.Retries), s.Peak.begin.Format(clock))
	}
	p.say(true, ".\n")
	p.say(!s.started, "The log has no attempts (its level is above DEBUG), so it lacks calls that\n"+
		"succeeded at once.\n")
	p.say(s.Envoy > 0, "%s from Envoy's access log, which has no delays and no limits. Without the\n"+
		"field upstream_request_attempt_count, the counts of attempts are too low.\n",
		counted(s.Envoy, "call"))
	p.say(s.Keyless > 1, "%s calls have no key, so calls that ran at the same time may be mixed up.\n",
		number(s.Keyless))
	p.say(s.Files.Skipped > s.Bad, "Skipped %s without an event.\n",
		counted(s.Files.Skipped-s.Bad, "line"))
	if s.First != nil {
		p.say(true, "Skipped %s with an event that cannot be read. The first event is in\n%v\n",
			counted(s.Bad, "line"), differenceOf(s.First))
	}
	p.say(s.Torn > 0, "Cut off: %s.\n", counted(s.Torn, "line"))
	p.say(s.Dropped > 0, "Too many calls were open at once: %s cut short. The rest of such a\n"+
		"call counts as another call.\n", counted(s.Dropped, "call"))
}

// tables writes four tables: by reason, by source, by error, and over time.
func (s *summary) tables(p *paragraph) {
	number := preview.Thousands[int]
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for i, g := range s.Reasons {
		title(t, i, "CALLS\tREASON\tCLASS\tCOMMONEST LAST ERROR (CALLS)")
		fmt.Fprintf(t, "%s\t%s\t%s\t%v\n", number(g.Calls), printable.Line(g.Reason),
			cmp.Or(printable.Line(g.Class), "-"), g.Commonest)
	}
	for i, g := range s.Sources {
		title(t, i, "CALLS\tGAVE UP\tATTEMPTS\tLIMIT\tSOURCE\tCOMMONEST ERROR (FAILURES)")
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%v\n", number(g.Calls), number(g.GaveUp),
			number(g.Attempts), g.limits(), printable.Line(g.Source), g.Commonest)
	}
	for i, l := range s.Errors {
		title(t, i, "FAILURES\tSHARE\tERROR")
		fmt.Fprintf(t, "%s\t%.0f%%\t%s\n", l.times(), 100*l.Share, l.Error)
	}
	s.histogram.table(t, s.Histogram)
	_ = t.Flush()
}

// title writes the title of a table before its first row.
func title(t *tabwriter.Writer, row int, columns string) {
	if row == 0 {
		fmt.Fprintf(t, "\n%s\n", columns)
	}
}
