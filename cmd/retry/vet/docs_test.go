package vet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// TestChecksReportTheMistakesInTheDocs checks docs/vet.md, which has a section for each analyzer. The analyzer must report the
// mistake in this section with the text in it, and must report nothing about the repaired code.
func TestChecksReportTheMistakesInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/vet.md")
	require.NoError(t, err)
	sections := strings.Split(string(page), "\n## ")[1:]
	sections = sections[:len(sections)-2] // the last two sections are not about a check
	require.Len(t, sections, len(Analyzers))
	require.Len(t, sections, 13)
	assert.Contains(t, string(page), "\nThirteen kinds of mistakes ")

	dir := module(t)
	texts := map[string]string{} // by package name
	for i, section := range sections {
		name, rest, _ := strings.Cut(section, "\n")
		assert.Equal(t, Analyzers[i].Name, name)
		assert.Equal(t, docs+name, Analyzers[i].URL)
		_, rest, _ = strings.Cut(rest, "\n    ")
		text, rest, _ := strings.Cut(rest, "\n")
		_, diff, found := strings.Cut(rest, "```diff\n")
		diff, _, ended := strings.Cut(diff, "```\n")
		require.True(t, found && ended, name)
		assert.LessOrEqual(t, strings.Count(diff, "\n"), 10, name)
		assert.LessOrEqual(t, max(strings.Count("\n"+diff, "\n-"), strings.Count("\n"+diff, "\n+")), 3, name)
		assert.Contains(t, string(page), "\n| ["+name+"](#"+name+") | ")

		texts["mistake/"+name], texts["repair/"+name] = text, ""
		program(t, filepath.Join(dir, "docs", "mistake", name), diff, "-")
		program(t, filepath.Join(dir, "docs", "repair", name), diff, "+")
	}

	found := findings(t, dir)
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			var want []string
			if text != "" {
				want = []string{filepath.Base(name) + ": " + text + " [" + filepath.Base(name) + "]"}
			}
			assert.Equal(t, want, found["misuse/docs/"+name])
		})
	}
}

// program writes a program that consists of the lines on one side of a diff.
func program(t *testing.T, dir, diff, side string) {
	prelude, err := os.ReadFile("testdata/docs/prelude.go")
	require.NoError(t, err)
	var lines strings.Builder
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, side) {
			lines.WriteString(line[1:])
		}
	}
	before, after, ok := strings.Cut(string(prelude), "\t\t// the snippet\n")
	require.True(t, ok)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(before+lines.String()+after), 0o600))
}

// findings returns what all analyzers report about the programs, by package.
func findings(t *testing.T, dir string) map[string][]string {
	found := map[string][]string{}
	for _, action := range analyze(t, dir, "./docs/...") {
		for _, diagnostic := range action.Diagnostics {
			found[action.Package.PkgPath] = append(found[action.Package.PkgPath], action.Analyzer.Name+": "+diagnostic.Message)
		}
	}
	return found
}

// analyze runs all analyzers on packages of the module in dir.
func analyze(t *testing.T, dir, pattern string) []*checker.Action {
	graph, err := checker.Analyze(Analyzers, load(t, dir, pattern), nil)
	require.NoError(t, err)
	for _, action := range graph.Roots {
		require.NoError(t, action.Err)
	}
	return graph.Roots
}

// load returns packages of the module in dir. NeedDeps lets go/packages read all dependencies as
// source. Without NeedDeps, "go list" would compile each of the programs, to get its export data.
func load(t *testing.T, dir, pattern string) []*packages.Package {
	const mode = packages.LoadSyntax | packages.NeedDeps | packages.NeedModule
	programs, err := packages.Load(&packages.Config{Mode: mode, Dir: dir, Env: append(os.Environ(), "GOWORK=off", "GOPROXY=off", "CGO_ENABLED=0")}, pattern)
	require.NoError(t, err)
	require.Zero(t, packages.PrintErrors(programs))
	return programs
}
