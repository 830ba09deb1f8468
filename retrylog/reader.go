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

// A LineError says which line of a log is wrong, and why.
type LineError struct {
	Record Record // the event; only its Line is set if the line cannot be read
	Err    error  // ErrCutOff, or an error whose text is for people to read
}

// Error returns the number of the line and the text of Err.
func (e *LineError) Error() string {
	return fmt.Sprintf("retrylog: line %d: %v", e.Record.Line, e.Err)
}

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// Read reads a log that a [Writer] wrote. It also reads a log that [Slog] wrote with the JSON
// handler, the text handler or the default handler of [log/slog]. If the level of the logger was
// above Debug, the log lacks the events about attempts. [Replay] then derives the attempts from the
// other events.
//
// Read skips empty lines and lines that are not events. An event has a kind, an attempt and a
// max. If a logger wrote the line, this version must also know the kind. The event must be at
// the beginning of a line, or after the prefix of kubectl, docker compose, syslog, journald or
// CRI. Other text may follow the event.
//
// Docker, journald and log collectors of Kubernetes store each line in a JSON object. Read finds
// the event in such an object. Read does not search other texts, such as a logged request,
// because a client could have forged an event in them. The logger of Slog must have no group,
// because Read finds no event in a group. If an event has a key twice, Read uses the last value.
//
// After a crash, a line may be incomplete or contain NUL bytes. Read still returns all complete
// records, even the records after the crash. For the first incomplete line it returns a [LineError]
// that wraps [ErrCutOff]. A line of more than 4 MiB counts as incomplete. If a complete event
// cannot be read, Read stops and returns a LineError for its line.
//
// Read keeps all records in memory. A [Reader] keeps only one line.
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
// is long or still being written. Unlike Read, it can go on after a line that cannot be read, and
// it also returns the lines of other programs. A Reader is not safe for concurrent use.
type Reader struct {
	in   *bufio.Reader
	line []byte
	next Line
	err  error     // why no more lines can be read, such as io.EOF; nil: more can be read
	last time.Time // the time of the last event
	v    *values
}

// NewReader returns a Reader that reads a log from r.
func NewReader(r io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, 64<<10), v: newValues()}
}

// A Line is a line of a log. Its Records and its Text are valid until the next call of Next, so
// copy what you keep.
type Line struct {
	Number int // the number of the line, from 1

	// Records are the events on the line. A line of another program has no Records. A line that this
	// package wrote usually has one Record. If a crash cut off a line before its newline, the next
	// event is on the same line. So a line may have several Records, but at most 1,000.
	Records []Record

	// Text is the text that the program wrote, without the prefix of kubectl and without the JSON
	// object of a collector. Only the first 4 MiB are kept.
	Text []byte

	// Err is ErrCutOff if the line is cut off. Any other error says why an event on the line cannot
	// be read. Err is nil if all events on the line were read, or if the line has no event.
	Err error
}

// Next returns the next line that is not empty. At the end of the log it returns io.EOF. Any
// other error comes from the io.Reader, and every later call returns it again. With an error,
// only the Number of the Line is set.
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

// maxLine is the largest number of bytes that are read from one line. Without a limit, a file
// that is not a log could fill the memory. A longer line counts as cut off.
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
