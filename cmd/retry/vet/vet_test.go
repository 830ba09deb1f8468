package vet

import (
	"cmp"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
)

// Some analyzers have a package with their name in testdata. A comment at the end of a line says what
// must be reported there. found.go has mistakes, and silent.go has none. fixes.txt has the lines of
// found.go that the fixes add, with their numbers, and the number of all lines after the fixes.
func TestAnalyzersReportTheMarkedLines(t *testing.T) {
	dir := module(t)
	var packages []string
	for _, analyzer := range Analyzers {
		if _, err := os.Stat(filepath.Join(dir, analyzer.Name)); err == nil {
			packages = append(packages, "./"+analyzer.Name)
		}
	}
	require.Len(t, packages, 5)
	results := analysistest.Run(t, dir, eachInItsPackage, packages...)
	for _, path := range packages {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			analyzed := false
			var edits []edit
			for _, result := range results { // a package with tests has two results
				if result.Action.Package.Name != name {
					continue
				}
				analyzed = true
				for _, d := range result.Diagnostics {
					for _, fix := range d.SuggestedFixes {
						for _, e := range fix.TextEdits {
							file := result.Action.Package.Fset.File(e.Pos)
							require.Equal(t, "found.go", filepath.Base(file.Name()))
							edits = append(edits, edit{file.Offset(e.Pos), file.Offset(max(e.Pos, e.End)), string(e.NewText)})
						}
					}
				}
			}
			require.True(t, analyzed)
			want, err := os.ReadFile(filepath.Join("testdata", name, "fixes.txt"))
			if len(edits) > 0 || err == nil {
				require.NoError(t, err)
				assert.Equal(t, string(want), fixed(t, filepath.Join(dir, name, "found.go"), edits))
			}
		})
	}
}

// eachInItsPackage runs each analyzer on the package with its name. A run of analysistest for each
// analyzer would check the types of the standard library again for each of them.
var eachInItsPackage = &analysis.Analyzer{
	Name:     "each",
	Doc:      "runs each analyzer on the package with its name",
	Requires: []*analysis.Analyzer{usesAnalyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		i := slices.IndexFunc(Analyzers, func(a *analysis.Analyzer) bool { return a.Name == pass.Pkg.Name() })
		if i < 0 { // the main package of a test
			return nil, nil
		}
		own := *pass
		own.Analyzer = Analyzers[i]
		return Analyzers[i].Run(&own)
	},
}

// An edit replaces a part of a file by text.
type edit struct {
	from, to int
	text     string
}

// fixed returns the lines of a file that are new after edits.
func fixed(t *testing.T, file string, edits []edit) string {
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Or(b.from-a.from, b.to-a.to) })
	after := string(before)
	for _, e := range slices.Compact(edits) { // two fixes may add the same import
		after = after[:e.from] + e.text + after[e.to:]
	}
	formatted, err := format.Source([]byte(after))
	require.NoError(t, err)
	old, lines := strings.Split(string(before), "\n"), strings.Split(string(formatted), "\n")
	var text strings.Builder
	for i, line := range lines {
		if !slices.Contains(old, line) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " // want")
			fmt.Fprintf(&text, "%d: %s\n", i+1, line)
		}
	}
	fmt.Fprintln(&text, len(lines), "lines")
	return text.String()
}

// module returns the directory of a module with a copy of testdata. The module requires this checkout,
// and replaces the libraries that the checks know by small modules.
func module(t *testing.T) (dir string) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata")))
	mod := "module misuse\n\ngo 1.26.0\n\nrequire github.com/goretry/retry v0.0.0\n\nreplace github.com/goretry/retry => " + root + "\n"
	for path, version := range map[string]string{
		"github.com/jackc/pgx/v5": "v5.0.0", "gorm.io/gorm": "v1.0.0", "github.com/cenkalti/backoff/v4": "v4.99.0",
		"github.com/cenkalti/backoff/v5": "v5.0.0", "github.com/avast/retry-go/v4": "v4.0.0", "github.com/sethvargo/go-retry": "v0.0.0",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "modules", path, "go.mod"), []byte("module "+path+"\n\ngo 1.26.0\n"), 0o600))
		mod += "require " + path + " " + version + "\nreplace " + path + " => ./modules/" + path + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600))
	return dir
}
