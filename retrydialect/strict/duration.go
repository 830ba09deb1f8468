package strict

import (
	"encoding/json"
	"fmt"
	"time"
)

// A Duration is a time.Duration that is text in JSON and YAML, such as "200ms".
type Duration time.Duration

// WriteDuration is the text that tells a user how to write a Duration. It is a part of error texts.
const WriteDuration = `a duration as text, such as "200ms" or "1m30s"`

func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalJSON reads a duration. Its error says what to write, for example if a number lacks
// its unit.
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

// parse sets d to the duration in `data`, which is a text in JSON, such as "200ms" in quotes. It
// returns this text without the quotes. If the text is not a duration, ok is false and d is
// unchanged. If `data` is not a text, `parse` returns "" and false.
//
// `parse` does not return an error, because a file may contain a million invalid durations, and
// building the texts of a million errors would take seconds.
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
