package eventlog

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"time"
)

// Files are one or more files that are read as one log. What they count is complete when all
// has been read.
type Files struct {
	Decode  Decode
	Events  int    // of calls
	Skipped int    // lines that are no events, without empty ones
	Torn    int    // lines that are cut off
	Bad     int    // lines that are events by their keys, and cannot be read
	First   *Fault // of Bad; nil if there is none
	Dropped int    // calls that were cut short because too many were open

	files []*File
}

// A File is one of several.
type File struct {
	name  string
	in    io.Reader
	lines *lines // nil: none was read
	line  int
	ended bool
	read  []Record  // of the line, and not yet returned
	first time.Time // of the first event
	last  time.Time // of the last event
}

// Add adds a file, which may be compressed by gzip.
func (l *Files) Add(name string, in io.Reader) {
	l.files = append(l.files, &File{name: name, in: in})
}

// next returns the next event in the order of time, and for one file in its own order. The
// error is io.EOF at the end.
func (l *Files) next() (r Record, err error) {
	var next *File
	for _, f := range l.files {
		if err := l.fill(f); err != nil {
			return r, fmt.Errorf("%s: line %d: %w", f.name, max(1, f.line), err)
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

// fill reads lines until there is an event, or the file ends.
func (l *Files) fill(f *File) error {
	if f.lines == nil {
		in := bufio.NewReader(f.in)
		f.lines = newLines(in)
		if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
			plain, err := gzip.NewReader(in)
			if f.lines = newLines(plain); err != nil {
				f.lines = newLines(failed{err})
			}
		}
	}
	for len(f.read) == 0 && !f.ended {
		line, err := f.lines.next()
		if f.line++; err == errLongLine {
			l.Skipped++
			if _, err = f.lines.next(); err == errLongLine {
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
		if len(line) > 0 {
			l.decode(f, line)
		}
	}
	return nil
}

// decode finds the events in a line.
func (l *Files) decode(f *File, line []byte) {
	line, around := unwrap(line)
	if call := access(line); call != nil {
		call.Line = f.line
		f.read = append(f.read, *call)
		f.see()
		return
	}
	value, text, prefix := payload(line)
	if value == nil {
		l.Skipped++
		return
	}
	prefix = prefix[:min(len(prefix), 1<<10)] // when and where from stand at the beginning
	read, err := l.Decode.append(f.read, value, f.line)
	switch {
	case err == io.ErrUnexpectedEOF:
		l.Torn++
	case len(read) > 0:
	case err != nil && isEvent(value):
		if l.Bad++; l.First == nil {
			l.First = &Fault{Record{Line: f.line, origin: origin{file: f}}, err}
		}
	default:
		l.Skipped++
	}
	from := origin{source: cmp.Or(sourceOf(prefix, value), around), logged: text || contains(value, `"level"`)}
	for i := range read {
		if read[i].origin = from; from.logged {
			complete(&read[i].Event, prefix, text, f.last)
		}
	}
	f.read = read
	f.see()
}

// see remembers when the events of a line came.
func (f *File) see() {
	for i := range f.read {
		r := &f.read[i]
		r.file, f.last = f, r.Event.Time
		if f.first.IsZero() {
			f.first = f.last
		}
	}
}

// failed is a file that cannot be read.
type failed struct{ error }

func (f failed) Read([]byte) (int, error) { return 0, f.error }
