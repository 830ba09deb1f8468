package jinja_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryflow/noetl/internal/jinja"
)

func lookup(names map[string]any) func(string) (any, bool) {
	return func(name string) (any, bool) { v, ok := names[name]; return v, ok }
}

// Every expression ends soon and with a small value, or with an error that
// names the limit.
func TestWhatAnExpressionCosts(t *testing.T) {
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
	names := lookup(map[string]any{
		"itself": itself, "list": list, "long": long, "text": text, "deep": nested(200),
		"double": double, "pointer": pointer, "pointers": []any{pointer}, "row": map[string]any{"text": text}, "bytes": map[string]any{"text": []byte(text)},
	})
	const (
		steps = "it takes more than 200000 steps"
		size  = "it makes values of more than 4194304 bytes"
		deep  = "a value is nested more than 100 deep, or contains itself"
		bits  = "a number has more than 4096 bits"
	)
	for expression, want := range map[string]string{
		"'a' | center(10**9)": size,
		"'a'.center(10**9)":   size,
		"'a'.ljust(10**18)":   size,
		"'7'.zfill(10**9)":    size,
		"'a' * 10**9":         size,
		"[0] * 10**9":         size,
		"[0] * 10**30":        "a list cannot be repeated so often",
		"'a' * 10**6 ~ 'a' * 10**6 ~ 'a' * 10**6 ~ 'a' * 10**6 ~ 'a' * 10**6": size,
		"range(100000) | slice(10**9) | list":                                 size,
		"range(10) | slice(10**9) | list":                                     size,
		"range(10**9) | list":                                                 steps,
		"range(10**9) | sum":                                                  steps,
		"range(10**9) | select('gt', 10**10) | list":                          steps,
		"range(10**9) | map('string') | join":                                 steps,
		"range(10**9) | batch(10**9) | list":                                  steps,
		"[1] | batch(10**9, 'x') | list":                                      size,
		"range(10**9) | max":                                                  steps,
		"range(10**9) | unique | list":                                        steps,
		"range(10**9).count(5)":                                               steps,
		"-1 in range(10**9) | map('int')":                                     steps,
		"('a' * 1000).replace('', 'b' * 100000)":                              size,
		"('a' * 1000).replace('a', 'b' * 100000)":                             size,
		"range(1000) | map('string') | join('x' * 100000)":                    size,
		"long | map('default', 'a' * 100) | join('b' * 100)":                  size,
		"text.split(' ')":                                                     size,
		"text | list":                                                         steps,
		"text | upper | lower | upper":                                        size,
		"long | sort":                                                         size,
		"long + long":                                                         steps,
		"[long, long, long, long] | map('list') | map('list') | list":         steps,
		"long | map('in', long)":                                              "",
		"long == long":                                                        "",
		"itself":                                                              "the order of this mapping is lost in Go: name a key, or sort it with dictsort",
		"itself.self.self.self.a":                                             "",
		"itself | tojson":                                                     deep,
		"itself == itself":                                                    deep,
		"list":                                                                deep,
		"list == list":                                                        deep,
		"list < list":                                                         deep,
		"list | string":                                                       deep,
		"[list] | join":                                                       deep,
		"list in [list]":                                                      deep,
		"deep":                                                                deep,
		"deep | tojson":                                                       deep,
		"2 ** 4095":                                                           "",
		"2 ** 4096":                                                           bits,
		"2 ** (10**9)":                                                        bits,
		"9 ** 9 ** 9 ** 9 ** 9":                                               bits,
		"(2 ** 4000) * (2 ** 4000)":                                           bits,
		"1 ** 10**30":                                                         "",
		"1e308 ** 2":                                                          "1e+308 ** 2.0 has no exact answer: multiply instead",
		"2.0 ** 1e300":                                                        "2.0 ** 1e+300 has no exact answer: multiply instead",
		"('9' * 5000) | int":                                                  "a number has 5000 digits",
		"2 ** 2000 * 1.0":                                                     "a whole number is too large for a float",
		"10 | round(-10**9)":                                                  "",
		"1.5 | round(10**9)":                                                  "",
		"text is in [text, text]":                                             "",
		"pointer":                                                             deep,
		"pointers == [1]":                                                     deep,
		"double == double":                                                    steps,
		"[double] != [double]":                                                steps,
		"{1: double} == {1: double}":                                          steps,
		"double < double":                                                     steps,
		"double in [double]":                                                  steps,
		"[double].count(double)":                                              steps,
		"[double].index(double)":                                              steps,
		"[double, double] | sort":                                             steps,
		"[double, double] | min":                                              steps,
		"double | tojson":                                                     steps,
		"([text] * 60000) | map('length') | sum":                              steps,
		"([text] * 60000) | map('last') | list":                               steps,
		"([text] * 60000) | map('truncate') | list":                           steps,
		"([text] * 60000) | map('truncate', 9, true, 'b' * 9) | list":                        steps,
		"([text] * 60000) | map(attribute=0) | list":                                         steps,
		"([text] * 60000) | map('float') | list":                                             size,
		"([text] * 60000) | map('int') | list":                                               "a number has 1572863 digits",
		"([text] * 60000) | min":                                                             size,
		"([text] * 60000) | max(true)":                                                       steps,
		"([text] * 60000) | sort(case_sensitive=true)":                                       steps,
		"([text] * 60000) | unique | list":                                                   size,
		"([text] * 60000) | unique(true) | list":                                             steps,
		"([text] * 60000) | select('in', {'a': 1}) | list":                                   steps,
		"([text] * 60000) | select('in', row) | list":                                        steps,
		"(['a'] * 20000) | select('in', text) | list":                                        steps,
		"([text] * 60000) | select('==', text) | list":                                       steps,
		"([text] * 60000) | select('lower') | list":                                          steps,
		"([text] * 60000) | select('upper') | list":                                          steps,
		"([row] * 60000) | map(attribute='text') | list":                                     steps,
		"([bytes] * 60000) | map(attribute='text') | list":                                   steps,
		"([[1]] * 20000) | map(attribute='1' * 3000000, default=1) | list":                   steps,
		"'a'.startswith((text,) * 60000)":                                                    steps,
		"([[]] * 20000) | map('sort', false, false, ',' * 1000000) | list":                   size,
		"'a'.strip('b' * 3000000)":                                                           size,
		"([{'a': 1, 'b': 2, 'c': 3, 'd': 4, 'e': 5, 'f': 6}] * 30000) | map('first') | list": steps,
		"((((1,) * 1000,) * 1000,) * 1000) | unique | list":                                  size,
	} {
		template, err := jinja.Parse("{{ "+expression+" }}", nil)
		if strings.Contains(expression, "map('in'") {
			assert.EqualError(t, err, `unknown filter "in"`)
			continue
		}
		require.NoError(t, err, expression)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text, err := template.Text(names)
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

// A long template is rejected, or its parsing time grows only with its length.
func TestLongSources(t *testing.T) {
	for name, row := range map[string]struct{ source, want string }{
		"a chain of attributes":  {"{{ a" + strings.Repeat(".a", 4000) + " }}", ""},
		"a chain of items":       {"{{ a" + strings.Repeat("[0]", 2600) + " }}", ""},
		"a chain of sums":        {"{{ 1" + strings.Repeat("+1", 4000) + " }}", ""},
		"a chain of filters":     {"{{ 1" + strings.Repeat("|d", 4000) + " }}", ""},
		"a chain of ands":        {"{{ 1" + strings.Repeat(" and 1", 1300) + " }}", ""},
		"a chain of comparisons": {"{{ 1" + strings.Repeat("<2", 4000) + " }}", ""},
		"a chain of ifs":         {"{{ 1" + strings.Repeat(" if 1", 1600) + " }}", ""},
		"a long list":            {"{{ [" + strings.Repeat("1,", 4000) + "] }}", ""},
		"many texts":             {"{{ " + strings.Repeat("'' ", 2700) + " }}", ""},
		"many expressions":       {strings.Repeat("{{1}}", 1600), ""},
		"else":                   {"{{ 1" + strings.Repeat(" if 1 else 1", 600) + " }}", "it is nested more than 100 deep"},
		"not":                    {"{{ " + strings.Repeat("not ", 2000) + "1 }}", "it is nested more than 100 deep"},
		"signs":                  {"{{ " + strings.Repeat("-", 8000) + "1 }}", "it is nested more than 100 deep"},
		"parentheses":            {"{{ " + strings.Repeat("(", 150) + "1" + strings.Repeat(")", 150) + " }}", "brackets are nested more than 100 deep"},
		"too long":               {strings.Repeat("x", 8193), "it has 8193 bytes: write at most 8192"},
		"bytes":                  {"{{ '\x96' }}", "it is not valid UTF-8"},
		"a constant in parts":    {"{{ ('a' * 4000000)" + strings.Repeat("[:9]", 1900) + " }}", "it makes values of more than 4194304 bytes"},
		"constants of parts":     {strings.Repeat("{{ ('a' * 4000000)[0] }}", 2), "it makes values of more than 4194304 bytes"},
		"a base in parts":        {"{{ [" + strings.Repeat("('a' * 3000000) ** x, ", 2) + "] }}", "it makes values of more than 4194304 bytes"},
		"a number":               {"{{ 1" + strings.Repeat("0", 8000) + " }}", "a number has more than 4096 bits"},
	} {
		template, err := jinja.Parse(row.source, nil)
		if row.want != "" {
			assert.EqualError(t, err, row.want, name)
			continue
		}
		require.NoError(t, err, name)
		_, _ = template.Text(lookup(map[string]any{"a": map[string]any{}}))
	}
	// A source that is eight times as long takes at most about eight times as
	// long.
	cost := func(n int) float64 {
		template, err := jinja.Parse("{{ a"+strings.Repeat(".a", n)+" is defined }}", nil)
		require.NoError(t, err)
		a := map[string]any{}
		a["a"] = a
		return testing.AllocsPerRun(1, func() {
			holds, err := template.Truth(lookup(map[string]any{"a": a}))
			require.NoError(t, err)
			require.True(t, holds)
		})
	}
	assert.Less(t, cost(4000), 12*cost(500))
}

// Splitting into lines takes time and memory in proportion to the text.
func TestSplittingIntoLinesIsLinear(t *testing.T) {
	template, err := jinja.Parse("{{ text.splitlines() | length }}", nil)
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := template.Text(lookup(map[string]any{"text": strings.Repeat("a\n", 10_000)}))
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Equal(t, "10000", text)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20<<20))
}

// Numbers from JSON keep their value. A whole number decoded as float64 is an
// integer again, and one that may have lost digits is an error.
func TestNumbersOfJSON(t *testing.T) {
	const document = `{"next": 2, "id": 12345678, "price": 1.5, "large": 9007199254740993, "float": 2.0}`
	plain, exact := map[string]any{}, map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(document), &plain))
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&exact))
	for expression, want := range map[string][2]string{ // decoded as float64, and as json.Number
		"/pages?page={{ next }}&id={{ id }}": {"/pages?page=2&id=12345678", "/pages?page=2&id=12345678"},
		"{{ next == 2 }}":                    {"True", "True"},
		"{{ next in [1, 2, 3] }}":            {"True", "True"},
		"{{ next is number }}":               {"True", "True"},
		"{{ next is integer }}":              {"True", "True"},
		"{{ next + 1 }}":                     {"3", "3"},
		"{{ next / 2 }}":                     {"1.0", "1.0"},
		"{{ price }}":                        {"1.5", "1.5"},
		"{{ float }}":                        {"2", "2.0"},
		"{{ large }}":                        {"!the whole number 9.007199254740992e+15 may have lost digits as a float64: decode JSON with UseNumber", "9007199254740993"},
		"{{ large == 9007199254740993 }}":    {"!the whole number 9.007199254740992e+15 may have lost digits as a float64: decode JSON with UseNumber", "True"},
	} {
		template, err := jinja.Parse(expression, nil)
		require.NoError(t, err)
		for i, names := range []map[string]any{plain, exact} {
			text, err := template.Text(lookup(names))
			if failure, ok := strings.CutPrefix(want[i], "!"); ok {
				assert.EqualError(t, err, failure, expression)
				continue
			}
			assert.NoError(t, err, expression)
			assert.Equal(t, want[i], text, expression)
		}
	}
}

// Decoding JSON in Go loses the order of a mapping. Only an expression whose
// result depends on the order is an error.
func TestTheOrderOfAMappingIsLost(t *testing.T) {
	names := lookup(map[string]any{"m": map[string]any{"b": 1, "a": 2, "c": 1}, "one": map[string]int{"x": 1}, "empty": map[string]any{}, "headers": map[string][]string{"A": {"1"}, "a": {"2"}}})
	for expression, want := range map[string]string{
		"m": "!", "m | string": "!", "m ~ ''": "!", "m | first": "!", "m | list": "!", "m | last": "!", "m | join": "!", "m | sort": "!", "m | reverse | list": "!", "m | min": "!",
		"m.items() | list": "!", "m.keys() | list": "!", "m.values() | sum": "!", "m | items | list": "!", "m | urlencode": "!", "m | map('upper') | list": "!", "[m]": "!", "m | dictsort(by='value')": "!", "headers | dictsort": "!",
		"m.a": "2", "'a' in m": "True", "m | length": "3", "m == {'a': 2, 'b': 1, 'c': 1}": "True", "m | dictsort": "[('a', 2), ('b', 1), ('c', 1)]", "m | tojson": `{"a": 2, "b": 1, "c": 1}`,
		"m.get('c')": "1", "m is mapping": "True", "headers | dictsort(true)": "[('A', ['1']), ('a', ['2'])]", "m.keys() | length": "3",
		"one": "{'x': 1}", "one | list": "['x']", "empty": "{}", "empty | list": "[]", "one.items() | list": "[('x', 1)]",
	} {
		template, err := jinja.Parse("{{ "+expression+" }}", nil)
		require.NoError(t, err, expression)
		text, err := template.Text(names)
		if want == "!" {
			assert.ErrorContains(t, err, "the order of this mapping is lost in Go", expression)
			continue
		}
		assert.NoError(t, err, expression)
		assert.Equal(t, want, text, expression)
	}
}
