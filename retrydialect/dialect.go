// Package retrydialect parses the retry settings of Tasker, Argyll and
// TaskHarbor, and turns them into a [retry.Policy] that makes the same
// decisions. It reads the retry block of Tasker, the work_config of Argyll, and the
// parameters of TaskHarbor.
//
// Each dialect is a small struct. Make it a field of your configuration, decode
// JSON or YAML into it, and call its method Policy:
//
//	type Step struct {
//		Name  string              `yaml:"name"`
//		Retry retrydialect.Tasker `yaml:"retry"`
//	}
//
//	policy, err := step.Retry.Policy()
//
// Decoding checks how a block is written. An unknown key, a duplicate key, or a
// value of the wrong type is an error that names the key and says what to write,
// and the struct stays as it was. A key that is left out leaves its field
// unchanged, so that one block can be decoded over another. A whole block that
// is null also changes nothing, except for [TaskHarbor]. A key that is null is
// treated as left out in [Tasker], and is an error in the others.
//
// Policy checks the values. If one of them is invalid, it returns an error and
// the zero policy, which makes one attempt.
//
// An error of this package has a method Findings() []retry.Finding, which says what is
// wrong with each key. Find it with errors.As.
//
// If a dialect has no setting for a field, such as Jitter, the field is not set. A
// duration longer than about 292 years, the most that [time.Duration] can hold, is
// cut to that.
package retrydialect

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/goretry/retry/retrydialect/strict"
)

// readYAML reads a block by converting it to JSON.
func readYAML(of string, unmarshal func(any) error, unmarshalJSON func([]byte) error) error {
	data, err := strict.YAML(of, unmarshal)
	if err != nil {
		return err
	}
	return unmarshalJSON(data)
}

// set sets a field if its key is present.
func set[T any](m *strict.Mapping, key, write string, field *T) {
	if v, ok := strict.Take[T](m, key, write, nil); ok {
		*field = v
	}
}

// setName is set for text that may not be empty: there is a default for a key
// that is left out, but none for an empty name.
func setName(m *strict.Mapping, key, write string, field *string) {
	if v, ok := strict.Take(m, key, write, func(name string) bool { return name != "" }); ok {
		*field = v
	}
}

// setWhole is set for a whole number, and reports whether it set the field.
func setWhole[T any](m *strict.Mapping, key string, field *T) bool {
	digits, ok := strict.Take(m, key, "a whole number, such as 3", func(v json.RawMessage) bool {
		_, err := strconv.Atoi(string(v))
		return !errors.Is(err, strconv.ErrSyntax)
	})
	if !ok {
		return false
	}
	var n T // not into field: the number that it may point to may be shared
	if err := json.Unmarshal(digits, &n); err != nil {
		m.Fault(key, string(digits), "a whole number closer to 0, such as 3")
		return false
	}
	*field = n
	return true
}

// milliseconds returns n milliseconds, at most the longest duration. n may not
// be negative.
func milliseconds(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}
