package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
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
	Retried      int           `json:"retried"` // calls
	Retries      int           `json:"retries"`
	Denied       int           `json:"denied_by_budget"`
	LongestWait  *longestWait  `json:"longest_wait,omitempty"`
	SkippedLines int           `json:"skipped_lines"`
	TornLines    int           `json:"cut_off_lines"`
	Dropped      int           `json:"dropped"` // calls cut short
	Reasons      []*reasonLine `json:"reasons"`
	Minutes      []minute      `json:"gave_up_at"`

	from, to time.Time
	started  bool // the log has attempts
	reasons  map[[2]string]*reasonLine
	step     int64 // of a bar, in seconds
	ends     map[int64]int
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
	Error  string `json:"error,omitempty"` // the commonest
	Times  int    `json:"error_count,omitempty"`
	Least  bool   `json:"error_count_at_least,omitempty"` // it may have come more often

	errors map[string]int // how often each text came at least
}

// A minute counts the calls that gave up within it, or a longer time if there would be
// too many.
type minute struct {
	Time    instant `json:"time"`
	Seconds int64   `json:"seconds"`
	GaveUp  int     `json:"gave_up"`
}

const (
	mostReasons = 64  // by class; all others are counted together
	mostErrors  = 256 // texts of a reason
	mostBars    = 60
	widest      = 40  // characters of a bar
	longestText = 200 // bytes of an error
)

func newSummary() *summary {
	return &summary{reasons: map[[2]string]*reasonLine{}, step: 60, ends: map[int64]int{}}
}

// gaveUp reports whether a call stopped without success, and was not canceled.
func gaveUp(c *logfile.Call) bool {
	e := c.Last()
	return c.Stopped() && e.Reason != retry.ReasonSuccess && e.Reason != retry.ReasonCanceled
}

func (s *summary) add(c *logfile.Call) {
	s.Calls++
	if c.Key == "" {
		s.Keyless++
	}
	if first := c.Records[0].Event.Time; s.from.IsZero() || first.Before(s.from) && !first.IsZero() {
		s.from = first
	}
	last, retries := c.Last(), s.Retries
	if last.Time.After(s.to) {
		s.to = last.Time
	}
	for i := range c.Records {
		e := &c.Records[i].Event
		s.started = s.started || e.Kind == retry.AttemptStarted
		if e.Kind != retry.RetryScheduled {
			continue
		}
		s.Retries++
		if wait := waited(c, i); s.LongestWait == nil || wait > s.LongestWait.wait {
			s.LongestWait = &longestWait{c.Origin, instant{e.Time}, wait.String(), wait}
		}
	}
	if s.Retries > retries {
		s.Retried++
	}
	switch {
	case !c.Stopped():
		s.Open++
		return
	case last.Reason == retry.ReasonSuccess:
		s.Succeeded++
		return
	case last.Reason == retry.ReasonCanceled:
		s.Canceled++
	default:
		s.GaveUp++
		s.end(last.Time)
	}
	if last.Reason == retry.ReasonBudget || last.Reason == retry.ReasonBorrowed {
		s.Denied++
	}
	s.count(c)
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
	for i := len(c.Records) - 1; i >= 0; i-- {
		if err := c.Records[i].Event.Err; err != nil {
			return err
		}
	}
	return c.Last().Cause
}

// count counts a call that stopped, by its reason and the text of its error.
func (s *summary) count(c *logfile.Call) {
	last := c.Last()
	key := [2]string{string(last.Reason), last.Class}
	if s.reasons[key] == nil && len(s.reasons) >= mostReasons {
		key = [2]string{"other", ""}
	}
	l := s.reasons[key]
	if l == nil {
		l = &reasonLine{Reason: key[0], Class: key[1], errors: map[string]int{}}
		s.reasons[key] = l
	}
	failure := failureOf(c)
	if l.Count++; failure == nil {
		return
	}
	text := eventlog.Printable(failure.Error())
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + "..."
	}
	l.Error, l.Times = text, 1
	if l.errors[text] == 0 && len(l.errors) == mostErrors {
		// As in Misra and Gries, Finding Repeated Elements (1982): what comes more often than
		// once in mostErrors+1 calls stays, and no count is too high.
		l.Least = true
		for other := range l.errors {
			if l.errors[other]--; l.errors[other] == 0 {
				delete(l.errors, other)
			}
		}
		return
	}
	l.errors[text]++
}

// end counts a call that gave up. If there are too many bars, each is for a longer time.
func (s *summary) end(at time.Time) {
	if at.IsZero() {
		return
	}
	s.ends[floor(at.Unix(), s.step)]++
	for len(s.ends) > mostBars {
		s.step = cmp.Or(map[int64]int64{600: 3600, 3600: 86_400}[s.step], 10*s.step)
		ends := map[int64]int{}
		for at, n := range s.ends {
			ends[floor(at, s.step)] += n
		}
		s.ends = ends
	}
}

func floor(second, step int64) int64 { return second - (second%step+step)%step }

// finish computes what can only be known at the end.
func (s *summary) finish(l *logfile.Log) {
	s.SkippedLines, s.TornLines, s.Dropped = l.Skipped+l.Bad, l.Torn, l.Dropped
	s.Minutes = []minute{}
	for _, at := range slices.Sorted(maps.Keys(s.ends)) {
		s.Minutes = append(s.Minutes, minute{instant{time.Unix(at, 0).UTC()}, s.step, s.ends[at]})
	}
	s.Reasons = slices.AppendSeq([]*reasonLine{}, maps.Values(s.reasons))
	for _, l := range s.Reasons {
		for text, n := range l.errors {
			if n > l.Times || n == l.Times && text < l.Error {
				l.Error, l.Times = text, n
			}
		}
	}
	slices.SortFunc(s.Reasons, func(a, b *reasonLine) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Class, b.Class))
	})
}

// text returns the paragraph, the table and the bars.
func (s *summary) text() string {
	const clock = "2006-01-02 15:04:05Z"
	var b strings.Builder
	number, span, wait, quiet := preview.Thousands[int], "", "", 0
	if !s.to.IsZero() {
		span = ", from " + s.from.UTC().Format(clock) + " to " + s.to.UTC().Format(clock)
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
	fmt.Fprintf(&b, "%s, %s gave up%s.\n%s succeeded, %s canceled, %s without an end in the log.\n%s had %s.%s\n"+
		"Budgets denied a retry to %s.\n",
		counted(s.Calls, "call"), number(s.GaveUp), span, number(s.Succeeded), number(s.Canceled), number(s.Open),
		counted(s.Retried, "call"), counted(s.Retries, "retry"), wait, counted(s.Denied, "call"))
	for _, note := range []struct {
		n    int
		text string
	}{
		{quiet, "The log has no attempts (its level is above DEBUG), so calls that succeeded at\nonce are not in it.\n"},
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
	if len(s.Reasons) > 0 {
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "\nCALLS\tREASON\tCLASS\tCOMMONEST ERROR")
		for _, line := range s.Reasons {
			text := line.Error
			if line.Least {
				text += " (at least " + number(line.Times) + ")"
			} else if line.Times > 0 {
				text += " (" + number(line.Times) + ")"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", number(line.Count), eventlog.Printable(line.Reason), cmp.Or(eventlog.Printable(line.Class), "-"), text)
		}
		_ = t.Flush()
	}
	if len(s.Minutes) > 0 {
		step := map[int64]string{60: "minute", 600: "10 minutes", 3600: "hour", 86_400: "day"}[s.step]
		fmt.Fprintf(&b, "\nGave up in each %s:\n", cmp.Or(step, number(int(s.step/86_400))+" days"))
		most := slices.MaxFunc(s.Minutes, func(a, b minute) int { return a.GaveUp - b.GaveUp }).GaveUp
		for i, m := range s.Minutes {
			if i > 0 && m.Time.Unix() > s.Minutes[i-1].Time.Unix()+s.step {
				b.WriteString("...\n")
			}
			fmt.Fprintf(&b, "%s  %s %s\n", m.Time.Format("2006-01-02 15:04Z"), strings.Repeat("#", max(1, m.GaveUp*widest/most)), number(m.GaveUp))
		}
	}
	return b.String()
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
