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
)

// A Finding is one report of a check.
type Finding struct {
	File    string `json:"file"` // the path of the file, relative to the current directory
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Check   string `json:"check"`
	Message string `json:"message"` // the report, which ends with the name of the check in brackets
}

// Findings contains the reports of the checks, and says how much code the checks looked at.
type Findings struct {
	List     []Finding
	Packages int // the number of packages; a package and its tests count as one
	Calls    int // the number of calls that retry, plus the number of Transports
}

// String returns how many packages and calls the checks looked at: "3 packages, 12 calls of retry".
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

// Find runs `checks` on packages and their tests, and returns each report once. The parameter
// `patterns` lists packages as the go command takes them, such as ./... for all packages. If
// `patterns` is empty, Find checks the package in the current directory. The parameter `tags` lists
// build tags, separated by commas. Find reads an imported package from the export data of the
// compiler, not from source. Find returns an error if a package cannot be loaded or does not
// compile.
func Find(
	ctx context.Context, patterns []string, tags string, checks []*analysis.Analyzer,
) (*Findings, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	loaded, err := loadAll(ctx, patterns, tags)
	if err != nil {
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
			file, _ := filepath.Rel(here, at.Filename) // `file` is "" if the source is on another drive
			found.List = append(found.List, Finding{
				File:    Printable(cmp.Or(file, at.Filename)),
				Line:    at.Line,
				Column:  at.Column,
				Check:   action.Analyzer.Name,
				Message: Printable(d.Message),
			})
		}
	}
	found.Packages, found.Calls = len(names), len(calls)
	slices.SortFunc(found.List, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			a.Line-b.Line,
			a.Column-b.Column,
			cmp.Compare(a.Message, b.Message),
		)
	})
	found.List = slices.Compact(found.List)
	return found, nil
}

// loadAll loads packages with their syntax and their tests. It returns an error if one of the
// packages has a fault, such as a syntax error.
func loadAll(ctx context.Context, patterns []string, tags string) ([]*packages.Package, error) {
	config := &packages.Config{
		Context:    ctx,
		Mode:       packages.LoadSyntax | packages.NeedModule,
		Tests:      true,
		BuildFlags: []string{"-tags=" + tags},
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
		// TypesInfo is nil for a package that is only imported. The checks of go vet read the maps in
		// TypesInfo, so such a package gets a TypesInfo with empty maps.
		if p.TypesInfo == nil {
			p.TypesInfo = &types.Info{
				Types:      map[ast.Expr]types.TypeAndValue{},
				Defs:       map[*ast.Ident]types.Object{},
				Uses:       map[*ast.Ident]types.Object{},
				Selections: map[*ast.SelectorExpr]*types.Selection{},
			}
		}
	})
	return loaded, errors.Join(errs...)
}

// InModule returns an error if a file of the packages does not belong to the module of the current
// directory. For example, the file is in another module of the workspace, or in the module cache.
// Or a symbolic link in the module of the current directory leads to a file outside of this module.
func InModule(ctx context.Context, patterns []string, tags string) error {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return err
	}
	file := strings.TrimSpace(string(mod)) // outside of a module, go env prints os.DevNull
	root, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil || filepath.Base(file) != "go.mod" {
		return errors.New("the current directory is not in a module: " + onlyThisModule)
	}
	config := &packages.Config{
		Context:    ctx,
		Mode:       packages.NeedName | packages.NeedFiles | packages.NeedModule,
		Tests:      true,
		BuildFlags: []string{"-tags=" + tags},
	}
	loaded, err := packages.Load(config, patterns...)
	if err != nil {
		return err
	}
	for _, p := range loaded {
		if strings.HasSuffix(p.PkgPath, ".test") {
			continue // the go command made this package in the build cache
		}
		for _, file := range p.GoFiles {
			real, err := filepath.EvalSymlinks(file)
			if err != nil {
				return err
			}
			inside, _ := filepath.Rel(root, real) // `inside` is "" if the file is on another drive
			foreign := p.Module != nil && !p.Module.Main || !filepath.IsLocal(inside)
			if foreign || nestedModule(root, filepath.Dir(inside)) {
				return fmt.Errorf("%s is not a file of the module in %s: %s",
					real, root, onlyThisModule)
			}
		}
	}
	return nil
}

const onlyThisModule = "-fix writes only to files of the module in which it runs, " +
	"so run it in the module of the files"

// nestedModule reports whether dir belongs to another module than `root`. The path dir is relative
// to `root`.
func nestedModule(root, dir string) bool {
	for ; dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

var (
	control = regexp.MustCompile(`[^\PC\t]|\x{FFFD}`)
	command = strings.NewReplacer("##", "#?")
)

// Printable returns a line of text without the characters that a terminal or the log of a CI
// service would treat as a command. The name of a file can contain such characters, and so can the
// name in a //line comment.
func Printable(line string) string {
	line = command.Replace(control.ReplaceAllString(line, "?"))
	if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, ":") {
		return "./" + trimmed
	}
	return line
}
