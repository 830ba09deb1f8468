package main

import (
	"cmp"
	"encoding/json"
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
	"github.com/goretry/retry/internal/printable"
)

// A summary is what the calls of a log have in common. Its size has a limit, however
// long the log is.
type summary struct {
	group                   // of all calls, without a reason or a source
	Succeeded   int         `json:"succeeded"`
	Canceled    int         `json:"canceled"`
	Open        int         `json:"without_end"`
	Keyless     int         `json:"without_key"`
	Retried     int         `json:"retried"` // calls
	Retries     int         `json:"retries"`
	Peak        *bar        `json:"peak,omitempty"` // of Strip
	Envoy       int         `json:"envoy"`          // calls of its access log
	Reasons     []*group    `json:"reasons"`
	Sources     []*group    `json:"sources"`
	Errors      []errorLine `json:"errors"`
	Strip       []*bar      `json:"strip"`
	Reversed    string      `json:"newest_line_first,omitempty"` // the first such file
	logs.Files              // the log
	*comparison             // nil: there is no policy to compare with

	from, to time.Time
	started  bool // the log has attempts
	failed   bool // only calls that gave up are printed
	reasons  groups
	sources  groups
	strip    strip
}

// instant returns a time in UTC, also in a year that time.Time.MarshalJSON does not take.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// A group counts the calls that stopped for a reason, or that are from a source.
type group struct {
	Reason    string     `json:"reason,omitempty"`
	Class     string     `json:"class,omitempty"`
	Source    string     `json:"source,omitempty"`
	Calls     int        `json:"calls"`
	GaveUp    int        `json:"gave_up"`
	Attempts  int        `json:"attempts"`
	Least     int        `json:"least_max"` // the smallest and the greatest limit of a call, -1 for unlimited
	Most      int        `json:"greatest_max"`
	Differ    int        `json:"differ,omitempty"`    // calls that differ from the policy
	Commonest *errorLine `json:"commonest,omitempty"` // error of a source's attempts, or the last one of a reason's calls

	errors tally
}

// add counts a call and some of its errors.
func (g *group) add(t *logs.Trace, attempts int, differs bool, errs ...error) {
	limit := uint(t.Last().Max) // of which -1 is the greatest
	if g.Calls == 0 {
		g.Least, g.Most = int(limit), int(limit)
	}
	g.Least, g.Most = int(min(limit, uint(g.Least))), int(max(limit, uint(g.Most)))
	g.Calls++
	g.Attempts += attempts
	g.GaveUp += one(gaveUp(t))
	g.Differ += one(differs)
	for _, err := range errs {
		g.errors.add(err)
	}
}

// limits returns the limits of the calls as a text.
func (g *group) limits() string {
	names := map[int]string{retry.Unlimited: "none", 0: "-"} // 0: it is not in the log
	least, most := cmp.Or(names[g.Least], preview.Thousands(g.Least)), cmp.Or(names[g.Most], preview.Thousands(g.Most))
	if least == most {
		return least
	}
	return least + " to " + most
}

// groups are by reason, class and source. At most mostGroups are counted apart.
type groups map[[3]string]*group

// of returns the group of a key, or the other one if there are too many.
func (g groups) of(key, other [3]string) *group {
	if g[key] == nil && len(g) >= mostGroups {
		key = other
	}
	if g[key] == nil {
		g[key] = &group{Reason: key[0], Class: key[1], Source: key[2]}
	}
	return g[key]
}

// sorted returns the groups with the commonest error of each, the one first that gave up most.
func (g groups) sorted() []*group {
	all := slices.AppendSeq([]*group{}, maps.Values(g))
	for _, line := range all {
		for _, commonest := range line.errors.most(1) {
			line.Commonest = &commonest
		}
	}
	slices.SortFunc(all, func(a, b *group) int {
		return cmp.Or(b.GaveUp-a.GaveUp, b.Attempts-a.Attempts, strings.Compare(a.Reason+a.Class+a.Source, b.Reason+b.Class+b.Source))
	})
	return all
}

// An errorLine counts the attempts that failed with an error.
type errorLine struct {
	Error   string  `json:"error"`
	Count   int     `json:"count"`
	Share   float64 `json:"share,omitempty"`    // of all attempts that failed
	AtLeast bool    `json:"at_least,omitempty"` // it may have come more often
}

// times returns how often the error came.
func (l *errorLine) times() string {
	text := preview.Thousands(l.Count)
	if l.AtLeast {
		text += " or more"
	}
	return text
}

func (l *errorLine) String() string {
	if l == nil {
		return ""
	}
	return l.Error + " (" + l.times() + ")"
}

// A tally counts errors as Misra and Gries do in Finding Repeated Elements (1982): what comes
// more often than once in mostErrors+1 times stays, and no count is too high.
type tally struct {
	counts map[string]int // by text
	all    int
	least  bool // an error may have come more often
}

func (t *tally) add(err error) {
	text := printable.Line(err.Error())
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + "..."
	}
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.all++
	if t.counts[text]++; len(t.counts) > mostErrors {
		t.least = true
		for other := range t.counts {
			t.counts[other]--
		}
		maps.DeleteFunc(t.counts, func(_ string, count int) bool { return count == 0 })
	}
	if len(t.counts) == 0 { // all came equally often
		t.counts[text] = 1
	}
}

// most returns the n commonest errors.
func (t *tally) most(n int) []errorLine {
	lines := []errorLine{}
	for text, count := range t.counts {
		lines = append(lines, errorLine{text, count, float64(count) / float64(t.all), t.least})
	}
	slices.SortFunc(lines, func(a, b errorLine) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Error, b.Error)) })
	return lines[:min(n, len(lines))]
}

const (
	mostGroups  = 64
	mostErrors  = 256 // of a tally
	namedErrors = 5
	longestText = 200 // bytes of an error
)

// gaveUp reports whether a call stopped without success, and was not canceled.
func gaveUp(t *logs.Trace) bool {
	return t.Stopped() && t.Reason != retry.ReasonSuccess && t.Reason != retry.ReasonCanceled
}

// one returns 1 if something is so.
func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// add adds a call, and reports whether it differs from the policy, if there is one.
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
			s.strip.add(r.Event.Time, 0, 1)
			retries++
		}
	}
	if attempts == 0 || t.Foreign() { // all are in another log
		attempts = last.Attempt
	}
	if t.Foreign() {
		s.started, retries = true, attempts-1
		s.strip.add(last.Time, 0, retries)
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
	source := s.sources.of([3]string{2: t.From()}, [3]string{2: "other"})
	failures := failuresOf(t)
	s.group.add(t, attempts, differs, failures...)
	source.add(t, attempts, differs, failures...)
	if t.Stopped() && t.Reason != retry.ReasonSuccess {
		s.strip.add(last.Time, one(gaveUp(t)), 0)
		reason := s.reasons.of([3]string{string(t.Reason), last.Class}, [3]string{"other"})
		reason.add(t, attempts, false, failures[max(0, len(failures)-1):]...)
	}
	return differs
}

// failuresOf returns the errors of the attempts, or the one of a call whose attempts are in
// another log.
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

// finish computes what can only be known at the end.
func (s *summary) finish() {
	s.Reversed = s.NewestFirst()
	s.Errors, s.Reasons, s.Sources, s.Strip = s.errors.most(namedErrors), s.reasons.sorted(), s.sources.sorted(), []*bar{}
	for _, begin := range slices.Sorted(maps.Keys(s.strip.bars)) {
		b := s.strip.bars[begin]
		s.Strip = append(s.Strip, b)
		if b.Retries > 0 && (s.Peak == nil || b.Retries > s.Peak.Retries) {
			s.Peak = b
		}
	}
}

// A paragraph is a text of what is so.
type paragraph struct{ strings.Builder }

func (p *paragraph) say(is bool, format string, args ...any) {
	if is {
		fmt.Fprintf(p, format, args...)
	}
}

// text returns the first line, and how the calls compare with the policy, or a paragraph, the
// tables and the strip.
func (s *summary) text() string {
	number := preview.Thousands[int]
	var p paragraph
	p.say(true, "%s, %s gave up, %.2f attempts a call\n", counted(s.Calls, "call"), number(s.GaveUp), float64(s.Attempts)/float64(max(1, s.Calls)))
	p.say(s.Reversed != "", "The newest line is first in %s, so calls are torn apart and the\nnumbers are wrong: reverse its lines, as tac does.\n", printable.Line(s.Reversed))
	if s.comparison != nil {
		s.comparison.text(&p, s)
		return p.String()
	}
	p.say(s.failed, "The numbers and tables are of every call; -failed prints only those that gave up, %s of %s.\n", number(s.GaveUp), number(s.Calls))
	p.say(true, "%s succeeded, %s canceled, %s without an end in the log", number(s.Succeeded), number(s.Canceled), number(s.Open))
	p.say(!s.to.IsZero(), ", from %s to %s", s.from.UTC().Format(clock), s.to.UTC().Format(clock))
	p.say(true, ".\n%s had %s", counted(s.Retried, "call"), counted(s.Retries, "retry"))
	if s.Peak != nil {
		p.say(true, ", at most %s in the %s from %s", number(s.Peak.Retries), widths[s.strip.width].name, s.Peak.begin.Format(clock))
	}
	p.say(true, ".\n")
	p.say(!s.started, "The log has no attempts (its level is above DEBUG), so calls that succeeded at\nonce are not in it.\n")
	p.say(s.Envoy > 0, "%s of Envoy's access log, which has no delays and no limits, and attempts\nonly as upstream_request_attempt_count: without that the numbers are too low.\n", counted(s.Envoy, "call"))
	p.say(s.Keyless > 1, "%s calls have no key, so those that ran at the same time may be mixed up.\n", number(s.Keyless))
	p.say(s.Files.Skipped > s.Bad, "Skipped %s of something else.\n", counted(s.Files.Skipped-s.Bad, "line"))
	if s.First != nil {
		p.say(true, "Skipped %s with an event that cannot be read, the first in\n%v\n", counted(s.Bad, "line"), differenceOf(s.First))
	}
	p.say(s.Torn > 0, "Cut off: %s.\n", counted(s.Torn, "line"))
	p.say(s.Dropped > 0, "Too many calls were open at once: %s cut short, so the rest of each\nis counted as one more.\n", counted(s.Dropped, "call"))
	s.tables(&p)
	return trailing.ReplaceAllString(p.String(), "")
}

var trailing = regexp.MustCompile(`(?m) +$`) // of a table

// tables writes a table by reason, one by source, one by error, and one over time.
func (s *summary) tables(p *paragraph) {
	number := preview.Thousands[int]
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for i, g := range s.Reasons {
		title(t, i, "CALLS\tREASON\tCLASS\tCOMMONEST LAST ERROR (CALLS)")
		fmt.Fprintf(t, "%s\t%s\t%s\t%v\n", number(g.Calls), printable.Line(g.Reason), cmp.Or(printable.Line(g.Class), "-"), g.Commonest)
	}
	for i, g := range s.Sources {
		title(t, i, "CALLS\tGAVE UP\tATTEMPTS\tLIMIT\tSOURCE\tCOMMONEST ERROR (FAILURES)")
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%v\n", number(g.Calls), number(g.GaveUp), number(g.Attempts), g.limits(), printable.Line(g.Source), g.Commonest)
	}
	for i, l := range s.Errors {
		title(t, i, "FAILURES\tSHARE\tERROR")
		fmt.Fprintf(t, "%s\t%.0f%%\t%s\n", l.times(), 100*l.Share, l.Error)
	}
	s.strip.table(t, s.Strip)
	_ = t.Flush()
}

// title writes the title of a table before its first row.
func title(t *tabwriter.Writer, row int, columns string) {
	if row == 0 {
		fmt.Fprintf(t, "\n%s\n", columns)
	}
}

// asJSON returns a call as JSON.
func asJSON(t *logs.Trace) []byte {
	first, last := t.Records[0], t.Last()
	failure, failures := "", failuresOf(t)
	if len(failures) > 0 && t.Reason != retry.ReasonSuccess {
		failure = failures[len(failures)-1].Error()
	}
	data, _ := json.Marshal(struct { // of texts and numbers
		Source   string       `json:"source,omitempty"`
		Key      string       `json:"key,omitempty"`
		File     string       `json:"file"`
		Line     int          `json:"line"`
		Began    string       `json:"began"`
		Ended    string       `json:"ended"`
		Attempts int          `json:"attempts"`
		Reason   retry.Reason `json:"reason,omitempty"` // absent: it has no end in the log
		Class    string       `json:"class,omitempty"`
		Error    string       `json:"error,omitempty"`
	}{first.Source, t.Key, t.File(), first.Line, instant(first.Event.Time.Add(-first.Event.Elapsed)), instant(last.Time),
		last.Attempt, last.Reason, last.Class, failure})
	return data
}
