package strict

import (
	"encoding/json"
	"fmt"
	"time"
)

// A Duration is a time.Duration that is written as text in JSON and YAML: "200ms".
type Duration time.Duration

// WriteDuration is the text that tells a user how to write a Duration. It is a part of error texts.
const WriteDuration = `a duration as text, such as "200ms" or "1m30s"`

func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalJSON reads a duration. If the JSON is a number without a unit, the error says what
// to write instead.
func (d *Duration) UnmarshalJSON(data []byte) error {
	const examples = `such as "200ms" or "1m30s"`
	switch text, ok := d.parse(data); {
	case ok:
		return nil
	case text == "":
		return fmt.Errorf("invalid duration %v: write text %s", shown(data), examples)
	default:
		const write = "write a number and a unit, " + examples
		return fmt.Errorf("invalid duration %s: %s", quoted(text), write)
	}
}

// parse sets d to the duration in `data`, which is JSON. `ok` is false if `data` contains no valid
// duration. `text` is the string in `data`. `parse` returns no error, because building the error
// texts for a list of a million wrong durations would take seconds.
func (d *Duration) parse(data []byte) (text string, ok bool) {
	if json.Unmarshal(data, &text) != nil {
		return "", false
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return text, false
	}
	*d = Duration(parsed)
	return text, true
}
