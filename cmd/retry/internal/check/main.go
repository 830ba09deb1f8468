// Command check runs the checks of "go vet" and of "retry vet" on packages with their
// tests. Unlike go vet it reads what they import as the compiler has left it, and not
// their source: in the modules that test against servers, that is a hundred times as
// much code.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"

	"golang.org/x/tools/go/analysis"
	govet "golang.org/x/tools/go/analysis/suite/vet"

	"github.com/goretry/retry/cmd/retry/vet"
)

func main() {
	log.SetFlags(0)
	checks := slices.DeleteFunc(slices.Concat(govet.Suite, vet.Analyzers), func(a *analysis.Analyzer) bool {
		return a.Name == "cgocall" || a.Name == "framepointer" // both read what only go vet prepares
	})
	findings, err := vet.Find(context.Background(), os.Args[1:], "", checks)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range findings.List {
		fmt.Printf("%s:%d:%d: %s\n", f.File, f.Line, f.Column, f.Message)
	}
	if len(findings.List) > 0 {
		log.Fatal("what is on purpose gets a comment: //retry:vet-ignore check reason")
	}
}
