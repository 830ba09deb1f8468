package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Stale reports transactions, connections and timers that the second attempt cannot use.
var Stale = newCheck("stale", `report a transaction, connection or timer that all attempts share

A transaction that failed stays failed, a broken connection stays broken, and a timer
fires once. Each attempt must make its own transaction, connection or
timer.`, func(pass *analysis.Pass, u *uses) {
	for call, op := range u.operations() {
		seen := map[types.Object]bool{}
		for c, id := range nodes[*ast.Ident](op.cursor) {
			v, ok := u.info.Uses[id].(*types.Var)
			if !ok || seen[v] || op.contains(v.Pos()) || u.detached(c, op) || u.mayBeOnce(c, op) {
				continue
			}
			if text := u.staleness(op, c, v); text != "" {
				seen[v] = true
				pass.ReportRangef(id, "%s %s", id.Name, strings.ReplaceAll(text, "CALL", call.name))
			}
		}
	}
})

// staleness returns why the second attempt cannot use the variable v, which op uses at c. It
// returns "" if the second attempt can use v.
func (u *uses) staleness(op *operation, c inspector.Cursor, v *types.Var) string {
	made := u.callOf(c.Node().(*ast.Ident))
	if made == nil || u.renewed(op, v) {
		return ""
	}
	callee := u.callee(made)
	name := calledName(callee)
	switch {
	case strings.HasPrefix(name, "Begin") && hasMethod(v.Type(), "Rollback"):
		if u.touches(op, v) {
			return "was begun outside of CALL, and after an error it takes no more statements: begin and " +
				"commit it in each attempt, as retrysql.Tx does"
		}
	case callee == "(*database/sql.DB).Conn",
		strings.HasPrefix(name, "Dial") && isConnection(v.Type()) &&
			!u.hasText(made, "udp", "ip", "unixgram"):
		if u.touches(op, v) {
			return "was connected outside of CALL, so after a broken connection every attempt fails: " +
				"connect in the attempt"
		}
	case callee == "time.After", callee == "time.NewTimer":
		if u.receives(c) {
			return "was started outside of CALL and fires once, so the second attempt waits for it " +
				"forever: start it in the attempt"
		}
	}
	return ""
}

// renewed reports whether op may replace or reset v.
func (u *uses) renewed(op *operation, v *types.Var) bool {
	for c := range u.idents(v, op.cursor) {
		for call := range c.Enclosing((*ast.CallExpr)(nil)) {
			if !op.contains(call.Node().Pos()) {
				break
			}
			_, name := method(call.Node().(*ast.CallExpr))
			if hasAny(strings.ToLower(name), "reset", "savepoint", "reconnect", "redial", "begin") ||
				u.hasText(call.Node().(*ast.CallExpr), "SAVEPOINT") {
				return true
			}
		}
	}
	return u.assigns(op.body, v)
}

// touches reports whether op contains a call that can fail and that uses v as the receiver or in an
// argument.
func (u *uses) touches(op *operation, v *types.Var) bool {
	for _, call := range nodes[*ast.CallExpr](op.cursor) {
		if u.canFail(call) && u.hasUse(call, v) {
			return true
		}
	}
	return false
}

// isConnection reports whether t is a connection that does not connect again by itself.
func isConnection(t types.Type) bool {
	return hasMethod(t, "SetDeadline") && hasMethod(t, "RemoteAddr") ||
		hasAny(typeName(t), "net/smtp.", "net/rpc.", "net/textproto.")
}

// receives reports whether the attempt receives from the channel or the timer at c. If
// retry.Permanent follows, `receives` returns false, because there is no second attempt.
func (u *uses) receives(c inspector.Cursor) bool {
	x := c.Parent()
	if sel, ok := x.Node().(*ast.SelectorExpr); ok && sel.Sel.Name == "C" {
		x = x.Parent()
	}
	for clause := range x.Enclosing((*ast.CommClause)(nil)) {
		if u.mentionsCallee(clause, retryPath+".Permanent") {
			return false // after retry.Permanent, no attempt follows
		}
	}
	arrow, ok := x.Node().(*ast.UnaryExpr)
	return ok && arrow.Op == token.ARROW
}
