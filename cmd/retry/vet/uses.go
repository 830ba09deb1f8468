package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

const (
	retryPath    = "github.com/goretry/retry"
	retrysqlPath = retryPath + "/retrysql"
)

const retryhttpPath = retryPath + "/retryhttp"

// usesAnalyzer collects the facts about a package that all checks need.
var usesAnalyzer = &analysis.Analyzer{
	Name:       "retryuses",
	Doc:        "find the calls that retry, and the code that they retry",
	Requires:   []*analysis.Analyzer{inspect.Analyzer},
	ResultType: reflect.TypeFor[*uses](),
	Run:        findUses,
}

// A value of the type `uses` describes one package. It contains the calls that retry a function. It
// also contains the functions and variables of the package, so that the checks can find out what a
// name refers to.
type uses struct {
	any        bool               // whether the package or one of its imports imports the library
	ignored    map[place][]string // the checks that a comment silences on a line; "" is all checks
	unreasoned []*ast.Comment     // comments that should silence a check, but give no reason
	info       *types.Info
	root       inspector.Cursor
	calls      []*call
	onces      []*call // the calls of retry.Once, which makes only one attempt
	settings   []setting
	aside      []ast.Node // all go statements and defer statements
	funcs      map[*types.Func]*ast.FuncDecl
	vars       map[*types.Var]*variable
}

// A value of the type `call` is a call of a function in the map `retriers`, such as retry.Do.
type call struct {
	*ast.CallExpr
	name   string // "retry.Do"
	cursor inspector.Cursor
	ctx    ast.Expr
	policy ast.Expr
	ops    []*operation // the functions that the call retries, if their bodies are in the package
}

// retriers maps each function that retries to its short name, to the index of the argument with the
// policy, and to the indexes of the arguments with the operations.
var retriers = map[string]struct {
	name   string
	policy int
	ops    []int
}{
	retryPath + ".Do":        {"retry.Do", 1, []int{2}},
	retryPath + ".DoValue":   {"retry.DoValue", 1, []int{2}},
	retryPath + ".Once":      {"retry.Once", 1, []int{3}},
	retrysqlPath + ".Tx":     {"retrysql.Tx", 3, []int{4}},
	retrysqlPath + ".TxFunc": {"retrysql.TxFunc", 2, []int{1, 3}},
}

// findUses finds the calls in a package that retry, and the code that they retry. The result is a
// *uses.
func findUses(pass *analysis.Pass) (any, error) {
	u := &uses{
		info:  pass.TypesInfo,
		root:  pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root(),
		funcs: map[*types.Func]*ast.FuncDecl{},
		vars:  map[*types.Var]*variable{},
	}
	importsLibrary := func(p *types.Package) bool { return importsBelow(p, retryPath) }
	if !importsLibrary(pass.Pkg) && !slices.ContainsFunc(pass.Pkg.Imports(), importsLibrary) {
		return u, nil
	}
	u.any = true
	u.findIgnores(pass)
	for c := range u.root.Preorder(
		(*ast.FuncDecl)(nil), (*ast.FuncType)(nil), (*ast.ValueSpec)(nil), (*ast.AssignStmt)(nil),
		(*ast.IncDecStmt)(nil), (*ast.RangeStmt)(nil), (*ast.UnaryExpr)(nil), (*ast.SelectorExpr)(nil),
	) {
		u.recordNode(c.Node())
	}
	for c := range u.root.Preorder((*ast.GoStmt)(nil), (*ast.DeferStmt)(nil)) {
		u.aside = append(u.aside, c.Node())
	}
	u.findSettings()
	for c := range u.root.Preorder((*ast.CallExpr)(nil)) {
		switch call := u.newCall(c); {
		case call == nil:
		case call.name == "retry.Once":
			u.onces = append(u.onces, call)
		default:
			u.calls = append(u.calls, call)
		}
	}
	return u, nil
}

// importsBelow reports whether p imports the package with the import path `path`, or a package in a
// directory below it.
func importsBelow(p *types.Package, path string) bool {
	return slices.ContainsFunc(p.Imports(), func(p *types.Package) bool {
		return p.Path() == path || strings.HasPrefix(p.Path(), path+"/")
	})
}

// newCall returns the call at c if this is a call of a function in the map `retriers`. For any
// other call it returns nil.
func (u *uses) newCall(c inspector.Cursor) *call {
	expr := c.Node().(*ast.CallExpr)
	r, ok := retriers[u.callee(expr)]
	if !ok || len(expr.Args) <= r.policy {
		return nil
	}
	found := &call{CallExpr: expr, name: r.name, cursor: c, ctx: expr.Args[0],
		policy: expr.Args[r.policy]}
	for _, i := range r.ops {
		if op := u.operation(expr.Args[i]); op != nil {
			found.ops = append(found.ops, op)
		}
	}
	return found
}

// retrying returns the position of each call that gets a policy, and the position of each literal
// of a Transport.
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

// declared returns the declaration of the function that is called. It returns nil if the checked
// package does not declare the function.
func (u *uses) declared(call *ast.CallExpr) *ast.FuncDecl {
	fn, ok := typeutil.Callee(u.info, call).(*types.Func)
	if !ok {
		return nil
	}
	if decl := u.funcs[fn.Origin()]; decl != nil && decl.Body != nil {
		return decl
	}
	return nil
}
