package vet

import (
	"go/ast"
	"go/types"
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

// retryIfs returns the possible values of a policy's RetryIf, with nil for one
// that is not known. It follows variables to a limited depth.
func (u *uses) retryIfs(x ast.Expr, depth int) (values []ast.Expr) {
	var obj *types.Var
	switch x := ast.Unparen(x).(type) {
	case *ast.CompositeLit:
		for _, element := range x.Elts {
			if field, ok := element.(*ast.KeyValueExpr); ok && isNamedIdent(field.Key, "RetryIf") {
				values = append(values, field.Value)
			}
		}
		return values
	case *ast.CallExpr:
		if u.callee(x) == retryPath+".Default" {
			return nil
		}
		return []ast.Expr{nil}
	case *ast.Ident:
		obj, _ = u.info.ObjectOf(x).(*types.Var)
	case *ast.SelectorExpr:
		obj, _ = u.info.ObjectOf(x.Sel).(*types.Var)
	}
	if obj == nil || obj.Exported() || depth == 0 {
		return []ast.Expr{nil}
	}
	for c := range u.root.Preorder((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.KeyValueExpr)(nil), (*ast.FuncType)(nil)) {
		switch n := c.Node().(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				value := valueAt(n.Rhs, len(n.Lhs), i)
				if u.names(left, obj) {
					values = append(values, u.retryIfsOr(value, depth)...)
				}
				if sel, ok := left.(*ast.SelectorExpr); ok && sel.Sel.Name == "RetryIf" && u.names(sel.X, obj) {
					values = append(values, value)
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if u.names(name, obj) && len(n.Values) > 0 {
					values = append(values, u.retryIfsOr(valueAt(n.Values, len(n.Names), i), depth)...)
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && u.info.Uses[key] == obj {
				values = append(values, u.retryIfsOr(n.Value, depth)...)
			}
		case *ast.FuncType:
			for _, param := range n.Params.List {
				for _, name := range param.Names {
					if u.names(name, obj) {
						values = append(values, nil)
					}
				}
			}
		}
	}
	return values
}

func (u *uses) retryIfsOr(x ast.Expr, depth int) []ast.Expr {
	if x == nil {
		return []ast.Expr{nil}
	}
	return u.retryIfs(x, depth-1)
}

// names reports whether x is the variable, or a selector of the field, obj.
func (u *uses) names(x ast.Expr, obj *types.Var) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		return u.info.ObjectOf(x) == obj
	case *ast.SelectorExpr:
		return u.info.ObjectOf(x.Sel) == obj
	}
	return false
}

// noWait reports whether a policy is known to wait for at most a tenth of a second in
// all.
func (u *uses) noWait(x ast.Expr) bool {
	found := u.policy(x)
	if found == nil || found.changed {
		return false
	}
	var p retry.Policy
	if _, ok := found.base.(*ast.CallExpr); ok {
		p = retry.Default()
	}
	p, known := u.evaluate(p, found.fields)
	if !known || p.EffectiveMax() <= 0 {
		return false
	}
	all := time.Duration(0)
	for _, d := range p.Delays(p.EffectiveMax() - 1) {
		all += d
	}
	return all <= 100*time.Millisecond
}
