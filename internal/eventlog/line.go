package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// ErrCutOff means that a line of a log is incomplete, as after a crash.
var ErrCutOff = errors.New("retrylog: the log is cut off")

// maxLine is how long a line may be in bytes. Without a limit, a file that is no log
// would fill the memory.
const maxLine = 4 << 20

var errLongLine = fmt.Errorf("the line is longer than %d MiB", maxLine>>20)

// lines reads lines.
type lines struct {
	in   *bufio.Reader
	long []byte // a line that is longer than the buffer of in
}

func newLines(r io.Reader) *lines { return &lines{in: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line without white space around it. It is valid until the next call. Of
// a line that is too long the next call returns what comes after the first maxLine bytes or so.
func (l *lines) next() (line []byte, err error) {
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		switch {
		case err == nil && len(l.long) == 0:
			return bytes.Trim(part, " \t\r\n"), nil
		case err == bufio.ErrBufferFull && len(l.long)+len(part) > maxLine: // else nothing comes after
			return nil, errLongLine
		}
		if l.long = append(l.long, part...); err != bufio.ErrBufferFull {
			return bytes.Trim(l.long, " \t\r\n"), err
		}
	}
}

// Decode returns the record that a JSON value in a line is.
type Decode func(value []byte) (Record, error)

// Read reads a log, as package retrylog describes it.
func Read(r io.Reader, decode Decode) (all []Record, err error) {
	var cutOff error
	in := newLines(r)
	for n := 1; ; n++ {
		line, end := in.next()
		if end == nil || end == io.EOF {
			all, err = decode.append(all, line, n)
		} else {
			err = end
		}
		switch {
		case err == io.ErrUnexpectedEOF && cutOff == nil:
			cutOff = fmt.Errorf("%w within line %d", ErrCutOff, n)
		case err != nil && err != io.ErrUnexpectedEOF:
			return all, &Fault{Record{Line: n}, err}
		}
		if end == io.EOF {
			return all, cutOff
		}
	}
}

// append adds the records of the nth line to all: one, except after a crash. The error is
// io.ErrUnexpectedEOF if the line is cut off somewhere.
func (d Decode) append(all []Record, line []byte, n int) (_ []Record, err error) {
	if json.Valid(line) {
		return d.add(all, line, n, false)
	}
	torn := bytes.IndexByte(line, 0) >= 0
	// If the end of a line was lost, the next process continued on the same line.
	for part := range bytes.SplitSeq(beginning.ReplaceAll(line, []byte("\n$0")), []byte("\n")) {
		part, _, _ = bytes.Cut(part, []byte{0})
		in := json.NewDecoder(bytes.NewReader(part))
		for err = nil; err == nil; {
			var object json.RawMessage
			if err = in.Decode(&object); err == nil {
				all, err = d.add(all, object, n, torn)
			}
		}
		if torn = torn || err == io.ErrUnexpectedEOF; err != io.EOF && !torn {
			return all, err
		}
	}
	if torn {
		return all, io.ErrUnexpectedEOF
	}
	return all, nil
}

// beginning is how a record begins, and a line of slog. In a text it cannot be, where
// the quotation marks would be escaped. An object that a program logged within another
// may begin so too, but then the line is torn before it, and it is skipped.
var beginning = regexp.MustCompile(`\{("key":"([^"\\]|\\.)*",)?"(kind|time)":`)

// add adds the record that a JSON value is. In a line that is torn, part of it is missing, so
// that anything may stand behind it.
func (d Decode) add(all []Record, value []byte, n int, torn bool) ([]Record, error) {
	if isForeign(value, torn) {
		return all, nil
	}
	r, err := d(value)
	if r.Line = n; err == nil && r.Event.Kind == "" {
		err = fmt.Errorf("the event has no kind: write one, such as %q", retry.AttemptStarted)
	}
	if err != nil {
		return all, err
	}
	return append(all, r), nil
}

// isForeign reports whether a JSON value is not a record, but a line that a program
// logged for another purpose, or in a torn line a part of one. An event that is logged
// by slog has a message of Slog, and every event has a kind, an attempt and a max.
func isForeign(value []byte, torn bool) bool {
	if !torn && (value[0] != '{' || !contains(value, `"msg"`, `"level"`)) {
		return false
	}
	var logged, known, kind, attempt, limit bool
	for key, value := range strict.Members(value) {
		switch string(key) {
		case "msg":
			text, _ := strict.Text(value)
			logged, known = true, slices.Contains(messages, text)
		case "level":
			logged = true
		case "kind":
			kind = true
		case "attempt":
			attempt = true
		case "max":
			limit = true
		}
	}
	event := kind && attempt && limit && (known || !logged)
	return (logged || torn) && !event
}

// contains reports whether a line has one of these texts.
func contains(line []byte, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return bytes.Contains(line, []byte(text)) })
}
