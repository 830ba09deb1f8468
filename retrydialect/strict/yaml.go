package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// YAML returns the result of a YAML library as JSON, so that both are read by the
// same code. An error of the library, which may have several lines, is put on one
// line and begins with of.
func YAML(of string, unmarshal func(any) error) ([]byte, error) {
	var v any
	if err := unmarshal(&v); err != nil {
		return nil, One(of, "", strings.Join(strings.Fields(err.Error()), " "), err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(jsonValue(v))
	return b.Bytes(), err
}

// jsonValue returns v with text in place of what JSON cannot express: keys that
// are not text, infinity and NaN.
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
			text += ".0" // it was written with a point, so in JSON it is not a whole number either
		}
		value = json.Number(text)
	}
	if _, err := json.Marshal(value); err != nil { // it is NaN or infinite, or of a type that JSON does not have
		return fmt.Sprint(value)
	}
	return value
}

// A Number is a float64 that every YAML library reads back as a number.
type Number float64

// MarshalYAML writes a point into numbers with an exponent: goccy/go-yaml
// writes 1e-07 and reads it as text. With this signature it is the only
// library that calls it; the others read what they write.
func (n Number) MarshalYAML() ([]byte, error) {
	text := strconv.FormatFloat(float64(n), 'g', -1, 64)
	if digits, exponent, ok := strings.Cut(text, "e"); ok && !strings.Contains(digits, ".") {
		text = digits + ".0e" + exponent
	}
	return []byte(text), nil
}
