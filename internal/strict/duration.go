package strict

import (
	"encoding/json"
	"fmt"
	"time"
)

// A Duration is a time.Duration that is text in JSON and YAML: "200ms".
type Duration time.Duration

// WriteDuration says what to write for a Duration.
const WriteDuration = `a duration as text, such as "200ms" or "1m30s"`

func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalJSON is there to say what to write instead of a bare number.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s is no duration: write text such as \"200ms\" or \"1m30s\"", data)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is no duration: write a number and a unit, such as \"200ms\" or \"1m30s\"", text)
	}
	*d = Duration(parsed)
	return nil
}
