package strict

import (
	"encoding/json"
	"fmt"
	"time"
)

// A Duration is a time.Duration that is a text such as "200ms" in JSON and YAML.
type Duration time.Duration

// WriteDuration is the advice in errors about a Duration.
const WriteDuration = `a duration as text, such as "200ms" or "1m30s"`

func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalJSON reads a duration. Its error says what to write, also for a number without a
// unit.
func (d *Duration) UnmarshalJSON(data []byte) error {
	switch text, ok := d.parse(data); {
	case ok:
		return nil
	case text == "":
		return fmt.Errorf("invalid duration %v: write text such as \"200ms\" or \"1m30s\"", shown(data))
	default:
		return fmt.Errorf("invalid duration %s: "+
			`write a number and a unit, such as "200ms" or "1m30s"`, quoted(text))
	}
}

// parse sets d to a duration in JSON. It does not return an error: to build the texts of a million
// errors that nobody reads would take seconds.
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
