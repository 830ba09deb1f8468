// Package logs reads log files and returns the calls whose events are in the files. files.go reads
// the files, and merges their events by time. envoy.go reads Envoy's access log. calls.go finds the
// events of each call, and trace.go contains the type of such a call.
package logs

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goretry/retry/retrylog"
)

// Files are one or more files that are read as one log. The counts are complete when [Files.Each]
// has returned.
type Files struct {
	Events  int    `json:"-"`                // the number of events in all calls
	Skipped int    `json:"skipped_lines"`    // lines with text, but without a readable event
	Torn    int    `json:"cut_off_lines"`    // lines that were cut off
	Bad     int    `json:"unreadable_lines"` // lines with an unreadable event; most are in Skipped too
	First   *Fault `json:"-"`                // the fault of the first unreadable line; nil if Bad is 0
	Dropped int    `json:"dropped"`          // calls that were closed before their end, to save memory

	files   []*file
	open    map[string][]*Trace // the calls that have not ended, by key
	records int                 // how many events the open calls have
	bytes   int                 // how many bytes the texts in the open calls have
	each    func(*Trace)
	closed  *Trace // a call that has ended, whose memory the next call uses; nil if there is none
}

// A Fault says what is wrong with a line of a file, or with the event on the line.
type Fault struct {
	File, Source string // the file, and the pod, service or process that the line names
	Line         int
	Err          error
}

// A file is one file of a log. It remembers how far it has been read.
type file struct {
	name  string
	lines *retrylog.Reader
	ended bool
	read  []retrylog.Record // the events of the current line that `next` has not returned yet
	envoy bool              // whether the current line is from Envoy's access log

	first time.Time // the time of the first event
	last  time.Time // the time of the last event
	later int       // how many events have a later time than the event before them
	older int       // how many events have an earlier time than the event before them
}

// An event is a record with its origin.
type event struct {
	retrylog.Record
	origin
}

// An origin says where an event was found.
type origin struct {
	file    *file
	torn    int  // how many lines before the event were cut off or unreadable
	foreign bool // whether Envoy's access log has the event, which then describes a whole call
}

// Add adds the log file with this name. The text of the file is read from in.
func (l *Files) Add(name string, in io.Reader) {
	l.files = append(l.files, &file{name: name, lines: retrylog.NewReader(in)})
}

// next returns the next event. It merges the files by the times of their events. Events of one file
// stay in the order of their lines. After the last event, the error is io.EOF.
func (l *Files) next() (r event, err error) {
	var next *file
	for _, f := range l.files {
		for len(f.read) == 0 && !f.ended {
			if err := l.readLine(f); err != nil {
				return r, err
			}
		}
		if len(f.read) > 0 && (next == nil || f.read[0].Event.Time.Before(next.read[0].Event.Time)) {
			next = f
		}
	}
	if next == nil {
		return r, io.EOF
	}
	r = event{next.read[0], origin{next, l.Torn + l.Bad, next.envoy}}
	next.read = next.read[1:]
	return r, nil
}

// readLine reads the events of the next line of a file. It returns an error only if the file cannot
// be read.
func (l *Files) readLine(f *file) error {
	line, err := f.lines.Next()
	if f.ended = err != nil; f.ended && err != io.EOF {
		return fmt.Errorf("%s: line %d: %w", f.name, line.Number, err)
	}
	if f.ended {
		return nil
	}
	f.read, f.envoy = line.Records, false
	if r, ok := access(line); ok {
		f.read, f.envoy = []retrylog.Record{r}, true
	}
	for i := range f.read {
		f.noteTime(f.read[i].Event.Time)
		shorten(&f.read[i])
	}
	switch {
	case f.envoy:
		return nil
	case errors.Is(line.Err, retrylog.ErrCutOff):
		l.Torn++
		return nil
	case line.Err != nil:
		l.Bad++
		if l.First == nil {
			l.First = &Fault{File: f.name, Line: line.Number, Err: line.Err}
		}
	}
	if len(f.read) == 0 {
		l.Skipped++
	}
	return nil
}

// noteTime compares the time of the next event with the time of the event before it. It increments
// f.later if the next event is later than the event before it, and f.older if it is earlier.
func (f *file) noteTime(at time.Time) {
	switch {
	case f.first.IsZero():
		f.first = at
	case at.After(f.last):
		f.later++
	case at.Before(f.last):
		f.older++
	}
	f.last = at
}

// mostText is the size in bytes to which the function `shorten` cuts longer texts.
const mostText = 4 << 10

// shorten cuts each text of r to at most mostText bytes.
func shorten(r *retrylog.Record) {
	e := &r.Event
	texts := []*string{
		&r.Key, &r.Source, &r.Task, &e.Class, (*string)(&e.Kind), (*string)(&e.Reason),
	}
	for _, text := range texts {
		*text = shortened(*text)
	}
	for _, err := range []*error{&e.Err, &e.Cause} {
		if *err != nil {
			if text := (*err).Error(); len(text) > mostText {
				*err = errors.New(shortened(text))
			}
		}
	}
}

func shortened(text string) string {
	if len(text) <= mostText {
		return text
	}
	return strings.ToValidUTF8(text[:mostText], "") + "..."
}

// bytesOf returns how many bytes the texts of r have.
func bytesOf(r *retrylog.Record) int {
	e := &r.Event
	n := len(r.Key) + len(r.Source) + len(r.Task) + len(e.Class) + len(e.Kind) + len(e.Reason)
	for _, err := range []error{e.Err, e.Cause} {
		if err != nil {
			n += len(err.Error())
		}
	}
	return n
}

// NewestFirst returns the name of the first file whose lines are in reverse order, with the newest
// line first. It returns "" if there is no such file. NewestFirst treats a file as reversed only if
// the times of its events go back more than twice as often as they go forward. A few steps back do
// not make a file reversed, because the lines of two programs or pods may be in the wrong order.
func (l *Files) NewestFirst() string {
	for _, f := range l.files {
		if f.older > 2*f.later+1 {
			return f.name
		}
	}
	return ""
}
