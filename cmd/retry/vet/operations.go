package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

// An operation is a function that a call retries. Each attempt runs the operation once.
type operation struct {
	node   ast.Node // *ast.FuncLit or *ast.FuncDecl
	cursor inspector.Cursor
	body   *ast.BlockStmt
	ctx    *types.Var // the context parameter of the function; nil if the parameter has no name
}

// contains reports whether the source of o, including its parameters, includes the position pos.
func (o *operation) contains(pos token.Pos) bool { return covers(o.node, pos) }

// operations returns the operations of the calls in u.calls and in `extra`, each operation with its
// call. If several calls retry an operation, `operations` returns it once, with the first of these
// calls.
func (u *uses) operations(extra ...*call) iter.Seq2[*call, *operation] {
	return func(yield func(*call, *operation) bool) {
		seen := map[ast.Node]bool{}
		for _, call := range slices.Concat(u.calls, extra) {
			for _, op := range call.ops {
				if !seen[op.node] && !yield(call, op) {
					return
				}
				seen[op.node] = true
			}
		}
	}
}

// operation returns the operation for x, an expression whose value is a function, such as the last
// argument of retry.Do. It returns nil if x can have several values, or if the body of the function
// is not in the checked package.
func (u *uses) operation(x ast.Expr) *operation {
	value := u.value(x)
	if value == nil {
		return nil
	}
	op := &operation{node: value}
	var signature *ast.FuncType
	if lit, ok := value.(*ast.FuncLit); ok {
		signature, op.body = lit.Type, lit.Body
	} else {
		decl := u.declared(&ast.CallExpr{Fun: value})
		if decl == nil {
			return nil
		}
		signature, op.node, op.body = decl.Type, decl, decl.Body
	}
	op.cursor, _ = u.root.FindNode(op.node)
	if params := signature.Params.List; len(params) > 0 && len(params[0].Names) > 0 {
		if v := u.local(params[0].Names[0]); v != nil && isContext(v.Type()) {
			op.ctx = v
		}
	}
	return op
}

// runsDirectly reports whether the code at c runs as a part of op. The code of a function literal
// in op counts only if the literal is called where it is written.
func runsDirectly(op *operation, c inspector.Cursor) bool {
	for fn := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		if fn.Node() == op.node || !isCalled(fn) {
			return fn.Node() == op.node
		}
	}
	return false
}

// isOuter reports whether v lives longer than an attempt of op. This is true of every variable that
// op does not declare. It is also true of the receiver of op if the receiver is a pointer.
func isOuter(op *operation, v *types.Var) bool {
	if decl, ok := op.node.(*ast.FuncDecl); ok && decl.Recv != nil && decl.Recv.Pos() <= v.Pos() &&
		v.Pos() < decl.Recv.End() {
		_, pointer := v.Type().Underlying().(*types.Pointer)
		return pointer
	}
	return !op.contains(v.Pos())
}

// isOutside reports whether the expression x starts with a variable that lives longer than an
// attempt of op.
func (u *uses) isOutside(op *operation, x ast.Expr) bool {
	id := rootOf(x)
	if id == nil {
		return false
	}
	v, ok := u.info.ObjectOf(id).(*types.Var)
	return ok && isOuter(op, v)
}

// isDeclaredIn reports whether x is a variable that op declares, such as the context of the
// attempt.
func (u *uses) isDeclaredIn(op *operation, x ast.Expr) bool {
	id, ok := ast.Unparen(x).(*ast.Ident)
	return ok && op.contains(u.info.ObjectOf(id).Pos())
}

// comesFromOutside reports whether x is a variable of the checked package that is declared outside
// of op, or a field of such a variable. It returns false if the variable is always nil, or if the
// value of the variable comes from another package.
func (u *uses) comesFromOutside(op *operation, x ast.Expr) bool {
	if !u.isOutside(op, x) || u.isForeign(x) {
		return false
	}
	id, ok := x.(*ast.Ident)
	if !ok {
		return true
	}
	v := u.vars[u.local(id)]
	_, isStruct := u.info.TypeOf(x).Underlying().(*types.Struct)
	if v != nil && v.zero && !v.shared && len(v.values) == 0 && !isStruct {
		return false // the variable is always nil
	}
	value := u.value(id)
	// If the value of x comes from another package, it may have no end. For example, rand.Reader never
	// ends.
	return value == nil || !u.isForeign(value)
}

// detached reports whether the code at c is in a go statement or a defer statement of op. The
// attempt does not wait for a goroutine, and a deferred call cleans up after the attempt. So this
// code is not a part of the attempt, although its source is in op.
func (u *uses) detached(c inspector.Cursor, op *operation) bool {
	return slices.ContainsFunc(u.aside, func(stmt ast.Node) bool {
		return op.contains(stmt.Pos()) && covers(stmt, c.Node().Pos())
	})
}

// mayBeOnce reports whether the code at c may run in only one attempt. This is so in two cases. The
// code is in the body of an if statement whose condition uses a variable outside of op. Or the code
// is in a function literal that is passed to a function, such as the method Do of a sync.Once.
func (u *uses) mayBeOnce(c inspector.Cursor, op *operation) bool {
	for around := range c.Enclosing((*ast.IfStmt)(nil), (*ast.FuncLit)(nil)) {
		if around.Node() == op.node || !op.contains(around.Node().Pos()) {
			break
		}
		choice, ok := around.Node().(*ast.IfStmt)
		if !ok {
			if !isCalled(around) {
				return true
			}
			continue
		}
		if c.Node().Pos() < choice.Body.Pos() {
			continue // c is in the condition of the if statement, and the condition runs in each attempt
		}
		if u.looksOutside(op, choice.Cond) {
			return true
		}
	}
	return false
}

// looksOutside reports whether a condition uses a variable that lives longer than an attempt of op.
func (u *uses) looksOutside(op *operation, cond ast.Expr) bool {
	for n := range ast.Preorder(cond) {
		id, ok := n.(*ast.Ident)
		if v, isVar := u.info.ObjectOf(id).(*types.Var); ok && isVar && !v.IsField() && isOuter(op, v) {
			return true
		}
	}
	return false
}

// onFailure reports whether the statement at c runs only after an error: it is in the body of an if
// statement with the condition err != nil.
func (u *uses) onFailure(op *operation, c inspector.Cursor) bool {
	for ; c.Node() != op.node; c = c.Parent() {
		branch, ok := c.Parent().Node().(*ast.IfStmt)
		if ok && c.Node() == branch.Body && u.isFailure(branch.Cond) {
			return true
		}
	}
	return false
}
