package retry_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every Go snippet of the README, and of the page about other libraries, is in
// a test or an example program that compiles and runs. They must match word for
// word, except for indentation.
func TestREADMESnippets(t *testing.T) {
	var sources []string
	for _, root := range []string{"readme_snippets_test.go", "internal/yamltest", "examples"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			source, err := os.ReadFile(path)
			sources = append(sources, flush(string(source)))
			return err
		}))
	}
	for _, page := range []string{"README.md", "docs/coming-from.md"} {
		snippets := fenced(t, page, "go")
		require.NotEmpty(t, snippets)
		for _, snippet := range snippets {
			found := false
			for _, source := range sources {
				found = found || strings.Contains(source, flush(snippet))
			}
			assert.True(t, found, "%s: no test runs\n%s", page, snippet)
		}
	}
}

// flush returns lines without their indentation.
func flush(text string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "")
}

func TestREADMEIsShort(t *testing.T) {
	assert.LessOrEqual(t, strings.Count(text(t, "README.md"), "\n"), 220)
}

func TestREADMECommands(t *testing.T) {
	assert.Equal(t, "go get github.com/goretry/retry\n", fenced(t, "README.md", "")[0])
	assert.Contains(t, fenced(t, "README.md", ""), "go run ./examples/quickstart\ngo test ./...\n")
}

// Every relative link of the README and of the pages in docs leads to a file that
// exists.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range append(pages, "README.md") {
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(text(t, page), -1) {
			assert.FileExists(t, filepath.Join(filepath.Dir(page), link[1]), page)
		}
	}
}

// The README leads to every package that can be imported, to every adapter, and to
// the list of all examples.
func TestREADMELeadsEverywhere(t *testing.T) {
	readme := text(t, "README.md")
	links := func(dir string) bool {
		return strings.Contains(readme, "](https://pkg.go.dev/github.com/goretry/retry/"+dir+")") || strings.Contains(readme, "]("+dir+"/README.md)")
	}
	packages := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch dir := filepath.ToSlash(filepath.Dir(path)); {
		case err != nil:
			return err
		case entry.IsDir():
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			moduleOfTests := err == nil && strings.Contains(entry.Name(), "test")
			if moduleOfTests || slices.Contains([]string{"internal", "testdata", "examples", "benchmarks", "cmd", ".git", ".ci"}, entry.Name()) {
				return filepath.SkipDir
			}
			packages++
		case dir != "." && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			assert.True(t, links(dir), dir)
		}
		return nil
	}))
	assert.Greater(t, packages, 15)

	list := text(t, "examples/README.md")
	examples, err := os.ReadDir("examples")
	require.NoError(t, err)
	for _, example := range examples {
		if example.IsDir() {
			assert.Contains(t, list, "]("+example.Name(), example.Name())
		}
	}
	assert.Contains(t, readme, "](examples/README.md)")
}

// The numbers of the README are those of the latest run of the benchmarks.
func TestREADMENumbers(t *testing.T) {
	cells := make(map[string]map[string]string) // of the tables, by row and column
	var head []string
	for line := range strings.Lines(text(t, "benchmarks/README.md")) {
		row := strings.Split(line, "|")
		switch {
		case len(row) < 3:
			head = nil
		case head == nil:
			head = row
		default:
			name := strings.TrimSpace(row[1])
			if cells[name] == nil {
				cells[name] = make(map[string]string)
			}
			for i, cell := range row {
				cells[name][strings.TrimSpace(head[i])] = strings.TrimSpace(cell)
			}
		}
	}
	ours := func(column string) (ratio, allocations string) {
		ratio, allocations, _ = strings.Cut(cells["retry"][column], ", ")
		return ratio, allocations
	}
	success, none := ours("first try")
	failures, one := ours("10 failures")
	libraries := 0
	for name, row := range cells {
		if row["10 failures"] != "" && name != "bare" && name != "retry" && !strings.HasSuffix(name, "-guarded") && !strings.Contains(name, "---") {
			libraries++
		}
	}
	require.Equal(t, 10, libraries)
	page := strings.Join(strings.Fields(text(t, "README.md")), " ")
	assert.Contains(t, page, fmt.Sprintf("%s allocations on success, %s per failing call, beside ten libraries", none, one))
	assert.Contains(t, page, fmt.Sprintf("A first try takes %s the time of a careful loop written by hand, ten failures %s, and a waiting call %s its memory",
		success, failures, cells["retry-Do"]["bytes of a waiting call"]))
}

func text(t *testing.T, page string) string {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return string(text)
}

// fenced returns the code blocks of a page that are in the given language.
func fenced(t *testing.T, page, language string) []string {
	var blocks []string
	for i, part := range strings.Split(text(t, page), "```") {
		if name, block, _ := strings.Cut(part, "\n"); i%2 == 1 && name == language {
			blocks = append(blocks, block)
		}
	}
	return blocks
}
