package vet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/types/typeutil"
)

// A Finding is what a check reports.
type Finding struct {
	File    string `json:"file"` // relative to the current directory
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Check   string `json:"check"`
	Message string `json:"message"` // with the check in brackets
}

// Findings are what checks report, and how much they looked at.
type Findings struct {
	List     []Finding
	Packages int // without those that only hold tests
	Calls    int // that retry, and each Transport
}

// String says how much was looked at.
func (f *Findings) String() string {
	packages := count(f.Packages, "package")
	if f.Calls == 0 {
		return "no call of " + retryPath + " in " + packages
	}
	return packages + ", " + count(f.Calls, "call") + " of retry"
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Find runs checks on packages with their tests and returns what they report, each
// line once. It reads what the packages import as the compiler has left it, and
// not from source. If patterns is empty, it checks the package in the current
// directory. An error means that a package does not compile.
func Find(ctx context.Context, patterns []string, tags string, checks []*analysis.Analyzer) (*Findings, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	config := &packages.Config{Context: ctx, Mode: packages.LoadSyntax | packages.NeedModule, Tests: true, BuildFlags: []string{"-tags=" + tags}}
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
			p.TypesInfo = &types.Info{ // which go vet's checks want to have maps
				Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
				Selections: map[*ast.SelectorExpr]*types.Selection{},
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	graph, err := checker.Analyze(append(slices.Clone(checks), usesAnalyzer), loaded, nil)
	if err != nil {
		return nil, err
	}
	found, names, calls := &Findings{}, map[string]bool{}, map[token.Position]bool{}
	for _, p := range loaded {
		if !strings.HasSuffix(p.PkgPath, ".test") {
			names[strings.TrimSuffix(p.PkgPath, "_test")] = true
		}
	}
	for _, action := range graph.Roots {
		if action.Err != nil {
			return nil, action.Err
		}
		if used, ok := action.Result.(*uses); ok {
			for _, pos := range used.retrying() {
				calls[action.Package.Fset.Position(pos)] = true
			}
		}
		for _, d := range action.Diagnostics {
			at := action.Package.Fset.Position(d.Pos)
			file, _ := filepath.Rel(here, at.Filename) // "" on another drive
			found.List = append(found.List, Finding{Printable(cmp.Or(file, at.Filename)), at.Line, at.Column, action.Analyzer.Name, Printable(d.Message)})
		}
	}
	found.Packages, found.Calls = len(names), len(calls)
	slices.SortFunc(found.List, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column, cmp.Compare(a.Message, b.Message))
	})
	found.List = slices.Compact(found.List)
	return found, nil
}

// InModule returns an error if a file of the packages is not a file of the module that the current
// directory is in, such as one of another module of a workspace, of the module cache, or one that
// a link of this module leads to.
func InModule(ctx context.Context, patterns []string, tags string) error {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return err
	}
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	if root, err = filepath.EvalSymlinks(root); err != nil || filepath.Base(strings.TrimSpace(string(mod))) != "go.mod" {
		return errors.New("the current directory is not in a module: -fix writes only to the files of the module that it is called in")
	}
	config := &packages.Config{Context: ctx, Mode: packages.NeedName | packages.NeedFiles | packages.NeedModule, Tests: true, BuildFlags: []string{"-tags=" + tags}}
	loaded, err := packages.Load(config, patterns...)
	if err != nil {
		return err
	}
	for _, p := range loaded {
		if strings.HasSuffix(p.PkgPath, ".test") { // its file is in the build cache
			continue
		}
		for _, file := range p.GoFiles {
			real, err := filepath.EvalSymlinks(file)
			if err != nil {
				return err
			}
			inside, _ := filepath.Rel(root, real) // "" on another drive
			if p.Module != nil && !p.Module.Main || !filepath.IsLocal(inside) || nestedModule(root, filepath.Dir(inside)) {
				return fmt.Errorf("%s is not a file of the module in %s: -fix writes only to files of the module that it is called in, so call it there", real, root)
			}
		}
	}
	return nil
}

// nestedModule reports whether a directory within a module is in another one.
func nestedModule(root, dir string) bool {
	for ; dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// retrying returns where the package makes something that retries: a call with a
// policy, or a Transport.
func (u *uses) retrying() (at []token.Pos) {
	if !u.any {
		return nil
	}
	for c := range u.root.Preorder((*ast.CallExpr)(nil), (*ast.CompositeLit)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CompositeLit:
			if typeName(u.info.TypeOf(n)) == retryhttpPath+".Transport" {
				at = append(at, n.Pos())
			}
		case *ast.CallExpr:
			fn, ok := typeutil.Callee(u.info, n).(*types.Func)
			if !ok || fn.Pkg() == nil || !isLibrary(fn.Pkg().Path()) {
				continue
			}
			for param := range fn.Signature().Params().Variables() {
				if isPolicy(param.Type()) {
					at = append(at, n.Pos())
				}
			}
		}
	}
	return at
}

var (
	control = regexp.MustCompile(`[^\PC\t]|\x{FFFD}`)
	command = strings.NewReplacer("##", "#?")
)

// Printable returns a line of text that no terminal and no CI log obeys, whatever the
// names in it: those of files come from the source too, by //line.
func Printable(line string) string {
	line = command.Replace(control.ReplaceAllString(line, "?"))
	if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, ":") {
		return "./" + trimmed
	}
	return line
}
