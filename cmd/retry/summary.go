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
	"github.com/goretry/retry/cmd/retry/internal/logfile"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/internal/eventlog"
)

// A summary is what the calls of a log have in common. Its size has a limit, however
// long the log is.
type summary struct {
	Calls        int           `json:"calls"`
	Succeeded    int           `json:"succeeded"`
	GaveUp       int           `json:"gave_up"`
	Canceled     int           `json:"canceled"`
	Open         int           `json:"without_end"`
	Keyless      int           `json:"without_key"`
	Attempts     int           `json:"attempts"`
	Retried      int           `json:"retried"` // calls
	Retries      int           `json:"retries"`
	Denied       int           `json:"denied_by_budget"`
	Peak         peak          `json:"peak"`
	LongestWait  *longestWait  `json:"longest_wait,omitempty"`
	SkippedLines int           `json:"skipped_lines"`
	TornLines    int           `json:"cut_off_lines"`
	Dropped      int           `json:"dropped"` // calls cut short
	Envoy        int           `json:"envoy"`   // calls of its access log
	Uncounted    int           `json:"without_attempts"`
	Reasons      []*reasonLine `json:"reasons"`
	Sources      []*sourceLine `json:"sources"`
	Errors       []errorLine   `json:"errors"`
	Strip        []*bar        `json:"strip"`
	*comparison                // nil: there is no policy to compare with

	from, to time.Time
	started  bool // the log has attempts
	reasons  map[[2]string]*reasonLine
	sources  map[string]*sourceLine
	errors   tally
	failures int // that are in errors
	strip    strip
}

// A peak is the minute with the most retries.
type peak struct {
	Time    instant `json:"time"`
	Retries int     `json:"retries"`

	minutes map[int64]int
}

type longestWait struct {
	logfile.Origin
	Time instant `json:"time"`
	Wait string  `json:"wait"`
	wait time.Duration
}

// An instant is a time in UTC, also in a year that time.Time.MarshalJSON does not take.
type instant struct{ time.Time }

func (t instant) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"`+time.RFC3339Nano+`"`), nil
}

// A reasonLine counts the calls that stopped for a reason.
type reasonLine struct {
	Reason string `json:"reason"`
	Class  string `json:"class,omitempty"`
	Count  int    `json:"count"`
	commonest
}

// A sourceLine counts the calls of a source.
type sourceLine struct {
	Source   string `json:"source"`
	Calls    int    `json:"calls"`
	GaveUp   int    `json:"gave_up"`
	Attempts int    `json:"attempts"`
	Least    int    `json:"least_max"` // the smallest and the greatest limit of a call, -1 for unlimited
	Most     int    `json:"greatest_max"`
	Differ   int    `json:"differ,omitempty"` // calls that differ from the policy
	commonest
}

// commonest is the error that the calls of a line have most often.
type commonest struct {
	Error   string `json:"error,omitempty"`
	Times   int    `json:"error_count,omitempty"`
	AtLeast bool   `json:"error_count_at_least,omitempty"` // it may have come more often

	errors tally
}

func (c *commonest) find() {
	for _, line := range c.errors.most(1) {
		c.Error, c.Times, c.AtLeast = line.Error, line.Count, line.AtLeast
	}
}

func (c *commonest) String() string {
	switch {
	case c.AtLeast:
		return c.Error + " (at least " + preview.Thousands(c.Times) + ")"
	case c.Times > 0:
		return c.Error + " (" + preview.Thousands(c.Times) + ")"
	}
	return ""
}

// An errorLine counts the attempts that failed with an error.
type errorLine struct {
	Error   string  `json:"error"`
	Count   int     `json:"count"`
	Share   float64 `json:"share"` // of all attempts that failed
	AtLeast bool    `json:"at_least,omitempty"`
}

// A tally counts texts as Misra and Gries do in Finding Repeated Elements (1982): what comes
// more often than once in mostErrors+1 texts stays, and no count is too high.
type tally struct {
	counts map[string]int
	last   string
	least  bool // a text may have come more often
}

func (t *tally) add(text string) {
	if t.counts == nil {
		t.counts = map[string]int{}
	}
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
	mostReasons = 64  // by class; all others are counted together
	mostSources = 64  // likewise
	mostErrors  = 256 // texts of a tally
	mostMinutes = 20_000
	namedErrors = 5
	longestText = 200 // bytes of an error
)

func newSummary() *summary {
	return &summary{reasons: map[[2]string]*reasonLine{}, sources: map[string]*sourceLine{},
		Peak: peak{minutes: map[int64]int{}}, strip: strip{bars: map[int64]*bar{}}}
}

// gaveUp reports whether a call stopped without success, and was not canceled.
func gaveUp(c *logfile.Call) bool {
	e := c.Last()
	return c.Stopped() && e.Reason != retry.ReasonSuccess && e.Reason != retry.ReasonCanceled
}

// add adds a call, and reports whether it differs from the policy, if there is one.
func (s *summary) add(c *logfile.Call) (differs bool) {
	last, source, failures, retries := c.Last(), s.sourceOf(c), s.failures, s.Retries
	s.Calls++
	if source.Calls++; c.Key == "" {
		s.Keyless++
	}
	if first := c.Records[0].Event.Time; s.from.IsZero() || first.Before(s.from) && !first.IsZero() {
		s.from = first
	}
	if last.Time.After(s.to) {
		s.to = last.Time
	}
	for i := range c.Records {
		e := &c.Records[i].Event
		s.started = s.started || e.Kind == retry.AttemptStarted
		if e.Kind == retry.RetryScheduled {
			s.retry(e.Time, 1)
			if wait := waited(c, i); s.LongestWait == nil || wait > s.LongestWait.wait {
				s.LongestWait = &longestWait{c.Origin, instant{e.Time}, wait.String(), wait}
			}
		}
	}
	attempts := 0
	for _, r := range c.Whole() {
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
	s.Attempts += attempts
	source.Attempts += attempts
	if first := c.Records[0]; first.Foreign {
		s.Envoy++
		s.started = true
		if first.Uncounted {
			s.Uncounted++
		}
		if last.Attempt > 1 {
			s.retry(last.Time, last.Attempt-1)
		}
	}
	failure := failureOf(c)
	if failure != nil && s.failures == failures {
		s.fail(source, failure)
	}
	if s.Retries > retries {
		s.Retried++
	}
	switch {
	case !c.Stopped():
		s.Open++
	case last.Reason == retry.ReasonSuccess:
		s.Succeeded++
	case last.Reason == retry.ReasonCanceled:
		s.Canceled++
		s.count(last, failure)
	default:
		s.GaveUp++
		source.GaveUp++
		s.strip.add(last.Time, 1, 0)
		s.count(last, failure)
	}
	if last.Reason == retry.ReasonBudget || last.Reason == retry.ReasonBorrowed {
		s.Denied++
	}
	if differs = s.comparison.add(c); differs {
		source.Differ++
	}
	return differs
}

// sourceOf returns the line of the source of a call.
func (s *summary) sourceOf(c *logfile.Call) *sourceLine {
	name, limit := c.From(), c.Last().Max
	if s.sources[name] == nil && len(s.sources) >= mostSources {
		name = "other"
	}
	line := s.sources[name]
	if line == nil {
		line = &sourceLine{Source: name, Least: limit, Most: limit}
		s.sources[name] = line
	}
	if uint(limit) < uint(line.Least) { // -1 is the greatest
		line.Least = limit
	}
	if uint(limit) > uint(line.Most) {
		line.Most = limit
	}
	return line
}

// fail counts an attempt that failed.
func (s *summary) fail(source *sourceLine, err error) {
	text := textOf(err)
	s.failures++
	s.errors.add(text)
	source.errors.add(text)
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
	minute := at.Unix() - (at.Unix()%60+60)%60
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
func waited(c *logfile.Call, i int) time.Duration {
	e := c.Records[i].Event
	if i+1 == len(c.Records) || c.Records[i+1].Event.Resets != e.Resets { // Elapsed begins anew
		return e.Delay
	}
	return max(0, min(e.Delay, c.Records[i+1].Event.Elapsed-e.Elapsed))
}

// failureOf returns the last error of a call, nil if it has none.
func failureOf(c *logfile.Call) error {
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

// count counts a call that stopped, by its reason and its error.
func (s *summary) count(last *retry.Event, failure error) {
	key := [2]string{string(last.Reason), last.Class}
	if s.reasons[key] == nil && len(s.reasons) >= mostReasons {
		key = [2]string{"other", ""}
	}
	line := s.reasons[key]
	if line == nil {
		line = &reasonLine{Reason: key[0], Class: key[1]}
		s.reasons[key] = line
	}
	if line.Count++; failure != nil {
		line.errors.add(textOf(failure))
	}
}

// finish computes what can only be known at the end.
func (s *summary) finish(l *logfile.Log) {
	s.SkippedLines, s.TornLines, s.Dropped = l.Skipped+l.Bad, l.Torn, l.Dropped
	s.Strip = s.strip.all()
	s.Errors = s.errors.most(namedErrors)
	for i := range s.Errors {
		s.Errors[i].Share = float64(s.Errors[i].Count) / float64(s.failures)
	}
	s.Reasons = slices.AppendSeq([]*reasonLine{}, maps.Values(s.reasons))
	for _, line := range s.Reasons {
		line.find()
	}
	slices.SortFunc(s.Reasons, func(a, b *reasonLine) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Class, b.Class))
	})
	s.Sources = slices.AppendSeq([]*sourceLine{}, maps.Values(s.sources))
	for _, line := range s.Sources {
		line.find()
	}
	slices.SortFunc(s.Sources, func(a, b *sourceLine) int {
		return cmp.Or(b.GaveUp-a.GaveUp, b.Attempts-a.Attempts, cmp.Compare(a.Source, b.Source))
	})
	s.comparison.finish(l)
}

// faulty reports whether the policy is compared with a log that has only lines that cannot be read.
func (s *summary) faulty(l *logfile.Log) bool { return s.comparison != nil && l.Bad > 0 }

func (s *summary) json() []byte {
	numbers, _ := json.Marshal(s) // of texts and numbers
	return numbers
}

// text returns the first line, and how the calls compare with the policy, or a paragraph, the
// tables and the strip.
func (s *summary) text() string {
	const clock = "2006-01-02 15:04:05Z"
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s gave up, %.2f attempts a call\n", counted(s.Calls, "call"), preview.Thousands(s.GaveUp), float64(s.Attempts)/float64(max(1, s.Calls)))
	if s.comparison != nil {
		return b.String() + s.comparison.text(s.Sources)
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
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	if len(s.Reasons) > 0 {
		fmt.Fprintln(t, "\nCALLS\tREASON\tCLASS\tCOMMONEST ERROR")
	}
	for _, line := range s.Reasons {
		fmt.Fprintf(t, "%s\t%s\t%s\t%v\n", number(line.Count), eventlog.Printable(line.Reason), cmp.Or(eventlog.Printable(line.Class), "-"), &line.commonest)
	}
	_ = t.Flush()
	fmt.Fprintln(t, "\nCALLS\tGAVE UP\tATTEMPTS\tMAX\tSOURCE\tCOMMONEST ERROR")
	for _, line := range s.Sources {
		limit := limitText(line.Least)
		if line.Most != line.Least {
			limit += " to " + limitText(line.Most)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%v\n", number(line.Calls), number(line.GaveUp), number(line.Attempts), limit, eventlog.Printable(line.Source), &line.commonest)
	}
	_ = t.Flush()
	if len(s.Errors) > 0 {
		fmt.Fprintln(t, "\nFAILURES\tSHARE\tERROR")
	}
	for _, line := range s.Errors {
		count := number(line.Count)
		if line.AtLeast {
			count += " or more"
		}
		fmt.Fprintf(t, "%s\t%.0f%%\t%s\n", count, 100*line.Share, line.Error)
	}
	_ = t.Flush()
	writeStrip(t, s.Strip)
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
func asJSON(c *logfile.Call) []byte {
	first, last := &c.Records[0], c.Last()
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
		logfile.Origin
		File     string       `json:"file"`
		Line     int          `json:"line"`
		Began    instant      `json:"began"`
		Ended    instant      `json:"ended"`
		Attempts int          `json:"attempts"`
		Waited   string       `json:"waited"`
		Reason   retry.Reason `json:"reason,omitempty"` // absent: it has no end in the log
		Class    string       `json:"class,omitempty"`
		Error    string       `json:"error,omitempty"`
	}{c.Origin, first.File.Name, first.Line, instant{first.Event.Time.Add(-first.Event.Elapsed)}, instant{last.Time},
		last.Attempt, waits.String(), last.Reason, last.Class, ""}
	if failure != nil {
		line.Error = failure.Error()
	}
	data, _ := json.Marshal(line) // of texts and numbers
	return data
}
