package vet

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/analysistest"
)

// Each analyzer has a package with its name in testdata, where a comment beside
// a line says what must be reported there. found.go has mistakes, silent.go has
// none, and found.go.golden is found.go with the fixes.
func TestAnalyzers(t *testing.T) {
	dir := module(t)
	for _, analyzer := range Analyzers {
		t.Run(analyzer.Name, func(t *testing.T) {
			analysistest.RunWithSuggestedFixes(t, dir, analyzer, "./"+analyzer.Name)
		})
	}
}

// module returns a copy of testdata as a module that uses this checkout. It
// replaces the libraries that the checks know by small modules.
func module(t *testing.T) (dir string) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata")))
	mod := "module misuse\n\ngo 1.26.0\n\nrequire github.com/goretry/retry v0.0.0\n\nreplace github.com/goretry/retry => " + root + "\n"
	for path, version := range map[string]string{"github.com/jackc/pgx/v5": "v5.0.0", "gorm.io/gorm": "v1.0.0"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "modules", path, "go.mod"), []byte("module "+path+"\n\ngo 1.26.0\n"), 0o600))
		mod += "require " + path + " " + version + "\nreplace " + path + " => ./modules/" + path + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600))
	return dir
}
