package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// TxRetry reports transactions that are retried after a lost answer to COMMIT.
var TxRetry = newCheck("txretry", `report transactions that may be applied twice

To retrysql.Transient, a lost answer to COMMIT looks like any lost connection.
retrysql.Tx and retrysql.TxFunc know when COMMIT was sent.`, runTxRetry)

func runTxRetry(pass *analysis.Pass, u *uses) {
	seen := map[ast.Node]bool{} // one operation may be retried in two places
	for _, call := range u.calls {
		if call.name == "retrysql.Tx" {
			u.besideTx(pass, call)
		}
		for _, op := range call.ops {
			commit, name, instead := u.commits(op)
			if commit == nil || seen[commit] || !strings.HasPrefix(call.name, "retry.") || !u.retriesTransient(call.policy) {
				continue
			}
			seen[commit] = true
			pass.ReportRangef(commit, "%s commits, and retrysql.Transient also retries a COMMIT whose answer was lost, so the transaction may be applied twice: use retrysql.%s in place of %s",
				name, instead, call.name)
		}
	}
}

// besideTx reports statements in a transaction of retrysql.Tx that go to the
// database outside of it.
func (u *uses) besideTx(pass *analysis.Pass, call *call) {
	db := call.Args[1]
	for _, op := range call.ops {
		for c := range op.cursor.Preorder((*ast.CallExpr)(nil)) {
			x, name := method(c.Node().(*ast.CallExpr))
			if x == nil || !u.same(x, db) || detached(c, op) || !hasAny(name, "Exec", "Query", "Prepare", "Begin") {
				continue
			}
			pass.ReportRangef(c.Node(), "%s is outside of the transaction: a rollback does not undo it, and the retry does it again; use the tx", types.ExprString(c.Node().(*ast.CallExpr).Fun))
		}
	}
}

// retriesTransient reports whether every RetryIf that a policy may have is
// retrysql.Transient.
func (u *uses) retriesTransient(x ast.Expr) bool {
	values := u.retryIfs(x, 5)
	for _, value := range values {
		if value == nil || !u.isTransient(value) {
			return false
		}
	}
	return len(values) > 0
}

func isNamedIdent(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

// isTransient reports whether a RetryIf returns true whenever
// retrysql.Transient does: it is that function, or returns the result of it,
// alone or with an ||.
func (u *uses) isTransient(x ast.Expr) bool {
	if fn, ok := typeutil.Callee(u.info, &ast.CallExpr{Fun: x}).(*types.Func); ok && fn.FullName() == retrysqlPath+".Transient" {
		return true
	}
	op := u.operation(x)
	if op == nil || len(op.body.List) != 1 {
		return false
	}
	ret, ok := op.body.List[0].(*ast.ReturnStmt)
	return ok && len(ret.Results) == 1 && u.orTransient(ret.Results[0])
}

func (u *uses) orTransient(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.CallExpr:
		return u.callee(x) == retrysqlPath+".Transient"
	case *ast.BinaryExpr:
		return x.Op == token.LOR && (u.orTransient(x.X) || u.orTransient(x.Y))
	}
	return false
}

// commits returns the first call in an operation that commits a transaction,
// its name, and the retrysql function to use instead. It ignores read-only
// transactions, which may run twice, and those of retrysql, which knows whether
// they were committed.
func (u *uses) commits(op *operation) (commit *ast.CallExpr, name, instead string) {
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil), (*ast.Ident)(nil)) {
		call, ok := c.Node().(*ast.CallExpr)
		if !ok {
			if c.Node().(*ast.Ident).Name == "ReadOnly" {
				return nil, "", ""
			}
			continue
		}
		callee := u.callee(call)
		if callee == retrysqlPath+".Tx" || callee == retrysqlPath+".TxFunc" {
			return nil, "", ""
		}
		if commit != nil {
			continue
		}
		if u.isCommit(call) || transacts(callee) && !u.beginsInside(call) {
			commit, name, instead = call, types.ExprString(call.Fun), "TxFunc"
			if callee == "(*database/sql.Tx).Commit" {
				instead = "Tx"
			}
		}
	}
	return commit, name, instead
}

// isCommit reports whether a call is the Commit method of a value that also has
// a Rollback method.
func (u *uses) isCommit(call *ast.CallExpr) bool {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Commit" || u.info.Selections[sel] == nil {
		return false
	}
	rollback, _, _ := types.LookupFieldOrMethod(u.info.TypeOf(sel.X), true, nil, "Rollback")
	_, ok = rollback.(*types.Func)
	return ok
}

// transacts reports whether a function begins a transaction, calls a function
// with it, and commits.
func transacts(callee string) bool {
	dot := strings.LastIndex(callee, ".")
	switch path := strings.TrimPrefix(callee, "(*"); callee[dot+1:] {
	case "BeginFunc", "BeginTxFunc":
		return strings.HasPrefix(path, "github.com/jackc/pgx")
	case "Transaction":
		return strings.HasPrefix(path, "gorm.io/gorm.")
	case "RunInTx":
		return strings.HasPrefix(path, "github.com/uptrace/bun.")
	}
	return false
}

// beginsInside reports whether a transaction is a savepoint in another one: the
// method or the argument belongs to a Tx.
func (u *uses) beginsInside(call *ast.CallExpr) bool {
	for n := range ast.Preorder(call) {
		if lit, ok := n.(*ast.FuncLit); ok && lit.Pos() > call.Pos() {
			break
		}
		if x, ok := n.(ast.Expr); ok {
			if named, ok := types.Unalias(derefAny(u.info.TypeOf(x))).(*types.Named); ok && named.Obj().Name() == "Tx" {
				return true
			}
		}
	}
	return false
}
