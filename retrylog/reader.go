package retrylog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrCutOff means that a line of a log is incomplete, as after a crash.
var ErrCutOff = errors.New("the line is cut off")

// A LineError says what is wrong with a line of a log, or with the event on it.
type LineError struct {
	Record Record // the event; of a line that cannot be read only its Line is set
	Err    error  // ErrCutOff, or what is wrong; its text is for people to read
}

// Error returns the number of the line, and what is wrong.
func (e *LineError) Error() string { return fmt.Sprintf("retrylog: line %d: %v", e.Record.Line, e.Err) }

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// Read reads a log that a [Writer] wrote, or that a handler of [log/slog] wrote of [Slog], as JSON
// or text. Above level Debug a logger has no attempts, and [Replay] adds them. Read skips empty
// lines, and what the program logged for other purposes: a line is an event if it has a kind, an
// attempt and a max, and of a logger only if this version knows the kind. The event is where a
// Writer or a logger writes it: at the beginning of a line, or after the prefix of kubectl, docker
// compose, syslog, journald or CRI. Docker's JSON, and that of collectors of Kubernetes and of
// journald, is read for the line in it. An event in any other text is not read, because the text
// may be a stranger's. Something else may follow the event. The logger of Slog must have no group:
// Read finds no event within a group. If a key is there twice, Read takes the last value.
//
// If a crash has cut off a line, so that it is incomplete or has zero bytes in it, Read returns
// all records that are whole, including those written after the cut, and a [LineError] that wraps
// [ErrCutOff] and names the first such line. A line of more than 4 MiB counts as cut off. If an
// event cannot be read, Read stops and returns a LineError that names its line.
//
// Read holds all records in memory. A [Reader] holds one line.
func Read(r io.Reader) ([]Record, error) {
	var all []Record
	var cut error
	for in := NewReader(r); ; {
		line, err := in.Next()
		if err == nil {
			all = append(all, line.Records...)
			err = line.Err
		}
		wrong := &LineError{Record{Line: line.Number}, err}
		switch {
		case err == io.EOF:
			return all, cut
		case err == ErrCutOff && cut == nil:
			cut = wrong
		case err != nil && err != ErrCutOff:
			return all, wrong
		}
	}
}

// A Reader reads a log line by line, and finds the same events as [Read]. Use it for a log that is
// long or still being written, to go on after a line that cannot be read, or to see the lines of
// other programs too. It is not safe for concurrent use.
type Reader struct {
	in   *bufio.Reader
	line []byte
	next Line
	err  error     // that ends the log
	last time.Time // of the last event
	v    *values
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, 64<<10), v: newValues()}
}

// A Line is a line of a log. Its Records and its Text are valid until Next is called again: copy
// what you keep.
type Line struct {
	Number int // 1 for the first line

	// Records are the events on the line. A line of another program has none. A line of this
	// package has one, or more if a crash has cut off the end of a line: at most 1,000.
	Records []Record

	// Text is what the program wrote, without the prefix of kubectl and without the JSON that a
	// collector has put around it. It ends after 4 MiB.
	Text []byte

	// Err is ErrCutOff if the line is cut off, and otherwise the reason why an event on it cannot
	// be read. It is nil if there is no such event, also on a line of another program.
	Err error
}

// Next returns the next line that is not empty. At the end of the log the error is io.EOF. Any
// other error is from the io.Reader. It ends the log at the Number of the Line.
func (l *Reader) Next() (Line, error) {
	for l.err == nil {
		l.err = l.readLine()
		l.next = Line{Number: l.next.Number + 1, Records: l.next.Records[:0]}
		if l.err != nil && l.err != io.EOF {
			break
		}
		if line := bytes.TrimSpace(l.line); len(line) > 0 {
			l.decode(line, "", false)
			return l.next, nil
		}
	}
	return Line{Number: l.next.Number}, l.err
}

// maxLine is how much of a line is read. Without a limit, a file that is no log would fill the
// memory. A line that is longer is treated as cut off.
const maxLine = 4 << 20

// readLine reads the next line.
func (l *Reader) readLine() error {
	l.line = l.line[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		l.line = append(l.line, part[:min(len(part), maxLine-len(l.line))]...)
		if err != bufio.ErrBufferFull {
			return err
		}
	}
}
