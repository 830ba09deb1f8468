package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

// A setting is a field of a struct that a literal or an assignment sets.
type setting struct {
	cursor inspector.Cursor // of the pair or the assignment
	of     types.Type       // the struct
	x      ast.Expr         // the literal, or what has the field
	field  *ast.Ident
	value  ast.Expr // nil if a call with several results sets it
}

func (s setting) is(path, typ, field string) bool {
	return s.field.Name == field && isNamed(s.of, path, typ)
}

// assigned reports whether an assignment sets the field.
func (s setting) assigned() bool {
	_, ok := s.cursor.Node().(*ast.AssignStmt)
	return ok
}

func (u *uses) findSettings() {
	for c := range u.root.Preorder((*ast.KeyValueExpr)(nil), (*ast.AssignStmt)(nil)) {
		switch n := c.Node().(type) {
		case *ast.KeyValueExpr:
			lit, ok := c.Parent().Node().(*ast.CompositeLit)
			if field, named := n.Key.(*ast.Ident); ok && named {
				u.settings = append(u.settings, setting{c, derefAny(u.info.TypeOf(lit)), lit, field, n.Value})
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if sel, ok := ast.Unparen(left).(*ast.SelectorExpr); ok && n.Tok == token.ASSIGN {
					u.settings = append(u.settings, setting{c, derefAny(u.info.TypeOf(sel.X)), sel.X, sel.Sel, valueAt(n.Rhs, len(n.Lhs), i)})
				}
			}
		}
	}
}

// fieldValues returns what is assigned to a field.
func (u *uses) fieldValues(field *types.Var) (values []ast.Expr) {
	for _, s := range u.settings {
		if u.info.Uses[s.field] == field {
			values = append(values, s.value)
		}
	}
	return values
}

// functions returns the functions that policies have in these fields.
func (u *uses) functions(fields ...string) iter.Seq2[string, *operation] {
	return func(yield func(string, *operation) bool) {
		for _, s := range u.settings {
			if !isPolicy(s.of) || !slices.Contains(fields, s.field.Name) || s.value == nil {
				continue
			}
			if op := u.operation(s.value); op != nil && !yield(s.field.Name, op) {
				return
			}
		}
	}
}
