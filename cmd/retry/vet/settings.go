package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

// A setting is a place in the source that sets a field of a struct: a key and value in a literal,
// or an assignment.
type setting struct {
	cursor inspector.Cursor // the pair of key and value, or the assignment
	of     types.Type       // the type of the struct
	x      ast.Expr         // the literal, or the struct on the left side of the assignment
	field  *ast.Ident
	value  ast.Expr // the value that is set; nil if a call with several results sets it
}

// setsField reports whether s sets the field with this name in the struct type `typ` of the package
// with this path.
func (s setting) setsField(path, typ, field string) bool {
	return s.field.Name == field && typeName(s.of) == path+"."+typ
}

// assigned reports whether s is an assignment.
func (s setting) assigned() bool {
	_, ok := s.cursor.Node().(*ast.AssignStmt)
	return ok
}

// findSettings finds all settings in the package.
func (u *uses) findSettings() {
	for c := range u.root.Preorder((*ast.KeyValueExpr)(nil), (*ast.AssignStmt)(nil)) {
		switch n := c.Node().(type) {
		case *ast.KeyValueExpr:
			lit, ok := c.Parent().Node().(*ast.CompositeLit)
			if field, named := n.Key.(*ast.Ident); ok && named {
				u.settings = append(u.settings, setting{c, deref(u.info.TypeOf(lit)), lit, field, n.Value})
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if sel, ok := ast.Unparen(left).(*ast.SelectorExpr); ok && n.Tok == token.ASSIGN {
					u.settings = append(u.settings,
						setting{c, deref(u.info.TypeOf(sel.X)), sel.X, sel.Sel, valueAt(n.Rhs, len(n.Lhs), i)})
				}
			}
		}
	}
}

// sibling returns the value of the field with this name, in the struct in which s sets another
// field. It returns nil if this value is not known.
func (u *uses) sibling(s setting, field string) (value ast.Expr) {
	if lit, ok := s.x.(*ast.CompositeLit); ok {
		return keyed(lit)[field]
	}
	if v := u.vars[u.local(s.x)]; v != nil {
		for _, x := range v.values {
			if lit := literal(x); lit != nil {
				value = keyed(lit)[field]
			}
		}
		for _, x := range v.fields[field] {
			value = x
		}
	}
	return value
}
