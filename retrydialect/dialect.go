// Package retrydialect parses the retry settings of the job engines Tasker, Argyll and
// TaskHarbor, and turns them into a retry.Policy that makes the same decisions. It reads the
// `retry` block of a step in Tasker, the work_config of a step in Argyll, and the parameters of
// a retry policy in TaskHarbor.
//
// Each format has a small struct. Use it as a field of your configuration, decode JSON or YAML
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
// wrong type is an error. The error names the key and says what to write. After an error, the
// struct is unchanged. If a key is left out, its field keeps its value, so you can decode a
// block of defaults first. If the whole block is null, the struct is unchanged. For
// [TaskHarbor], a null block is an error. If the value of a key is null, [Tasker] treats the
// key as left out. For [Argyll] and TaskHarbor, the null is an error.
//
// The method Policy checks the values. If a value is invalid, Policy returns an error and the
// zero policy, which makes one attempt.
//
// Errors of this package have a method Findings() []retry.Finding, for programs. Each Finding
// is one fault with its key. If such an error is wrapped, find it with errors.As.
//
// Some fields of the policy have no setting in a format, such as Jitter in Tasker. Policy
// leaves such fields unset. A delay in milliseconds that is longer than about 292 years, the
// maximum of [time.Duration], becomes this maximum.
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
func readYAML(prefix string, unmarshal func(any) error, unmarshalJSON func([]byte) error) error {
	data, err := strict.YAML(prefix, unmarshal)
	if err != nil {
		return err
	}
	return unmarshalJSON(data)
}

// setField sets a field to the value of its key, if the key is present.
func setField[T any](m *strict.Mapping, key, write string, field *T) {
	if v, ok := strict.Take[T](m, key, write, nil); ok {
		*field = v
	}
}

// setName sets a field to the name under a key, if the key is present. An empty name is a
// fault, because only a key that is left out gets the default.
func setName(m *strict.Mapping, key, write string, field *string) {
	if v, ok := strict.Take(m, key, write, func(name string) bool { return name != "" }); ok {
		*field = v
	}
}

// setWhole sets a field to the whole number under a key, if the key is present. It reports
// whether it set the field.
func setWhole[T any](m *strict.Mapping, key string, field *T) bool {
	digits, ok := strict.Take(m, key, "a whole number, such as 3", func(v json.RawMessage) bool {
		_, err := strconv.Atoi(string(v))
		return !errors.Is(err, strconv.ErrSyntax)
	})
	if !ok {
		return false
	}
	var n T // do not decode into *field: it may point to a number that others share
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
