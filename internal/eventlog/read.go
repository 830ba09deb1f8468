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

// Read reads a log, as package retrylog describes it. decode returns the record
// that a JSON value in a line is, and the kind of its event.
func Read[R any](r io.Reader, decode func(value []byte, line int) (R, retry.EventKind, error)) ([]R, error) {
	log := reader[R]{decode: decode}
	var cutOff error
	in := bufio.NewReader(r)
	for {
		line, end := in.ReadBytes('\n')
		log.line++
		if end != nil && end != io.EOF {
			return log.records, fmt.Errorf("retrylog: line %d: %w", log.line, end)
		}
		err := log.read(bytes.Trim(line, " \t\r\n"))
		switch {
		case err == io.ErrUnexpectedEOF && cutOff == nil:
			cutOff = fmt.Errorf("%w within line %d", ErrCutOff, log.line)
		case err != nil && err != io.ErrUnexpectedEOF:
			return log.records, fmt.Errorf("retrylog: line %d: %w", log.line, err)
		}
		if end == io.EOF {
			return log.records, cutOff
		}
	}
}

type reader[R any] struct {
	decode  func(value []byte, line int) (R, retry.EventKind, error)
	records []R
	line    int
	torn    bool // part of the line is missing, so that anything may stand behind it
}

// read reads the records of a line, which is one, except after a crash. The error
// is io.ErrUnexpectedEOF if the line is cut off somewhere.
func (r *reader[R]) read(line []byte) error {
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
func (r *reader[R]) readObjects(text []byte) error {
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
func (r *reader[R]) add(value []byte) error {
	if r.foreign(value) {
		return nil
	}
	record, kind, err := r.decode(value, r.line)
	if err == nil && kind == "" {
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
func (r *reader[R]) foreign(value []byte) bool {
	if !r.torn && (value[0] != '{' || !bytes.Contains(value, []byte(`"msg"`)) && !bytes.Contains(value, []byte(`"level"`))) {
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
	return (logged || r.torn) && !event
}

// Key returns the key in the JSON of a record, "" if there is none or it is null.
func Key(data []byte) (key string, err error) {
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
		key = text
	}
	return key, nil
}

const invalidRecord = "retrylog: invalid record"
