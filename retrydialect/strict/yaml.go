package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// YAML returns a YAML value as JSON, so that the same code reads both. The parameter `unmarshal`
// is the function that the YAML library passes to a method UnmarshalYAML. If this function
// returns an error, the text of the error becomes one line that starts with the parameter
// `prefix`.
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

// jsonValue returns a value that JSON can represent. Text replaces what JSON does not have: keys
// that are not text, infinity and NaN.
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
			text += ".0" // a float in YAML must not become a whole number in JSON
		}
		value = json.Number(text)
	}
	if _, err := json.Marshal(value); err != nil { // NaN, infinity, or a type that JSON lacks
		return fmt.Sprint(value)
	}
	return value
}

// A Number is a float64 that every YAML library reads back as a number.
type Number float64

// MarshalYAML writes a point into numbers with an exponent, because goccy/go-yaml writes 1e-07
// and reads it as text. Only goccy/go-yaml calls a MarshalYAML with this signature. The other
// libraries can read the numbers that they write.
func (n Number) MarshalYAML() ([]byte, error) {
	text := strconv.FormatFloat(float64(n), 'g', -1, 64)
	if digits, exponent, ok := strings.Cut(text, "e"); ok && !strings.Contains(digits, ".") {
		text = digits + ".0e" + exponent
	}
	return []byte(text), nil
}
