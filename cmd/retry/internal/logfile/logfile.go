// Package logfile reads the calls that logs hold: among the lines of other programs,
// behind the prefixes that containers and syslog write before a line, compressed or
// not, from several files in the order of time.
//
//	log := logfile.New(logfile.Open("retries.log", file))
//	for call, err := range log.Calls() {
//		...
//	}
package logfile

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"time"

	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/retryflow/flowlog"
)

// A Log is one or more files that are read as one. What it counts is complete when all
// has been read.
type Log struct {
	Events  int               // of calls
	Skipped int               // lines that are no events, without empty ones
	Torn    int               // lines that are cut off
	Bad     int               // lines that are events by their keys, and cannot be read
	First   *policyfile.Fault // of Bad; nil if there is none
	Dropped int               // calls that were cut short because too many were open

	files []*File
}

// New returns a log.
func New(files ...*File) *Log { return &Log{files: files} }

// An Origin says which call an event is from.
type Origin struct {
	Source string `json:"source,omitempty"` // the pod, service or process that a prefix names
	Key    string `json:"key,omitempty"`
}

func (o Origin) String() string {
	if o.Source != "" && o.Key != "" {
		return o.Source + " " + o.Key
	}
	return o.Source + o.Key
}

// A Record is an event and where it is from.
type Record struct {
	eventlog.Record
	Source string // of its Origin
	File   *File

	Foreign   bool // a whole call as Envoy's access log has it
	Uncounted bool // it does not say how many attempts there were: at least Attempt

	logged bool // by slog, which leaves attempts out above level Debug
	torn   int  // how many lines of the log were cut off before it
}

// Origin returns which call r is from.
func (r *Record) Origin() Origin { return Origin{r.Source, r.Key} }

// next returns the next event in the order of time, and for one file in its own order. The
// error is io.EOF at the end.
func (l *Log) next() (r Record, err error) {
	var next *File
	for _, f := range l.files {
		if err := f.fill(l); err != nil {
			return r, fmt.Errorf("%s: line %d: %w", f.Name, max(1, f.line), err)
		}
		if len(f.read) > 0 && (next == nil || f.read[0].Event.Time.Before(next.read[0].Event.Time)) {
			next = f
		}
	}
	if next == nil {
		return r, io.EOF
	}
	r, next.read = next.read[0], next.read[1:]
	r.torn = l.Torn
	return r, nil
}

// A File is a file of a log.
type File struct {
	Name string

	in      io.Reader
	lines   *eventlog.Lines
	line    int
	ended   bool
	decoder eventlog.Decoder
	read    []Record  // of the line, and not yet returned
	first   time.Time // of the first event
	last    time.Time // of the last event
}

// Open returns a file, which may be compressed by gzip.
func Open(name string, in io.Reader) *File {
	return &File{Name: name, in: in, decoder: eventlog.Decoder{Decode: flowlog.Decode}}
}

// fill reads lines until there is an event, or the file ends.
func (f *File) fill(l *Log) error {
	if f.lines == nil {
		in := bufio.NewReader(f.in)
		f.lines = eventlog.NewLines(in)
		if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
			plain, err := gzip.NewReader(in)
			switch err {
			case nil:
				f.lines = eventlog.NewLines(plain)
			case io.ErrUnexpectedEOF: // as below
				f.ended = true
				l.Torn++
			default:
				return err
			}
		}
	}
	for len(f.read) == 0 && !f.ended {
		line, err := f.lines.Next()
		if f.line++; err == eventlog.ErrLongLine {
			l.Skipped++
			if _, err = f.lines.Next(); err == eventlog.ErrLongLine {
				return fmt.Errorf("%w, and so is the rest of it: this is no log", err)
			}
		}
		switch err {
		case nil:
		case io.EOF:
			f.ended = true
		case io.ErrUnexpectedEOF: // of gzip
			f.ended, line = true, nil
			l.Torn++
		default:
			return err
		}
		if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 {
			f.decode(l, line)
		}
	}
	return nil
}

// decode finds the events in a line.
func (f *File) decode(l *Log, line []byte) {
	line, around := unwrap(line)
	if call := access(line); call != nil {
		call.Line, call.File = f.line, f
		f.see(call)
		f.read = append(f.read[:0], *call)
		return
	}
	value, text, prefix := payload(line)
	if value == nil {
		l.Skipped++
		return
	}
	read, err := f.decoder.Line(value, f.line)
	switch {
	case err == io.ErrUnexpectedEOF:
		l.Torn++
	case len(read) > 0:
	case err != nil && isEvent(value):
		if l.Bad++; l.First == nil {
			l.First = &policyfile.Fault{File: f.Name, Line: f.line, Text: Plain(err.Error())}
		}
		return
	default:
		l.Skipped++
		return
	}
	source, logged := cmp.Or(sourceOf(prefix, value), around), text || bytes.Contains(value, []byte(`"level"`))
	f.read = f.read[:0]
	for _, record := range read {
		r := Record{Record: record, Source: source, File: f, logged: logged}
		e := &r.Event
		if logged {
			complete(e, prefix, text)
		}
		if e.Time.IsZero() && logged {
			e.Time = f.last
		}
		f.see(&r)
		f.read = append(f.read, r)
	}
}

// see remembers when an event came.
func (f *File) see(r *Record) {
	if f.last = r.Event.Time; f.first.IsZero() {
		f.first = f.last
	}
}
