package eventlog

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrCutOff means that a line of a log is incomplete, as after a crash.
var ErrCutOff = errors.New("retrylog: the log is cut off")

// maxLine is how much of a line is read. Without a limit, a file that is no log would fill the
// memory. A line that is longer is treated as cut off.
const maxLine = 4 << 20

// Files are one or more files that are read as one log. What they count is complete when all
// has been read.
type Files struct {
	Events  int    `json:"-"`             // of calls
	Skipped int    `json:"skipped_lines"` // lines without an event that can be read, and without empty ones
	Torn    int    `json:"cut_off_lines"`
	Bad     int    `json:"unreadable_lines"` // those of Skipped that have an event that cannot be read
	First   *Fault `json:"-"`                // of Bad; nil if there is none
	Dropped int    `json:"dropped"`          // calls that were cut short because too many were open

	files     []*file
	firstTorn int                 // the line
	line      []byte              // that is being read
	v         *values             // of a line, see values
	open      map[string][]*Trace // calls, by key
	records   int                 // of them
	bytes     int                 // of their texts
	each      func(*Trace)
}

// A file is one of the files of a log, and how far it was read.
type file struct {
	name  string
	lines *bufio.Reader
	line  int
	ended bool
	read  []Record  // of the line, and not yet returned
	first time.Time // of the first event
	last  time.Time // of the last event
	later int       // how many events have a later time than the one before
	older int       // how many have an earlier one
}

// Add adds a file.
func (l *Files) Add(name string, in io.Reader) {
	l.files = append(l.files, &file{name: name, lines: bufio.NewReaderSize(in, 64<<10)})
}

// Read reads a log, as package retrylog describes it.
func Read(in io.Reader) (all []Record, err error) {
	l := Files{}
	l.Add("retrylog", in)
	for {
		r, err := l.next()
		switch {
		case l.First != nil:
			return all, l.First
		case err == io.EOF && l.Torn > 0:
			return all, fmt.Errorf("%w within line %d", ErrCutOff, l.firstTorn)
		case err == io.EOF:
			return all, nil
		case err != nil:
			return all, err
		}
		r.origin = origin{logged: r.logged}
		all = append(all, r)
	}
}

// next returns the next event in the order of time, and for one file in its own order. The
// error is io.EOF at the end.
func (l *Files) next() (r Record, err error) {
	var next *file
	for _, f := range l.files {
		for len(f.read) == 0 && !f.ended {
			if err := l.readLine(f); err != nil {
				return r, fmt.Errorf("%s: line %d: %w", f.name, max(1, f.line), err)
			}
		}
		if len(f.read) > 0 && (next == nil || f.read[0].Event.Time.Before(next.read[0].Event.Time)) {
			next = f
		}
	}
	if next == nil {
		return r, io.EOF
	}
	r, next.read = next.read[0], next.read[1:]
	r.torn = l.Torn + l.Bad
	return r, nil
}

// readLine reads the events of the next line.
func (l *Files) readLine(f *file) error {
	err := f.next(&l.line)
	f.line++
	if f.ended = err != nil; f.ended && err != io.EOF {
		return err
	}
	if line := bytes.TrimSpace(l.line); len(line) > 0 {
		torn := l.Torn
		l.decode(f, line, "", false)
		if len(f.read) == 0 && l.Torn == torn {
			l.Skipped++
		}
	}
	return nil
}

// values returns no values, in the memory of those of the line before.
func (l *Files) values() *values {
	if l.v == nil {
		l.v = newValues()
	}
	l.v.clear()
	return l.v
}

// tear counts a line that is cut off.
func (l *Files) tear(f *file) {
	l.Torn++
	l.firstTorn = cmp.Or(l.firstTorn, f.line)
}

// next reads the next line into text.
func (f *file) next(text *[]byte) error {
	*text = (*text)[:0]
	for {
		part, err := f.lines.ReadSlice('\n')
		*text = append(*text, part[:min(len(part), maxLine-len(*text))]...)
		if err != bufio.ErrBufferFull {
			return err
		}
	}
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
