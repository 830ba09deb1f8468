// Api prints the exported API of each package of this module, as Go source without
// comments and bodies. A test compares it with api.txt, which reviewers read.
package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() { write(os.Stdout, ".") }

// On every machine, the function `write` prints the API as it is for Linux on amd64 without cgo. It
// reads the files itself and does not run the go command. If another process read the files, go
// test would not notice a change in these files, and could use a cached result.
func write(w io.Writer, root string) {
	platform := build.Default
	platform.GOOS, platform.GOARCH, platform.CgoEnabled = "linux", "amd64", false
	must(filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if dir != root && isOutside(dir) {
			return fs.SkipDir
		}
		p, err := platform.ImportDir(dir, 0)
		if err == nil && len(p.GoFiles) > 0 && p.Name != "main" {
			below, err := filepath.Rel(root, dir)
			must(err)
			name := path.Join("github.com/goretry/retry", filepath.ToSlash(below))
			fmt.Fprintf(w, "\npackage %s\n\n", name)
			printExported(w, dir, p.GoFiles)
		}
		return nil // ImportDir fails for a directory that has no Go files for Linux
	}))
}

// isOutside reports whether a directory belongs to another module, or whether users cannot
// import its packages.
func isOutside(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	name := filepath.Base(dir)
	return err == nil || slices.Contains([]string{"internal", "testdata"}, name) ||
		strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

func printExported(w io.Writer, dir string, names []string) {
	fset, files := token.NewFileSet(), []*ast.File(nil)
	for _, name := range names {
		file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, 0)
		must(err)
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(fset, files, "")
	must(err)
	show := func(decl ast.Decl) {
		must(format.Node(w, fset, decl))
		fmt.Fprintln(w)
	}
	all := func(values []*doc.Value, funcs []*doc.Func) {
		for _, v := range values {
			show(v.Decl)
		}
		for _, f := range funcs {
			show(f.Decl)
		}
	}
	all(append(p.Consts, p.Vars...), p.Funcs)
	for _, t := range p.Types {
		show(t.Decl)
		all(append(t.Consts, t.Vars...), append(t.Funcs, t.Methods...))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
