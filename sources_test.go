package retry_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clocks are the functions of the standard library that read the clock or wait.
var clocks = map[string][]string{
	"time":    {"Now", "Since", "Until", "Sleep", "NewTimer", "After", "AfterFunc", "Tick", "NewTicker"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
}

// waits are the functions of clocks that wait.
var waits = map[string]bool{
	"time.Sleep": true, "time.NewTimer": true, "time.After": true, "time.AfterFunc": true, "time.Tick": true, "time.NewTicker": true,
}

// clockUses lists the uses of the clock in a file, as "function: time.Now". In a
// file of the root package it also lists go statements, as "function: go".
func clockUses(file *ast.File, root bool) (uses []string) {
	names := make(map[string]string) // of the imports in this file
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		if clocks[path] == nil {
			continue
		}
		names[path] = path
		if spec.Name != nil {
			names[spec.Name.Name] = path
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
			case *ast.SelectorExpr:
				pkg, ok := n.X.(*ast.Ident)
				if !ok {
					break
				}
				for _, clock := range clocks[names[pkg.Name]] {
					if n.Sel.Name == clock {
						uses = append(uses, fmt.Sprintf("%s: %s.%s", function, names[pkg.Name], clock))
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
	files := map[string]*ast.File{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, noModule := os.Stat(filepath.Join(path, "go.mod"))
			name := entry.Name()
			if path != "." && (noModule == nil || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(path)] = file
		return nil
	}))
	return files
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
