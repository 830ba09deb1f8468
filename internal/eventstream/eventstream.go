// Package eventstream parses streams of events (text/event-stream) as the HTML standard says in
// its section "Server-sent events".
package eventstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrTooLong is the error of an event whose data, or whose name, has more bytes than the limit.
var ErrTooLong = errors.New("the event is longer than the limit")

// MaxID is the length of the longest ID in bytes. Many servers refuse longer headers.
const MaxID = 8 << 10

const (
	emptyReads = 100                  // without a byte and without an error, as in package io
	longest    = len("event: ")       // the longest name of a field, with what follows it
	maxRetry   = 365 * 24 * time.Hour // more could overflow
)

// A Parser reads the events of one stream. Its memory holds a line and the data of an event, each
// of at most the limit. Comments and unknown fields take none.
type Parser struct {
	// Name, Data and ID describe the last event that Next has read. Data is nil if that only
	// changed the ID.
	Name string
	Data []byte // its lines with LF between them, valid until the next call of Next
	ID   string // the last one that a blank line has confirmed; "": none

	// Retry is the wait that the stream asks for before the next connection; below 0: none.
	Retry time.Duration

	r     io.Reader
	limit int
	err   error

	buf      []byte
	from, to int  // the part of buf that has been read and not parsed
	seen     int  // the first bytes of that part, which contain no end of a line
	begun    bool // the first line is over
	past     bool // the line does not count
	lf       bool // the last line ended with CR, so an LF belongs to it

	data []byte // each line ends with LF
	id   string // not confirmed yet
	name string // the last name, which is often the next one
}

// New returns a Parser for the stream r, whose last ID was id. An event has at most limit bytes,
// and never more than 1 GiB.
func New(r io.Reader, id string, limit int) *Parser {
	return &Parser{r: r, limit: min(limit, 1<<30), ID: id, id: id, Retry: -1}
}

// Next reads up to the blank line that ends the next event, or that confirms another ID. At the
// end of the stream it returns the error of the reader, such as io.EOF, and what is left of an
// event is dropped.
func (p *Parser) Next() error {
	for {
		p.Name, p.Data, p.data = "", nil, p.data[:0]
		for {
			line, err := p.line()
			if err != nil {
				return err
			}
			if len(line) == 0 {
				break
			}
			if err := p.field(line); err != nil {
				return err
			}
		}
		moved := p.ID != p.id
		p.ID = p.id
		if len(p.data) > 0 {
			p.Data = p.data[:len(p.data)-1]
		}
		if moved || p.Data != nil {
			return nil
		}
	}
}

// field takes a line that is not blank.
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
		case bytes.IndexByte(value, 0) >= 0: // is ignored, as the standard says
		case !sendable(value):
			p.id = ""
		case string(value) != p.id:
			p.id = string(value)
		}
	case "retry":
		if wait, ok := milliseconds(value); ok {
			p.Retry = wait
		}
	}
	return nil
}

// sendable reports whether a header can hold an ID.
func sendable(id []byte) bool {
	for _, b := range id {
		if b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return len(id) <= MaxID
}

// milliseconds reads a number of milliseconds.
func milliseconds(value []byte) (wait time.Duration, ok bool) {
	for _, b := range value {
		if b < '0' || b > '9' {
			return 0, false
		}
		wait = min(wait*10+time.Duration(b-'0')*time.Millisecond, maxRetry)
	}
	return wait, len(value) > 0
}

func (p *Parser) tooLong() error { return fmt.Errorf("%w of %d bytes", ErrTooLong, p.limit) }

// line returns the next line that counts, without its end. It is valid until the next call.
func (p *Parser) line() ([]byte, error) {
	for {
		if line, ok := p.take(); ok {
			return line, nil
		}
		if p.to-p.from > p.limit+longest {
			return nil, p.tooLong()
		}
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
}

// take returns the next line that counts, if the buffer contains all of it.
func (p *Parser) take() (line []byte, ok bool) {
	for {
		rest := p.buf[p.from+p.seen : p.to]
		if p.lf && len(rest) > 0 { // and seen is 0
			p.lf = false
			if rest[0] == '\n' {
				p.from++
				continue
			}
		}
		end := bytes.IndexByte(rest, '\n')
		if end >= 0 {
			rest = rest[:end]
		}
		if cr := bytes.IndexByte(rest, '\r'); cr >= 0 {
			end, p.lf = cr, true
		}
		if end < 0 {
			p.seen = p.to - p.from
			if p.past = p.past || !counts(p.unmarked(p.buf[p.from:p.to])); p.past {
				p.from, p.to, p.seen = 0, 0, 0
			}
			return nil, false
		}
		line = p.buf[p.from : p.from+p.seen+end]
		p.from, p.seen = p.from+len(line)+1, 0
		past := p.past
		line, p.past, p.begun = p.unmarked(line), false, true
		if !past {
			return line, true
		}
	}
}

// unmarked returns a line without the byte order mark, which only the first line may have.
func (p *Parser) unmarked(line []byte) []byte {
	if p.begun {
		return line
	}
	return bytes.TrimPrefix(line, []byte("\ufeff"))
}

// counts reports whether a line that starts like this may be a field that counts.
func counts(head []byte) bool {
	name, _, whole := bytes.Cut(head, []byte(":"))
	switch string(name) {
	case "data", "event", "id", "retry":
		return true
	default:
		return !whole && len(name) < len("event")
	}
}

// fill reads more bytes into the buffer.
func (p *Parser) fill() error {
	if p.err != nil {
		return p.err
	}
	if p.to == len(p.buf) {
		if p.from == 0 {
			grown := make([]byte, max(4<<10, min(2*len(p.buf), p.limit+longest+1)))
			copy(grown, p.buf)
			p.buf = grown
		} else {
			p.from, p.to = 0, copy(p.buf, p.buf[p.from:p.to])
		}
	}
	for range emptyReads {
		n := 0
		n, p.err = p.r.Read(p.buf[p.to:])
		p.to += n
		switch {
		case n > 0:
			return nil
		case p.err != nil:
			return p.err
		}
	}
	p.err = io.ErrNoProgress
	return p.err
}
