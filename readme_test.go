package retry_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The quick start of the README is the package's example, to the letter but
// for the comment that tells its output.
func TestREADMEQuickStartIsTheExample(t *testing.T) {
	quickStart := strings.Split(fenced(t, "go")[0], "\n")
	for i, line := range quickStart {
		quickStart[i] = strings.TrimSpace(strings.TrimSuffix(line, " // 3 <nil>"))
	}
	source, err := os.ReadFile("example_quickstart_test.go")
	require.NoError(t, err)
	example := regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(string(source), "")
	assert.Contains(t, example, strings.Join(quickStart, "\n"))
}

func TestREADMEIsShort(t *testing.T) {
	assert.LessOrEqual(t, strings.Count(readme(t), "\n"), 150)
}

func TestREADMECommands(t *testing.T) {
	assert.Equal(t, "go get github.com/goretry/retry\n", fenced(t, "")[0])
	assert.Equal(t, "go run ./examples/quickstart\ngo test ./...\n", fenced(t, "")[1])
}

// Every relative link of the README leads to a file.
func TestREADMELinks(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(readme(t), -1)
	require.NotEmpty(t, links)
	for _, link := range links {
		assert.FileExists(t, link[1])
	}
}

func readme(t *testing.T) string {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	return string(text)
}

// fenced returns the README's blocks of a language.
func fenced(t *testing.T, language string) []string {
	var blocks []string
	for i, part := range strings.Split(readme(t), "```") {
		if name, block, _ := strings.Cut(part, "\n"); i%2 == 1 && name == language {
			blocks = append(blocks, block)
		}
	}
	return blocks
}
