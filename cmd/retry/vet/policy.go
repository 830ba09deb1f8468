package vet

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// A policy is what the source says about a retry.Policy.
type policy struct {
	base    ast.Expr            // the literal or retry.Default() that it starts with; nil for the zero value
	fields  map[string]ast.Expr // the fields that are set; the value is nil if there may be several
	changed bool                // fields are assigned after base
}

// policy returns what is known about the policy x, or nil if x comes from
// elsewhere or may change elsewhere.
func (u *uses) policy(x ast.Expr) *policy {
	p := &policy{fields: map[string]ast.Expr{}}
	for {
		x = ast.Unparen(x)
		id, ok := x.(*ast.Ident)
		if !ok {
			return u.base(p, x)
		}
		obj, ok := u.info.ObjectOf(id).(*types.Var)
		if !ok {
			return nil
		}
		v := u.known(obj)
		if v == nil {
			return nil
		}
		// It is not known whether an assignment to a field comes before the
		// use.
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

// base adds the value that p starts with.
func (u *uses) base(p *policy, x ast.Expr) *policy {
	p.base = x
	switch x := x.(type) {
	case *ast.CallExpr:
		if u.callee(x) == retryPath+".Default" {
			return p
		}
		if made, ok := u.deep(x).(*ast.CompositeLit); ok {
			return u.base(p, made)
		}
	case *ast.CompositeLit:
		fields := keyed(x)
		if !isPolicy(u.info.TypeOf(x)) || len(fields) != len(x.Elts) { // go vet's composites check reports the latter
			return nil
		}
		maps.Copy(fields, p.fields)
		p.fields = fields
		return p
	}
	return nil
}

func isPolicy(t types.Type) bool { return typeName(t) == retryPath+".Policy" }

// keyed returns the fields that a literal sets, if there is one.
func keyed(literal *ast.CompositeLit) map[string]ast.Expr {
	fields := map[string]ast.Expr{}
	if literal == nil {
		return fields
	}
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if name, ok := pair.Key.(*ast.Ident); ok {
				fields[name.Name] = pair.Value
			}
		}
	}
	return fields
}

// retryIf returns the RetryIf of a policy that is set in one place, or nil.
func (u *uses) retryIf(x ast.Expr) ast.Expr {
	if p := u.policy(x); p != nil && p.fields["RetryIf"] != nil {
		return p.fields["RetryIf"]
	}
	return keyed(literal(u.deep(x)))["RetryIf"]
}

// noWait reports whether a policy is known to wait for at most a tenth of a second in
// all.
func (u *uses) noWait(x ast.Expr) bool {
	p, known := u.limits(x)
	if !known || p.EffectiveMax() <= 0 {
		return false
	}
	all := time.Duration(0)
	for _, d := range p.Delays(p.EffectiveMax() - 1) {
		all += d
	}
	return all <= 100*time.Millisecond
}

// attempts returns how many attempts the policy x allows. known is false if the
// number is not known, or is bounded by a Budget.
func (u *uses) attempts(x ast.Expr) (n int, known bool) {
	p, known := u.limits(x, "MaxAttempts", "MaxRetries", "AttemptCap", "NonRetryable", "MaxElapsed")
	return p.EffectiveMax(), known && !u.sets(x, "Budget")
}

// limits returns a policy with these fields of x, or with all. known is false if one is
// not.
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

// start returns the policy without the fields that are set.
func (p *policy) start() retry.Policy {
	if _, ok := p.base.(*ast.CallExpr); ok {
		return retry.Default()
	}
	return retry.Policy{}
}

// oneAttempt reports whether a policy is known to allow one attempt.
func (u *uses) oneAttempt(x ast.Expr) bool {
	n, known := u.attempts(x)
	return known && n == 1
}

// sets reports whether a policy is known to have one of these fields.
func (u *uses) sets(x ast.Expr, fields ...string) bool {
	p := u.policy(x)
	return p != nil && slices.ContainsFunc(fields, func(name string) bool {
		_, set := p.fields[name]
		return set
	})
}
