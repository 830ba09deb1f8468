package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Compare reports comparisons of errors that may be wrapped.
var Compare = newCheck("compare", `report comparisons that do not see through a wrapped error

A failed call returns a *retry.Error around the last error, and an operation may
wrap its own errors. ==, switches and type assertions do not find wrapped errors.`, runCompare)

func runCompare(pass *analysis.Pass, u *uses) {
	seen := map[ast.Node]bool{}
	report := func(f *comparison, wrapped string, fix bool) {
		if f == nil || seen[f.node] {
			return
		}
		seen[f.node] = true
		pass.Report(analysis.Diagnostic{Pos: f.node.Pos(), End: f.end, Message: wrapped + f.advice(), SuggestedFixes: f.fixes(pass, fix)})
	}
	for _, call := range u.calls {
		fn := enclosingFunc(call.cursor)
		if fn == nil {
			continue
		}
		result, from := u.resultOf(call)
		reached := u.reached(fn, result, from)
		for _, f := range u.comparisons(*fn, func(x ast.Expr) bool {
			id, ok := ast.Unparen(x).(*ast.Ident)
			return ast.Unparen(x) == call.CallExpr || ok && result != nil && u.info.Uses[id] == result && reached(id.Pos())
		}) {
			report(f, fmt.Sprintf("%s returns a *retry.Error around the last error, which %s never matches: ", call.name, f.kind), true)
		}
	}
	if !u.wraps() {
		return // nothing here shows that an operation returns more than the error itself
	}
	for field, op := range u.functions("RetryIf", "Classify") {
		err := u.onlyParam(op)
		if err == nil {
			continue
		}
		for _, f := range u.comparisons(op.cursor, func(x ast.Expr) bool {
			id, ok := ast.Unparen(x).(*ast.Ident)
			return ok && u.info.Uses[id] == err
		}) {
			if u.ownErrors(pass, f) {
				continue // the package knows whether its own errors are wrapped
			}
			report(f, fmt.Sprintf("%s gets the error as the operation returned it, and %s does not see through one that is wrapped, as by retry.After: ", field, f.kind), false)
		}
	}
}

// wraps reports whether something in the package wraps an error.
func (u *uses) wraps() bool {
	for _, call := range all[*ast.CallExpr](u.root) {
		if slices.Contains([]string{retryPath + ".After", "fmt.Errorf", "errors.Join"}, u.callee(call)) {
			return true
		}
	}
	return false
}

// reached returns a function that reports whether v may still have the value
// from a statement at a position.
func (u *uses) reached(fn *inspector.Cursor, v *types.Var, from ast.Node) func(token.Pos) bool {
	if v == nil {
		return func(token.Pos) bool { return false }
	}
	var nodes []ast.Node
	flow(bodyOf(fn.Node()), from, func(n ast.Node) bool {
		nodes = append(nodes, n)
		return !u.assigns(n, v)
	})
	return func(pos token.Pos) bool {
		at := false
		for _, n := range nodes {
			if n != from && n.End() <= pos && n.Pos() > from.Pos() && u.assigns(n, v) {
				return false // a branch has replaced it, as by retry.Unwrap
			}
			at = at || n.Pos() <= pos && pos < n.End()
		}
		return at
	}
}

// onlyParam returns the only parameter of a function, if the function never
// assigns it.
func (u *uses) onlyParam(op *operation) *types.Var {
	params := typeOf(op.node).Params
	if len(params.List[0].Names) == 0 {
		return nil
	}
	v, ok := u.info.Defs[params.List[0].Names[0]].(*types.Var)
	if !ok || u.assigns(op.body, v) {
		return nil
	}
	return v
}

// A comparison is code that only matches an error that is not wrapped.
type comparison struct {
	node    ast.Node
	end     token.Pos
	kind    string // "==", "!=", "a switch", "a type assertion"
	err     ast.Expr
	targets []ast.Expr // the errors or types that it is compared with
}

// looksOutside are functions that do not look inside an error, with what
// errors.Is finds instead.
var looksOutside = map[string]string{
	"os.IsNotExist": "fs.ErrNotExist", "os.IsExist": "fs.ErrExist", "os.IsPermission": "fs.ErrPermission", "os.IsTimeout": "os.ErrDeadlineExceeded",
}

// comparisons returns the comparisons of an error in a function. The function
// is reports whether an expression is that error.
func (u *uses) comparisons(fn inspector.Cursor, is func(ast.Expr) bool) (found []*comparison) {
	asked := map[string]bool{} // the errors that errors.Is looks for as well
	for c := range fn.Preorder((*ast.CallExpr)(nil)) {
		if call := c.Node().(*ast.CallExpr); u.callee(call) == "errors.Is" && is(call.Args[0]) {
			asked[types.ExprString(call.Args[1])] = true
		}
	}
	for c := range fn.Preorder((*ast.BinaryExpr)(nil), (*ast.SwitchStmt)(nil), (*ast.TypeSwitchStmt)(nil), (*ast.TypeAssertExpr)(nil), (*ast.CallExpr)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CallExpr:
			if instead := looksOutside[u.callee(n)]; instead != "" && is(n.Args[0]) {
				found = append(found, &comparison{n, n.End(), types.ExprString(n.Fun), n.Args[0], []ast.Expr{ast.NewIdent(instead)}})
			}
		case *ast.BinaryExpr:
			if n.Op != token.EQL && n.Op != token.NEQ {
				continue
			}
			err, target := n.X, n.Y
			if is(target) {
				err, target = target, err
			}
			if is(err) && u.isSentinel(target) && !asked[types.ExprString(target)] {
				found = append(found, &comparison{n, n.End(), n.Op.String(), err, []ast.Expr{target}})
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && is(n.Tag) && u.switchesSentinel(n) {
				found = append(found, &comparison{n, n.Body.Lbrace, "a switch", n.Tag, cases(n.Body)})
			}
		case *ast.TypeSwitchStmt:
			if x := switched(n); is(x) && u.switchesTypes(n) {
				found = append(found, &comparison{n, n.Body.Lbrace, "a type switch", x, cases(n.Body)})
			}
		case *ast.TypeAssertExpr:
			if n.Type != nil && is(n.X) && !u.ofAny(n.Type) && !looksInside(u.info.TypeOf(n.Type)) {
				found = append(found, &comparison{n, n.End(), "a type assertion", n.X, []ast.Expr{n.Type}})
			}
		}
	}
	return found
}

// ownErrors reports whether an error is only compared with errors that the
// package does not export.
func (u *uses) ownErrors(pass *analysis.Pass, f *comparison) bool {
	for _, x := range f.targets {
		if pointer, ok := ast.Unparen(x).(*ast.StarExpr); ok {
			x = pointer.X
		}
		var id *ast.Ident
		switch x := ast.Unparen(x).(type) {
		case *ast.Ident:
			id = x
		case *ast.SelectorExpr:
			id = x.Sel
		}
		if id == nil {
			return false
		}
		if obj := u.info.Uses[id]; obj == nil || obj.Pkg() != nil && (obj.Pkg() != pass.Pkg || obj.Exported() && !inTest(pass, f.node)) {
			return false
		}
	}
	return true
}

// isSentinel reports whether x is an error to compare with: a package variable,
// a constant, a context's error, or a variable that is assigned once.
func (u *uses) isSentinel(x ast.Expr) bool {
	tv := u.info.Types[x]
	if tv.IsNil() {
		return false
	}
	if tv.Value != nil {
		return true
	}
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		v, ok := u.info.Uses[x].(*types.Var)
		if !ok {
			return false
		}
		if v.Parent() == v.Pkg().Scope() {
			return true
		}
		made, ok := u.value(x).(*ast.CallExpr)
		return ok && (u.callee(made) == "errors.New" || u.callee(made) == "fmt.Errorf")
	case *ast.SelectorExpr:
		v, ok := u.info.Uses[x.Sel].(*types.Var)
		return ok && !v.IsField()
	case *ast.CallExpr:
		name := u.callee(x)
		return name == "(context.Context).Err" || name == "context.Cause"
	}
	return false
}

func (u *uses) switchesSentinel(s *ast.SwitchStmt) bool {
	return slices.ContainsFunc(cases(s.Body), u.isSentinel)
}

// cases returns the expressions that a switch compares with.
func cases(body *ast.BlockStmt) (list []ast.Expr) {
	for _, clause := range body.List {
		list = append(list, clause.(*ast.CaseClause).List...)
	}
	return list
}

func switched(s *ast.TypeSwitchStmt) ast.Expr {
	var x ast.Expr
	switch assign := s.Assign.(type) {
	case *ast.ExprStmt:
		x = assign.X
	case *ast.AssignStmt:
		x = assign.Rhs[0]
	}
	return x.(*ast.TypeAssertExpr).X
}

func (u *uses) switchesTypes(s *ast.TypeSwitchStmt) bool {
	found := false
	for _, x := range cases(s.Body) {
		if u.ofAny(x) {
			continue
		}
		if looksInside(u.info.TypeOf(x)) {
			return false
		}
		found = true
	}
	return found
}

// looksInside reports whether a type can give access to a wrapped error.
func looksInside(t types.Type) bool {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok && isNamed(pointer.Elem(), retryPath, "Error") {
		return true
	}
	unwrap, _, _ := types.LookupFieldOrMethod(t, false, nil, "Unwrap")
	return types.IsInterface(t) && unwrap != nil
}

// ofAny reports whether a type in a case is nil, or is one that every error
// has.
func (u *uses) ofAny(x ast.Expr) bool {
	return u.info.Types[x].IsNil() || types.AssignableTo(types.Universe.Lookup("error").Type(), u.info.TypeOf(x))
}
