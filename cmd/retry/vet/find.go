package vet

import (
	"cmp"
	"context"
	"errors"
	"go/ast"
	"go/types"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// A Finding is what a check reports.
type Finding struct {
	File    string `json:"file"` // relative to the current directory
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Check   string `json:"check"`
	Message string `json:"message"` // with the check in brackets
}

// Find runs checks on packages with their tests and returns what they report, each
// line once. It reads what the packages import as the compiler has left it, and
// not from source. If patterns is empty, it checks the package in the current
// directory. An error means that a package does not compile.
func Find(ctx context.Context, patterns []string, tags string, checks []*analysis.Analyzer) ([]Finding, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	config := &packages.Config{Context: ctx, Mode: packages.LoadSyntax | packages.NeedModule, Tests: true}
	if tags != "" {
		config.BuildFlags = []string{"-tags=" + tags}
	}
	loaded, err := packages.Load(config, patterns...)
	if err != nil {
		return nil, err
	}
	var errs []error
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, err := range p.Errors {
			errs = append(errs, err)
		}
		if p.TypesInfo == nil { // not from source: there is nothing in it to check
			p.TypesInfo = &types.Info{
				Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
				Implicits: map[ast.Node]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Instances: map[*ast.Ident]types.Instance{},
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	graph, err := checker.Analyze(checks, loaded, nil)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, action := range graph.Roots {
		if action.Err != nil {
			return nil, action.Err
		}
		for _, d := range action.Diagnostics {
			at := action.Package.Fset.Position(d.Pos)
			file, err := filepath.Rel(here, at.Filename)
			if err != nil {
				file = at.Filename // on another drive
			}
			found = append(found, Finding{file, at.Line, at.Column, action.Analyzer.Name, d.Message})
		}
	}
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column, cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(found), nil
}
