// Package retrydialect reads the retry settings of other systems as their
// users write them, and turns each into a [retry.Policy] that makes the same
// decisions: the retry block of Tasker, the work_config of Argyll, and the
// parameters of TaskHarbor.
//
// Each dialect is a small struct. Hold it in a field of your configuration,
// decode JSON or YAML into it, and ask it for its policy:
//
//	type Step struct {
//		Name  string              `yaml:"name"`
//		Retry retrydialect.Tasker `yaml:"retry"`
//	}
//
//	policy, err := step.Retry.Policy()
//
// Decoding checks how a block is written: a key that the dialect does not
// know, a key written twice, or a value of another type is an error that names
// the key and says what to write, and leaves the struct as it was. Policy
// checks what the block means, and returns with its error the zero policy,
// which calls once. A key that is left out leaves its field as it is, so that
// one block can be decoded over another, and so does a whole block that is
// null, except for one of TaskHarbor. A key that is null is left out in Tasker,
// which says so, and an error elsewhere.
//
// What a dialect cannot say stays off: no jitter where it has none. A
// duration longer than about 292 years becomes that long.
package retrydialect

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/goretry/retry/internal/saturate"
	"github.com/goretry/retry/internal/strict"
)

// readYAML reads a block by way of JSON.
func readYAML(of string, unmarshal func(any) error, unmarshalJSON func([]byte) error) error {
	data, err := strict.YAML(of, unmarshal)
	if err != nil {
		return err
	}
	return unmarshalJSON(data)
}

// set sets a field if its key is there.
func set[T any](m *strict.Mapping, key, write string, field *T) {
	if v, ok := strict.Take[T](m, key, write, nil); ok {
		*field = v
	}
}

// setName is set for text that may not be empty: what is left out has a
// default, an empty name has none.
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
	var n T // not field: the number that it may point to is not its own
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
	return saturate.Mul(uint64(n), time.Millisecond)
}
