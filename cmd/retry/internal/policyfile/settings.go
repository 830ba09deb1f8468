package policyfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/printable"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// mostFindings is the largest number of findings in an error. Without this limit, the findings
// about a file of wrong values would be many times as long as the file.
const mostFindings = 20

// A settings value contains a mapping of another system. The code that reads the mapping removes
// its keys one by one, so the keys that are left are unknown. Each mistake becomes a finding.
type settings struct {
	plain  func(key string) string // returns the same text for all spellings of a key
	path   string                  // the path that findings write before a key, such as "backoff."
	values map[string]json.RawMessage
	keys   []string  // the known keys: the keys for which the method `pull` was called so far
	listed *[]string // the paths of the known keys of the outer mapping and of all inner mappings
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

// settingsOf returns the settings in a node, or nil if the node is null. If the node is not a
// mapping, the error shows the parameter `example`, which is a correct mapping.
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

// err returns the findings as an error, or nil if there are none.
func (s *settings) err() error {
	if len(s.wrong.found) == 0 {
		return nil
	}
	return s.wrong
}

// fault adds a finding that names a key and its value, and says what to write instead.
func (s *settings) fault(key string, value any, write string) {
	texts := saturate.Texts([]any{s.path + key, value, write})
	s.wrong.add("invalid_value", s.path+key, "%s is %v: write %s", texts...)
}

// pull removes a key from the mapping and returns its value. The result `ok` is false if the
// mapping has no such key, or if the value is null.
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

// inner removes a key whose value is a mapping, and calls the function `read` with the settings in
// this mapping. It does not call `read` if there is no such key.
func (s *settings) inner(key, write string, read func(*settings)) {
	value, ok := s.pull(key)
	in := &settings{plain: s.plain, path: s.path + key + ".", listed: s.listed, wrong: s.wrong}
	if ok && json.Unmarshal(value, &in.values) != nil {
		s.fault(key, shown(value), write)
		return
	}
	if !ok && s.values != nil { // if s.values is nil, `read` is called only to list the keys
		return
	}
	read(in)
	in.rejectRest(key)
}

// untaken returns the keys that have not been removed yet, sorted.
func (s *settings) untaken() []string { return slices.Sorted(maps.Keys(s.values)) }

// rejectRest adds a finding for each key that has not been removed. Call it after all known keys
// have been removed.
func (s *settings) rejectRest(of string) {
	for _, key := range s.untaken() {
		key = s.path + key
		s.wrong.add("unknown_key", key, "unknown key %s: the keys of %s are %s",
			strconv.Quote(beginning(key)), of, strings.Join(s.keys, ", "))
	}
}

// A shown value is JSON that a finding shows on one line of at most 60 characters. The value is
// formatted only if the finding is kept.
type shown []byte

func (value shown) String() string {
	var compact bytes.Buffer
	_ = json.Compact(&compact, value) // `value` is valid JSON
	return printable.Line(beginning(compact.String()))
}

// beginning returns the beginning of a text, at most 60 characters.
func beginning(text string) string {
	n := 0
	for i := range text {
		if n++; n > 60 {
			return text[:i] + "..."
		}
	}
	return text
}
