package vet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// A variable records every change of one variable in a package.
type variable struct {
	zero   bool                  // the variable starts with its zero value
	values []ast.Expr            // the assigned values; nil stands for an unknown value
	calls  []ast.Expr            // the calls that assign one of several results to the variable
	fields map[string][]ast.Expr // the values that are assigned to each field of the variable
	shared bool                  // the variable's address is taken, so other code may change it
}

// record records the functions that a node declares, and the variables that the node changes.
func (u *uses) record(node ast.Node) {
	switch n := node.(type) {
	case *ast.FuncDecl:
		if fn, ok := u.info.Defs[n.Name].(*types.Func); ok {
			u.funcs[fn] = n
		}
		u.declare(n.Recv)
	case *ast.FuncType:
		u.declare(n.Params)
		u.declare(n.Results)
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if len(n.Values) > 0 {
				u.assignOf(name, n.Values, len(n.Names), i)
			} else if v := u.variable(name); v != nil {
				v.zero = true
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if n.Tok == token.ASSIGN || n.Tok == token.DEFINE {
				u.assignOf(left, n.Rhs, len(n.Lhs), i)
			} else {
				u.assign(left, nil)
			}
		}
	case *ast.IncDecStmt:
		u.assign(n.X, nil)
	case *ast.RangeStmt:
		for _, left := range []ast.Expr{n.Key, n.Value} {
			if left != nil {
				u.assign(left, nil)
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			u.share(n.X)
		}
	case *ast.SelectorExpr: // calling a method with a pointer receiver takes the variable's address
		s := u.info.Selections[n]
		if s == nil || s.Kind() != types.MethodVal {
			return
		}
		_, wants := s.Obj().Type().(*types.Signature).Recv().Type().(*types.Pointer)
		if _, has := s.Recv().(*types.Pointer); wants && !has {
			u.share(n.X)
		}
	}
}

// declare records that each parameter, receiver or named result in a list gets a value that is not
// known.
func (u *uses) declare(params *ast.FieldList) {
	if params == nil {
		return
	}
	for _, field := range params.List {
		for _, name := range field.Names {
			u.assign(name, nil)
		}
	}
}

// valueAt returns the value that variable number i, counted from 0, gets in an assignment of values
// to n variables. It returns nil if the values are the results of one call.
func valueAt(values []ast.Expr, n, i int) ast.Expr {
	if len(values) != n {
		return nil
	}
	return values[i]
}

// assignOf records what an assignment to n variables assigns to `left`, which is variable number i,
// counted from 0.
func (u *uses) assignOf(left ast.Expr, values []ast.Expr, n, i int) {
	u.assign(left, valueAt(values, n, i))
	if id, ok := left.(*ast.Ident); ok && n > 1 && len(values) == 1 {
		if v := u.variable(id); v != nil {
			v.calls = append(v.calls, values[0])
		}
	}
}

// assign records that value is assigned to a variable or one of its fields.
func (u *uses) assign(left, value ast.Expr) {
	switch left := ast.Unparen(left).(type) {
	case *ast.Ident:
		if v := u.variable(left); v != nil {
			v.values = append(v.values, value)
		}
	case *ast.SelectorExpr:
		id, ok := ast.Unparen(left.X).(*ast.Ident)
		if !ok {
			u.share(left.X)
			return
		}
		if v := u.variable(id); v != nil {
			v.fields[left.Sel.Name] = append(v.fields[left.Sel.Name], value)
		}
	case *ast.IndexExpr:
		u.share(left.X)
	}
}

// share records that other code may change the variable with which the expression x starts.
func (u *uses) share(x ast.Expr) {
	if id := rootOf(x); id != nil {
		if v := u.variable(id); v != nil {
			v.shared = true
		}
	}
}

// variable returns the record of the variable that id names, and creates it if there is none yet.
// It returns nil if id does not name a variable.
func (u *uses) variable(id *ast.Ident) *variable {
	obj, ok := u.info.ObjectOf(id).(*types.Var)
	if !ok {
		return nil
	}
	v := u.vars[obj]
	if v == nil {
		v = &variable{fields: map[string][]ast.Expr{}}
		u.vars[obj] = v
	}
	return v
}

// known returns the record of a variable. It returns nil if code that the record does not cover may
// change the variable, for example code in another package.
func (u *uses) known(obj *types.Var) *variable {
	v := u.vars[obj]
	if v == nil || v.shared || obj.Exported() && obj.Parent() == obj.Pkg().Scope() {
		return nil
	}
	return v
}
