package vet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// A value of type `variable` lists every change of one variable of the checked package.
type variable struct {
	zero   bool                  // whether the variable starts with its zero value
	values []ast.Expr            // the assigned values; a nil entry is an unknown value
	calls  []ast.Expr            // the calls that assign one of several results to the variable
	fields map[string][]ast.Expr // the values that are assigned to each field of the variable
	shared bool                  // whether other code may change the variable, as after &v
}

// recordNode records the functions that a node declares, and the variables that the node changes.
func (u *uses) recordNode(node ast.Node) {
	switch n := node.(type) {
	case *ast.FuncDecl:
		if fn, ok := u.info.Defs[n.Name].(*types.Func); ok {
			u.funcs[fn] = n
		}
		u.recordParams(n.Recv)
	case *ast.FuncType:
		u.recordParams(n.Params)
		u.recordParams(n.Results)
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if len(n.Values) > 0 {
				u.recordAssignment(name, n.Values, len(n.Names), i)
			} else if v := u.variable(name); v != nil {
				v.zero = true
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if n.Tok == token.ASSIGN || n.Tok == token.DEFINE {
				u.recordAssignment(left, n.Rhs, len(n.Lhs), i)
			} else {
				u.recordValue(left, nil)
			}
		}
	case *ast.IncDecStmt:
		u.recordValue(n.X, nil)
	case *ast.RangeStmt:
		for _, left := range []ast.Expr{n.Key, n.Value} {
			if left != nil {
				u.recordValue(left, nil)
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			u.recordShared(n.X)
		}
	case *ast.SelectorExpr: // calling a method with a pointer receiver takes the variable's address
		s := u.info.Selections[n]
		if s == nil || s.Kind() != types.MethodVal {
			return
		}
		_, wants := s.Obj().Type().(*types.Signature).Recv().Type().(*types.Pointer)
		if _, has := s.Recv().(*types.Pointer); wants && !has {
			u.recordShared(n.X)
		}
	}
}

// recordParams records that each parameter, receiver or named result in a list gets a value that is
// not known.
func (u *uses) recordParams(params *ast.FieldList) {
	if params == nil {
		return
	}
	for _, field := range params.List {
		for _, name := range field.Names {
			u.recordValue(name, nil)
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

// recordAssignment records what an assignment to n variables assigns to `left`, which is variable
// number i, counted from 0.
func (u *uses) recordAssignment(left ast.Expr, values []ast.Expr, n, i int) {
	u.recordValue(left, valueAt(values, n, i))
	if id, ok := left.(*ast.Ident); ok && n > 1 && len(values) == 1 {
		if v := u.variable(id); v != nil {
			v.calls = append(v.calls, values[0])
		}
	}
}

// recordValue records that the parameter `value` is assigned to `left`, which is a variable or a
// field of a variable.
func (u *uses) recordValue(left, value ast.Expr) {
	switch left := ast.Unparen(left).(type) {
	case *ast.Ident:
		if v := u.variable(left); v != nil {
			v.values = append(v.values, value)
		}
	case *ast.SelectorExpr:
		id, ok := ast.Unparen(left.X).(*ast.Ident)
		if !ok {
			u.recordShared(left.X)
			return
		}
		if v := u.variable(id); v != nil {
			v.fields[left.Sel.Name] = append(v.fields[left.Sel.Name], value)
		}
	case *ast.IndexExpr:
		u.recordShared(left.X)
	}
}

// recordShared records that other code may change the variable with which the expression x starts.
func (u *uses) recordShared(x ast.Expr) {
	if id := rootOf(x); id != nil {
		if v := u.variable(id); v != nil {
			v.shared = true
		}
	}
}

// variable returns the record of the variable with the identifier id, and creates the record if
// there is none yet. It returns nil if id is not the identifier of a variable.
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
