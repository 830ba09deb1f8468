package vet

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"

	"github.com/goretry/retry"
)

// A policy contains what the source says about the value of a retry.Policy.
type policy struct {
	base    ast.Expr            // the first value: a literal or retry.Default(); nil: the zero value
	fields  map[string]ast.Expr // the values of the fields; nil for a field with several values
	changed bool                // whether an assignment changes a field of the first value
}

// policy returns what the source says about the value of the policy x. It returns nil if x comes
// from another package, or if code that is not checked may change x.
func (u *uses) policy(x ast.Expr) *policy {
	p := &policy{fields: map[string]ast.Expr{}}
	for {
		x = ast.Unparen(x)
		id, ok := x.(*ast.Ident)
		if !ok {
			return u.setBase(p, x)
		}
		obj, ok := u.info.ObjectOf(id).(*types.Var)
		if !ok {
			return nil
		}
		v := u.known(obj)
		if v == nil {
			return nil
		}
		// The order of the code is not known, so an assignment to a field counts even if it comes
		// after the use of the policy.
		for name, values := range v.fields {
			p.fields[name], p.changed = nil, true
			if len(values) == 1 {
				p.fields[name] = values[0]
			}
		}
		switch {
		case len(v.values) == 0 && v.zero:
			return p
		case len(v.values) == 1 && v.values[0] != nil:
			x = v.values[0]
		default:
			return nil
		}
	}
}

// setBase records x as the first value of p, and returns p. It returns nil if x is neither
// retry.Default() nor a literal with named fields.
func (u *uses) setBase(p *policy, x ast.Expr) *policy {
	p.base = x
	switch x := x.(type) {
	case *ast.CallExpr:
		if u.callee(x) == retryPath+".Default" {
			return p
		}
		if made, ok := u.deep(x).(*ast.CompositeLit); ok {
			return u.setBase(p, made)
		}
	case *ast.CompositeLit:
		fields := keyed(x)
		unkeyed := len(fields) != len(x.Elts) // the composites check of go vet reports unkeyed fields
		if !isPolicy(u.info.TypeOf(x)) || unkeyed {
			return nil
		}
		maps.Copy(fields, p.fields)
		p.fields = fields
		return p
	}
	return nil
}

// retryIf returns the function RetryIf of a policy. It returns nil if the field RetryIf is not set,
// or if several places set it.
func (u *uses) retryIf(x ast.Expr) ast.Expr {
	if p := u.policy(x); p != nil && p.fields["RetryIf"] != nil {
		return p.fields["RetryIf"]
	}
	return keyed(literal(u.deep(x)))["RetryIf"]
}

// choosesItself reports whether a function of the program decides which errors a policy retries. It
// returns false if a function of the library decides.
func (u *uses) choosesItself(policy ast.Expr) bool {
	retryIf := u.retryIf(policy)
	if retryIf == nil {
		return u.sets(policy, "Classify", "RetryIf")
	}
	return !isLibrary(u.callee(&ast.CallExpr{Fun: retryIf}))
}

// attempts returns how many attempts the policy x allows. `known` is false if the source does not
// show the number, or if a Budget may lower it.
func (u *uses) attempts(x ast.Expr) (n int, known bool) {
	p, known := u.limits(x, "MaxAttempts", "MaxRetries", "AttemptCap", "NonRetryable", "MaxElapsed")
	return p.EffectiveMax(), known && !u.sets(x, "Budget")
}

// retriesAll reports whether a policy certainly retries every error, except an error that
// retry.Permanent wraps.
func (u *uses) retriesAll(policy ast.Expr) bool {
	n, known := u.attempts(policy)
	return known && n != 1 && !u.sets(policy, "RetryIf", "Classify")
}

// limits returns the value of the policy x, as far as the source shows it. Of the fields that the
// source sets, it evaluates only the fields in `names`, or all fields if `names` is empty. The
// result `known` is false if the value of one of the evaluated fields is not known.
func (u *uses) limits(x ast.Expr, names ...string) (p retry.Policy, known bool) {
	found := u.policy(x)
	if found == nil {
		return p, false
	}
	fields := map[string]ast.Expr{}
	for name, value := range found.fields {
		if len(names) == 0 || slices.Contains(names, name) {
			fields[name] = value
		}
	}
	return u.evaluate(found.start(), fields)
}

// start returns the value of p before a literal or an assignment sets fields: retry.Default() or
// the zero value.
func (p *policy) start() retry.Policy {
	if _, ok := p.base.(*ast.CallExpr); ok {
		return retry.Default()
	}
	return retry.Policy{}
}

// oneAttempt reports whether a policy certainly allows only one attempt.
func (u *uses) oneAttempt(x ast.Expr) bool {
	n, known := u.attempts(x)
	return known && n == 1
}

// sets reports whether a policy certainly sets at least one of the fields with the given names.
func (u *uses) sets(x ast.Expr, fields ...string) bool {
	p := u.policy(x)
	return p != nil && slices.ContainsFunc(fields, func(name string) bool {
		_, set := p.fields[name]
		return set
	})
}
