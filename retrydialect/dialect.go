// Package retrydialect parses the retry settings of Tasker, Argyll and TaskHarbor, and turns
// them into a [retry.Policy] that makes the same decisions. It reads the `retry` block of
// Tasker, the work_config of Argyll, and the parameters of TaskHarbor.
//
// Each dialect is a small struct. Use it as a field of your configuration, decode JSON or YAML
// into it, and call its method Policy:
//
//	type Step struct {
//		Name  string              `yaml:"name"`
//		Retry retrydialect.Tasker `yaml:"retry"`
//	}
//
//	policy, err := step.Retry.Policy()
//
// Decoding checks how a block is written. An unknown key, a duplicate key, or a value of the
// wrong type is an error. The error names the key and says what to write, and the struct is
// unchanged. A key that is left out leaves its field unchanged, so that you can decode a block
// of defaults first. A block that is null changes nothing, but is an error for [TaskHarbor]. A
// key whose value is null counts as left out in [Tasker]. In the other dialects it is an error.
//
// Policy checks the values. If a value is invalid, Policy returns an error and a policy that
// makes one attempt, which is the zero policy.
//
// An error of this package has a method Findings() []retry.Finding, which returns one value for
// each fault, with its key. To find the error in another one that wraps it, use errors.As.
//
// If a dialect has no setting for a field of the policy, such as Jitter, the field is not set.
// A duration is at most about 292 years, because [time.Duration] cannot hold more. A longer
// duration becomes 292 years.
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

// setName is set for a name, which must not be empty. A key that is left out has a default. An
// empty name has no meaning.
func setName(m *strict.Mapping, key, write string, field *string) {
	if v, ok := strict.Take(m, key, write, func(name string) bool { return name != "" }); ok {
		*field = v
	}
}

// setWhole is set for a whole number. It reports whether it set the field.
func setWhole[T any](m *strict.Mapping, key string, field *T) bool {
	digits, ok := strict.Take(m, key, "a whole number, such as 3", func(v json.RawMessage) bool {
		_, err := strconv.Atoi(string(v))
		return !errors.Is(err, strconv.ErrSyntax)
	})
	if !ok {
		return false
	}
	var n T // not *field, which may be a pointer to a number that others use too
	if err := json.Unmarshal(digits, &n); err != nil {
		m.Fault(key, string(digits), "a whole number closer to 0, such as 3")
		return false
	}
	*field = n
	return true
}

// milliseconds returns n milliseconds, or the longest duration if n is too large. n must not be
// negative.
func milliseconds(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}
