package retry

import (
	"encoding/json"
	"fmt"
	"time"
)

// A duration is a time.Duration that is text in JSON and YAML: "200ms".
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalJSON is there to say what to write instead of a bare number.
func (d *duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s is no duration: write text such as \"200ms\" or \"1m30s\"", data)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is no duration: write a number and a unit, such as \"200ms\" or \"1m30s\"", text)
	}
	*d = duration(parsed)
	return nil
}
