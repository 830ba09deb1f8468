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

// MaxLine is how long a line may be in bytes. Without a limit, a file that is no log
// would fill the memory.
const MaxLine = 4 << 20

// ErrLongLine means that a line is longer than MaxLine.
var ErrLongLine = fmt.Errorf("the line is longer than %d MiB", MaxLine>>20)

// Lines reads lines.
type Lines struct {
	in   *bufio.Reader
	long []byte // a line that is longer than the buffer of in
}

// NewLines returns the lines of r.
func NewLines(r io.Reader) *Lines { return &Lines{in: bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next line. It is valid until the next call. Of a line that is too
// long the next call returns what comes after the first MaxLine bytes or so.
func (l *Lines) Next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		switch {
		case err == nil && len(l.long) == 0:
			return part, nil
		case len(l.long)+len(part) > MaxLine:
			return nil, ErrLongLine
		}
		if l.long = append(l.long, part...); err != bufio.ErrBufferFull {
			return l.long, err
		}
	}
}

// Decode returns the record that a JSON value in a line is.
type Decode func(value []byte) (Record, error)

// Read reads a log, as package retrylog describes it.
func Read(r io.Reader, decode Decode) (all []Record, err error) {
	var cutOff error
	lines, log := NewLines(r), Decoder{Decode: decode}
	for n := 1; ; n++ {
		line, end := lines.Next()
		if end != nil && end != io.EOF {
			return all, fmt.Errorf("retrylog: line %d: %w", n, end)
		}
		records, err := log.Line(bytes.Trim(line, " \t\r\n"), n)
		all = append(all, records...)
		switch {
		case err == io.ErrUnexpectedEOF && cutOff == nil:
			cutOff = fmt.Errorf("%w within line %d", ErrCutOff, n)
		case err != nil && err != io.ErrUnexpectedEOF:
			return all, fmt.Errorf("retrylog: line %d: %w", n, err)
		}
		if end == io.EOF {
			return all, cutOff
		}
	}
}

// A Decoder finds records in lines.
type Decoder struct {
	Decode  Decode
	records []Record // of the line
	line    int
	torn    bool // part of the line is missing, so that anything may stand behind it
}

// Line returns the records of a line without its end, which is one, except after a
// crash. They are valid until the next call. The error is io.ErrUnexpectedEOF if the
// line is cut off somewhere.
func (r *Decoder) Line(line []byte, number int) ([]Record, error) {
	r.records, r.line = r.records[:0], number
	err := r.read(line)
	return r.records, err
}

// read adds the records of a line.
func (r *Decoder) read(line []byte) error {
	if r.torn = false; json.Valid(line) {
		return r.add(line)
	}
	r.torn = bytes.IndexByte(line, 0) >= 0
	// If the end of a line was lost, the next process continued on the same line.
	for part := range bytes.SplitSeq(beginning.ReplaceAll(line, []byte("\n$0")), []byte("\n")) {
		part, _, _ = bytes.Cut(part, []byte{0})
		err := r.readObjects(part)
		if r.torn = r.torn || err == io.ErrUnexpectedEOF; err != nil && !r.torn {
			return err
		}
	}
	if r.torn {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// beginning is how a record begins, and a line of slog. In a text it cannot be, where
// the quotation marks would be escaped. An object that a program logged within another
// may begin so too, but then the line is torn before it, and it is skipped.
var beginning = regexp.MustCompile(`\{("key":"([^"\\]|\\.)*",)?"(kind|time)":`)

// readObjects reads the records in text. The error is io.ErrUnexpectedEOF if the
// last one is incomplete.
func (r *Decoder) readObjects(text []byte) error {
	for in := json.NewDecoder(bytes.NewReader(text)); ; {
		var object json.RawMessage
		err := in.Decode(&object)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = r.add(object)
		}
		if err != nil {
			return err
		}
	}
}

// add adds the record that a JSON value is.
func (r *Decoder) add(value []byte) error {
	if r.foreign(value) {
		return nil
	}
	record, err := r.Decode(value)
	if record.Line = r.line; err == nil && record.Event.Kind == "" {
		err = fmt.Errorf("the event has no kind: write one, such as %q", retry.AttemptStarted)
	}
	if err == nil {
		r.records = append(r.records, record)
	}
	return err
}

// foreign reports whether a JSON value is not a record, but a line that a program
// logged for another purpose, or in a torn line a part of one. An event that is logged
// by slog has a message of Slog, and every event has a kind, an attempt and a max.
func (r *Decoder) foreign(value []byte) bool {
	if !r.torn && (value[0] != '{' || !bytes.Contains(value, []byte(`"msg"`)) && !bytes.Contains(value, []byte(`"level"`))) {
		return false
	}
	var logged, known, kind, attempt, limit bool
	for key, value := range strict.Members(value) {
		switch string(key) {
		case "msg":
			text, _ := strict.Text(value)
			logged, known = true, slices.Contains(Messages, text)
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
	return (logged || r.torn) && !event
}

// keyOf returns the key in the JSON of a record, "" if there is none or it is null.
func keyOf(data []byte) (key string, err error) {
	found := false
	for name, value := range strict.Members(data) {
		if string(name) != "key" {
			continue
		}
		if found {
			return "", errors.New(invalidRecord + `: duplicate key "key"`)
		}
		found = true
		text, ok := strict.Text(value)
		if !ok && string(value) != "null" {
			return "", strict.Fault(invalidRecord, "key", value, "a text")
		}
		if key = text; !MayHave(data[len(`{"key"`):], "key") {
			break
		}
	}
	return key, nil
}

// MayHave reports whether a JSON object may have this key. It is faster than a search
// in its members.
func MayHave(object []byte, key string) bool {
	return bytes.Contains(object, []byte(key)) || bytes.Contains(object, []byte(`\u`))
}

const invalidRecord = "retrylog: invalid record"
