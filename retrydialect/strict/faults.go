package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goretry/retry"
)

// maxFaults is the largest number of faults that an error names. Without a limit, the error of
// a file that contains only invalid values would be many times as long as the file.
const maxFaults = 20

// These are the codes of findings.
const (
	InvalidValue = "invalid_value"
	UnknownKey   = "unknown_key"
	DuplicateKey = "duplicate_key"
)

// Faults collects the faults of a value. The zero Faults is empty. Faults is not safe for
// concurrent use.
type Faults struct {
	list  []retry.Finding
	texts []string // the parts of the error text; a part may be about several faults
	more  int      // the number of faults that the error text does not name
}

// Add adds the fault that a key has an invalid value. The parameter `write` says what to write
// instead.
func (f *Faults) Add(key string, value any, write string) {
	f.add(InvalidValue, key, "%s is %v: write %s", key, value, write)
}

// Within adds the faults in err, which are the faults of a policy. The parameter `key` is the
// key whose value is this policy.
func (f *Faults) Within(key string, err *retry.PolicyError) {
	for _, found := range err.Findings() {
		at := key
		if found.Key != "" {
			at += "." + found.Key
		}
		f.add(found.Code, at, "%s: %s", key, found.InKeys())
	}
}

func (f *Faults) add(code, key, format string, args ...any) {
	if len(f.texts) == maxFaults {
		f.more++
		return
	}
	text := fmt.Sprintf(format, args...)
	f.texts = append(f.texts, text)
	f.keep(code, key, text)
}

// keep adds a finding, unless f already has 20 findings. A key may be as long as the file, so
// without a limit the findings could take far more memory than the file.
func (f *Faults) keep(code, key, text string) {
	if len(f.list) < maxFaults {
		f.list = append(f.list, retry.Finding{Code: code, Key: key}.WithText(text))
	}
}

// Err returns the faults as an error whose text starts with the parameter `prefix`. If f is
// empty, Err returns nil.
func (f *Faults) Err(prefix string) error {
	if len(f.texts) == 0 {
		return nil
	}
	texts := f.texts
	if f.more > 0 {
		texts = append(slices.Clone(texts), fmt.Sprintf("and %d more", f.more))
	}
	return &Error{findings: f.list, text: prefix + ": " + strings.Join(texts, "; ")}
}

// An Error is an error whose text names faults on one line.
type Error struct {
	findings []retry.Finding
	text     string
	cause    error
}

func (e *Error) Error() string { return e.text }

func (e *Error) Unwrap() error { return e.cause }

// Findings returns at most 20 findings. For each of these findings, the methods String and InKeys
// return the same text.
func (e *Error) Findings() []retry.Finding { return slices.Clone(e.findings) }

// One is for a value with a single fault. It returns the error with this fault. The parameter
// `key` is the key of the fault, or "" for a fault of the whole value. The parameter `cause` is
// the error that the result wraps, or nil.
func One(prefix, key, text string, cause error) *Error {
	one := []retry.Finding{retry.Finding{Code: InvalidValue, Key: key}.WithText(text)}
	return &Error{findings: one, text: prefix + ": " + text, cause: cause}
}

// shown is a JSON value in the text of an error. Its method String formats the value only when
// the text is made. So the values of faults that the error does not name are never formatted.
type shown []byte

// String returns the JSON on one line, and cuts it after 60 characters.
func (value shown) String() string {
	var compact bytes.Buffer
	if err := json.Compact(&compact, value); err != nil {
		return quoted(string(value))
	}
	return cut(compact.String(), func(r rune) string {
		if strconv.IsPrint(r) {
			return string(r)
		}
		return fmt.Sprintf(`\u%04x`, r) // JSON does not escape control characters above U+007E
	})
}

// quoted returns `text` in quotation marks, and cuts it after 60 characters.
func quoted(text string) string {
	return strconv.Quote(cut(text, func(r rune) string { return string(r) }))
}

// cut returns the first 60 characters of a text. It writes each character in the form that the
// function `show` returns.
func cut(text string, show func(rune) string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > 60 {
			return b.String() + "..."
		}
		b.WriteString(show(r))
	}
	return b.String()
}
