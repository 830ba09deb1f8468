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
// null. A key that is null is left out in Tasker, which says so, and an error
// elsewhere.
//
// What a dialect cannot say stays off: no jitter where it has none. A
// duration longer than about 292 years becomes that long.
package retrydialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// faults is what is wrong with a block, a line for each.
type faults []string

// add adds one: the key, its value, and what to write instead.
func (f *faults) add(key string, value any, write string) {
	if value == nil {
		write += ", or leave the key out"
	}
	*f = append(*f, fmt.Sprintf("%s is %s: write %s", key, show(value), write))
}

// err returns f as an error of one line, nil if there is none.
func (f faults) err(dialect string) error {
	if len(f) == 0 {
		return nil
	}
	return errors.New("retrydialect: " + dialect + ": " + strings.Join(f, "; "))
}

// show writes a value so that it can be found in the file it was read from.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", v)
	case float64:
		if s := fmt.Sprint(v); strings.ContainsAny(s, ".eIN") {
			return s
		}
		return fmt.Sprintf("%.1f", v) // it was written with a point
	case map[string]any, map[any]any:
		return "a mapping"
	case []any, json.Delim:
		return "a list"
	default:
		return fmt.Sprint(v)
	}
}

// milliseconds returns n milliseconds, at most the longest duration. n may not
// be negative.
func milliseconds(n int64) time.Duration {
	return saturate.Mul(uint64(n), time.Millisecond)
}
