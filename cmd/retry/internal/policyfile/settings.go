package policyfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/printable"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// longestKey limits the length of keys that are compared in each spelling. To compare a key of
// megabytes would take seconds.
const longestKey = 100

// mostFindings is how many findings an error has at most. Without a limit, the findings about a
// file of wrong values would be many times as long as the file.
const mostFindings = 20

// settings are a mapping of another system. Keys are taken from it one by one, and each mistake
// becomes a finding.
type settings struct {
	plain  func(key string) string // returns the same text for all spellings of a key
	path   string                  // the text before its keys in findings, such as "backoff."
	values map[string]json.RawMessage
	keys   []string  // the keys that were taken so far
	listed *[]string // the same keys and the keys of inner mappings, with their paths
	wrong  *invalid
}

// invalid is the error about wrong settings.
type invalid struct{ found []retry.Finding }

func (e *invalid) Error() string {
	texts := make([]string, len(e.found))
	for i, f := range e.found {
		texts[i] = f.InKeys()
	}
	return "retry: invalid policy: " + strings.Join(texts, "; ")
}

func (e *invalid) Findings() []retry.Finding { return e.found }

func (e *invalid) add(code, key, format string, args ...any) {
	if len(e.found) < mostFindings {
		f := retry.Finding{Code: code, Key: key}
		e.found = append(e.found, f.WithText(fmt.Sprintf(format, args...)))
	}
}

func newSettings(plain func(string) string) *settings {
	return &settings{plain: plain, listed: new([]string), wrong: new(invalid)}
}

// settingsOf returns the settings in a node, nil if the node is null. The example is part of the
// finding about a node that is not a mapping.
func settingsOf(node *yaml.Node, plain func(string) string, example string) (*settings, error) {
	s := newSettings(plain)
	var value any
	if err := node.Decode(&value); err != nil {
		s.wrong.add("invalid_value", "", "%s", strings.Join(strings.Fields(err.Error()), " "))
		return nil, s.wrong
	}
	data := asJSON(value)
	if json.Unmarshal(data, &s.values) != nil {
		const text = "got %v, want a mapping such as %s"
		s.wrong.add("invalid_value", "", text, shown(data), example)
		return nil, s.wrong
	}
	if s.values == nil {
		return nil, nil
	}
	return s, nil
}

// err returns the findings as an error, nil if there are none.
func (s *settings) err() error {
	if len(s.wrong.found) == 0 {
		return nil
	}
	return s.wrong
}

// fault adds a finding with a key, its value, and what to write instead.
func (s *settings) fault(key string, value any, write string) {
	texts := saturate.Texts([]any{s.path + key, value, write})
	s.wrong.add("invalid_value", s.path+key, "%s is %v: write %s", texts...)
}

// pull removes a key and returns its value. ok is false if there is no such key, or if it is null.
func (s *settings) pull(key string) (value json.RawMessage, ok bool) {
	s.keys = append(s.keys, key)
	*s.listed = append(*s.listed, s.path+key)
	if _, ok = s.values[key]; !ok {
		for other := range s.values {
			if len(other) < longestKey && s.plain(other) == s.plain(key) {
				key = other
			}
		}
	}
	value, ok = s.values[key]
	delete(s.values, key)
	return value, ok && string(value) != "null"
}

// inner takes a key whose value is a mapping, and calls read with it. It does not call read if
// there is no such key.
func (s *settings) inner(key, write string, read func(*settings)) {
	value, ok := s.pull(key)
	in := &settings{plain: s.plain, path: s.path + key + ".", listed: s.listed, wrong: s.wrong}
	if ok && json.Unmarshal(value, &in.values) != nil {
		s.fault(key, shown(value), write)
		return
	}
	if !ok && s.values != nil { // without values, read only lists the keys
		return
	}
	read(in)
	in.rejectRest(key)
}

// left returns the keys that have not been taken, sorted.
func (s *settings) left() []string { return slices.Sorted(maps.Keys(s.values)) }

// rejectRest adds a finding for each key that is left. Call it after all known keys have been
// taken.
func (s *settings) rejectRest(of string) {
	for _, key := range s.left() {
		key = s.path + key
		s.wrong.add("unknown_key", key, "unknown key %s: the keys of %s are %s",
			strconv.Quote(beginning(key)), of, strings.Join(s.keys, ", "))
	}
}

// asJSON returns a value of YAML as JSON. Keys that are not texts, infinity and NaN become texts,
// because JSON has none of them.
func asJSON(value any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(jsonValue(value)) // such a value can be encoded
	return b.Bytes()
}

func jsonValue(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = jsonValue(inner)
		}
	case map[any]any:
		texts := make(map[string]any, len(v))
		for key, inner := range v {
			texts[fmt.Sprint(key)] = jsonValue(inner)
		}
		return texts
	case []any:
		for i, inner := range v {
			v[i] = jsonValue(inner)
		}
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Sprint(v)
		}
		text := fmt.Sprint(v)
		if !strings.ContainsAny(text, ".e") {
			text += ".0" // a number with a point is not a whole number
		}
		return json.Number(text)
	}
	return value
}

// shown is JSON that a finding shows on one line, cut if it is long. It is formatted only if the
// finding is kept.
type shown []byte

func (value shown) String() string {
	var compact bytes.Buffer
	_ = json.Compact(&compact, value) // value is valid JSON
	return printable.Line(beginning(compact.String()))
}

// beginning returns at most 60 characters of a text.
func beginning(text string) string {
	n := 0
	for i := range text {
		if n++; n > 60 {
			return text[:i] + "..."
		}
	}
	return text
}
