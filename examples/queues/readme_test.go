package queues

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The README's lines are code of this package, whitespace aside: gofmt breaks
// some that are one line there.

func TestREADMEHooks(t *testing.T) {
	hooks := regexp.MustCompile("(?m)^- (River|asynq|NATS): `(.+)`$").FindAllStringSubmatch(read(t, "../../README.md"), -1)
	require.Len(t, hooks, 3)
	source := squeeze(read(t, "hooks.go"))
	for i, queue := range []string{"River", "asynq", "NATS"} {
		assert.Equal(t, queue, hooks[i][1])
		assert.Contains(t, source, squeeze(hooks[i][2]), queue)
	}
}

func TestREADMEJobRow(t *testing.T) {
	assert.Contains(t, squeeze(read(t, "hooks.go")), squeeze(block(t, "d := policy.ForJob(")))
}

// Its cases do something here, so the lines follow each other with others
// between them.
func TestREADMESwitch(t *testing.T) {
	source := squeeze(read(t, "hooks.go"))
	lines := strings.Split(strings.TrimSpace(block(t, "switch retry.ReasonOf(err) {")), "\n")
	require.Len(t, lines, 7)
	for _, line := range lines {
		_, after, found := strings.Cut(source, squeeze(line))
		require.True(t, found, line)
		source = after
	}
}

func TestREADMERetrytest(t *testing.T) {
	assert.Contains(t, squeeze(read(t, "policy_test.go")), squeeze(block(t, "func TestPolicy(")))
}

// block returns the one Go block of the README that begins like this.
func block(t *testing.T, beginning string) string {
	var found []string
	for i, part := range strings.Split(read(t, "../../README.md"), "```") {
		if i%2 == 1 && strings.HasPrefix(part, "go\n"+beginning) {
			found = append(found, strings.TrimPrefix(part, "go\n"))
		}
	}
	require.Len(t, found, 1, beginning)
	return found[0]
}

func read(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// squeeze returns code without its whitespace.
func squeeze(code string) string { return strings.Join(strings.Fields(code), "") }
