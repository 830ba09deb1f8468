package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each Go snippet of an adapter's README is also in a test of the adapter, so it compiles. White
// space may differ.
func TestSnippetsOfAdaptersAreCompiled(t *testing.T) {
	text := func(file string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	squeeze := func(text string) string { return strings.Join(strings.Fields(text), " ") + " " }
	pages, err := filepath.Glob("adapters/*/README.md")
	require.NoError(t, err)
	snippets := 0
	for _, page := range pages {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(page), "*_test.go"))
		require.NoError(t, err)
		var tests string
		for _, file := range files {
			tests += squeeze(text(file))
		}
		for _, block := range strings.Split(text(page), "```go\n")[1:] {
			snippet, _, _ := strings.Cut(block, "```")
			assert.True(t, strings.Contains(tests, squeeze(snippet)), "%s: no test contains\n%s", page, snippet)
			snippets++
		}
	}
	assert.GreaterOrEqual(t, snippets, 11)
}
