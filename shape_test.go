package retry_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests read the sources of the package. They do not run the package.

// The package page of the root lists all packages of the root module that a service or its tests
// use.
func TestPackagePageNamesThePackagesOfAService(t *testing.T) {
	page, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	dirs, err := filepath.Glob("retry*/doc.go")
	require.NoError(t, err)
	named := 0
	for _, file := range append(dirs, "retrynet/retrynet.go", "retrysql/transient.go") {
		dir := filepath.ToSlash(filepath.Dir(file))
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == "retrycenkalti" {
			continue // another module, or the bridge to another library
		}
		assert.Contains(t, string(page), "["+modulePath+"/"+dir+"]")
		named++
	}
	assert.Equal(t, 6, named)
}

// In lists of packages, the first sentence of a package's comment is shown unformatted, so a link
// would show its brackets.
func TestFirstSentenceOfAPackageHasNoLink(t *testing.T) {
	packages := 0
	require.NoError(t, filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") {
			return err
		}
		source, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err == nil && source.Doc != nil && source.Name.Name != "main" {
			packages++
			paragraph, _, _ := strings.Cut(source.Doc.Text(), "\n\n")
			first, _, _ := strings.Cut(strings.ReplaceAll(paragraph, "\n", " "), ". ")
			assert.NotContains(t, first, "[", name)
		}
		return err
	}))
	assert.Greater(t, packages, 10)
}

// Only retry.go waits. The map lists, for each file of the root package, how it uses the clock.
func TestPrincipleDecisionAndWaitingAreApart(t *testing.T) {
	allowed := map[string][]string{
		"retry.go": {"select", "time.After", "context.WithTimeout", "time.Now"},
		// A Budget may read the clock, because Next never uses a Budget.
		"budget.go":  {"time.Now", "time.Since"},
		"budgets.go": {"time.Now", "time.Now"},
	}
	for file, parsed := range sources(t) {
		if path.Dir(file) == "." {
			assert.ElementsMatch(t, allowed[file], clockUses(parsed), file)
		}
	}
}

func TestPrincipleStandardLibraryNoGoroutineNoRecoverNoGlobalState(t *testing.T) {
	files := sources(t)
	ofRoot := map[string]bool{".": true} // the root, and the packages that it imports
	for file, parsed := range files {
		for _, imported := range imports(parsed) {
			if dir, below := strings.CutPrefix(imported, modulePath+"/"); below && path.Dir(file) == "." {
				ofRoot[dir] = true
			}
		}
	}
	require.Greater(t, len(ofRoot), 1)

	// Besides the standard library, a package imports only the root and internal/, so users of the
	// package get no other module. Commands and examples may import any package of this module.
	t.Run("the standard library only", func(t *testing.T) {
		more := map[string][]string{
			"retryhttp": {modulePath + "/retrynet"}, "retrysql": {modulePath + "/retrynet"}, "retrycenkalti": {"github.com/cenkalti/backoff/v4"},
		}
		for file, parsed := range files {
			pkg, _, _ := strings.Cut(path.Dir(file), "/")
			for _, imported := range imports(parsed) {
				first, _, _ := strings.Cut(imported, "/")
				ok := !strings.Contains(first, ".") || strings.HasPrefix(imported, modulePath+"/internal/") || slices.Contains(more[pkg], imported)
				if !ofRoot[path.Dir(file)] {
					ok = ok || imported == modulePath || strings.HasPrefix(imported+"/", modulePath+"/"+pkg+"/")
				}
				if pkg == "internal" || pkg == "examples" {
					ok = ok || strings.HasPrefix(imported, modulePath+"/")
				}
				assert.True(t, ok, "%s imports %s", file, imported)
			}
		}
	})

	// globals contains the package variables of the root. inspect visits all nodes of its sources.
	globals := map[string]bool{}
	inspect := func(visit func(file string, n ast.Node)) {
		for file, parsed := range files {
			if ofRoot[path.Dir(file)] {
				ast.Inspect(parsed, func(n ast.Node) bool { visit(file, n); return true })
			}
		}
	}
	inspect(func(_ string, n ast.Node) {
		parsed, ok := n.(*ast.File)
		if !ok {
			return
		}
		for _, decl := range parsed.Decls {
			if decl, ok := decl.(*ast.GenDecl); ok && decl.Tok == token.VAR {
				for _, spec := range decl.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						globals[name.Name] = true
					}
				}
			}
		}
	})
	assert.NotEmpty(t, globals, "the root has at least its error variables")

	t.Run("no goroutine, no recover, no init", func(t *testing.T) {
		inspect(func(file string, n ast.Node) {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Error(file, "has a go statement")
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "recover" {
					t.Error(file, "calls recover")
				}
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Error(file, "has a func init")
				}
			}
		})
	})

	t.Run("no package variable is assigned to", func(t *testing.T) {
		inspect(func(file string, n ast.Node) {
			var changed []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					changed = n.Lhs
				}
			case *ast.IncDecStmt:
				changed = []ast.Expr{n.X}
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					changed = []ast.Expr{n.X}
				}
			}
			for _, e := range changed {
				if name := variable(e); globals[name] {
					t.Errorf("%s: %s is assigned to, or its address is taken", file, name)
				}
			}
		})
	})
}

// go doc shows only the first constant of a group, and then "...". So the comment of a type must
// list all its constants.
func TestTheCommentOfATypeListsItsConstants(t *testing.T) {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	set, files := token.NewFileSet(), []*ast.File{}
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	root, err := doc.NewFromFiles(set, files, modulePath)
	require.NoError(t, err)
	listed := 0
	for _, of := range root.Types {
		for _, group := range of.Consts {
			for _, name := range group.Names {
				assert.Contains(t, of.Doc, "["+name+"]", of.Name)
				listed++
			}
		}
	}
	assert.Greater(t, listed, 20)
}

// An exported type must not be an alias of a type in an internal package, because go doc would not
// show its fields.
func TestExportedTypesAreNotThoseOfInternalPackages(t *testing.T) {
	for file, parsed := range sources(t) {
		if parsed.Name.Name == "main" || strings.HasPrefix(file, "internal/") {
			continue
		}
		inside := map[string]bool{} // the names of the internal packages in this file
		for _, spec := range parsed.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			name := path.Base(imported)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			inside[name] = strings.HasPrefix(imported, modulePath+"/internal/")
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				of := variable(spec.Type) // the package of the type, if it is from another package
				assert.False(t, inside[of], "%s: %s is a type of an internal package", file, spec.Name)
			}
			return true
		})
	}
}

// The variable `clocks` lists the functions that read the clock or wait, by their package.
var clocks = map[string][]string{
	"time":                                   {"Now", "Since", "Until", "Sleep", "NewTimer", "After", "AfterFunc", "Tick", "NewTicker"},
	"context":                                {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
	"github.com/goretry/retry/internal/wait": {"For"},
}

// clockUses lists the select statements of a file, and its uses of the clock, such as "time.Now".
func clockUses(file *ast.File) (uses []string) {
	names := make(map[string]string) // the packages that this file imports, by their name in the file
	for _, spec := range file.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		names[path.Base(imported)] = imported
		if spec.Name != nil {
			names[spec.Name.Name] = imported
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			uses = append(uses, "select")
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if ok && slices.Contains(clocks[names[pkg.Name]], n.Sel.Name) {
				uses = append(uses, path.Base(names[pkg.Name])+"."+n.Sel.Name)
			}
		}
		return true
	})
	return uses
}

// The function `sources` returns the files of the module by path, without tests.
func sources(t *testing.T) map[string]*ast.File {
	files := map[string]*ast.File{}
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, noModule := os.Stat(filepath.Join(name, "go.mod"))
			dir := entry.Name()
			if name != "." && (noModule == nil || dir == "testdata" || strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			files[filepath.ToSlash(name)], err = parser.ParseFile(token.NewFileSet(), name, nil, 0)
		}
		return err
	}))
	return files
}

// The function `imports` returns the paths that a file imports.
func imports(file *ast.File) (paths []string) {
	for _, spec := range file.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// The function `variable` returns the name of the variable at the beginning of an expression, such
// as x in x.y[2].
func variable(e ast.Expr) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return variable(e.X)
	case *ast.IndexExpr:
		return variable(e.X)
	case *ast.StarExpr:
		return variable(e.X)
	default:
		return ""
	}
}
