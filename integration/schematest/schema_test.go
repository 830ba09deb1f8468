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

// differences are the texts that the schema accepts and the decoder refuses, because a JSON Schema
// cannot express the rule.
var differences = []struct {
	name string
	is   func(string) bool
	text string
}{
	{"a duration of more than 292 years", regexp.MustCompile(`\d{7,}[smh]|\d{10,}`).MatchString, `{"max_delay": "2562048h"}`},
	{"a healthy_after below 1ms", regexp.MustCompile(`"healthy_after": "[^"]*\d([nuµμ]s|ms)`).MatchString, `{"healthy_after": "999us"}`},
	{"a whole number with a fraction or an exponent", regexp.MustCompile(`"(max_attempts|max_retries|attempt_cap)": -?\d*(\.\d+|e\d+|\.0e1)`).MatchString, `{"max_attempts": 3.0}`},
	{"a key that is there twice", func(text string) bool {
		keys := slices.Sorted(slices.Values(regexp.MustCompile(`"\w+":`).FindAllString(text, -1)))
		return len(slices.Compact(slices.Clone(keys))) < len(keys)
	}, `{"max_attempts": 3, "max_attempts": 3}`},
}

// The schema and the decoder accept the same texts, except for the differences. The texts are the
// seeds of the fuzz target of the decoder, a text at each boundary, and 10,000 random texts.
func TestSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../docs/policy.schema.json")
	require.NoError(t, err)
	check := func(text string) (accepted bool, difference string) {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err, text)
		bySchema, byDecoder := schema.Validate(value) == nil, json.Unmarshal([]byte(text), new(retry.Policy)) == nil
		for _, d := range differences {
			if bySchema && !byDecoder && d.is(text) {
				return false, d.name
			}
		}
		require.Equal(t, byDecoder, bySchema, text)
		return byDecoder, ""
	}
	for _, d := range differences {
		_, name := check(d.text)
		assert.Equal(t, d.name, name)
	}
	source, err := os.ReadFile("../../config_test.go")
	require.NoError(t, err)
	_, seeds, _ := strings.Cut(string(source), "func FuzzConfigDecode(")
	seeds, _, _ = strings.Cut(seeds, "\n}")
	found := regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(seeds, -1)
	require.NotEmpty(t, found)
	for _, seed := range found {
		check(seed[1])
	}

	lines, err := os.ReadFile("testdata/values.txt")
	require.NoError(t, err)
	values := strings.Split(strings.TrimSpace(string(lines)), "\n")
	keys := []string{"max_attempts", "max_retries", "attempt_cap", "retryable", "backoff", "max_delay", "jitter", "max_retry_after",
		"retry_after", "max_elapsed", "attempt_timeout", "healthy_after", "budget", "max_attempt", "Jitter"}
	accepted := map[string]int{}
	for _, value := range values {
		check(value)
		for _, key := range keys {
			if ok, _ := check(fmt.Sprintf(`{"%s": %s}`, key, value)); ok {
				accepted[key]++
			}
		}
	}
	assert.Len(t, accepted, len(keys)-2, "the schema accepts a value of each key")

	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		var members []string
		for _, i := range r.Perm(len(keys) - 2)[:r.IntN(5)] {
			members = append(members, fmt.Sprintf(`"%s": %s`, keys[i], values[r.IntN(len(values))]))
		}
		check("{" + strings.Join(members, ", ") + "}")
	}
}
