package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Stale reports transactions, connections and timers that a failed attempt leaves
// unusable for the next one.
var Stale = newCheck("stale", `report a transaction, connection or timer that was begun outside

A transaction that failed stays failed, a broken connection stays broken, and a
timer fires once. Each attempt must begin its own.`, func(pass *analysis.Pass, u *uses) {
	for call, op := range u.operations() {
		seen := map[types.Object]bool{}
		for c := range op.cursor.Preorder((*ast.Ident)(nil)) {
			id := c.Node().(*ast.Ident)
			v, ok := u.info.Uses[id].(*types.Var)
			if !ok || seen[v] || op.contains(v.Pos()) || detached(c, op) || u.mayBeOnce(c, op) {
				continue
			}
			if text := u.staleness(op, c, v); text != "" {
				seen[v] = true
				pass.ReportRangef(id, "%s %s", id.Name, strings.ReplaceAll(text, "CALL", call.name))
			}
		}
	}
})

// staleness returns why the variable that is used at c is of no use to the second
// attempt, or "".
func (u *uses) staleness(op *operation, c inspector.Cursor, v *types.Var) string {
	made := u.from(c.Node().(*ast.Ident))
	if made == nil || u.renewed(op, v) {
		return ""
	}
	callee := u.callee(made)
	name := callee[strings.LastIndex(callee, ".")+1:]
	switch {
	case strings.HasPrefix(name, "Begin") && has(v.Type(), "Rollback"):
		if u.touches(op, v) {
			return "was begun outside of CALL, and after an error it takes no more statements: begin and commit it in each attempt, as retrysql.Tx does"
		}
	case callee == "(*database/sql.DB).Conn", strings.HasPrefix(name, "Dial") && isConnection(v.Type()) && !u.isPacket(made):
		if u.touches(op, v) {
			return "was connected outside of CALL, so after a broken connection every attempt fails: connect in the attempt"
		}
	case callee == "time.After", callee == "time.NewTimer":
		if u.receives(c) {
			return "was started outside of CALL and fires once, so the second attempt waits for it without end: start it in the attempt"
		}
	}
	return ""
}

// renewed reports whether op may make v anew.
func (u *uses) renewed(op *operation, v *types.Var) bool {
	if u.assigns(op.body, v) {
		return true
	}
	for c := range u.idents(v, op.cursor) {
		if sel, ok := c.Parent().Node().(*ast.SelectorExpr); ok {
			name := strings.ToLower(sel.Sel.Name)
			if hasAny(name, "reset", "savepoint", "reconnect", "redial", "begin") {
				return true
			}
		}
		for call := range c.Enclosing((*ast.CallExpr)(nil)) { // a statement such as SAVEPOINT
			if !op.contains(call.Node().Pos()) {
				break
			}
			for _, arg := range call.Node().(*ast.CallExpr).Args {
				if value := u.info.Types[arg].Value; value != nil && hasAny(strings.ToUpper(value.ExactString()), "SAVEPOINT") {
					return true
				}
			}
		}
	}
	return false
}

// touches reports whether op calls a method of v that can fail, or passes v on.
func (u *uses) touches(op *operation, v *types.Var) bool {
	for c := range u.idents(v, op.cursor) {
		for around := range c.Enclosing((*ast.CallExpr)(nil)) {
			if op.contains(around.Node().Pos()) && u.canFail(around.Node().(*ast.CallExpr)) {
				return true
			}
		}
	}
	return false
}

// isConnection reports whether t is a connection that does not connect again.
func isConnection(t types.Type) bool {
	if has(t, "SetDeadline") && has(t, "RemoteAddr") {
		return true
	}
	named, ok := types.Unalias(deref(t)).(*types.Named)
	return ok && named.Obj().Pkg() != nil && hasAny(named.Obj().Pkg().Path(), "net/smtp", "net/rpc", "net/textproto")
}

// isPacket reports whether a dialing call names a network without connections.
func (u *uses) isPacket(dial *ast.CallExpr) bool {
	for _, arg := range dial.Args {
		if value := u.info.Types[arg].Value; value != nil && hasAny(value.ExactString(), `"udp`, `"ip`, `"unixgram`) {
			return true
		}
	}
	return false
}

// receives reports whether the channel at c, or the timer's, is received from, and
// the attempt goes on to another one.
func (u *uses) receives(c inspector.Cursor) bool {
	x := c.Parent()
	if sel, ok := x.Node().(*ast.SelectorExpr); ok && sel.Sel.Name == "C" {
		x = x.Parent()
	}
	arrow, ok := x.Node().(*ast.UnaryExpr)
	if !ok || arrow.Op != token.ARROW {
		return false
	}
	for clause := range x.Enclosing((*ast.CommClause)(nil)) {
		for n := range ast.Preorder(clause.Node()) {
			if call, ok := n.(*ast.CallExpr); ok && u.callee(call) == retryPath+".Permanent" {
				return false // it bounds all attempts
			}
		}
	}
	return true
}
