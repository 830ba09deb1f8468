package policyfile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Each key is taken once, in any spelling that its system accepts, and each mistake is a finding.
func TestEachKeyIsTakenOnce(t *testing.T) {
	long, longest := strings.Repeat("k", longestKey), "n"+strings.Repeat("_", longestKey-2)
	for _, row := range []struct {
		name, yaml string
		n          int
		found      []string // the key, the code and the text of each finding
	}{
		{"every key", `{n: 7, text: x, in: {m: 8}}`, 7, nil},
		{"another spelling", `{N: 7, IN: {M: 8}}`, 7, nil},
		{"the spelling of the format comes first", `{N: 8, n: 7}`, 7, []string{
			`N: unknown_key: unknown key "N": the keys of a form are n, text, in`}},
		{"null is left out", `{n: 7, text: null, in: ~}`, 7, nil},
		{"null of a key that is needed", `{n: null}`, 0, []string{`n: missing_key: n is missing: write N`}},
		{"nothing", `{}`, 0, []string{`n: missing_key: n is missing: write N`}},
		{"null of a key that an inner mapping needs", `{n: 7, in: {m: null}}`, 7, []string{
			`in.m: missing_key: in.m is missing: write M`}},
		{"an inner mapping that is a list", `{n: 7, in: [1, "2"]}`, 7, []string{
			`in: invalid_value: in is [1,"2"]: write a mapping`}},
		{"unknown keys, here and in an inner mapping", `{n: 7, x: 1, in: {m: 8, y: 1}}`, 7, []string{
			`in.y: unknown_key: unknown key "in.y": the keys of in are m`,
			`x: unknown_key: unknown key "x": the keys of a form are n, text, in`}},
		{"the longest spelling", `{` + longest + `: 7}`, 7, nil},
		{"a key that is too long to be another spelling", `{` + longest + `_: 7}`, 0, []string{
			`n: missing_key: n is missing: write N`,
			longest + `_: unknown_key: unknown key "` + longest[:60] + `...": the keys of a form are n, text, in`}},
		{"a key that is not text", `{n: 7, 8: 1}`, 7, []string{
			`8: unknown_key: unknown key "8": the keys of a form are n, text, in`}},
		{"not valid", `{n: 8}`, 0, []string{`n: invalid_value: n is 8: write N`}},
		{"a number with a point is not whole", `{n: 7.0}`, 0, []string{`n: invalid_value: n is 7.0: write N`}},
		{"a number with an exponent is not whole", `{n: 1e+1}`, 0, []string{`n: invalid_value: n is 10.0: write N`}},
		{"infinity", `{n: .inf}`, 0, []string{`n: invalid_value: n is "+Inf": write N`}},
		{"text in place of a number", `{n: "7"}`, 0, []string{`n: invalid_value: n is "7": write N`}},
		{"characters that end a line or hide one", "{n: \"\\u0085\\u202e<\\n\"}", 0, []string{
			`n: invalid_value: n is "\u0085\u202e<\n": write N`}},
		{"a long value", `{n: "` + long + `"}`, 0, []string{
			`n: invalid_value: n is "` + long[:59] + `...: write N`}},
		{"a list", `[1]`, 0, []string{`: invalid_value: got [1], want a mapping such as {n: 7}`}},
		{"a key twice", "{n: 7,\n n: 7}", 0, []string{
			`: invalid_value: yaml: unmarshal errors: line 2: mapping key "n" already defined at line 1`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			n, err := readSettings(t, row.yaml)
			assert.Equal(t, row.n, n)
			var found []string
			if err != nil {
				for _, f := range err.(finder).Findings() {
					found = append(found, fmt.Sprintf("%s: %s: %v", f.Key, f.Code, f.InKeys()))
					require.ErrorContains(t, err, f.InKeys())
				}
			}
			assert.Equal(t, row.found, found)
		})
	}
	t.Run("null in place of all settings", func(t *testing.T) {
		n, err := readSettings(t, `~`)
		require.NoError(t, err)
		assert.Zero(t, n)
	})
	t.Run("an error holds 20 findings", func(t *testing.T) {
		keys := map[string]int{"n": 7}
		for i := range 50 {
			keys[fmt.Sprint("k", i)] = i
		}
		text, err := json.Marshal(keys)
		require.NoError(t, err)
		_, err = readSettings(t, string(text))
		assert.Len(t, err.(finder).Findings(), 20)
	})
}

// readSettings reads a mapping with a number that is needed, a text, and an inner mapping.
func readSettings(t *testing.T, text string) (n int, err error) {
	t.Helper()
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(text), &document))
	s, err := settingsOf(&document, fold, "{n: 7}")
	if s == nil {
		return 0, err
	}
	b := new(Block)
	f := &form{settings: s, b: b, needed: true}
	n = take(f, "n", "N", 0, func(n int) bool { return n == 7 })
	f.needed = false
	take[string](f, "text", "T", "", nil)
	f.inner("in", "a mapping", func(inner *settings) {
		take[int](&form{settings: inner, b: b, needed: true}, "m", "M", 0, nil)
	})
	f.rejectRest("a form")
	return n, f.err()
}
