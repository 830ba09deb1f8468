package retry_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clocks are the functions, by their package, that read the clock or wait.
var clocks = map[string][]string{
	"time":                                   {"Now", "Since", "Until", "Sleep", "NewTimer", "After", "AfterFunc", "Tick", "NewTicker"},
	"context":                                {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
	"github.com/goretry/retry/internal/wait": {"For"},
}

// waits are the functions of clocks that wait.
var waits = map[string]bool{
	"time.Sleep": true, "time.NewTimer": true, "time.After": true, "time.AfterFunc": true, "time.Tick": true, "time.NewTicker": true,
	"wait.For": true,
}

// clockUses lists the uses of the clock in a file, as "function: time.Now". In a
// file of the root package it also lists select and go statements, as "function:
// select".
func clockUses(file *ast.File, root bool) (uses []string) {
	names := make(map[string]string) // of the imports in this file
	for _, spec := range file.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		names[path.Base(imported)] = imported
		if spec.Name != nil {
			names[spec.Name.Name] = imported
		}
	}
	for _, decl := range file.Decls {
		function := "package"
		if f, ok := decl.(*ast.FuncDecl); ok {
			function = f.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				if root {
					uses = append(uses, function+": go")
				}
			case *ast.SelectStmt:
				if root {
					uses = append(uses, function+": select")
				}
			case *ast.SelectorExpr:
				pkg, ok := n.X.(*ast.Ident)
				if !ok {
					break
				}
				for _, clock := range clocks[names[pkg.Name]] {
					if n.Sel.Name == clock {
						uses = append(uses, fmt.Sprintf("%s: %s.%s", function, path.Base(names[pkg.Name]), clock))
					}
				}
			}
			return true
		})
	}
	return uses
}

// sources returns the files of this module by path, without tests.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	return moduleSources(t, ".")
}

// moduleSources returns the files of the module in a directory, without tests.
func moduleSources(t *testing.T, module string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	require.NoError(t, filepath.WalkDir(module, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, noModule := os.Stat(filepath.Join(name, "go.mod"))
			dir := entry.Name()
			if name != module && (noModule == nil || dir == "testdata" || strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)] = file
		return nil
	}))
	return files
}

// assertedTypes returns the types that a file's type assertions and type switches
// name.
func assertedTypes(file *ast.File) (types []ast.Expr) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeAssertExpr:
			if n.Type != nil {
				types = append(types, n.Type)
			}
		case *ast.TypeSwitchStmt:
			for _, clause := range n.Body.List {
				types = append(types, clause.(*ast.CaseClause).List...)
			}
		}
		return true
	})
	return types
}

// variable returns the name of the variable that an expression belongs to.
func variable(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return variable(e.X)
	case *ast.IndexExpr:
		return variable(e.X)
	case *ast.ParenExpr:
		return variable(e.X)
	case *ast.StarExpr:
		return variable(e.X)
	default:
		return ""
	}
}
