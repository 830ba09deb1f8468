package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Hooks reports functions of a policy that do not do what they are for.
var Hooks = newCheck("hooks", `report an OnEvent or RetryIf that does not do what it is for

OnEvent is called for each event, in the caller's goroutine, so it must look at the
Kind and not wait. RetryIf decides about an error, for many calls at once.`, func(pass *analysis.Pass, u *uses) {
	for field, op := range u.functions("OnEvent", "RetryIf", "Classify") {
		u.waitsInHook(pass, field, op)
		switch field {
		case "OnEvent":
			u.anyKind(pass, op)
		case "RetryIf":
			u.turnedAround(pass, op)
		}
	}
	u.statusBlind(pass)
})

// waitsInHook reports what a call waits for in a hook.
func (u *uses) waitsInHook(pass *analysis.Pass, field string, op *operation) {
	for c, call := range all[*ast.CallExpr](op.cursor) {
		if own(op, c) && !detached(c, op) && (u.callee(call) == "time.Sleep" || u.sends(call)) {
			pass.ReportRangef(call, "the call waits until %s returns, each time that %s is called: Backoff sets the delay, and a goroutine may do the rest", types.ExprString(call.Fun), field)
		}
	}
}

// anyKind reports an OnEvent that counts or logs each event as if it were one of a
// kind.
func (u *uses) anyKind(pass *analysis.Pass, op *operation) {
	if params := typeOf(op.node).Params.List; len(params) == 2 && len(params[1].Names) == 1 {
		for use := range u.idents(u.local(params[1].Names[0]), op.cursor) {
			sel, ok := use.Parent().Node().(*ast.SelectorExpr)
			if !ok || sel.Sel.Name == "Kind" || inAny(use, (*ast.IfStmt)(nil), (*ast.SwitchStmt)(nil)) {
				return
			}
		}
	}
	for c := range op.cursor.Preorder((*ast.IncDecStmt)(nil), (*ast.CallExpr)(nil)) {
		call, _ := c.Node().(*ast.CallExpr)
		if own(op, c) && (call == nil || u.counts(call)) {
			pass.ReportRangef(c.Node(), "OnEvent is called for each event, several times an attempt: look at Kind first, for example whether it is retry.RetryScheduled")
			return
		}
	}
}

// counts reports whether a call adds one to something, or logs.
func (u *uses) counts(call *ast.CallExpr) bool {
	x, name := method(call)
	return x != nil && (name == "Inc" || name == "Add" && len(call.Args) == 1 && u.info.Types[call.Args[0]].Value != nil) ||
		strings.HasPrefix(u.callee(call), "log.") || strings.HasPrefix(u.callee(call), "log/slog.") || hasAny(u.callee(call), "slog.Logger)", "atomic.Add")
}

// turnedAround reports a RetryIf that returns true for what must not be retried.
func (u *uses) turnedAround(pass *analysis.Pass, op *operation) {
	for _, ret := range returnsOf(op.body) {
		if len(ret.Results) == 0 {
			continue
		}
		call, ok := ast.Unparen(ret.Results[0]).(*ast.CallExpr)
		if ok && slices.Contains([]string{retryPath + ".IsPermanent", retryPath + "/retrynet.Permanent"}, u.callee(call)) {
			pass.ReportRangef(ret, "RetryIf returns true for what to retry, and this is true for what not to: negate it")
		}
	}
}

// statusBlind reports a Transport with a RetryIf that knows no HTTP status.
func (u *uses) statusBlind(pass *analysis.Pass) {
	var policies []ast.Expr
	for _, s := range u.settings {
		if s.is(retryhttpPath, "Transport", "Policy") && s.value != nil {
			policies = append(policies, s.value)
		}
	}
	for _, call := range all[*ast.CallExpr](u.root) {
		if u.callee(call) == retryhttpPath+".WithPolicy" {
			policies = append(policies, call.Args[1])
		}
	}
	for _, policy := range policies {
		for _, x := range u.retryIfs(policy, 5) {
			sel, ok := x.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			fn, ok := u.info.Uses[sel.Sel].(*types.Func)
			if ok && slices.Contains([]string{retryPath + "/retrynet.Transient", retrysqlPath + ".Transient"}, fn.FullName()) {
				pass.ReportRangef(x, "%s knows no HTTP status, so a Transport with it never retries a 503 or a 429: leave RetryIf out, Check decides", types.ExprString(x))
			}
		}
	}
}
