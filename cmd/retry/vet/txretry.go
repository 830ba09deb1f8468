package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// TxRetry reports code that may retry a transaction after the response to COMMIT was lost.
var TxRetry = newCheck("txretry", `report transactions that may be applied twice

If the response to COMMIT is lost, the transaction may have been committed. Then a retry
applies the transaction again. retrysql.Transient cannot tell this case from any other lost
connection, but retrysql.Tx and retrysql.TxFunc can.`, func(pass *analysis.Pass, u *uses) {
	for call, op := range u.operations() {
		if call.name == "retrysql.Tx" {
			u.outsideTx(pass, call.Args[1], op)
		}
		commit, instead := u.firstCommit(op)
		if commit == nil || !strings.HasPrefix(call.name, "retry.") {
			continue
		}
		by := "retrysql.Transient also retries"
		if u.retriesAll(call.policy) && u.beginsTx(op) && !u.isPermanent(op, commit) {
			by = "a policy without a RetryIf also retries"
		} else if !u.isTransient(u.retryIf(call.policy)) {
			continue
		}
		pass.ReportRangef(commit,
			"%s commits, and %s a COMMIT whose response was lost, so the transaction may be applied twice: "+
				"use retrysql.%s in place of %s",
			types.ExprString(commit.Fun), by, instead, call.name)
	}
})

// outsideTx looks at the function that a call passes to retrysql.Tx. It reports the SQL statements
// of this function that use the database db instead of the transaction.
func (u *uses) outsideTx(pass *analysis.Pass, db ast.Expr, op *operation) {
	for c, call := range nodes[*ast.CallExpr](op.cursor) {
		if x, name := method(call); x != nil && u.isSame(x, db) && !u.detached(c, op) &&
			hasAny(name, "Exec", "Query", "Prepare", "Begin") {
			pass.ReportRangef(call,
				"%s is outside of the transaction: a rollback does not undo this call, and a retry "+
					"makes it again: use the *sql.Tx", types.ExprString(call.Fun))
		}
	}
}

// beginsTx reports whether an operation begins a transaction itself.
func (u *uses) beginsTx(op *operation) bool {
	for _, call := range nodes[*ast.CallExpr](op.cursor) {
		callee := u.callee(call)
		made, ok := u.info.TypeOf(call).(*types.Tuple)
		if transacts(callee) || ok && strings.HasPrefix(calledName(callee), "Begin") &&
			hasMethod(made.At(0).Type(), "Rollback") {
			return true
		}
	}
	return false
}

// isTransient reports whether the RetryIf function x returns true whenever retrysql.Transient
// returns true. Such a function is retrysql.Transient itself, or it returns the result of
// retrysql.Transient, alone or as an operand of ||.
func (u *uses) isTransient(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case nil:
		return false
	case *ast.FuncLit:
		ret, ok := x.Body.List[0].(*ast.ReturnStmt)
		return ok && u.isTransient(ret.Results[0])
	case *ast.CallExpr:
		return u.isTransient(x.Fun)
	case *ast.BinaryExpr:
		return x.Op == token.LOR && (u.isTransient(x.X) || u.isTransient(x.Y))
	}
	return u.callee(&ast.CallExpr{Fun: x}) == retrysqlPath+".Transient"
}

// firstCommit returns the first call in an operation that commits a transaction, and the name of
// the function of retrysql that should replace the call. It returns nil for a read-only
// transaction, which may run twice. It also returns nil for a transaction of retrysql, because
// retrysql knows whether the transaction was committed.
func (u *uses) firstCommit(op *operation) (commit *ast.CallExpr, instead string) {
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil), (*ast.Ident)(nil)) {
		if isNamedIdent(c.Node(), "ReadOnly") {
			return nil, ""
		}
		call, ok := c.Node().(*ast.CallExpr)
		if !ok {
			continue
		}
		callee := u.callee(call)
		if strings.HasPrefix(callee, retrysqlPath+".Tx") {
			return nil, ""
		}
		x, name := method(call)
		// If x is a package, its type is nil, and hasMethod returns false.
		committed := x != nil && name == "Commit" && hasMethod(u.info.TypeOf(x), "Rollback")
		if commit == nil && (committed || transacts(callee) && !u.beginsInside(call)) {
			commit, instead = call, "TxFunc"
			if callee == "(*database/sql.Tx).Commit" {
				instead = "Tx"
			}
		}
	}
	return commit, instead
}

// transacts reports whether a function of another library begins a transaction, runs a function in
// it, and commits it. The parameter `callee` is the full name of the function.
func transacts(callee string) bool {
	for name, path := range map[string]string{
		".BeginFunc": "github.com/jackc/pgx", ".BeginTxFunc": "github.com/jackc/pgx",
		".Transaction": "gorm.io/gorm.", ".RunInTx": "github.com/uptrace/bun.",
	} {
		if strings.HasSuffix(callee, name) && strings.HasPrefix(strings.TrimPrefix(callee, "(*"), path) {
			return true
		}
	}
	return false
}

// beginsInside reports whether a call begins a savepoint inside another transaction. This is so if
// the receiver or an argument of the call is a Tx.
func (u *uses) beginsInside(call *ast.CallExpr) bool {
	for n := range ast.Preorder(call) {
		if lit, ok := n.(*ast.FuncLit); ok && lit.Pos() > call.Pos() {
			break
		}
		if x, ok := n.(ast.Expr); ok {
			if named, ok := types.Unalias(deref(u.info.TypeOf(x))).(*types.Named); ok &&
				named.Obj().Name() == "Tx" {
				return true
			}
		}
	}
	return false
}

// inTransaction reports whether the function literal `lit` is the body of a transaction, but the
// call w inside `lit` does not use this transaction. c is the parent node of `lit`. For the body of
// a transaction, c is a call of a function such as retrysql.Tx.
func (u *uses) inTransaction(c inspector.Cursor, lit *ast.FuncLit, w wait) bool {
	begin, ok := c.Node().(*ast.CallExpr)
	if !ok || !transacts(u.callee(begin)) && u.callee(begin) != retrysqlPath+".Tx" {
		return false
	}
	for _, param := range lit.Type.Params.List {
		for _, name := range param.Names {
			if !isContext(u.info.TypeOf(name)) && u.hasUse(w.call, u.info.Defs[name]) {
				return false
			}
		}
	}
	return true
}
