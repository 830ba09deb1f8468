package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/goretry/retry"
)

// Endless reports calls that nothing ends but a success.
var Endless = newCheck("endless", `report unlimited attempts on a context that is never done

An operation that cannot succeed is retried until the process ends. A context that
something cancels, or a limit, ends it. A policy with HealthyAfter is meant to go on.`, func(pass *analysis.Pass, u *uses) {
	u.blindDecisions(pass)
	for _, call := range u.calls {
		fn := enclosingFunc(call.cursor)
		if fn != nil && u.unlimited(call.policy) && u.neverDone(fn.Node(), call.ctx) && !slices.ContainsFunc(call.ops, u.stops) {
			pass.ReportRangef(call.Fun, "nothing ends this %s but a success: its attempts are unlimited, and its context is never done; set a limit, or pass a context that something cancels", call.name)
		}
	}
})

// unlimited reports whether a policy is known to set no bound to the attempts, and to
// one that hangs.
func (u *uses) unlimited(x ast.Expr) bool {
	found := u.policy(x)
	if found == nil || u.sets(x, "Budget", "Wait", "Classify", "HealthyAfter", "AttemptCap", "NonRetryable") {
		return false
	}
	var p retry.Policy
	if _, ok := found.base.(*ast.CallExpr); ok {
		p = retry.Default()
	}
	limits := map[string]ast.Expr{}
	for _, name := range []string{"MaxAttempts", "MaxRetries", "MaxElapsed", "AttemptTimeout"} {
		value, set := found.fields[name]
		if set && value == nil {
			value = u.assignedOnce(x, name)
		}
		if set && value == nil {
			return false
		}
		if set {
			limits[name] = value
		}
	}
	p, known := u.evaluate(p, limits)
	if !known || p.MaxElapsed > 0 && p.AttemptTimeout > 0 {
		return false
	}
	most := p.EffectiveMax()
	return most == retry.Unlimited || most == 0 && p.MaxElapsed > 0
}

// assignedOnce returns the value of the only assignment to a field of the policy x.
func (u *uses) assignedOnce(x ast.Expr, field string) ast.Expr {
	if v := u.local(ast.Unparen(x)); v != nil && u.vars[v] != nil {
		if values := u.vars[v].fields[field]; len(values) == 1 {
			return values[0]
		}
	}
	return nil
}

// neverDone reports whether a context is known to be canceled by nothing before the
// call with it returns.
func (u *uses) neverDone(fn ast.Node, ctx ast.Expr) bool {
	for {
		made := u.from(ctx)
		if made == nil {
			made, _ = u.deep(ctx).(*ast.CallExpr) // a field that is set in one place
		}
		if made == nil {
			return false
		}
		switch u.callee(made) {
		case "context.Background", "context.TODO", "context.WithoutCancel":
			return true
		case "context.WithValue":
		case "context.WithCancel", "context.WithCancelCause":
			if !u.canceledAtEnd(fn, made) {
				return false
			}
		default:
			return false
		}
		ctx = made.Args[0]
	}
}

// canceledAtEnd reports whether a function does nothing with the cancel function that
// made returns but to defer it.
func (u *uses) canceledAtEnd(fn ast.Node, made *ast.CallExpr) bool {
	var cancel *types.Var
	deferred := map[*ast.Ident]bool{}
	for n := range ast.Preorder(bodyOf(fn)) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if len(n.Lhs) == 2 && n.Rhs[0] == made {
				cancel = u.local(n.Lhs[1])
			}
		case *ast.DeferStmt:
			if id, ok := n.Call.Fun.(*ast.Ident); ok {
				deferred[id] = true
			}
		}
	}
	if cancel == nil {
		return false
	}
	for _, id := range u.idents(cancel, u.root) {
		if !deferred[id] {
			return false
		}
	}
	return true
}

// stops reports whether an operation asks something other than its errors whether to go
// on: it receives from a channel, or returns by a condition on what is outside of it.
func (u *uses) stops(op *operation) bool {
	for c := range op.cursor.Preorder((*ast.UnaryExpr)(nil), (*ast.IfStmt)(nil)) {
		switch n := c.Node().(type) {
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && (op.ctx == nil || !u.hasUse(n, op.ctx)) {
				return true
			}
		case *ast.IfStmt:
			if leaves(n.Body.List) && !u.aboutError(n.Cond) && u.looksOutside(op, n.Cond) {
				return true
			}
		}
	}
	return false
}

// looksOutside reports whether a condition looks at a variable outside of op.
func (u *uses) looksOutside(op *operation, cond ast.Expr) bool {
	for n := range ast.Preorder(cond) {
		id, ok := n.(*ast.Ident)
		if v, isVar := u.info.ObjectOf(id).(*types.Var); ok && isVar && !v.IsField() && outside(op, v) {
			return true
		}
	}
	return false
}

// blindDecisions reports the use of a Decision's Delay without a check of
// whether to retry.
func (u *uses) blindDecisions(pass *analysis.Pass) {
	for c, call := range all[*ast.CallExpr](u.root) {
		if name := u.callee(call); name != "("+retryPath+".Policy).Next" && name != retryPath+".Once" {
			continue
		}
		switch p := c.Parent().Node().(type) {
		case *ast.SelectorExpr:
			wait, ok := c.Parent().Parent().Node().(*ast.CallExpr)
			if ok && p.Sel.Name == "Delay" && strings.HasPrefix(u.callee(wait), "time.") {
				pass.ReportRangef(p.Sel, "Delay is also set where there is no retry: keep the Decision, and ask its Retry first")
			}
		case *ast.AssignStmt:
			v := u.local(p.Lhs[0])
			if delay := u.onlyDelay(c, v); delay != nil {
				pass.ReportRangef(delay, "nothing asks %s.Retry, and Delay is also set where there is no retry: leave the loop if %[1]s.Retry() is false", v.Name())
			}
		}
	}
}

// onlyDelay returns the first use of the Delay of the Decision v, or nil if
// something else of it is used too.
func (u *uses) onlyDelay(c inspector.Cursor, v *types.Var) (delay ast.Node) {
	fn := enclosingFunc(c)
	if v == nil || fn == nil {
		return nil
	}
	for use := range u.idents(v, *fn) {
		sel, ok := use.Parent().Node().(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Delay", "Lo", "Hi", "RetryAfter", "Seed"}, sel.Sel.Name) {
			return nil
		}
		if sel.Sel.Name == "Delay" && delay == nil {
			delay = sel
		}
	}
	return delay
}
