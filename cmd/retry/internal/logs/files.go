// Package logs reads the calls in log files: files.go merges the files by time, envoy.go reads
// Envoy's access log, and trace.go puts events together to calls.
package logs

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goretry/retry/retrylog"
)

// Files are one or more files that are read as one log. What they count is complete when all
// has been read.
type Files struct {
	Events  int    `json:"-"`             // of calls
	Skipped int    `json:"skipped_lines"` // lines without an event that can be read, and without empty ones
	Torn    int    `json:"cut_off_lines"`
	Bad     int    `json:"unreadable_lines"` // those of Skipped that have an event that cannot be read
	First   *Fault `json:"-"`                // of Bad; nil if there is none
	Dropped int    `json:"dropped"`          // calls that were cut short because too many were open

	files   []*file
	open    map[string][]*Trace // calls, by key
	records int                 // of them
	bytes   int                 // of their texts
	each    func(*Trace)
}

// A Fault is what is wrong with a line of a file, or with the event on it.
type Fault struct {
	File, Source string // Source is as in retrylog.Record
	Line         int
	Err          error
}

// A file is one of the files of a log, and how far it was read.
type file struct {
	name  string
	lines *retrylog.Reader
	ended bool
	read  []retrylog.Record // of the line, and not yet returned
	envoy bool              // the line is of Envoy's access log

	first time.Time // of the first event
	last  time.Time // of the last event
	later int       // how many events have a later time than the one before
	older int       // how many have an earlier one
}

// An event is a record, and where it is from.
type event struct {
	retrylog.Record
	origin
}

type origin struct {
	file    *file
	torn    int  // how many lines of the files were cut off, or could not be read, before it
	foreign bool // it is a whole call as Envoy's access log has it
}

// Add adds a file.
func (l *Files) Add(name string, in io.Reader) {
	l.files = append(l.files, &file{name: name, lines: retrylog.NewReader(in)})
}

// next returns the next event in the order of time, and for one file in its own order. The
// error is io.EOF at the end.
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

// readLine reads the events of the next line of a file.
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
		f.note(f.read[i].Event.Time)
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

// note notes the time of the next event.
func (f *file) note(at time.Time) {
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

// mostText is how many bytes of each text are kept.
const mostText = 4 << 10

// shorten cuts the texts of r that are longer than mostText.
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

// NewestFirst returns the name of the first file whose newest line is first, "" if there is none:
// times go back more than twice as often as they go on. Lines that programs write at the same
// time may change places, and so may the lines of two pods.
func (l *Files) NewestFirst() string {
	for _, f := range l.files {
		if f.older > 2*f.later+1 {
			return f.name
		}
	}
	return ""
}
