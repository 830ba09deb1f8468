// Package readmetest checks that the Go snippets of an adapter's README are
// compiled by its tests.
package readmetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Run checks that a test file in the current directory contains each Go snippet
// of README.md. White space may differ.
func Run(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests string
	for _, file := range files {
		tests += squeeze(read(t, file))
	}
	blocks := strings.Split(read(t, "README.md"), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Error("README.md has no Go snippet")
	}
	for _, block := range blocks {
		snippet, _, _ := strings.Cut(block, "```")
		if !strings.Contains(tests, squeeze(snippet)) {
			t.Errorf("no test contains this snippet of README.md:\n%s", snippet)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") + " " }
