package vet

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/goretry/retry"
)

// Nested reports retries inside retries.
var Nested = newCheck("nested", `report a call that retries inside another, without WithBudget

Each attempt of the outer call makes all the attempts of the inner one: 4 times 3
attempts are 12 calls, at a time when the server is already in trouble.`, runNested)

func runNested(pass *analysis.Pass, u *uses) {
	u.clientTimeouts(pass)
	u.hotLoops(pass)
	for call, op := range u.operations() {
		u.layers(pass, call, op)
		u.innerLoops(pass, call, op)
	}
	for _, inner := range u.calls {
		if u.budgeted(inner) || u.final(inner) || !u.handedOn(inner) {
			continue
		}
		if outer, calls := u.multiplied(inner); outer != nil {
			pass.ReportRangef(inner.Fun, "%s inside %s makes up to %s: retry in one of them, or give the outer one a context of retry.WithBudget", inner.name, outer.name, calls)
		}
	}
}

// multiplied returns the nearest call around inner that makes inner in each of
// its attempts, and how many calls that makes in all. It returns nil if the
// number is not known or not too high: one of the calls makes only one attempt,
// or is unlimited, like a loop that reconnects.
func (u *uses) multiplied(inner *call) (nearest *call, calls string) {
	product, known := u.factor(inner.policy)
	factors := strconv.Itoa(product)
	seen := map[ast.Node]bool{} // a function may be retried in two places
	for _, outer := range slices.Backward(u.calls) {
		op := u.inside(inner, outer)
		if op == nil || seen[op.node] || u.budgeted(outer) {
			continue
		}
		seen[op.node] = true
		n, ok := u.factor(outer.policy)
		switch {
		case known && ok && !u.selects(outer.policy):
			nearest = cmp.Or(nearest, outer)
			product *= n
			factors = strconv.Itoa(n) + " x " + factors
		case nearest == nil && u.policy(inner.policy) == nil && u.same(outer.policy, inner.policy):
			return outer, "n x n calls where the policy allows n"
		}
	}
	return nearest, fmt.Sprintf("%s = %d calls", factors, product)
}

// inside returns the operation of outer that makes the call inner in every
// attempt, or nil if there is none.
func (u *uses) inside(inner, outer *call) *operation {
	for _, op := range outer.ops {
		if inner == outer || !op.contains(inner.Pos()) || detached(inner.cursor, op) {
			continue
		}
		// A function between them runs if it is called at once or is retried
		// too.
		for c := range inner.cursor.Enclosing((*ast.FuncLit)(nil)) {
			if c.Node() == op.node || !op.contains(c.Node().Pos()) {
				break
			}
			if !isCalled(c) && !u.isOperation(c.Node()) {
				return nil
			}
		}
		return op
	}
	return nil
}

// isCalled reports whether the function literal at c is called immediately.
func isCalled(c inspector.Cursor) bool {
	call, ok := c.Parent().Node().(*ast.CallExpr)
	return ok && call.Fun == c.Node()
}

func (u *uses) isOperation(node ast.Node) bool {
	for _, call := range u.calls {
		for _, op := range call.ops {
			if op.node == node {
				return true
			}
		}
	}
	return false
}

// budgeted reports whether the declaration around a call uses WithBudget.
func (u *uses) budgeted(call *call) bool {
	for decl := range call.cursor.Enclosing((*ast.FuncDecl)(nil), (*ast.GenDecl)(nil)) {
		if u.mentionsCallee(decl, retryPath+".WithBudget") {
			return true
		}
	}
	return false
}

// final reports whether the error of a call is passed to retry.Permanent, so
// that no call around it retries.
func (u *uses) final(call *call) bool {
	for decl := range call.cursor.Enclosing((*ast.FuncDecl)(nil), (*ast.GenDecl)(nil)) {
		for _, permanent := range all[*ast.CallExpr](decl) {
			if u.callee(permanent) == retryPath+".Permanent" && u.mentions(permanent, call) {
				return true
			}
		}
	}
	return false
}

// mentions reports whether x contains the call, or the variable that its error is
// assigned to.
func (u *uses) mentions(x ast.Node, call *call) bool {
	if within(x, call.Pos()) {
		return true
	}
	v, _ := u.resultOf(call)
	return v != nil && u.hasUse(x, v)
}

// factor returns how many attempts the policy x allows. ok is false if the
// number is not known, is one or unlimited, or is bounded by a Budget.
func (u *uses) factor(x ast.Expr) (attempts int, ok bool) {
	attempts, known := u.attempts(x)
	return attempts, known && attempts > 1
}

// attempts returns how many attempts the policy x allows. known is false if the
// number is not known, or is bounded by a Budget.
func (u *uses) attempts(x ast.Expr) (n int, known bool) {
	found := u.policy(x)
	if found == nil {
		return 0, false
	}
	var p retry.Policy
	if _, ok := found.base.(*ast.CallExpr); ok {
		p = retry.Default()
	}
	limits := map[string]ast.Expr{}
	for _, name := range []string{"MaxAttempts", "MaxRetries", "AttemptCap", "NonRetryable", "MaxElapsed"} {
		if value, set := found.fields[name]; set {
			limits[name] = value
		}
	}
	_, budgeted := found.fields["Budget"]
	p, known = u.evaluate(p, limits)
	return p.EffectiveMax(), known && !budgeted
}

// selects reports whether a policy may reject an error.
func (u *uses) selects(x ast.Expr) bool { return u.sets(x, "RetryIf", "Classify") }

// sets reports whether a policy is known to have one of these fields.
func (u *uses) sets(x ast.Expr, fields ...string) bool {
	p := u.policy(x)
	return p != nil && slices.ContainsFunc(fields, func(name string) bool {
		_, set := p.fields[name]
		return set
	})
}

// A keyword has the range of the word "for".
type keyword struct{ ast.Node }

func (k keyword) End() token.Pos { return k.Pos() + token.Pos(len("for")) }

// innerLoops reports the loops in an operation that retry themselves.
func (u *uses) innerLoops(pass *analysis.Pass, call *call, op *operation) {
	for c := range op.cursor.Preorder((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		if loop := c.Node(); own(op, c) && u.retries(loop) {
			pass.ReportRangef(keyword{loop}, "this loop retries inside of %s, so its attempts and those of the policy multiply: "+
				"call once for each attempt, and move the limit and the wait into the policy", call.name)
		}
	}
}
