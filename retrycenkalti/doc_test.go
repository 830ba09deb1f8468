package retrycenkalti_test

import (
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheDocumentationNamesAllOfV4 reads the source of v4: whatever it exports
// has a line that says what to write instead.
func TestTheDocumentationNamesAllOfV4(t *testing.T) {
	pkg, err := build.Import("github.com/cenkalti/backoff/v4", ".", 0)
	require.NoError(t, err)
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(pkg.Dir, name), nil, 0)
		require.NoError(t, err)
		files = append(files, file)
	}
	v4, err := doc.NewFromFiles(set, files, pkg.ImportPath)
	require.NoError(t, err)

	names := []string{}
	values := func(values []*doc.Value) {
		for _, v := range values {
			names = append(names, v.Names...)
		}
	}
	funcs := func(funcs []*doc.Func) {
		for _, f := range funcs {
			names = append(names, f.Name)
		}
	}
	values(v4.Consts)
	values(v4.Vars)
	funcs(v4.Funcs)
	for _, typ := range v4.Types {
		names = append(names, typ.Name)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		if typ.Name == "ExponentialBackOff" {
			funcs(typ.Methods)
		}
	}

	ours, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, name := range names {
		if ast.IsExported(name) {
			assert.True(t, regexp.MustCompile(`\b`+name+`\b`).Match(ours), "doc.go does not say what to write for %s", name)
		}
	}
	assert.Greater(t, len(names), 40)
}
