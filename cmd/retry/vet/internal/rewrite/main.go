// Rewrite turns calls of cenkalti/backoff, avast/retry-go and
// sethvargo/go-retry into calls of this library, as docs/coming-from.md
// describes. .ci/soak applies it to copies of public modules, so that the
// checks of package vet run on code that was not written for them.
//
//	rewrite PACKAGE...
//
// It changes files in place. For each call it prints the result. A call that it
// cannot rewrite safely stays unchanged. The exit status is 1 if it rewrote no
// call.
package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	rewritten, err := run(os.Stdout, "", os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "rewrite:", err)
		os.Exit(1)
	}
	if rewritten == 0 {
		os.Exit(1)
	}
}

// run rewrites packages with their tests, and returns the number of rewritten
// calls.
func run(w io.Writer, dir string, patterns []string) (rewritten int, err error) {
	loaded, err := packages.Load(&packages.Config{
		Dir: dir, Tests: true,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
	}, patterns...)
	if err != nil {
		return 0, err
	}
	for _, pkg := range loaded {
		for _, fault := range pkg.Errors {
			return rewritten, fault
		}
		if withTests(loaded, pkg) != pkg {
			continue
		}
		n, err := newRewriter(pkg).rewrite(w)
		if err != nil {
			return rewritten, err
		}
		rewritten += n
	}
	return rewritten, nil
}

// withTests returns the package with the same path that has the most files,
// which is the one with its tests.
func withTests(loaded []*packages.Package, pkg *packages.Package) *packages.Package {
	for _, other := range loaded {
		if other.PkgPath == pkg.PkgPath && len(other.Syntax) > len(pkg.Syntax) {
			return withTests(loaded, other)
		}
	}
	return pkg
}
