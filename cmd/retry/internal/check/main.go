// Command check runs the checks of "go vet" and of "retry vet" on packages and their tests. Unlike
// go vet, it does not check imported packages, but reads only their export data from the compiler.
// This saves time. In the modules that test against servers, the imported packages have a hundred
// times as much code as the packages that are checked.
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
	checks := slices.Concat(govet.Suite, vet.Analyzers)
	// The checks cgocall and framepointer need files that only go vet passes to a check.
	checks = slices.DeleteFunc(checks, func(a *analysis.Analyzer) bool {
		return a.Name == "cgocall" || a.Name == "framepointer"
	})
	findings, err := vet.Find(context.Background(), os.Args[1:], "", checks)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range findings.List {
		fmt.Printf("%s:%d:%d: %s\n", f.File, f.Line, f.Column, f.Message)
	}
	if len(findings.List) > 0 {
		log.Fatal("if the reported line is correct, write //retry:vet-ignore CHECK REASON above it")
	}
}
