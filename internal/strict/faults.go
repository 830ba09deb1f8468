package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goretry/retry/internal/saturate"
)

// mostFaults is the largest number of faults that an error names. Without this limit, the error for
// a file full of invalid values would be many times as long as the file.
const mostFaults = 20

// The Code of a Finding is one of these constants.
const (
	InvalidValue = "invalid_value"
	UnknownKey   = "unknown_key"
	DuplicateKey = "duplicate_key"
	MissingKey   = "missing_key"
)

// A Finding is one fault.
type Finding struct {
	Code string
	Key  string // the path of the key, as in "backoff.base"; "" if the fault concerns the whole value
	Text string // says what is wrong; starts with the key or quotes the key
}

// Faults collects faults.
type Faults struct {
	list  []Finding
	texts []string // the parts of the error text; a part may be about several faults
	more  int      // how many faults the error only counts, because it already names 20
}

// Add adds a fault for a key. The text `advice` says what to write instead of `value`.
func (f *Faults) Add(key string, value any, advice string) {
	f.add(InvalidValue, key, "%s is %v: write %s", saturate.Texts([]any{key, value, advice})...)
}

func (f *Faults) add(code, key, format string, args ...any) {
	if len(f.texts) == mostFaults {
		f.more++
		return
	}
	text := fmt.Sprintf(format, args...)
	f.texts = append(f.texts, text)
	f.keep(Finding{code, key, text})
}

// The method `keep` stores a finding, unless 20 findings are already stored. This limit is needed
// because each finding may have a key as long as the file.
func (f *Faults) keep(finding Finding) {
	if len(f.list) < mostFaults {
		f.list = append(f.list, finding)
	}
}

// Err returns an error with all faults, or nil if there are no faults. The error text starts with
// `prefix`.
func (f *Faults) Err(prefix string) error {
	if len(f.texts) == 0 {
		return nil
	}
	texts := f.texts
	if f.more > 0 {
		texts = append(slices.Clone(texts), fmt.Sprintf("and %d more", f.more))
	}
	return &Error{Faults: f.list, text: prefix + ": " + strings.Join(texts, "; ")}
}

// The text of an Error names the faults on one line.
type Error struct {
	Faults []Finding // at most 20

	text  string
	cause error
}

func (e *Error) Error() string { return e.text }

func (e *Error) Unwrap() error { return e.cause }

// One returns an error with one fault. If `key` is "", the fault concerns the whole value. The
// error wraps `cause`, which may be nil. The error text starts with `prefix`.
func One(prefix, key, text string, cause error) *Error {
	one := []Finding{{Code: InvalidValue, Key: key, Text: text}}
	return &Error{Faults: one, text: prefix + ": " + text, cause: cause}
}

// Fault returns the error for a key with an invalid value. The error has the same form as the error
// of [Faults] with a single fault.
func Fault(prefix, key string, value []byte, advice string) error {
	var f Faults
	f.Add(key, shown(value), advice)
	return f.Err(prefix)
}

// NoObject returns the error for a value that is not a JSON object.
func NoObject(prefix string, value []byte, example string) error {
	text := fmt.Sprintf("got %s, want a mapping such as %s", shown(value), example)
	return One(prefix, "", text, nil)
}

// The type `shown` is a JSON value that an error text quotes. The value is formatted only if the
// error text names the fault, because an error may have many more faults than it names.
type shown []byte

// String returns the JSON on one line, cut after 60 characters.
func (value shown) String() string {
	var compact bytes.Buffer
	if err := json.Compact(&compact, value); err != nil {
		return quoted(string(value))
	}
	return cut(compact.String(), func(r rune) string {
		if strconv.IsPrint(r) {
			return string(r)
		}
		// JSON strings may contain control characters above U+007E without an escape, so they are
		// escaped here.
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// quoted cuts `text` after 60 characters and puts it into quotation marks.
func quoted(text string) string {
	return strconv.Quote(cut(text, func(r rune) string { return string(r) }))
}

// cut returns the first 60 runes of a text, and writes each rune r as replace(r). If the text has
// more runes, "..." follows.
func cut(text string, replace func(rune) string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > 60 {
			return b.String() + "..."
		}
		b.WriteString(replace(r))
	}
	return b.String()
}
