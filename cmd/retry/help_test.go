package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHelpHasAnExampleAndTheFlags(t *testing.T) {
	all := succeed(t, "", "help")
	assert.Equal(t, all, succeed(t, "", "-h"))
	_, stderr, status := tool("")
	assert.Equal(t, 2, status)
	assert.Equal(t, all, stderr)
	_, stderr, status = tool("", "plant")
	assert.Equal(t, 2, status)
	assert.Equal(t, "retry: unknown command \"plant\"\n\n"+all, stderr)

	for _, c := range commands {
		t.Run(c.name, func(t *testing.T) {
			assert.Contains(t, all, c.summary)
			help := succeed(t, "", c.name, "-h")
			assert.True(t, strings.HasPrefix(help, "Usage: "+c.usage()+"\n\n"), help)
			assert.Contains(t, help, "\n    retry "+c.name, "an example")
			assert.Contains(t, help, "\nFlags:\n\n  -")
			assert.Equal(t, help, succeed(t, "", "help", c.name))
			for line := range strings.Lines(all + help) {
				assert.LessOrEqual(t, len(line), 81, line)
			}
		})
	}
	assert.Regexp(t, `^retry \S+\n$`, succeed(t, "", "version"))
}

// The help of the keys and the schema agree with docs/text-form.md.
func TestHelpOfKeysAndSchemaAgreeWithTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/text-form.md")
	require.NoError(t, err)
	printed := succeed(t, "", "help", "policy")
	rows := regexp.MustCompile(`(?m)^([a-z_]+)  +(whole number|true or false|a mapping|duration|text, number|text)  +(.*?)  +\S`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, rows, 13)
	for _, row := range rows {
		key, value, zero := row[1], row[2], row[3]
		switch {
		case zero == "-":
		case key == "max_attempts", key == "max_retries":
			value += "; " + zero + " if 0"
		case value == "text", value == "a mapping":
			value += "; " + zero + " if missing"
		default:
			value += "; " + zero + " if 0 or missing"
		}
		assert.Contains(t, printed, fmt.Sprintf("%-18s %s\n                   ", key, value))
	}
	assert.Len(t, regexp.MustCompile(`(?m)^[a-z_]+  +\w`).FindAllString(printed, -1), len(rows))
	for line := range strings.Lines(printed) {
		assert.LessOrEqual(t, len([]rune(line)), 81)
	}
	file, err := os.ReadFile("../../docs/policy.schema.json")
	require.NoError(t, err)
	assert.Equal(t, string(file), succeed(t, "", "lint", "-schema"), "cp policy.schema.json ../../docs")
}
