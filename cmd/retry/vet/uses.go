package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"iter"
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

// usesAnalyzer finds the information that the checks share.
var usesAnalyzer = &analysis.Analyzer{
	Name:       "retryuses",
	Doc:        "find the calls that retry, and the code that they retry",
	Requires:   []*analysis.Analyzer{inspect.Analyzer},
	ResultType: reflect.TypeFor[*uses](),
	Run:        findUses,
}

// uses has the calls of one package that retry something, and the records to
// resolve the names in them.
type uses struct {
	any        bool               // the package imports the library
	ignored    map[place][]string // the checks that comments silence there, or "" for all
	unreasoned []*ast.Comment
	info       *types.Info
	root       inspector.Cursor
	calls      []*call
	onces      []*call // of retry.Once, which makes one attempt
	funcs      map[*types.Func]*ast.FuncDecl
	vars       map[*types.Var]*variable
}

// A call is a call of a function that retries.
type call struct {
	*ast.CallExpr
	name   string // "retry.Do"
	cursor inspector.Cursor
	ctx    ast.Expr
	policy ast.Expr
	ops    []*operation // those whose code is in the package
}

// An operation is the function that one attempt runs.
type operation struct {
	node   ast.Node // *ast.FuncLit or *ast.FuncDecl
	cursor inspector.Cursor
	body   *ast.BlockStmt
	ctx    *types.Var // the context of the attempt; nil if it has no name
}

// contains reports whether pos is inside o, parameters included.
func (o *operation) contains(pos token.Pos) bool {
	return o.node.Pos() <= pos && pos < o.node.End()
}

// A variable records what a package does with one of its variables.
type variable struct {
	zero   bool                  // it starts with its zero value
	values []ast.Expr            // the values assigned to it; nil for one without its own expression
	calls  []ast.Expr            // the calls that assign it as one of several results
	fields map[string][]ast.Expr // the values assigned to its fields
	shared bool                  // its address is taken, so it may change elsewhere
}

// retriers are the functions that retry, with the positions of their arguments.
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

func findUses(pass *analysis.Pass) (any, error) {
	u := &uses{
		info:  pass.TypesInfo,
		root:  pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root(),
		funcs: map[*types.Func]*ast.FuncDecl{},
		vars:  map[*types.Var]*variable{},
	}
	if !slices.ContainsFunc(pass.Pkg.Imports(), func(p *types.Package) bool { return isLibrary(p.Path()) }) {
		return u, nil
	}
	u.any = true
	u.findIgnores(pass)
	for c := range u.root.Preorder((*ast.FuncDecl)(nil), (*ast.ValueSpec)(nil), (*ast.AssignStmt)(nil),
		(*ast.IncDecStmt)(nil), (*ast.RangeStmt)(nil), (*ast.UnaryExpr)(nil), (*ast.SelectorExpr)(nil), (*ast.FuncType)(nil)) {
		u.record(c.Node())
	}
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

// operations returns the operations with their calls. One that is retried in two
// places comes once, with the first of them.
func (u *uses) operations() iter.Seq2[*call, *operation] {
	return func(yield func(*call, *operation) bool) {
		seen := map[ast.Node]bool{}
		for _, call := range u.calls {
			for _, op := range call.ops {
				if !seen[op.node] && !yield(call, op) {
					return
				}
				seen[op.node] = true
			}
		}
	}
}

// isLibrary reports whether a path is that of one of our packages.
func isLibrary(path string) bool { return path == retryPath || strings.HasPrefix(path, retryPath+"/") }

// record records what a node shows about functions and variables.
func (u *uses) record(node ast.Node) {
	switch n := node.(type) {
	case *ast.FuncDecl:
		if fn, ok := u.info.Defs[n.Name].(*types.Func); ok {
			u.funcs[fn] = n
		}
		u.declare(n.Recv)
	case *ast.FuncType:
		u.declare(n.Params)
		if n.Results != nil {
			for _, field := range n.Results.List {
				for _, name := range field.Names {
					if v := u.variable(name); v != nil {
						v.zero = true
					}
				}
			}
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if len(n.Values) > 0 {
				u.assign(name, valueAt(n.Values, len(n.Names), i))
				u.addCall(name, n.Values, len(n.Names))
			} else if v := u.variable(name); v != nil {
				v.zero = true
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if n.Tok == token.ASSIGN || n.Tok == token.DEFINE {
				u.assign(left, valueAt(n.Rhs, len(n.Lhs), i))
				u.addCall(left, n.Rhs, len(n.Lhs))
			} else {
				u.assign(left, nil)
			}
		}
	case *ast.IncDecStmt:
		u.assign(n.X, nil)
	case *ast.RangeStmt:
		for _, left := range []ast.Expr{n.Key, n.Value} {
			if left != nil {
				u.assign(left, nil)
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			u.share(n.X)
		}
	case *ast.SelectorExpr: // calling a method with a pointer receiver takes the address
		s := u.info.Selections[n]
		if s == nil || s.Kind() != types.MethodVal {
			return
		}
		_, wants := s.Obj().Type().(*types.Signature).Recv().Type().(*types.Pointer)
		if _, has := s.Recv().(*types.Pointer); wants && !has {
			u.share(n.X)
		}
	}
}

// declare records that the caller assigns the parameters.
func (u *uses) declare(params *ast.FieldList) {
	if params == nil {
		return
	}
	for _, field := range params.List {
		for _, name := range field.Names {
			u.assign(name, nil)
		}
	}
}

// valueAt returns the value for the i-th of n variables, or nil if it is one of
// the results of a call.
func valueAt(values []ast.Expr, n, i int) ast.Expr {
	if len(values) != n {
		return nil
	}
	return values[i]
}

// addCall records the call that assigns a variable as one of n results.
func (u *uses) addCall(left ast.Expr, values []ast.Expr, n int) {
	if id, ok := left.(*ast.Ident); ok && n > 1 && len(values) == 1 {
		if v := u.variable(id); v != nil {
			v.calls = append(v.calls, values[0])
		}
	}
}

// assign records that value is assigned to a variable or one of its fields.
func (u *uses) assign(left, value ast.Expr) {
	switch left := ast.Unparen(left).(type) {
	case *ast.Ident:
		if v := u.variable(left); v != nil {
			v.values = append(v.values, value)
		}
	case *ast.SelectorExpr:
		id, ok := ast.Unparen(left.X).(*ast.Ident)
		if !ok {
			u.share(left.X)
			return
		}
		if v := u.variable(id); v != nil {
			v.fields[left.Sel.Name] = append(v.fields[left.Sel.Name], value)
		}
	case *ast.IndexExpr:
		u.share(left.X)
	}
}

// share records that the variable at the root of x may change elsewhere.
func (u *uses) share(x ast.Expr) {
	if id := rootOf(x); id != nil {
		if v := u.variable(id); v != nil {
			v.shared = true
		}
	}
}

// rootOf returns the identifier at the start of an expression such as a.b[i].c,
// or nil if it starts with something else.
func rootOf(x ast.Expr) *ast.Ident {
	for {
		switch e := ast.Unparen(x).(type) {
		case *ast.SelectorExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		case *ast.Ident:
			return e
		default:
			return nil
		}
	}
}

// variable returns the record of the variable id, or nil if id is not a
// variable.
func (u *uses) variable(id *ast.Ident) *variable {
	obj, ok := u.info.ObjectOf(id).(*types.Var)
	if !ok {
		return nil
	}
	v := u.vars[obj]
	if v == nil {
		v = &variable{fields: map[string][]ast.Expr{}}
		u.vars[obj] = v
	}
	return v
}

// value returns the only value that an expression can have: the expression
// itself, or the value of a variable that is assigned once. It returns nil if
// there may be others.
func (u *uses) value(x ast.Expr) ast.Expr {
	for x != nil {
		x = ast.Unparen(x)
		id, ok := x.(*ast.Ident)
		if !ok {
			return x
		}
		obj, ok := u.info.ObjectOf(id).(*types.Var)
		if !ok {
			return x // a constant, a function, nil
		}
		x = u.only(obj)
	}
	return nil
}

// only returns the value of a variable that is assigned once and whose fields are
// not, and nil for any other.
func (u *uses) only(obj *types.Var) ast.Expr {
	v := u.known(obj)
	if v == nil || len(v.values) != 1 || len(v.fields) > 0 {
		return nil
	}
	return v.values[0]
}

// result returns the call that assigns a variable as one of its results, if the
// variable is assigned once.
func (u *uses) result(id *ast.Ident) ast.Expr {
	obj, ok := u.info.ObjectOf(id).(*types.Var)
	if !ok {
		return nil
	}
	v := u.known(obj)
	if v == nil || len(v.values) != 1 || len(v.calls) != 1 {
		return nil
	}
	return ast.Unparen(v.calls[0])
}

// known returns the record of a variable that changes nowhere else, and nil for
// any other.
func (u *uses) known(obj *types.Var) *variable {
	v := u.vars[obj]
	if v == nil || v.shared || obj.Exported() && obj.Parent() == obj.Pkg().Scope() {
		return nil
	}
	return v
}

// callee returns the full name of the function that is called, such as
// "time.Sleep" or "(*database/sql.Tx).Commit", or "" if it is not known.
func (u *uses) callee(call *ast.CallExpr) string {
	fn, ok := typeutil.Callee(u.info, call).(*types.Func)
	if !ok {
		return ""
	}
	return fn.Origin().FullName()
}

// newCall returns the call at c if it calls a function that retries.
func (u *uses) newCall(c inspector.Cursor) *call {
	expr := c.Node().(*ast.CallExpr)
	r, ok := retriers[u.callee(expr)]
	if !ok || len(expr.Args) <= r.policy {
		return nil
	}
	found := &call{CallExpr: expr, name: r.name, cursor: c, ctx: expr.Args[0], policy: expr.Args[r.policy]}
	for _, i := range r.ops {
		if op := u.operation(expr.Args[i]); op != nil {
			found.ops = append(found.ops, op)
		}
	}
	return found
}

// operation returns the operation for the function x, if its body is in this
// package.
func (u *uses) operation(x ast.Expr) *operation {
	for {
		conversion, ok := ast.Unparen(x).(*ast.CallExpr)
		if !ok || len(conversion.Args) != 1 || !u.info.Types[conversion.Fun].IsType() {
			break
		}
		x = conversion.Args[0]
	}
	value := u.value(x)
	if value == nil {
		return nil
	}
	op := &operation{node: value}
	var signature *ast.FuncType
	if lit, ok := value.(*ast.FuncLit); ok {
		signature, op.body = lit.Type, lit.Body
	} else {
		fn, ok := typeutil.Callee(u.info, &ast.CallExpr{Fun: value}).(*types.Func)
		if !ok {
			return nil
		}
		decl := u.funcs[fn.Origin()]
		if decl == nil || decl.Body == nil {
			return nil
		}
		signature, op.node, op.body = decl.Type, decl, decl.Body
	}
	op.cursor, _ = u.root.FindNode(op.node)
	if params := signature.Params.List; len(params) > 0 && len(params[0].Names) > 0 {
		op.ctx = u.named(params[0].Names[0])
	}
	return op
}

// named returns the variable of a context that id declares, or nil if it is
// blank or something else.
func (u *uses) named(id *ast.Ident) *types.Var {
	v, ok := u.info.ObjectOf(id).(*types.Var)
	if !ok || id.Name == "_" || !isContext(v.Type()) {
		return nil
	}
	return v
}

func isContext(t types.Type) bool { return isNamed(t, "context", "Context") }
