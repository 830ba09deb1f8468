package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// Accumulate reports results that a failed attempt leaves behind for the next
// one.
var Accumulate = newCheck("accumulate", `report results that grow with every attempt

An operation that adds to a slice, a map or a sum outside of it, and fails
afterwards, adds the same again in its next attempt.`, runAccumulate)

func runAccumulate(pass *analysis.Pass, u *uses) {
	for call, op := range u.operations() {
		if u.resumes(op) {
			continue
		}
		u.written(pass, op)
		additions := u.additions(op)
		for _, a := range additions {
			if !a.results || !u.onlyAdded(op, a, additions) || !u.failsAfter(op, a.stmt) {
				continue
			}
			d := analysis.Diagnostic{Pos: a.stmt.Pos(), End: a.stmt.End(), Message: fmt.Sprintf(
				"%s keeps what a failed attempt added, so the next one adds it again: begin the operation with %s, or build the result inside and assign it at the end",
				a.target, a.reset())}
			if u.neverKept(call, op, a, additions) {
				d.SuggestedFixes = []analysis.SuggestedFix{{
					Message:   "begin each attempt with " + a.reset(),
					TextEdits: []analysis.TextEdit{{Pos: op.body.List[0].Pos(), NewText: []byte(a.reset() + "\n")}},
				}}
			}
			pass.Report(d)
			break // the others are of the same kind, and one fix leads to the next
		}
	}
}

// An addition is a statement that adds to a variable outside of an operation.
type addition struct {
	stmt    *ast.AssignStmt
	id      *ast.Ident // the variable, or the variable that has the field
	root    *types.Var
	target  string // what grows, as in the source: "all", "s.items"
	typ     types.Type
	results bool // it adds data that was read, not a record of the attempt itself
}

// reset returns the statement that empties the target.
func (a *addition) reset() string {
	switch t := a.typ.Underlying().(type) {
	case *types.Map:
		return "clear(" + a.target + ")"
	case *types.Basic:
		if t.Info()&types.IsString != 0 {
			return a.target + ` = ""`
		}
		return a.target + " = 0"
	default:
		return a.target + " = nil"
	}
}

// additions returns the statements in op that add to something outside of it.
func (u *uses) additions(op *operation) []*addition {
	var found []*addition
	for c, stmt := range all[*ast.AssignStmt](op.cursor) {
		added, plus := addedTo(u.info, stmt)
		if added == nil {
			continue
		}
		target := ast.Unparen(stmt.Lhs[0])
		if index, ok := target.(*ast.IndexExpr); ok {
			if _, ok := u.info.TypeOf(index.X).Underlying().(*types.Map); !ok {
				continue
			}
			target = ast.Unparen(index.X)
		}
		a := &addition{stmt: stmt, id: rootOf(target), target: types.ExprString(target), typ: u.info.TypeOf(target)}
		if a.id == nil {
			continue
		}
		root, ok := u.info.ObjectOf(a.id).(*types.Var)
		if !ok || !outside(op, root) {
			continue
		}
		a.root = root
		inner := false
		for l := range c.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil)) {
			inner = inner || l.Node() != op.node && op.contains(l.Node().Pos())
		}
		a.results = u.isResult(stmt, added, plus, inner)
		found = append(found, a)
	}
	return found
}

// addedTo returns the values that an assignment adds to its left side, and
// whether it uses plus rather than append.
func addedTo(info *types.Info, stmt *ast.AssignStmt) (added []ast.Expr, plus bool) {
	if len(stmt.Lhs) != 1 || len(stmt.Rhs) != 1 {
		return nil, false
	}
	switch left := types.ExprString(ast.Unparen(stmt.Lhs[0])); stmt.Tok {
	case token.ADD_ASSIGN:
		return stmt.Rhs, true
	case token.ASSIGN:
		switch right := ast.Unparen(stmt.Rhs[0]).(type) {
		case *ast.CallExpr:
			if builtin, ok := typeutil.Callee(info, right).(*types.Builtin); ok && builtin.Name() == "append" &&
				len(right.Args) > 1 && types.ExprString(ast.Unparen(right.Args[0])) == left {
				return right.Args[1:], false
			}
		case *ast.BinaryExpr:
			if right.Op == token.ADD && types.ExprString(ast.Unparen(right.X)) == left {
				return []ast.Expr{right.Y}, true
			}
		}
	}
	return nil, false
}

// isResult reports whether the added values are data that an attempt has read.
// One value for each attempt may be a record of the attempts, or of what must
// be cleaned up.
func (u *uses) isResult(stmt *ast.AssignStmt, added []ast.Expr, plus, inner bool) bool {
	counted := false // it uses the length of something
	for _, x := range added {
		tv := u.info.Types[x]
		if tv.Value != nil || isNamed(tv.Type, "time", "Time") || isNamed(tv.Type, "time", "Duration") ||
			types.AssignableTo(tv.Type, types.Universe.Lookup("error").Type()) {
			return false
		}
		call, ok := ast.Unparen(x).(*ast.CallExpr)
		if !ok {
			continue
		}
		if strings.HasPrefix(u.callee(call), "fmt.Sprint") {
			return false
		}
		for n := range ast.Preorder(call) {
			if id, ok := n.(*ast.Ident); ok && u.info.Uses[id] == types.Universe.Lookup("len") {
				counted = true
			}
		}
	}
	if plus {
		return counted || inner
	}
	return inner || ast.Unparen(stmt.Rhs[0]).(*ast.CallExpr).Ellipsis.IsValid()
}

// outside reports whether v lives longer than an attempt: it is a variable
// around the closure, a package variable, or the receiver of a method.
func outside(op *operation, v *types.Var) bool {
	if decl, ok := op.node.(*ast.FuncDecl); ok && decl.Recv != nil && decl.Recv.Pos() <= v.Pos() && v.Pos() < decl.Recv.End() {
		_, pointer := v.Type().Underlying().(*types.Pointer)
		return pointer
	}
	return !op.contains(v.Pos())
}

// onlyAdded reports whether op does nothing else with the target of an
// addition. An operation that reads the target may continue from there, and one
// that assigns it may start over.
func (u *uses) onlyAdded(op *operation, a *addition, additions []*addition) bool {
	adding := map[ast.Node]bool{}
	for _, other := range additions {
		if other.root == a.root && other.target == a.target {
			adding[other.stmt] = true
		}
	}
	for c, id := range all[*ast.Ident](op.cursor) {
		if u.info.Uses[id] != a.root {
			continue
		}
		for isPath(c.Parent().Node()) {
			c = c.Parent()
		}
		x := c.Node().(ast.Expr)
		if types.ExprString(x) == a.target {
			if !adding[additionAround(c)] {
				return false
			}
		} else if !u.isOther(x, a) {
			return false
		}
	}
	return true
}

// isPath reports whether n is part of a field expression, such as r.items or
// *p.
func isPath(n ast.Node) bool {
	switch n.(type) {
	case *ast.SelectorExpr, *ast.StarExpr:
		return true
	}
	return false
}

// additionAround returns the assignment in which the target at c is a side:
// alone, with an index, or as the first operand of the addition.
func additionAround(c inspector.Cursor) ast.Node {
	if index, ok := c.Parent().Node().(*ast.IndexExpr); ok && index.X == c.Node() {
		c = c.Parent()
	}
	switch p := c.Parent().Node().(type) {
	case *ast.CallExpr:
		if len(p.Args) > 0 && p.Args[0] == c.Node() {
			c = c.Parent()
		}
	case *ast.BinaryExpr:
		if p.X == c.Node() {
			c = c.Parent()
		}
	}
	return c.Parent().Node()
}

// isOther reports whether x is a field other than the target, or is inside such
// a field. The value that contains the target, and its methods, are not.
func (u *uses) isOther(x ast.Expr, a *addition) bool {
	selector, ok := x.(*ast.SelectorExpr)
	if !ok || u.info.Selections[selector] == nil || strings.HasPrefix(a.target, types.ExprString(x)+".") {
		return false
	}
	_, ofRoot := ast.Unparen(selector.X).(*ast.Ident)
	return !ofRoot || u.info.Selections[selector].Kind() == types.FieldVal
}

// failsAfter reports whether an attempt can still fail after stmt.
func (u *uses) failsAfter(op *operation, stmt ast.Stmt) bool {
	failed, returned := false, false
	flow(op.body, stmt, func(n ast.Node) bool {
		failed = failed || u.setsError(n)
		ret, ok := n.(*ast.ReturnStmt)
		returned = returned || ok && !u.returnsNil(ret)
		return true
	})
	return failed && returned
}

func (u *uses) returnsNil(ret *ast.ReturnStmt) bool {
	return len(ret.Results) > 0 && u.info.Types[ret.Results[len(ret.Results)-1]].IsNil()
}

// setsError reports whether a statement or condition examines the error of a
// call, other than one that only wraps another.
func (u *uses) setsError(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt:
		return false
	case *ast.AssignStmt:
		if last, ok := n.Lhs[len(n.Lhs)-1].(*ast.Ident); ok && last.Name == "_" {
			return false
		}
	}
	return u.anyCall(n)
}

// neverKept reports whether the target is empty before the call and is filled
// nowhere else, so that each attempt may start by emptying it.
func (u *uses) neverKept(call *call, op *operation, a *addition, additions []*addition) bool {
	v := u.known(a.root)
	if v == nil || a.target != a.root.Name() || !v.zero {
		return false
	}
	if _, ok := op.node.(*ast.FuncDecl); ok {
		return false
	}
	own := 0
	for _, other := range additions {
		if other.root == a.root {
			own++
		}
	}
	for loop := range call.cursor.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil)) {
		if loop.Node() != op.node && !(loop.Node().Pos() <= a.root.Pos() && a.root.Pos() < loop.Node().End()) {
			return false
		}
	}
	return len(v.values) == own
}
