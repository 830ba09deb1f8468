package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// isFailure returns the error that cond compares with nil, using the operator
// op.
func (u *uses) isFailure(cond ast.Expr, op token.Token) types.Object {
	binary, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok || binary.Op != op || !u.info.Types[binary.Y].IsNil() {
		return nil
	}
	id, ok := ast.Unparen(binary.X).(*ast.Ident)
	if !ok || !isError(u.info.TypeOf(id)) {
		return nil
	}
	return u.info.ObjectOf(id)
}

// failing returns the call whose error stmt assigns to err.
func (u *uses) failing(stmt ast.Stmt, err types.Object) *ast.CallExpr {
	assign, ok := stmt.(*ast.AssignStmt)
	if !ok || len(assign.Rhs) != 1 {
		return nil
	}
	id, ok := assign.Lhs[len(assign.Lhs)-1].(*ast.Ident)
	if !ok || u.info.ObjectOf(id) != err {
		return nil
	}
	call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
	if !ok || !u.fails(call) {
		return nil
	}
	return call
}

// anyCall reports whether a call in n can fail.
func (u *uses) anyCall(n ast.Node) bool {
	for n := range ast.Preorder(n) {
		if call, ok := n.(*ast.CallExpr); ok && u.fails(call) {
			return true
		}
	}
	return false
}

// fails reports whether a call can fail, and not only wraps the error of another.
func (u *uses) fails(call *ast.CallExpr) bool { return u.canFail(call) && !wraps(u.callee(call)) }

// wraps reports whether a function only makes an error from another one.
func wraps(callee string) bool {
	return strings.HasPrefix(callee, "errors.") || strings.HasPrefix(callee, "fmt.") || strings.HasPrefix(callee, retryPath+".")
}

// canFail reports whether a call can end early because its context does: it
// returns an error, or a value that can fail later for that reason, such as an
// *exec.Cmd. Loggers and metrics return none, a function that gets an error only
// wraps it, and cleanup should not end early.
func (u *uses) canFail(call *ast.CallExpr) bool {
	signature, ok := u.info.TypeOf(call.Fun).Underlying().(*types.Signature)
	if !ok {
		return false // a conversion
	}
	for param := range signature.Params().Variables() {
		if isError(param.Type()) {
			return false
		}
	}
	full := u.callee(call)
	name := full[strings.LastIndex(full, ".")+1:]
	switch name {
	case "Close", "Rollback", "Shutdown", "Release", "Unlock", "Abort":
		return false
	case "QueryRowContext":
		return true
	}
	switch {
	case strings.HasSuffix(name, "FromContext"), full == "context.Cause", full == "context.WithoutCancel":
		return false
	case full == "os/exec.CommandContext", full == "(*net/http.Request).WithContext":
		return true
	}
	for result := range signature.Results().Variables() {
		if isError(result.Type()) || isContext(result.Type()) {
			return true
		}
	}
	return false
}

func (u *uses) returnsNil(ret *ast.ReturnStmt) bool {
	return len(ret.Results) > 0 && u.info.Types[ret.Results[len(ret.Results)-1]].IsNil()
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

func firstOf(t types.Type) types.Type {
	if tuple, ok := t.(*types.Tuple); ok && tuple.Len() > 0 {
		return tuple.At(0).Type()
	}
	return t
}

// onFailure reports whether the statement at c runs only if the attempt has
// failed.
func (u *uses) onFailure(op *operation, c inspector.Cursor) bool {
	for ; c.Node() != op.node; c = c.Parent() {
		branch, ok := c.Parent().Node().(*ast.IfStmt)
		if ok && c.Node() == branch.Body && u.isFailure(branch.Cond, token.NEQ) != nil {
			return true
		}
	}
	return false
}

// aboutError reports whether a condition looks at an error.
func (u *uses) aboutError(cond ast.Expr) bool {
	for n := range ast.Preorder(cond) {
		if id, ok := n.(*ast.Ident); ok && isError(u.info.TypeOf(id)) {
			return true
		}
	}
	return false
}
