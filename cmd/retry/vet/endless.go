package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"

	"github.com/goretry/retry"
)

// Endless reports calls that only a success can end.
var Endless = newCheck("endless", `report unlimited attempts with a context that is never canceled

An operation that cannot succeed is retried until the process ends. Set a limit, or
use a context that something cancels. A policy with HealthyAfter is not reported,
because such a policy is for work that should never end.`, func(pass *analysis.Pass, u *uses) {
	for _, call := range u.calls {
		fn := enclosingFunc(call.cursor)
		if fn != nil && u.unlimited(call.policy) && u.neverDone(fn.Node(), call.ctx) &&
			!slices.ContainsFunc(call.ops, u.stops) {
			pass.ReportRangef(call.Fun,
				"only a success ends this %s: its attempts are unlimited, and its context is never done; set "+
					"a limit, or pass a context that something cancels", call.name)
		}
	}
})

// unlimited reports whether a policy certainly limits neither the number of its attempts nor their
// time. MaxElapsed counts as a limit, although it does not end an attempt that hangs.
func (u *uses) unlimited(x ast.Expr) bool {
	if u.sets(x, "Budget", "Wait", "Classify", "HealthyAfter", "AttemptCap", "NonRetryable") ||
		endsByItself(u.retryIf(x)) {
		return false
	}
	p, known := u.limits(x, "MaxAttempts", "MaxRetries", "MaxElapsed")
	return known && p.MaxElapsed <= 0 && p.EffectiveMax() == retry.Unlimited
}

// endsByItself reports whether the function retryIf ignores the error that it gets. Such a function
// may end the call for another reason, such as a flag.
func endsByItself(retryIf ast.Expr) bool {
	fn, ok := retryIf.(*ast.FuncLit)
	return ok &&
		(len(fn.Type.Params.List[0].Names) == 0 || fn.Type.Params.List[0].Names[0].Name == "_")
}

// neverDone reports whether it is certain that nothing cancels the context ctx during a call that
// gets it. fn is the function around the call.
func (u *uses) neverDone(fn ast.Node, ctx ast.Expr) bool {
	for {
		made := u.callOf(ctx)
		if made == nil {
			made, _ = u.deep(ctx).(*ast.CallExpr) // ctx may be a field that is set in only one place
		}
		if made == nil {
			return false
		}
		switch u.callee(made) {
		case "context.Background", "context.TODO", "context.WithoutCancel":
			return true
		case "context.WithValue", retryPath + "/retrylog.WithKey":
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

// canceledAtEnd reports whether a cancel function is used only in defer statements of the function
// fn. The cancel function is a result of `made`, which is a call of context.WithCancel or
// context.WithCancelCause.
func (u *uses) canceledAtEnd(fn ast.Node, made *ast.CallExpr) bool {
	var cancel *types.Var
	deferred := map[*ast.Ident]bool{}
	ast.Inspect(bodyOf(fn), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit: // its defer statements do not wait for the end of fn
			return false
		case *ast.AssignStmt:
			if len(n.Lhs) == 2 && n.Rhs[0] == made {
				cancel = u.local(n.Lhs[1])
			}
		case *ast.DeferStmt:
			if id, ok := n.Call.Fun.(*ast.Ident); ok {
				deferred[id] = true
			}
		}
		return true
	})
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

// stops reports whether something other than an error can end an operation. This is so if the
// operation receives from a channel, or if it returns because of a variable that is declared
// outside of the operation.
func (u *uses) stops(op *operation) bool {
	for c := range op.cursor.Preorder((*ast.UnaryExpr)(nil), (*ast.IfStmt)(nil)) {
		switch n := c.Node().(type) {
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && (op.ctx == nil || !u.hasUse(n, op.ctx)) {
				return true
			}
		case *ast.IfStmt:
			if leavesBlock(n.Body.List) && !u.aboutError(n.Cond) && u.looksOutside(op, n.Cond) {
				return true
			}
		}
	}
	return false
}
