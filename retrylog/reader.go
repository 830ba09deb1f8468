package retrylog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrCutOff means that a line of a log is incomplete, for example after a crash.
var ErrCutOff = errors.New("the line is cut off")

// A LineError is an error in a line of a log, or in the event on the line.
type LineError struct {
	Record Record // the event; if the line cannot be read, only its Line is set
	Err    error  // ErrCutOff, or an error whose text is for people to read
}

// Error returns the number of the line and the text of Err.
func (e *LineError) Error() string {
	return fmt.Sprintf("retrylog: line %d: %v", e.Record.Line, e.Err)
}

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// Read reads a log of a [Writer], or a log that a handler of [log/slog] wrote for [Slog] as JSON
// or text. A logger above level Debug does not write the attempts. [Replay] adds them.
//
// Read skips empty lines and lines that the program logged for other purposes. A line is an
// event if it has a kind, an attempt and a max. A line of a logger is an event only if this
// version knows the kind. The event must be at the beginning of a line, or after the prefix of
// kubectl, docker compose, syslog, journald or CRI. Other text may follow the event. If Docker
// or a collector of Kubernetes or journald keeps lines in JSON objects, Read reads these lines.
// It does not read an event in any other text, because the text may come from a stranger. The
// logger of Slog must have no group: Read finds no event in a group. For a duplicate key, Read
// uses the last value.
//
// A crash may cut off a line, so that the line is incomplete or contains zero bytes. Then Read
// returns all records that are complete, also the records after the cut, and a [LineError] that
// wraps [ErrCutOff] for the first such line. A line of more than 4 MiB counts as cut off. If an
// event cannot be read, Read stops and returns a LineError for its line.
//
// Read keeps all records in memory. A [Reader] keeps one line.
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

// A Reader reads a log line by line, and finds the same events as [Read]. Use it for a log that
// is long or still being written, to go on after a line that cannot be read, or to get the lines
// of other programs too. A Reader is not safe for concurrent use.
type Reader struct {
	in   *bufio.Reader
	line []byte
	next Line
	err  error     // the error that ended the log
	last time.Time // the time of the last event
	v    *values
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, 64<<10), v: newValues()}
}

// A Line is a line of a log. Its Records and its Text are valid until the next call of Next. To
// keep them, copy them.
type Line struct {
	Number int // the number of the line, from 1

	// Records are the events on the line. A line of another program has no Records. A line of
	// this package has one Record, or up to 1,000 if a crash has cut off the ends of lines.
	Records []Record

	// Text is the text that the program wrote, without the prefix of kubectl and without the
	// JSON object of a collector. It is cut after 4 MiB.
	Text []byte

	// Err is ErrCutOff if the line is cut off. Otherwise it says why an event on the line cannot
	// be read. It is nil for a line without such an event.
	Err error
}

// Next returns the next line that is not empty. At the end of the log it returns io.EOF. Any
// other error comes from the io.Reader and ends the log. The Line then has only its Number.
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

// maxLine is how many bytes of a line are read. Without a limit, a file that is not a log could
// fill the memory. A longer line counts as cut off.
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
