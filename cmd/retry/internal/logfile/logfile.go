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
	"compress/gzip"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/retryflow/flowlog"
)

// A Log is one or more files that are read as one. What it counts is complete when all
// has been read.
type Log struct {
	Skipped int      // lines that are no events, without empty ones
	Torn    int      // lines that are cut off
	Bad     int      // lines that are events by their keys, and cannot be read
	First   *BadLine // of Bad; nil if there is none
	Dropped int      // calls that were cut short because too many were open

	Each func(Record) // sees every event before Calls does, unless it is nil

	files []*File
}

// A BadLine is an event by its keys, and cannot be read.
type BadLine struct {
	File *File
	Line int
	Err  error
}

// New returns a log.
func New(files ...*File) *Log { return &Log{files: files} }

// A Record is an event and where it is from.
type Record struct {
	flowlog.Record
	File   *File
	logged bool // by slog, which leaves attempts out above level Debug
}

// Records yields the events of the log in the order of their time, and for one file in
// its own order. An error comes from reading a file, and ends the log.
func (l *Log) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		heads := make([]*Record, len(l.files))
		for {
			next := -1
			for i, f := range l.files {
				if heads[i] == nil && !f.ended {
					head, err := f.next(l)
					if err != nil {
						yield(Record{}, err)
						return
					}
					heads[i] = head
				}
				if heads[i] != nil && (next < 0 || heads[i].Event.Time.Before(heads[next].Event.Time)) {
					next = i
				}
			}
			if next < 0 || !yield(*heads[next], nil) {
				return
			}
			heads[next] = nil
		}
	}
}

// A File is a file of a log.
type File struct {
	Name string

	in      io.Reader
	lines   *eventlog.Lines
	line    int
	ended   bool
	tooLong bool // the rest of a line that is too long comes next
	decoder eventlog.Decoder[flowlog.Record]
	parts   parts

	read  []flowlog.Record // of the line, and not yet returned
	head  Record           // what next returns
	first time.Time        // of its first event
	last  time.Time        // of its last event
}

// Open returns a file, which may be compressed by gzip.
func Open(name string, in io.Reader) *File {
	f := &File{Name: name, in: in}
	f.decoder.Decode = func(value []byte, line int) (r flowlog.Record, kind retry.EventKind, err error) {
		err = r.UnmarshalJSON(value)
		r.Line = line
		return r, r.Event.Kind, err
	}
	return f
}

// next returns the next event of f, nil at its end.
func (f *File) next(l *Log) (*Record, error) {
	for len(f.read) == 0 && !f.ended {
		if err := f.readLine(l); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", f.Name, f.line, err)
		}
	}
	if len(f.read) == 0 {
		return nil, nil
	}
	f.head.Record, f.head.File = f.read[0], f
	f.read = f.read[1:]
	if e := &f.head.Event; e.Time.IsZero() && f.head.logged {
		e.Time = f.last
	}
	if f.last = f.head.Event.Time; f.first.IsZero() {
		f.first = f.last
	}
	return &f.head, nil
}

// open looks at how f begins.
func (f *File) open() error {
	in := bufio.NewReader(f.in)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		f.lines = eventlog.NewLines(unzipped)
		return nil
	}
	f.lines = eventlog.NewLines(in)
	return nil
}

// readLine reads the next line of f.
func (f *File) readLine(l *Log) error {
	if f.lines == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	line, err := f.lines.Next()
	if !f.tooLong {
		f.line++
	}
	switch err {
	case eventlog.ErrLongLine:
		if f.tooLong {
			return fmt.Errorf("%w, and so is the rest of it: this is no log", err)
		}
		f.tooLong = true
		l.Skipped++
		return nil
	case nil:
	case io.EOF:
		f.ended = true
	case io.ErrUnexpectedEOF: // of gzip
		f.ended = true
		l.Torn++
		return nil
	default:
		return err
	}
	if f.tooLong {
		f.tooLong = false
		return nil
	}
	if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 {
		f.decode(l, line)
	}
	return nil
}

// decode finds the events in a line.
func (f *File) decode(l *Log, line []byte) {
	line, at, whole := f.parts.unwrap(line)
	if !whole {
		return
	}
	value, text, prefix := payload(line)
	if value == nil {
		l.Skipped++
		return
	}
	read, err := f.decoder.Line(value, f.line)
	switch {
	case len(read) > 0:
	case err == io.ErrUnexpectedEOF:
	case err != nil && isEvent(value):
		if l.Bad++; l.First == nil {
			l.First = &BadLine{f, f.line, err}
		}
		return
	default:
		l.Skipped++
		return
	}
	if err == io.ErrUnexpectedEOF {
		l.Torn++
	}
	f.read, f.head.logged = read, text || bytes.Contains(value, []byte(`"level"`))
	for i := 0; i < len(read) && f.head.logged; i++ {
		complete(&read[i].Event, at, prefix, text)
	}
}
