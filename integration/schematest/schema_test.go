// Package schematest compares the JSON Schema of a policy with the decoder.
package schematest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// accepts returns what reports whether the schema and the decoder accept a text.
func accepts(t *testing.T) func(text string) (bySchema, byDecoder bool) {
	schema, err := jsonschema.NewCompiler().Compile("../../docs/policy.schema.json")
	require.NoError(t, err)
	return func(text string) (bySchema, byDecoder bool) {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err, text)
		return schema.Validate(value) == nil, json.Unmarshal([]byte(text), new(retry.Policy)) == nil
	}
}

// differences are what a schema cannot say. It accepts each of them, and the
// decoder does not.
var differences = []struct {
	name string
	is   func(string) bool
	text string
}{
	{"a duration of more than 292 years", regexp.MustCompile(`\d{7,}[smh]|\d{10,}`).MatchString, `{"max_delay": "2562048h"}`},
	{"a healthy_after below 1ms", regexp.MustCompile(`"healthy_after": "[^"]*\d([nuµμ]s|ms)`).MatchString, `{"healthy_after": "999us"}`},
	{"a whole number with a fraction or an exponent", regexp.MustCompile(`"(max_attempts|max_retries|attempt_cap)": -?\d*(\.\d+|e\d+|\.0e1)`).MatchString, `{"max_attempts": 3.0}`},
	{"a key that is there twice", keyTwice, `{"max_attempts": 3, "max_attempts": 3}`},
}

func keyTwice(text string) bool {
	keys := regexp.MustCompile(`"\w+":`).FindAllString(text, -1)
	slices.Sort(keys)
	return len(slices.Compact(slices.Clone(keys))) < len(keys)
}

// Schema and decoder accept the same texts, except for the differences: the seeds of
// the decoder's fuzz target, a text at each boundary, and 10,000 random ones.
func TestSchema(t *testing.T) {
	accepts := accepts(t)
	for _, d := range differences {
		bySchema, byDecoder := accepts(d.text)
		assert.Equal(t, [3]bool{true, false, true}, [3]bool{bySchema, byDecoder, d.is(d.text)}, d.name)
	}
	check := func(text string) (accepted bool) {
		bySchema, byDecoder := accepts(text)
		for _, d := range differences {
			if bySchema && !byDecoder && d.is(text) {
				return false
			}
		}
		require.Equal(t, byDecoder, bySchema, text)
		return byDecoder
	}
	source, err := os.ReadFile("../../config_test.go")
	require.NoError(t, err)
	_, seeds, _ := strings.Cut(string(source), "func FuzzConfigDecode(")
	found := regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(seeds, 9)
	require.Len(t, found, 8)
	for _, seed := range found {
		check(seed[1])
	}

	values := strings.Fields(`null true false -2 -1 0 1 2 7 9223372036854775807 9223372036854775808 1.0 1e1 0.5 -0.5 1.5 2.5 -0 -0.0 1e-400 1.7976931348623157e308
		"" "0" "-0" "+0" "-0s" "-0.0h" "-1s" "1" "1s" "+1s" ".5s" "1.s" "." ".s" "s" "1h2m3s" "1s1h" "1µs" "1μs" "1us" "1d" "1e3s" "1S" "999us" "1ms" "2562047h" "2562048h" "9999999999s"
		"full" "equal" "Full" "none" [] [1] {} {"type":"fixed"} {"type":"fixed","base":"1s"} {"type":"fixed","base":"1s","factor":2} {"type":"linear","base":null}
		{"type":"exponential","base":"1s","factor":0.9} {"type":"exponential","base":"1s","factor":1} {"type":"exponential","base":"1s","factor":null} {"type":"exponential","factor":2}
		{"type":"fibonacci","base":"-1s"} {"type":"schedule","delays":[]} {"type":"schedule","delays":["1s","0"]} {"type":"schedule","delays":["1s",null]} {"type":"schedule","base":"1s"}
		{"type":"cubic","base":"1s"} {"base":"1s"} {"type":"fixed","base":"1s","x":1}`)
	values = append(values, `" 1s"`, `"1 s"`, `"1s\n"`)
	keys := []string{"max_attempts", "max_retries", "attempt_cap", "retryable", "backoff", "max_delay", "jitter", "max_retry_after",
		"exact_retry_after", "max_elapsed", "attempt_timeout", "healthy_after", "max_attempt", "Jitter"}
	accepted := map[string]int{}
	for _, value := range values {
		check(value)
		for _, key := range keys {
			if check(fmt.Sprintf(`{"%s": %s}`, key, value)) {
				accepted[key]++
			}
		}
	}
	assert.Len(t, accepted, len(keys)-2, "each key has a value that is accepted")

	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		var members []string
		for _, i := range r.Perm(len(keys) - 2)[:r.IntN(5)] {
			members = append(members, fmt.Sprintf(`"%s": %s`, keys[i], values[r.IntN(len(values))]))
		}
		check("{" + strings.Join(members, ", ") + "}")
	}
}
