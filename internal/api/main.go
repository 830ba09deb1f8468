// Api prints the exported API of each package of this module, as Go source without
// comments and bodies. ".ci/run api" compares it with api.txt, which reviewers read.
package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"strings"
)

func main() {
	packages, err := exec.Command("go", "list", "-f", `{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}},{{.Dir}},{{join .GoFiles ","}}{{end}}`, "./...").Output()
	must(err)
	for line := range strings.Lines(string(packages)) {
		if of := strings.Split(strings.TrimSpace(line), ","); !strings.Contains(of[0], "/internal/") {
			fmt.Printf("\npackage %s\n\n", of[0])
			printExported(of[1], of[2:])
		}
	}
}

func printExported(dir string, names []string) {
	fset, files := token.NewFileSet(), []*ast.File(nil)
	for _, name := range names {
		file, err := parser.ParseFile(fset, dir+"/"+name, nil, 0)
		must(err)
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(fset, files, "")
	must(err)
	show := func(decl ast.Decl) {
		must(format.Node(os.Stdout, fset, decl))
		fmt.Println()
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
