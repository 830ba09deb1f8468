package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"
)

// nodes returns the nodes of type N in a part of the code, each with its cursor.
func nodes[N ast.Node](in inspector.Cursor) iter.Seq2[inspector.Cursor, N] {
	return func(yield func(inspector.Cursor, N) bool) {
		var kind N
		for c := range in.Preorder(kind) {
			if !yield(c, c.Node().(N)) {
				return
			}
		}
	}
}

// covers reports whether the source of n includes the position pos.
func covers(n ast.Node, pos token.Pos) bool { return n.Pos() <= pos && pos < n.End() }

// enclosingFunc returns the innermost function that contains c. It returns nil if c is outside of
// all functions.
func enclosingFunc(c inspector.Cursor) *inspector.Cursor {
	for fn := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		return &fn
	}
	return nil
}

func bodyOf(fn ast.Node) *ast.BlockStmt {
	if lit, ok := fn.(*ast.FuncLit); ok {
		return lit.Body
	}
	return fn.(*ast.FuncDecl).Body
}

// isCalled reports whether the function literal at c is called where it is written.
func isCalled(c inspector.Cursor) bool {
	call, ok := c.Parent().Node().(*ast.CallExpr)
	return ok && call.Fun == c.Node()
}

// leavesBlock reports whether the last statement of `list` is a return, a break or a goto.
func leavesBlock(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	switch last := list[len(list)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return last.Tok != token.CONTINUE
	}
	return false
}

// flow follows each path through `body` that begins after the node `start`. It calls `visit` for
// each node on the path. If `visit` returns false, `flow` does not follow the path any further.
// `flow` returns true if a path reaches the end of `body`.
func flow(body *ast.BlockStmt, start ast.Node, visit func(ast.Node) bool) (ends bool) {
	seen := map[*cfg.Block]bool{}
	var walk func(b *cfg.Block, i int)
	walk = func(b *cfg.Block, i int) {
		for _, n := range b.Nodes[i:] {
			if !visit(n) {
				return
			}
		}
		ends = ends || len(b.Succs) == 0
		for _, next := range b.Succs {
			if !seen[next] {
				seen[next] = true
				walk(next, 0)
			}
		}
	}
	for _, b := range cfg.New(body, func(*ast.CallExpr) bool { return true }).Blocks {
		for i, n := range b.Nodes {
			if n == start {
				walk(b, i+1)
			} else if covers(n, start.Pos()) { // n calls a function literal that contains `start`
				walk(b, i)
			}
		}
	}
	return ends
}

// returnedFrom reports whether the function fn may return, send or assign the value that the
// statement stmt assigned to v.
func (u *uses) returnedFrom(fn inspector.Cursor, stmt ast.Node, v *types.Var) bool {
	if !covers(bodyOf(fn.Node()), v.Pos()) {
		return true // v is a named result, or a variable outside of the function
	}
	returned := false
	flow(bodyOf(fn.Node()), stmt, func(n ast.Node) bool {
		isV := func(x ast.Expr) bool { return u.local(x) == v }
		usesV := func(x ast.Expr) bool { return u.hasUse(x, v) }
		if assign, ok := n.(*ast.AssignStmt); ok && slices.ContainsFunc(assign.Lhs, isV) {
			returned = returned || slices.ContainsFunc(assign.Rhs, usesV)
			return false
		}
		switch n.(type) {
		case *ast.ReturnStmt, *ast.AssignStmt, *ast.SendStmt:
			returned = returned || u.hasUse(n, v)
		}
		return true
	})
	return returned
}

// assigns reports whether a statement may change v. It also looks into function literals in the
// statement.
func (u *uses) assigns(n ast.Node, v *types.Var) bool {
	for n := range ast.Preorder(n) {
		var changed []ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			changed = n.Lhs
		case *ast.IncDecStmt:
			changed = []ast.Expr{n.X}
		case *ast.RangeStmt:
			changed = []ast.Expr{n.Key, n.Value}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				changed = []ast.Expr{n.X}
			}
		}
		if slices.ContainsFunc(changed, func(x ast.Expr) bool {
			return rootOf(x) != nil && u.local(rootOf(x)) == v
		}) {
			return true
		}
	}
	return false
}

// returnsOf returns the return statements of a function, without the return statements of function
// literals inside this function.
func returnsOf(body *ast.BlockStmt) (list []*ast.ReturnStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		if ret, ok := n.(*ast.ReturnStmt); ok {
			list = append(list, ret)
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
	return list
}

// idents returns the identifiers in a part of the code that refer to the object v. It also returns
// the cursor of each identifier.
func (u *uses) idents(v types.Object, in inspector.Cursor) iter.Seq2[inspector.Cursor, *ast.Ident] {
	return func(yield func(inspector.Cursor, *ast.Ident) bool) {
		for c := range in.Preorder((*ast.Ident)(nil)) {
			if id := c.Node().(*ast.Ident); u.info.Uses[id] == v && !yield(c, id) {
				return
			}
		}
	}
}

// count returns how many identifiers in a part of the code refer to the object o.
func (u *uses) count(o types.Object, in inspector.Cursor) (n int) {
	for range u.idents(o, in) {
		n++
	}
	return n
}

// hasUse reports whether the code of n uses the object v. It returns false if v is nil.
func (u *uses) hasUse(n ast.Node, v types.Object) bool {
	c, _ := u.root.FindNode(n)
	return v != nil && u.count(v, c) > 0
}

// mentionsCallee reports whether a part of the code calls the function whose full name is `name`.
func (u *uses) mentionsCallee(in inspector.Cursor, name string) bool {
	for _, call := range nodes[*ast.CallExpr](in) {
		if u.callee(call) == name {
			return true
		}
	}
	return false
}

// reached returns the pieces of code in `parts`. It also returns the functions of the checked
// package that these pieces call, directly or through other functions. It looks for calls in at
// most 8 pieces of code.
func (u *uses) reached(parts ...inspector.Cursor) []inspector.Cursor {
	for i := 0; i < len(parts) && i < 8; i++ {
		for _, call := range nodes[*ast.CallExpr](parts[i]) {
			if decl := u.declared(call); decl != nil {
				if c, _ := u.root.FindNode(decl); !slices.Contains(parts, c) {
					parts = append(parts, c)
				}
			}
		}
	}
	return parts
}
