package main

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var code = regexp.MustCompile("`([^`]+)`")

// The README lists every key of plan -json, except the keys of the policy in it.
func TestReadmeListsEveryKeyOfPlanJSON(t *testing.T) {
	data, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(data), "`retry plan -json` prints ")
	section, _, _ = strings.Cut(section, "\n\n`retry lint")
	var documented []string
	for row := range strings.Lines(section) { // "- `keys`: words"; after a key with [] the words name the keys of an element
		names, words, _ := strings.Cut(row, ": ")
		if !strings.HasPrefix(row, "- ") {
			continue
		}
		for _, key := range code.FindAllStringSubmatch(names, -1) {
			list, element := strings.CutSuffix(key[1], "[]")
			documented = append(documented, list)
			for _, inner := range code.FindAllStringSubmatch(words, -1) {
				if element && !strings.HasPrefix(inner[1], "-") {
					documented = append(documented, key[1]+"."+inner[1])
				}
			}
		}
	}

	const late = "pay: {max_elapsed: 6s, backoff: {type: linear, base: 1s}, jitter: full}"
	const hasty = "{max_attempts: 3}" // lint has a finding about this policy
	const bounded = "{timeout: 2s, retries: {attempts: 2, perTryTimeout: 1s, retryOn: 5xx}}"
	var form map[string]any
	require.NoError(t, json.Unmarshal([]byte(succeed(t, late, "plan", "-json", "-at=pay", "-seed=job-42")), &form))
	require.NoError(t, json.Unmarshal([]byte(succeed(t, bounded, "plan", "-json", "-at=retries")), &form))
	require.NoError(t, json.Unmarshal([]byte(succeed(t, hasty, "plan", "-json")), &form))
	keys := map[string]bool{}
	for key, value := range form {
		keys[key] = true
		elements, _ := value.([]any)
		for _, element := range elements {
			object, _ := element.(map[string]any)
			for inner := range object {
				keys[key+"[]."+inner] = true
			}
		}
	}
	assert.ElementsMatch(t, documented, slices.Collect(maps.Keys(keys)))
}
