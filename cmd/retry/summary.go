package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/internal/eventlog"
)

// A summary is what the calls of a log have in common. Its size has a limit, however
// long the log is.
type summary struct {
	group                     // of all calls, without a reason or a source
	Succeeded    int          `json:"succeeded"`
	Canceled     int          `json:"canceled"`
	Open         int          `json:"without_end"`
	Keyless      int          `json:"without_key"`
	Retried      int          `json:"retried"` // calls
	Retries      int          `json:"retries"`
	Denied       int          `json:"denied_by_budget"`
	Peak         peak         `json:"peak"`
	LongestWait  *longestWait `json:"longest_wait,omitempty"`
	SkippedLines int          `json:"skipped_lines"`
	TornLines    int          `json:"cut_off_lines"`
	Dropped      int          `json:"dropped"` // calls cut short
	Envoy        int          `json:"envoy"`   // calls of its access log
	Uncounted    int          `json:"without_attempts"`
	Reasons      []*group     `json:"reasons"`
	Sources      []*group     `json:"sources"`
	Errors       []errorLine  `json:"errors"`
	Strip        []*bar       `json:"strip"`
	*comparison               // nil: there is no policy to compare with

	from, to time.Time
	started  bool // the log has attempts
	failed   bool // only calls that gave up are printed
	reasons  groups
	sources  groups
	strip    strip
}

// A peak is the minute with the most retries.
type peak struct {
	Time    instant `json:"time"`
	Retries int     `json:"retries"`

	minutes map[time.Time]int
}

// add counts retries. Minutes that are long past are not held: calls come in about the order of
// time.
func (p *peak) add(at time.Time, n int) {
	minute := at.UTC().Truncate(time.Minute)
	if len(p.minutes) >= mostMinutes || p.minutes == nil {
		p.minutes = map[time.Time]int{}
	}
	if p.minutes[minute] += n; p.minutes[minute] > p.Retries && !at.IsZero() {
		p.Time, p.Retries = instant{minute}, p.minutes[minute]
	}
}

type longestWait struct {
	Source string  `json:"source,omitempty"`
	Key    string  `json:"key,omitempty"`
	Time   instant `json:"time"`
	Wait   string  `json:"wait"`
	wait   time.Duration
	of     string
}

// An instant is a time in UTC, also in a year that time.Time.MarshalJSON does not take.
type instant struct{ time.Time }

func (t instant) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"`+time.RFC3339Nano+`"`), nil
}

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

// add counts a call.
func (g *group) add(t *eventlog.Trace, attempts int, differs bool) {
	limit := uint(t.Last().Max) // of which -1 is the greatest
	if g.Calls == 0 {
		g.Least, g.Most = int(limit), int(limit)
	}
	g.Least, g.Most = int(min(limit, uint(g.Least))), int(max(limit, uint(g.Most)))
	g.Calls++
	g.Attempts += attempts
	if gaveUp(t) {
		g.GaveUp++
	}
	if differs {
		g.Differ++
	}
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

// sorted returns the groups in an order, with the commonest error of each.
func (g groups) sorted(compare func(a, b *group) int) []*group {
	all := slices.AppendSeq([]*group{}, maps.Values(g))
	for _, line := range all {
		for _, commonest := range line.errors.most(1) {
			line.Commonest = &commonest
		}
	}
	slices.SortFunc(all, compare)
	return all
}

// An errorLine counts the attempts that failed with an error.
type errorLine struct {
	Error   string  `json:"error"`
	Count   int     `json:"count"`
	Share   float64 `json:"share,omitempty"`    // of all attempts that failed
	AtLeast bool    `json:"at_least,omitempty"` // it may have come more often
}

func (l *errorLine) String() string {
	switch {
	case l == nil:
		return ""
	case l.AtLeast:
		return l.Error + " (at least " + preview.Thousands(l.Count) + ")"
	default:
		return l.Error + " (" + preview.Thousands(l.Count) + ")"
	}
}

// A tally counts texts as Misra and Gries do in Finding Repeated Elements (1982): what comes
// more often than once in mostErrors+1 texts stays, and no count is too high.
type tally struct {
	counts map[string]int
	all    int // texts
	last   string
	least  bool // a text may have come more often
}

func (t *tally) add(text string) {
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.all++
	t.last = text
	if t.counts[text] > 0 || len(t.counts) < mostErrors {
		t.counts[text]++
		return
	}
	t.least = true
	for other := range t.counts {
		if t.counts[other]--; t.counts[other] == 0 {
			delete(t.counts, other)
		}
	}
}

// most returns the n commonest texts.
func (t *tally) most(n int) []errorLine {
	lines := []errorLine{}
	for text, count := range t.counts {
		lines = append(lines, errorLine{Error: text, Count: count, AtLeast: t.least})
	}
	if len(lines) == 0 && t.least { // all texts came equally often
		lines = append(lines, errorLine{Error: t.last, Count: 1, AtLeast: true})
	}
	slices.SortFunc(lines, func(a, b errorLine) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Error, b.Error)) })
	return lines[:min(n, len(lines))]
}

const (
	mostGroups  = 64
	mostErrors  = 256 // texts of a tally
	mostMinutes = 20_000
	namedErrors = 5
	longestText = 200 // bytes of an error
)

// gaveUp reports whether a call stopped without success, and was not canceled.
func gaveUp(t *eventlog.Trace) bool {
	return t.Stopped() && t.Reason != retry.ReasonSuccess && t.Reason != retry.ReasonCanceled
}

// add adds a call, and reports whether it differs from the policy, if there is one.
func (s *summary) add(t *eventlog.Trace) (differs bool) {
	last, retries, failures, attempts := t.Last(), s.Retries, s.errors.all, len(t.Attempts)
	source := s.sources.of([3]string{2: t.From()}, [3]string{2: "other"})
	if t.Key == "" {
		s.Keyless++
	}
	if first := t.Records[0].Event.Time; s.from.IsZero() || first.Before(s.from) && !first.IsZero() {
		s.from = first
	}
	if last.Time.After(s.to) {
		s.to = last.Time
	}
	for i, r := range t.Records {
		s.started = s.started || r.Event.Kind == retry.AttemptStarted
		if r.Event.Kind == retry.RetryScheduled {
			s.retry(r.Event.Time, 1)
			if wait := waited(t, i); s.LongestWait == nil || wait > s.LongestWait.wait {
				s.LongestWait = &longestWait{t.Source, t.Key, instant{r.Event.Time}, wait.String(), wait, eventlog.Of(r)}
			}
		}
	}
	for _, a := range t.Attempts {
		if a.Err != nil {
			s.fail(source, a.Err)
		}
	}
	foreign, counted := t.Foreign()
	if foreign {
		s.started = true
		s.Envoy++
		s.retry(last.Time, last.Attempt-1)
	}
	if foreign && !counted {
		s.Uncounted++
	}
	if attempts == 0 || foreign { // all are in another log
		attempts = last.Attempt
	}
	failure := failureOf(t)
	if failure != nil && s.errors.all == failures {
		s.fail(source, failure)
	}
	if s.Retries > retries {
		s.Retried++
	}
	if s.comparison != nil {
		differs = s.comparison.add(t)
	}
	s.group.add(t, attempts, differs)
	source.add(t, attempts, differs)
	s.end(t, attempts, failure)
	return differs
}

// end counts how a call ended.
func (s *summary) end(t *eventlog.Trace, attempts int, failure error) {
	switch {
	case !t.Stopped():
		s.Open++
		return
	case t.Reason == retry.ReasonSuccess:
		s.Succeeded++
		return
	case t.Reason == retry.ReasonCanceled:
		s.Canceled++
	default:
		s.strip.add(t.Last().Time, 1, 0)
	}
	if t.Reason == retry.ReasonBudget || t.Reason == retry.ReasonBorrowed {
		s.Denied++
	}
	reason := s.reasons.of([3]string{string(t.Reason), t.Last().Class}, [3]string{"other"})
	reason.add(t, attempts, false)
	if failure != nil {
		reason.errors.add(textOf(failure))
	}
}

// fail counts an attempt that failed.
func (s *summary) fail(source *group, err error) {
	s.errors.add(textOf(err))
	source.errors.add(textOf(err))
}

// retry counts retries at a time.
func (s *summary) retry(at time.Time, n int) {
	if s.Retries += n; n > 0 {
		s.strip.add(at, 0, n)
		s.Peak.add(at, n)
	}
}

// waited returns how long a call waited after its ith event, a RetryScheduled: a done context,
// or the program's own Wait, may end a delay early.
func waited(t *eventlog.Trace, i int) time.Duration {
	e := t.Records[i].Event
	if i+1 == len(t.Records) || t.Records[i+1].Event.Resets != e.Resets { // Elapsed begins anew
		return e.Delay
	}
	return max(0, min(e.Delay, t.Records[i+1].Event.Elapsed-e.Elapsed))
}

// failureOf returns the last error of a call, nil if it has none.
func failureOf(t *eventlog.Trace) error {
	for _, r := range slices.Backward(t.Records) {
		if r.Event.Err != nil {
			return r.Event.Err
		}
	}
	return t.Cause
}

// textOf returns the text of an error as it is counted.
func textOf(err error) string {
	text := eventlog.Printable(err.Error())
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + "..."
	}
	return text
}

// finish computes what can only be known at the end.
func (s *summary) finish(l *eventlog.Files) {
	s.SkippedLines, s.TornLines, s.Dropped = l.Skipped+l.Bad, l.Torn, l.Dropped
	s.Strip = s.strip.all()
	s.Errors = s.errors.most(namedErrors)
	for i := range s.Errors {
		s.Errors[i].Share = float64(s.Errors[i].Count) / float64(s.errors.all)
	}
	s.Reasons = s.reasons.sorted(func(a, b *group) int {
		return cmp.Or(b.Calls-a.Calls, cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Class, b.Class))
	})
	s.Sources = s.sources.sorted(func(a, b *group) int {
		return cmp.Or(b.GaveUp-a.GaveUp, b.Attempts-a.Attempts, cmp.Compare(a.Source, b.Source))
	})
	if s.comparison != nil {
		s.files = l
	}
}

const clock = "2006-01-02 15:04:05Z"

// text returns the first line, and how the calls compare with the policy, or a paragraph, the
// tables and the strip.
func (s *summary) text() string {
	number, calls := preview.Thousands[int], counted(s.Calls, "call")
	first := fmt.Sprintf("%s, %s gave up, %.2f attempts a call\n", calls, number(s.GaveUp), float64(s.Attempts)/float64(max(1, s.Calls)))
	if s.comparison != nil {
		return first + s.comparison.text(s)
	}
	wait := ""
	if w := s.LongestWait; w != nil {
		at := w.of
		if !w.Time.IsZero() {
			at = strings.TrimSuffix(w.Time.UTC().Format(clock)+", "+at, ", ")
		}
		wait = strings.TrimSuffix(" The longest wait was "+w.Wait+" ("+at+")", " ()") + "."
	}
	var b strings.Builder
	b.WriteString(first)
	say := func(is bool, format string, args ...any) {
		if is {
			fmt.Fprintf(&b, format, args...)
		}
	}
	say(s.failed, "The numbers and tables are of every call; -failed prints only those that gave up, %s of %s.\n", number(s.GaveUp), number(s.Calls))
	say(true, "%s succeeded, %s canceled, %s without an end in the log", number(s.Succeeded), number(s.Canceled), number(s.Open))
	say(!s.to.IsZero(), ", from %s to %s", s.from.UTC().Format(clock), s.to.UTC().Format(clock))
	say(true, ".\n%s had %s", counted(s.Retried, "call"), counted(s.Retries, "retry"))
	say(s.Peak.Retries > 0, ", at most %s in a minute (%s)", number(s.Peak.Retries), s.Peak.Time.Format("2006-01-02 15:04Z"))
	say(true, ".%s\nBudgets denied a retry to %s.\n", wait, counted(s.Denied, "call"))
	say(!s.started, "The log has no attempts (its level is above DEBUG), so calls that succeeded at\nonce are not in it.\n")
	say(s.Envoy > 0, "%s of Envoy's access log, which has no delays and no limits.\n", counted(s.Envoy, "call"))
	say(s.Uncounted > 0, "Of %s it does not say how many attempts there were: the numbers are too low.\n", counted(s.Uncounted, "call"))
	say(s.Keyless > 1, "%s calls have no key, so those that ran at the same time may be mixed up.\n", number(s.Keyless))
	say(s.SkippedLines > 0, "Skipped %s of something else.\n", counted(s.SkippedLines, "line"))
	say(s.TornLines > 0, "Cut off: %s.\n", counted(s.TornLines, "line"))
	say(s.Dropped > 0, "Too many calls were open at once: %s cut short, so the rest of each\nis counted as one more.\n", counted(s.Dropped, "call"))
	s.tables(&b)
	return trailing.ReplaceAllString(b.String(), "")
}

var trailing = regexp.MustCompile(`(?m) +$`) // of a table

// tables writes a table by reason, one by source, one by error, and one over time.
func (s *summary) tables(b *strings.Builder) {
	number := preview.Thousands[int]
	var reasons, sources, failures [][]string
	for _, g := range s.Reasons {
		reasons = append(reasons, []string{number(g.Calls), eventlog.Printable(g.Reason), cmp.Or(eventlog.Printable(g.Class), "-"), g.Commonest.String()})
	}
	for _, g := range s.Sources {
		limit := limitText(g.Least)
		if g.Most != g.Least {
			limit += " to " + limitText(g.Most)
		}
		sources = append(sources, []string{number(g.Calls), number(g.GaveUp), number(g.Attempts), limit, eventlog.Printable(g.Source), g.Commonest.String()})
	}
	for _, line := range s.Errors {
		count := number(line.Count)
		if line.AtLeast {
			count += " or more"
		}
		failures = append(failures, []string{count, fmt.Sprintf("%.0f%%", 100*line.Share), line.Error})
	}
	table(b, "CALLS\tREASON\tCLASS\tCOMMONEST ERROR", reasons)
	table(b, "CALLS\tGAVE UP\tATTEMPTS\tMAX\tSOURCE\tCOMMONEST ERROR", sources)
	table(b, "FAILURES\tSHARE\tERROR", failures)
	title, bars := s.strip.rows()
	table(b, title, bars)
}

// table writes rows under a title.
func table(w io.Writer, title string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\n"+title)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush()
}

func limitText(limit int) string {
	switch limit {
	case retry.Unlimited:
		return "none"
	case 0: // it is not in the log
		return "-"
	}
	return preview.Thousands(limit)
}

// asJSON returns a call as JSON.
func asJSON(t *eventlog.Trace) []byte {
	first, last := t.Records[0], t.Last()
	_, file := eventlog.Place(first)
	waits, failure := time.Duration(0), ""
	for i, r := range t.Records {
		if r.Event.Kind == retry.RetryScheduled {
			waits = preview.Add(waits, waited(t, i))
		}
	}
	if err := failureOf(t); err != nil && t.Reason != retry.ReasonSuccess {
		failure = err.Error()
	}
	data, _ := json.Marshal(struct { // of texts and numbers
		Source   string       `json:"source,omitempty"`
		Key      string       `json:"key,omitempty"`
		File     string       `json:"file"`
		Line     int          `json:"line"`
		Began    instant      `json:"began"`
		Ended    instant      `json:"ended"`
		Attempts int          `json:"attempts"`
		Waited   string       `json:"waited"`
		Reason   retry.Reason `json:"reason,omitempty"` // absent: it has no end in the log
		Class    string       `json:"class,omitempty"`
		Error    string       `json:"error,omitempty"`
	}{t.Source, t.Key, file, first.Line, instant{first.Event.Time.Add(-first.Event.Elapsed)}, instant{last.Time},
		last.Attempt, waits.String(), last.Reason, last.Class, failure})
	return data
}
