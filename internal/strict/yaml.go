package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The function YAML calls `unmarshal`, which comes from a YAML library, and returns the value as
// JSON. So the same code can read YAML and JSON. The error of the library may have several lines.
// The error of the function YAML has one line, and starts with `prefix`.
func YAML(prefix string, unmarshal func(any) error) ([]byte, error) {
	var v any
	if err := unmarshal(&v); err != nil {
		return nil, One(prefix, "", strings.Join(strings.Fields(err.Error()), " "), err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(jsonValue(v))
	return b.Bytes(), err
}

// jsonValue returns `value` in a form that JSON can express. It turns infinity, NaN, and keys that
// are not text into text.
func jsonValue(value any) any {
	switch v := value.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[key] = jsonValue(value)
		}
		return m
	case map[any]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[fmt.Sprint(key)] = jsonValue(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, value := range v {
			list[i] = jsonValue(value)
		}
		return list
	case float64:
		text := fmt.Sprint(v)
		if !strings.ContainsAny(text, ".eIN") {
			text += ".0" // YAML reads 3.0 as a float, so the JSON must not be a whole number
		}
		value = json.Number(text)
	}
	if _, err := json.Marshal(value); err != nil { // infinity, NaN, or a type that JSON lacks
		return fmt.Sprint(value)
	}
	return value
}

// A Number is a float64 that every YAML library can write and read back as a number.
type Number float64

// If a number has an exponent, MarshalYAML writes the number with a decimal point: 1.0e-07. Without
// the point, goccy/go-yaml would read the number as text. Only goccy/go-yaml calls a MarshalYAML
// with this signature. The other libraries can read the numbers that they write.
func (n Number) MarshalYAML() ([]byte, error) {
	text := strconv.FormatFloat(float64(n), 'g', -1, 64)
	if digits, exponent, ok := strings.Cut(text, "e"); ok && !strings.Contains(digits, ".") {
		text = digits + ".0e" + exponent
	}
	return []byte(text), nil
}
