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

	minutes map[int64]int
}

type longestWait struct {
	eventlog.Origin
	Time instant `json:"time"`
	Wait string  `json:"wait"`
	wait time.Duration
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

// add counts a call.
func (g *group) add(t *eventlog.Trace, attempts int, differs bool) {
	limit := t.Last().Max
	if g.Calls == 0 || uint(limit) < uint(g.Least) { // -1 is the greatest
		g.Least = limit
	}
	if g.Calls == 0 || uint(limit) > uint(g.Most) {
		g.Most = limit
	}
	g.Calls++
	g.Attempts += attempts
	if gaveUp(t) {
		g.GaveUp++
	}
	if differs {
		g.Differ++
	}
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

func newSummary() *summary {
	return &summary{reasons: groups{}, sources: groups{}, Peak: peak{minutes: map[int64]int{}}, strip: strip{bars: map[int64]*bar{}}}
}

// gaveUp reports whether a call stopped without success, and was not canceled.
func gaveUp(c *eventlog.Trace) bool {
	e := c.Last()
	return c.Stopped() && e.Reason != retry.ReasonSuccess && e.Reason != retry.ReasonCanceled
}

// add adds a call, and reports whether it differs from the policy, if there is one.
func (s *summary) add(t *eventlog.Trace) (differs bool) {
	last, failures, retries, attempts := t.Last(), s.errors.all, s.Retries, 0
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
				s.LongestWait = &longestWait{t.Origin, instant{r.Event.Time}, wait.String(), wait}
			}
		}
	}
	for _, r := range t.Whole() {
		switch {
		case r.Event.Kind == retry.AttemptStarted:
			attempts++
		case r.Event.Kind == retry.AttemptFinished && r.Event.Err != nil:
			s.fail(source, r.Event.Err)
		}
	}
	if attempts == 0 { // all are in another log
		attempts = last.Attempt
	}
	if foreign, counted := t.Foreign(); foreign {
		s.Envoy++
		s.started = true
		if !counted {
			s.Uncounted++
		}
		if last.Attempt > 1 {
			s.retry(last.Time, last.Attempt-1)
		}
	}
	failure := failureOf(t)
	if failure != nil && s.errors.all == failures {
		s.fail(source, failure)
	}
	if s.Retries > retries {
		s.Retried++
	}
	differs = s.comparison.add(t)
	s.group.add(t, attempts, differs)
	source.add(t, attempts, differs)
	s.end(t, attempts, failure)
	return differs
}

// end counts how a call ended.
func (s *summary) end(t *eventlog.Trace, attempts int, failure error) {
	last := t.Last()
	switch {
	case !t.Stopped():
		s.Open++
		return
	case last.Reason == retry.ReasonSuccess:
		s.Succeeded++
		return
	case last.Reason == retry.ReasonCanceled:
		s.Canceled++
	default:
		s.strip.add(last.Time, 1, 0)
	}
	if last.Reason == retry.ReasonBudget || last.Reason == retry.ReasonBorrowed {
		s.Denied++
	}
	reason := s.reasons.of([3]string{string(last.Reason), last.Class}, [3]string{"other"})
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
	s.Retries += n
	s.strip.add(at, 0, n)
	s.Peak.add(at, n)
}

// add counts retries. Minutes that are long past are not held: calls come in about the order of
// time.
func (p *peak) add(at time.Time, n int) {
	if at.IsZero() {
		return
	}
	minute := floor(at.Unix(), 60)
	p.minutes[minute] += n
	if n = p.minutes[minute]; n > p.Retries || n == p.Retries && minute < p.Time.Unix() {
		p.Time, p.Retries = instant{time.Unix(minute, 0).UTC()}, n
	}
	if len(p.minutes) > mostMinutes {
		for _, old := range slices.Sorted(maps.Keys(p.minutes))[:mostMinutes/2] {
			delete(p.minutes, old)
		}
	}
}

// waited returns how long a call waited after its ith event, a RetryScheduled: a done context,
// or the program's own Wait, may end a delay early.
func waited(c *eventlog.Trace, i int) time.Duration {
	e := c.Records[i].Event
	if i+1 == len(c.Records) || c.Records[i+1].Event.Resets != e.Resets { // Elapsed begins anew
		return e.Delay
	}
	return max(0, min(e.Delay, c.Records[i+1].Event.Elapsed-e.Elapsed))
}

// failureOf returns the last error of a call, nil if it has none.
func failureOf(c *eventlog.Trace) error {
	for _, r := range slices.Backward(c.Records) {
		if r.Event.Err != nil {
			return r.Event.Err
		}
	}
	return c.Last().Cause
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

// text returns the first line, and how the calls compare with the policy, or a paragraph, the
// tables and the strip.
func (s *summary) text() string {
	const clock = "2006-01-02 15:04:05Z"
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s gave up, %.2f attempts a call\n", counted(s.Calls, "call"), preview.Thousands(s.GaveUp), float64(s.Attempts)/float64(max(1, s.Calls)))
	if s.comparison != nil {
		return b.String() + s.comparison.text(s)
	}
	number, span, most, wait, quiet := preview.Thousands[int], "", "", "", 0
	if !s.to.IsZero() {
		span = ", from " + s.from.UTC().Format(clock) + " to " + s.to.UTC().Format(clock)
	}
	if s.Peak.Retries > 0 {
		most = ", at most " + number(s.Peak.Retries) + " in a minute (" + s.Peak.Time.Format("2006-01-02 15:04Z") + ")"
	}
	if w := s.LongestWait; w != nil {
		at := eventlog.Printable(w.Origin.String())
		if !w.Time.IsZero() {
			at = strings.TrimSuffix(w.Time.UTC().Format(clock)+", "+at, ", ")
		}
		wait = strings.TrimSuffix(" The longest wait was "+w.Wait+" ("+at+")", " ()") + "."
	}
	if !s.started {
		quiet = s.Calls
	}
	if s.failed {
		fmt.Fprintf(&b, "The numbers and tables are of every call; -failed prints only those that gave up, %s of %s.\n", number(s.GaveUp), number(s.Calls))
	}
	fmt.Fprintf(&b, "%s succeeded, %s canceled, %s without an end in the log%s.\n%s had %s%s.%s\n"+
		"Budgets denied a retry to %s.\n",
		number(s.Succeeded), number(s.Canceled), number(s.Open), span,
		counted(s.Retried, "call"), counted(s.Retries, "retry"), most, wait, counted(s.Denied, "call"))
	for _, note := range []struct {
		n    int
		text string
	}{
		{quiet, "The log has no attempts (its level is above DEBUG), so calls that succeeded at\nonce are not in it.\n"},
		{s.Envoy, counted(s.Envoy, "call") + " of Envoy's access log, which has no delays and no limits.\n"},
		{s.Uncounted, "Of " + counted(s.Uncounted, "call") + " it does not say how many attempts there were: the numbers are too low.\n"},
		{s.Keyless - 1, number(s.Keyless) + " calls have no key, so those that ran at the same time may be mixed up.\n"},
		{s.SkippedLines, "Skipped " + counted(s.SkippedLines, "line") + " of something else.\n"},
		{s.TornLines, "Cut off: " + counted(s.TornLines, "line") + ".\n"},
		{s.Dropped, "Too many calls were open at once: " + counted(s.Dropped, "call") +
			" cut short, so the rest of each\nis counted as one more.\n"},
	} {
		if note.n > 0 {
			b.WriteString(note.text)
		}
	}
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
	title, bars := s.strip.rows(s.Strip)
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
func asJSON(c *eventlog.Trace) []byte {
	first, last := &c.Records[0], c.Last()
	_, file, at := eventlog.Place(*first)
	waits, failure := time.Duration(0), failureOf(c)
	for i, r := range c.Records {
		if r.Event.Kind == retry.RetryScheduled {
			waits = preview.Add(waits, waited(c, i))
		}
	}
	if last.Reason == retry.ReasonSuccess {
		failure = nil
	}
	line := struct {
		eventlog.Origin
		File     string       `json:"file"`
		Line     int          `json:"line"`
		Began    instant      `json:"began"`
		Ended    instant      `json:"ended"`
		Attempts int          `json:"attempts"`
		Waited   string       `json:"waited"`
		Reason   retry.Reason `json:"reason,omitempty"` // absent: it has no end in the log
		Class    string       `json:"class,omitempty"`
		Error    string       `json:"error,omitempty"`
	}{c.Origin, file, at, instant{first.Event.Time.Add(-first.Event.Elapsed)}, instant{last.Time},
		last.Attempt, waits.String(), last.Reason, last.Class, ""}
	if failure != nil {
		line.Error = failure.Error()
	}
	data, _ := json.Marshal(line) // of texts and numbers
	return data
}
