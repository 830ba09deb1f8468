// Package eventstream parses streams of events (text/event-stream) according to the section
// "Server-sent events" of the HTML standard.
package eventstream

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// ErrTooLong is the error for an event whose data or name is longer than the limit.
var ErrTooLong = errors.New("the event is longer than the limit")

const (
	longestID = 8 << 10                // the longest ID, in bytes; many servers refuse a longer header
	longest   = len("\ufeffevent: \n") // the most bytes that a line has in addition to its value
	maxRetry  = 365 * 24 * 3600 * 1e3  // the longest wait in ms; a longer wait could overflow
)

// A Parser reads the events of one stream. In memory it keeps one line and the data of one event.
// Each of the two is at most about as long as the limit that was passed to [New]. Only a line with
// an ID may be longer. Comments and unknown fields take no memory.
type Parser struct {
	// Name, Data and ID describe the event that the last call of Next has read. If this event only
	// changed the ID, Data is nil.
	Name string
	Data []byte // the data lines, separated by LF; valid until the next call of Next
	ID   string // the last ID that a blank line has confirmed; "": there is no ID

	// Retry is how long the stream asks its client to wait before the next connection.
	Retry time.Duration

	limit int
	lines *bufio.Scanner
	seen  int    // how many bytes of the line were searched for a line end without success
	mark  []byte // the byte order mark, which the first line may have; nil after the first line
	past  bool   // true: the line is not a known field, and its first bytes were dropped
	lf    bool   // true: the last line ended with CR, and an LF may follow as part of the line end

	data []byte // the data lines of the event so far; each ends with LF
	id   string // the last ID that was read; a blank line must still confirm it
	name string // the name of the last event that had one; often the next event has the same name
}

// New returns a Parser for the stream r. The parameter `id` is the last ID of an earlier
// connection, or "". The parameter `limit` is the largest number of bytes that the data of an event
// may have. The same limit applies to the name of an event. A limit above 1 GiB is treated as 1
// GiB, and a limit of 0 or below as 16 MiB.
func New(r io.Reader, id string, limit int) *Parser {
	limit = min(cmp.Or(max(0, limit), 16<<20), 1<<30)
	p := &Parser{lines: bufio.NewScanner(r), limit: limit, mark: []byte("\ufeff"), ID: id, id: id}
	p.lines.Buffer(nil, max(longestID, limit)+longest)
	p.lines.Split(p.split)
	return p
}

// Next reads until a blank line ends an event or confirms a new ID. At the end of the stream, Next
// returns the error of the reader, such as io.EOF, and drops an unfinished event. For an event that
// is longer than the limit, it returns [ErrTooLong].
func (p *Parser) Next() error {
	p.Name, p.Data, p.data = "", nil, p.data[:0]
	for p.lines.Scan() {
		if line := p.lines.Bytes(); len(line) > 0 {
			if err := p.field(line); err != nil {
				return err
			}
			continue
		}
		moved := p.ID != p.id
		if p.ID = p.id; len(p.data) > 0 {
			p.Data = p.data[:len(p.data)-1]
		}
		if moved || p.Data != nil {
			return nil
		}
		p.Name = ""
	}
	if p.lines.Err() == bufio.ErrTooLong {
		return p.tooLong()
	}
	return cmp.Or(p.lines.Err(), io.EOF)
}

// field reads the field in a line that is not blank.
func (p *Parser) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		if len(p.data)+len(value) > p.limit {
			return p.tooLong()
		}
		p.data = append(append(p.data, value...), '\n')
	case "event":
		if len(value) > p.limit {
			return p.tooLong()
		}
		if string(value) != p.name {
			p.name = string(value)
		}
		p.Name = p.name
	case "id":
		switch {
		case bytes.IndexByte(value, 0) >= 0: // the standard says to ignore an ID with a zero byte
		case len(value) > longestID || bytes.ContainsFunc(value, isControl): // no valid header
			p.id = ""
		case string(value) != p.id:
			p.id = string(value)
		}
	case "retry":
		if len(value) > 0 && len(bytes.Trim(value, "0123456789")) == 0 {
			// For a number that is out of range, ParseUint returns the largest uint64.
			wait, _ := strconv.ParseUint(string(value), 10, 64)
			p.Retry = time.Duration(min(wait, maxRetry)) * time.Millisecond
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func (p *Parser) tooLong() error { return fmt.Errorf("%w of %d bytes", ErrTooLong, p.limit) }

// split is the bufio.SplitFunc that finds the lines. If `text` contains only the start of a line,
// and the line is not a known field, `split` drops this start. So a long line that is not a known
// field takes no memory. At the end of such a line, `split` returns the line ":", which is a
// comment.
func (p *Parser) split(text []byte, atEnd bool) (read int, line []byte, err error) {
	if p.lf && len(text) > 0 { // the line before ended with CR: skip an LF that belongs to its end
		if p.lf = false; text[0] == '\n' {
			read = 1
		}
	}
	end := lineEnd(text[read+p.seen:])
	if end < 0 {
		line = bytes.TrimPrefix(text[read:], p.mark)
		if p.past = p.past || !mayBeField(line); p.past || atEnd {
			p.seen = 0
			return len(text), nil, nil
		}
		p.seen = len(text) - read
		return read, nil, nil
	}
	end += read + p.seen
	if line = bytes.TrimPrefix(text[read:end], p.mark); p.past {
		line = []byte(":")
	}
	p.seen, p.past, p.mark, p.lf = 0, false, nil, text[end] == '\r'
	return end + 1, line, nil
}

// lineEnd returns the index of the first CR or LF, or -1 if `text` contains none. It searches 512
// bytes at a time. If each call searched all of `text` for a CR, many short lines that end with LF
// would take quadratic time.
func lineEnd(text []byte) int {
	const window = 512
	for from := 0; from < len(text); from += window {
		part := text[from:min(from+window, len(text))]
		lf := bytes.IndexByte(part, '\n')
		cr := bytes.IndexByte(part[:min(uint(lf), uint(len(part)))], '\r')
		if end := min(uint(lf), uint(cr)); end < window { // an index of -1 becomes the largest uint
			return from + int(end)
		}
	}
	return -1
}

// mayBeField reports whether a line that starts with `head` may be a known field. If `head` is too
// short to decide, mayBeField returns true.
func mayBeField(head []byte) bool {
	name, _, whole := bytes.Cut(head, []byte(":"))
	switch string(name) {
	case "data", "event", "id", "retry":
		return true
	default:
		return !whole && len(name) < len("event")
	}
}
