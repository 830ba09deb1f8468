package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Held reports locks, transactions and connections that are held while a call waits before a retry.
var Held = newCheck("held", `report a lock, transaction or connection held while a call waits

While a call waits before a retry, every other call that needs the lock, the connection
or the rows that the transaction has locked waits too. So the outage of one server also
stops work that does not use this server.`, func(pass *analysis.Pass, u *uses) {
	for _, w := range u.waiting() {
		if what := u.heldDuring(w); what != "" {
			pass.ReportRangef(w.call.Fun,
				"%s is held while %s retries and waits, so every other user of it waits too: release it "+
					"before this call, or take it after this call", what, w.name)
		}
	}
})

// A wait is a call that may wait before a retry. There are three kinds: a call that retries, a call
// of a function that contains such a call, and a request through a Transport.
type wait struct {
	call   *ast.CallExpr
	cursor inspector.Cursor
	name   string
	ops    []*operation
}

// waiting returns the calls of the package that may wait before a retry.
func (u *uses) waiting() (found []wait) {
	inside := map[*ast.FuncDecl]*call{}
	for _, call := range u.calls {
		fn := enclosingFunc(call.cursor)
		if fn == nil || u.noWait(call.policy) {
			continue
		}
		found = append(found, wait{call.CallExpr, call.cursor, call.name, call.ops})
		if decl, ok := fn.Node().(*ast.FuncDecl); ok {
			inside[decl] = call
		}
	}
	for c, call := range nodes[*ast.CallExpr](u.root) {
		if enclosingFunc(c) == nil {
			continue
		}
		if decl := u.declared(call); decl != nil && inside[decl] != nil {
			found = append(found, wait{call, c, decl.Name.Name, nil})
		} else if u.retryingClient(call) != nil {
			found = append(found, wait{call, c, "the Transport", nil})
		}
	}
	return slices.DeleteFunc(found, func(w wait) bool {
		_, started := w.cursor.Parent().Node().(*ast.GoStmt)
		_, deferred := w.cursor.Parent().Node().(*ast.DeferStmt)
		return started || deferred
	})
}

// noWait reports whether all waits of a policy together certainly take at most 100ms.
func (u *uses) noWait(x ast.Expr) bool {
	p, known := u.limits(x)
	if !known || p.EffectiveMax() <= 0 {
		return false
	}
	all := time.Duration(0)
	for _, d := range p.Delays(p.EffectiveMax() - 1) {
		all += d
	}
	return all <= 100*time.Millisecond
}

// heldDuring describes the lock, transaction or connection that the function around the call w
// holds during this call. It returns "" if the function holds nothing.
func (u *uses) heldDuring(w wait) string {
	fn := enclosingFunc(w.cursor)
	if lit, ok := fn.Node().(*ast.FuncLit); ok && u.inTransaction(fn.Parent(), lit, w) {
		return "the transaction around this call"
	}
	for loop := range w.cursor.Enclosing((*ast.ForStmt)(nil)) {
		next, ok := loop.Node().(*ast.ForStmt).Cond.(*ast.CallExpr)
		if !ok || !covers(fn.Node(), loop.Node().Pos()) {
			continue
		}
		if rows, name := method(next); name == "Next" && isRows(u.info.TypeOf(rows)) {
			return "the connection of " + types.ExprString(rows)
		}
	}
	for c := range fn.Preorder((*ast.ExprStmt)(nil), (*ast.AssignStmt)(nil)) {
		if c.Node().Pos() > w.call.Pos() || enclosingFunc(c).Node() != fn.Node() {
			continue
		}
		what, x, methods := u.takesHold(c.Node())
		if what == "" {
			continue
		}
		isLock := methods != nil && strings.HasSuffix(methods[0], "Unlock")
		taken := isLock && !u.keepsLock(fn.Node(), w, x, methods) || !isLock && !u.usedBy(w, x)
		if taken && u.reachesHeld(fn.Node(), c.Node(), w, x, methods) {
			return what
		}
	}
	return ""
}

// takesHold describes the lock, transaction or connection that a statement takes. The result x is
// the expression for this lock, transaction or connection, such as s.mu. The result `methods` lists
// the methods of x that release it. If the statement takes nothing, the description is "".
func (u *uses) takesHold(stmt ast.Node) (what string, x ast.Expr, methods []string) {
	if expr, ok := stmt.(*ast.ExprStmt); ok {
		if lock, ok := expr.X.(*ast.CallExpr); ok && slices.Contains(locks, u.callee(lock)) {
			x, name := method(lock)
			return types.ExprString(x), x, []string{strings.Replace(name, "Lock", "Unlock", 1)}
		}
		return "", nil, nil
	}
	assign, ok := stmt.(*ast.AssignStmt)
	if !ok || len(assign.Rhs) != 1 || u.local(assign.Lhs[0]) == nil {
		return "", nil, nil
	}
	made, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
	if !ok {
		return "", nil, nil
	}
	t := u.info.TypeOf(assign.Lhs[0])
	switch _, name := method(made); {
	case strings.HasPrefix(name, "Begin") && hasMethod(t, "Commit") && hasMethod(t, "Rollback"):
		return "the transaction " + types.ExprString(assign.Lhs[0]), assign.Lhs[0],
			[]string{"Commit", "Rollback"}
	case u.callee(made) == "(*database/sql.DB).Conn", name == "Acquire" && hasMethod(t, "Release"):
		return "the connection " + types.ExprString(assign.Lhs[0]), assign.Lhs[0],
			[]string{"Close", "Release", "Hijack"}
	}
	return "", nil, nil
}

// locks lists the methods that take a lock and may wait for it without a limit.
var locks = []string{
	"(*sync.Mutex).Lock", "(*sync.RWMutex).Lock", "(*sync.RWMutex).RLock", "(sync.Locker).Lock",
}

// usedBy reports whether the call w uses x, which is the transaction or connection that is held. If
// so, the retries need x.
func (u *uses) usedBy(w wait, x ast.Expr) bool {
	v := u.local(x)
	return u.hasUse(w.call, v) || slices.ContainsFunc(w.ops, func(op *operation) bool {
		return u.hasUse(op.body, v)
	})
}

// reachesHeld reports whether some path leads from the statement that takes x to the call w without
// a release of x.
func (u *uses) reachesHeld(fn, from ast.Node, w wait, x ast.Expr, methods []string) (held bool) {
	flow(bodyOf(fn), from, func(n ast.Node) bool {
		if covers(n, w.call.Pos()) {
			held = true
		}
		return !held && !u.releases(n, x, methods)
	})
	return held
}

// keepsLock reports whether a function may return without a release of the lock x. Such a function
// takes the lock for its caller.
func (u *uses) keepsLock(fn ast.Node, w wait, x ast.Expr, methods []string) bool {
	for n := range ast.Preorder(bodyOf(fn)) {
		if later, ok := n.(*ast.DeferStmt); ok && u.releases(later.Call, x, methods) {
			return false
		}
	}
	return flow(bodyOf(fn), w.call, func(n ast.Node) bool { return !u.releases(n, x, methods) })
}

// releases reports whether a statement calls one of the given methods on x. A defer statement does
// not count, because it calls the method later.
func (u *uses) releases(n ast.Node, x ast.Expr, methods []string) bool {
	if _, later := n.(*ast.DeferStmt); later {
		return false
	}
	for n := range ast.Preorder(n) {
		if call, ok := n.(*ast.CallExpr); ok {
			of, name := method(call)
			if of != nil && slices.Contains(methods, name) && types.ExprString(of) == types.ExprString(x) {
				return true
			}
		}
	}
	return false
}
