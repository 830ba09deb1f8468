package jinja_test

import (
	"encoding/json"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryflow/noetl/internal/jinja"
)

func lookup(names map[string]any) func(string) (any, bool) {
	return func(name string) (any, bool) { v, ok := names[name]; return v, ok }
}

// rendered returns the text of a template.
func rendered(t *testing.T, source string, names map[string]any) (string, error) {
	template, err := jinja.Parse(source, nil)
	require.NoError(t, err, source)
	return template.Text(lookup(names))
}

// Each expression ends soon with a small value, or with an error that names the limit.
func TestCostOfAnExpressionIsBounded(t *testing.T) {
	itself := map[string]any{"a": 1}
	itself["self"] = itself
	list := []any{1, nil}
	list[1] = list
	long := make([]any, 150_000)
	var double any = 1 // 2^40 numbers in 40 lists
	for range 40 {
		double = []any{double, double}
	}
	var pointer any
	pointer = &pointer
	text := strings.Repeat("ab ", 1<<19)
	names := map[string]any{
		"itself": itself, "list": list, "long": long, "text": text, "deep": nested(200), "nines": strings.Repeat("9", 5000),
		"texts": slices.Repeat([]any{text}, 60_000), "rows": slices.Repeat([]any{map[string]any{"text": text}}, 60_000),
		"double": double, "pointer": pointer, "pointers": []any{pointer}, "unsigned": uint64(math.MaxUint64), "numbers": map[int]string{1: "a"},
	}
	const (
		steps = "the expression takes more than 200000 steps"
		size  = "the expression makes values of more than 4194304 bytes"
		deep  = "a value is nested more than 100 deep, or contains itself"
		bits  = "a whole number is larger than 64 bits can hold"
	)
	for expression, want := range map[string]string{
		"('x' + text) | replace('', text)": size,
		"text | replace('a', 'b' + text)":  size,
		"long | join(text)":                size,
		"long | join":                      "",
		"text | upper | lower | upper":     size,
		"(text + text + text) | length":    size,
		"long + long":                      steps,
		"[long, long] | tojson":            steps,
		"long == long":                     "",
		"itself.self.self.self.a":          "",
		"itself | tojson":                  deep,
		"itself == itself":                 deep,
		"list | tojson":                    deep,
		"list == list":                     deep,
		"list in [list]":                   deep,
		"deep | tojson":                    deep,
		"9223372036854775807 + 1":          bits,
		"9223372036854775806 + 1":          "",
		"-9223372036854775807 - 2":         bits,
		"-9223372036854775807 - 1":         "",
		"-(-9223372036854775807 - 1)":      bits,
		"4294967296 * 4294967296":          bits,
		"'9223372036854775808' | int":      bits,
		"1e300 | int":                      bits,
		"nines | int":                      bits,
		"unsigned":                         bits,
		"pointer":                          deep,
		"pointers == [1]":                  deep,
		"double == double":                 steps,
		"[double] != [double]":             steps,
		"{'a': double} == {'a': double}":   steps,
		"double in [double]":               steps,
		"double | tojson":                  steps,
		"texts | join | length":            size,
		"(texts | first) in texts":         "",
		"'b' in texts":                     steps,
		"(text + 'b') in texts":            steps,
		"rows | tojson":                    size,
		"numbers.a":                        `numbers.a is undefined: ask "is defined" first, or add "| default(…)"`,
		"numbers | length":                 "a value of Go's type map[int]string has no length",
		"['a', none, 1, 2.5, true] | join": "",
		"[[1]] | join":                     "a list has no text here: write | tojson, or name a member",
		"itself | string":                  "a mapping has no text here: write | tojson, or name a member",
		"itself | first":                   "a mapping has no first member",
		"{} | last":                        "a mapping has no last member",
		"[] | last":                        `the last of nothing is undefined: ask "is defined" first, or add "| default(…)"`,
		"('a' | tojson) + 'b'":             "the text of tojson is marked as safe, and this would lose the mark: use tojson last",
		"('a' | tojson)[0]":                "the text of tojson is marked as safe, and this would lose the mark: use tojson last",
		"'a' | tojson | replace('a', 'b')": "",
		"[('inf' | float) - ('inf' | float)] == [('nan' | float)]": "nan cannot be looked for in a list or mapping",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text, err := rendered(t, "{{ "+expression+" }}", names)
		runtime.ReadMemStats(&after)
		if want == "" {
			assert.NoError(t, err, expression)
		} else {
			assert.EqualError(t, err, want, expression)
		}
		assert.LessOrEqual(t, len(text), 4<<20)
		assert.Less(t, after.Mallocs-before.Mallocs, uint64(4e6), expression)
	}
}

func nested(depth int) any {
	if depth == 0 {
		return 1
	}
	return []any{nested(depth - 1)}
}

// A template that is too long is refused.
func TestLongSources(t *testing.T) {
	for name, row := range map[string]struct{ source, want string }{
		"a chain of attributes": {"{{ a" + strings.Repeat(".a", 4000) + " }}", ""},
		"a chain of items":      {"{{ a" + strings.Repeat("[0]", 2600) + " }}", ""},
		"a chain of sums":       {"{{ 1" + strings.Repeat("+1", 4000) + " }}", ""},
		"a chain of filters":    {"{{ 1" + strings.Repeat("|int", 2000) + " }}", ""},
		"a chain of ands":       {"{{ 1" + strings.Repeat(" and 1", 1300) + " }}", ""},
		"a long list":           {"{{ [" + strings.Repeat("1,", 4000) + "] }}", ""},
		"many expressions":      {strings.Repeat("{{1}}", 1600), ""},
		"else":                  {"{{ 1" + strings.Repeat(" if 1 else 1", 600) + " }}", "the expression is nested more than 100 deep"},
		"not":                   {"{{ " + strings.Repeat("not ", 2000) + "1 }}", "the expression is nested more than 100 deep"},
		"signs":                 {"{{ " + strings.Repeat("-", 8000) + "1 }}", "the expression is nested more than 100 deep"},
		"parentheses":           {"{{ " + strings.Repeat("(", 150) + "1" + strings.Repeat(")", 150) + " }}", "brackets are nested more than 100 deep"},
		"too long":              {strings.Repeat("x", 8193), "the text has 8193 bytes: write at most 8192"},
		"bytes":                 {"{{ '\x96' }}", "the text is not valid UTF-8"},
		"a number":              {"{{ 1" + strings.Repeat("0", 8000) + " }}", "a whole number is larger than 64 bits can hold"},
	} {
		template, err := jinja.Parse(row.source, nil)
		if row.want != "" {
			assert.EqualError(t, err, row.want, name)
			continue
		}
		require.NoError(t, err, name)
		_, _ = template.Text(lookup(map[string]any{"a": map[string]any{}}))
	}
}

// Numbers from JSON keep their value. A whole number that was decoded as float64 becomes an
// integer again. If it may have lost digits, it is an error.
func TestNumbersOfJSON(t *testing.T) {
	const document = `{"next": 2, "id": 12345678, "price": 1.5, "large": 9007199254740993, "float": 2.0}`
	plain, exact := map[string]any{}, map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(document), &plain))
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&exact))
	for expression, want := range map[string][2]string{ // decoded as float64, and as json.Number
		"/pages?page={{ next }}&id={{ id }}":  {"/pages?page=2&id=12345678", "/pages?page=2&id=12345678"},
		"a {{- next -}} b {{+ next }}":        {"a2b 2", "a2b 2"},
		"{{ next == 2 }}":                     {"True", "True"},
		"{{ next in [1, 2, 3] }}":             {"True", "True"},
		"{{ next + 1 }}":                      {"3", "3"},
		"{{ next * 0.5 }}":                    {"1.0", "1.0"},
		"{{ [next, {'a': price}] | tojson }}": {`[2, {"a": 1.5}]`, `[2, {"a": 1.5}]`},
		"{{ price }}":                         {"1.5", "1.5"},
		"{{ float }}":                         {"2", "2.0"},
		"{{ large }}":                         {"!the whole number 9.007199254740992e+15 may have lost digits as a float64: decode JSON with UseNumber", "9007199254740993"},
		"{{ large == 9007199254740993 }}":     {"!the whole number 9.007199254740992e+15 may have lost digits as a float64: decode JSON with UseNumber", "True"},
	} {
		for i, names := range []map[string]any{plain, exact} {
			text, err := rendered(t, expression, names)
			if failure, ok := strings.CutPrefix(want[i], "!"); ok {
				assert.EqualError(t, err, failure, expression)
				continue
			}
			assert.NoError(t, err, expression)
			assert.Equal(t, want[i], text, expression)
		}
	}
}
