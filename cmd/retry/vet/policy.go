package vet

import (
	"go/ast"
	"go/types"
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
		for name := range v.fields {
			p.fields[name], p.changed = nil, true
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
	case *ast.CompositeLit:
		if !isPolicy(u.info.TypeOf(x)) {
			return nil
		}
		fields := keyed(x)
		if len(fields) != len(x.Elts) {
			return nil // go vet's composites check reports it
		}
		for name, value := range fields {
			if _, ok := p.fields[name]; !ok {
				p.fields[name] = value
			}
		}
		return p
	}
	return nil
}

func isPolicy(t types.Type) bool { return isNamed(t, retryPath, "Policy") }

// isNamed reports whether t is the type with this path and name.
func isNamed(t types.Type, path, name string) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == path && named.Obj().Name() == name
}

// keyed returns the fields that a literal sets.
func keyed(literal *ast.CompositeLit) map[string]ast.Expr {
	fields := map[string]ast.Expr{}
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if name, ok := pair.Key.(*ast.Ident); ok {
				fields[name.Name] = pair.Value
			}
		}
	}
	return fields
}
