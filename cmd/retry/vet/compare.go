package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"
)

// Compare reports comparisons of errors that may be wrapped.
var Compare = newCheck("compare", `report comparisons that do not see through a wrapped error

A failed call returns a *retry.Error around the last error, and an operation may
wrap its own errors. ==, switches and type assertions do not find wrapped errors.`, runCompare)

func runCompare(pass *analysis.Pass, u *uses) {
	seen := map[ast.Node]bool{}
	report := func(f *comparison, wrapped string, fix bool) {
		if f == nil || seen[f.node] {
			return
		}
		seen[f.node] = true
		pass.Report(analysis.Diagnostic{Pos: f.node.Pos(), End: f.end, Message: wrapped + f.advice(), SuggestedFixes: f.fixes(pass, fix)})
	}
	for _, call := range u.calls {
		fn := enclosingFunc(call.cursor)
		if fn == nil {
			continue
		}
		result, from := u.resultOf(call)
		reached := u.reached(fn, result, from)
		for _, f := range u.comparisons(*fn, func(x ast.Expr) bool {
			id, ok := ast.Unparen(x).(*ast.Ident)
			return ast.Unparen(x) == call.CallExpr || ok && result != nil && u.info.Uses[id] == result && reached(id.Pos())
		}) {
			report(f, fmt.Sprintf("%s returns a *retry.Error around the last error, which %s never matches: ", call.name, f.kind), true)
		}
	}
	for field, op := range u.functions("RetryIf", "Classify") {
		err := u.onlyParam(op)
		if err == nil {
			continue
		}
		for _, f := range u.comparisons(op.cursor, func(x ast.Expr) bool {
			id, ok := ast.Unparen(x).(*ast.Ident)
			return ok && u.info.Uses[id] == err
		}) {
			if u.ownErrors(pass, f) {
				continue // the package knows whether its own errors are wrapped
			}
			report(f, fmt.Sprintf("%s gets the error as the operation returned it, and %s does not see through one that is wrapped, as by retry.After: ", field, f.kind), false)
		}
	}
}

// enclosingFunc returns the function around c.
func enclosingFunc(c inspector.Cursor) *inspector.Cursor {
	for fn := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		return &fn
	}
	return nil
}

func bodyOf(fn ast.Node) *ast.BlockStmt {
	switch fn := fn.(type) {
	case *ast.FuncDecl:
		return fn.Body
	case *ast.FuncLit:
		return fn.Body
	}
	return nil
}

// resultOf returns the variable that gets the error of a call, and the
// statement that assigns it.
func (u *uses) resultOf(call *call) (*types.Var, ast.Node) {
	var left ast.Expr
	parent := call.cursor.Parent().Node()
	switch p := parent.(type) {
	case *ast.AssignStmt:
		if len(p.Rhs) == 1 {
			left = p.Lhs[len(p.Lhs)-1]
		}
	case *ast.ValueSpec:
		if len(p.Values) == 1 {
			left = p.Names[len(p.Names)-1]
		}
	}
	id, ok := left.(*ast.Ident)
	if !ok {
		return nil, nil
	}
	v, _ := u.info.ObjectOf(id).(*types.Var)
	return v, parent
}

// reached returns a function that reports whether v may still have the value
// from a statement at a position.
func (u *uses) reached(fn *inspector.Cursor, v *types.Var, from ast.Node) func(token.Pos) bool {
	if v == nil {
		return func(token.Pos) bool { return false }
	}
	var nodes []ast.Node
	seen := map[*cfg.Block]bool{}
	var visit func(b *cfg.Block, i int)
	visit = func(b *cfg.Block, i int) {
		for _, n := range b.Nodes[i:] {
			nodes = append(nodes, n)
			if u.assigns(n, v) {
				return
			}
		}
		for _, next := range b.Succs {
			if !seen[next] {
				seen[next] = true
				visit(next, 0)
			}
		}
	}
	for _, b := range cfg.New(bodyOf(fn.Node()), func(*ast.CallExpr) bool { return true }).Blocks {
		for i, n := range b.Nodes {
			if n == from {
				visit(b, i+1)
			}
		}
	}
	return func(pos token.Pos) bool {
		at := false
		for _, n := range nodes {
			if n != from && n.End() <= pos && n.Pos() > from.Pos() && u.assigns(n, v) {
				return false // a branch has replaced it, as by retry.LastError
			}
			at = at || n.Pos() <= pos && pos < n.End()
		}
		return at
	}
}

// assigns reports whether a statement, or a function in it, may assign v.
func (u *uses) assigns(n ast.Node, v *types.Var) bool {
	for n := range ast.Preorder(n) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && u.info.ObjectOf(id) == v {
					return true
				}
			}
		case *ast.UnaryExpr:
			if id, ok := n.X.(*ast.Ident); ok && n.Op == token.AND && u.info.ObjectOf(id) == v {
				return true
			}
		}
	}
	return false
}

// functions returns the functions that policies have in these fields.
func (u *uses) functions(fields ...string) func(yield func(field string, op *operation) bool) {
	return func(yield func(string, *operation) bool) {
		for c := range u.root.Preorder((*ast.KeyValueExpr)(nil), (*ast.AssignStmt)(nil)) {
			var field *ast.Ident
			var value ast.Expr
			switch n := c.Node().(type) {
			case *ast.KeyValueExpr:
				if literal, ok := c.Parent().Node().(*ast.CompositeLit); ok && isPolicy(deref(u.info.TypeOf(literal))) {
					field, _ = n.Key.(*ast.Ident)
					value = n.Value
				}
			case *ast.AssignStmt:
				if len(n.Lhs) != 1 || len(n.Rhs) != 1 {
					continue
				}
				if sel, ok := n.Lhs[0].(*ast.SelectorExpr); ok && isPolicy(deref(u.info.TypeOf(sel.X))) {
					field, value = sel.Sel, n.Rhs[0]
				}
			}
			if field == nil || !slices.Contains(fields, field.Name) {
				continue
			}
			if op := u.operation(value); op != nil && !yield(field.Name, op) {
				return
			}
		}
	}
}

func deref(t types.Type) types.Type {
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		return pointer.Elem()
	}
	return t
}

// onlyParam returns the only parameter of a function, if the function never
// assigns it.
func (u *uses) onlyParam(op *operation) *types.Var {
	var params *ast.FieldList
	switch fn := op.node.(type) {
	case *ast.FuncLit:
		params = fn.Type.Params
	case *ast.FuncDecl:
		params = fn.Type.Params
	}
	if len(params.List[0].Names) == 0 {
		return nil
	}
	v, ok := u.info.Defs[params.List[0].Names[0]].(*types.Var)
	if !ok || u.assigns(op.body, v) {
		return nil
	}
	return v
}

// A comparison is code that only matches an error that is not wrapped.
type comparison struct {
	node   ast.Node
	end    token.Pos
	kind   string // "==", "a switch", "a type assertion"
	err    ast.Expr
	negate bool // for !=

	targets []ast.Expr // the errors or types that it is compared with
}

// looksOutside are functions that do not look inside an error, with what
// errors.Is finds instead.
var looksOutside = map[string]string{
	"os.IsNotExist": "fs.ErrNotExist", "os.IsExist": "fs.ErrExist", "os.IsPermission": "fs.ErrPermission", "os.IsTimeout": "os.ErrDeadlineExceeded",
}

// comparisons returns the comparisons of an error in a function. The function
// is reports whether an expression is that error.
func (u *uses) comparisons(fn inspector.Cursor, is func(ast.Expr) bool) (found []*comparison) {
	asked := map[string]bool{} // the errors that errors.Is looks for as well
	for c := range fn.Preorder((*ast.CallExpr)(nil)) {
		if call := c.Node().(*ast.CallExpr); u.callee(call) == "errors.Is" && is(call.Args[0]) {
			asked[types.ExprString(call.Args[1])] = true
		}
	}
	for c := range fn.Preorder((*ast.BinaryExpr)(nil), (*ast.SwitchStmt)(nil), (*ast.TypeSwitchStmt)(nil), (*ast.TypeAssertExpr)(nil), (*ast.CallExpr)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CallExpr:
			if instead := looksOutside[u.callee(n)]; instead != "" && is(n.Args[0]) {
				found = append(found, &comparison{n, n.End(), types.ExprString(n.Fun), n.Args[0], false, []ast.Expr{ast.NewIdent(instead)}})
			}
		case *ast.BinaryExpr:
			if n.Op != token.EQL && n.Op != token.NEQ {
				continue
			}
			err, target := n.X, n.Y
			if is(target) {
				err, target = target, err
			}
			if is(err) && u.isSentinel(target) && !asked[types.ExprString(target)] {
				found = append(found, &comparison{n, n.End(), n.Op.String(), err, n.Op == token.NEQ, []ast.Expr{target}})
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && is(n.Tag) && u.switchesSentinel(n) {
				found = append(found, &comparison{n, n.Body.Lbrace, "a switch", n.Tag, false, cases(n.Body)})
			}
		case *ast.TypeSwitchStmt:
			if x := switched(n); is(x) && u.switchesTypes(n) {
				found = append(found, &comparison{n, n.Body.Lbrace, "a type switch", x, false, cases(n.Body)})
			}
		case *ast.TypeAssertExpr:
			if n.Type != nil && is(n.X) && !u.ofAny(n.Type) && !looksInside(u.info.TypeOf(n.Type)) {
				found = append(found, &comparison{n, n.End(), "a type assertion", n.X, false, []ast.Expr{n.Type}})
			}
		}
	}
	return found
}

// ownErrors reports whether an error is only compared with errors that the
// package does not export.
func (u *uses) ownErrors(pass *analysis.Pass, f *comparison) bool {
	for _, x := range f.targets {
		if pointer, ok := ast.Unparen(x).(*ast.StarExpr); ok {
			x = pointer.X
		}
		var id *ast.Ident
		switch x := ast.Unparen(x).(type) {
		case *ast.Ident:
			id = x
		case *ast.SelectorExpr:
			id = x.Sel
		}
		if id == nil {
			return false
		}
		if obj := u.info.Uses[id]; obj == nil || obj.Pkg() != nil && (obj.Pkg() != pass.Pkg || obj.Exported() && !inTest(pass, f.node)) {
			return false
		}
	}
	return true
}

// isSentinel reports whether x is an error to compare with: a package variable,
// a constant, a context's error, or a variable that is assigned once.
func (u *uses) isSentinel(x ast.Expr) bool {
	tv := u.info.Types[x]
	if tv.IsNil() {
		return false
	}
	if tv.Value != nil {
		return true
	}
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		v, ok := u.info.Uses[x].(*types.Var)
		if !ok {
			return false
		}
		if v.Parent() == v.Pkg().Scope() {
			return true
		}
		made, ok := u.value(x).(*ast.CallExpr)
		return ok && (u.callee(made) == "errors.New" || u.callee(made) == "fmt.Errorf")
	case *ast.SelectorExpr:
		v, ok := u.info.Uses[x.Sel].(*types.Var)
		return ok && !v.IsField()
	case *ast.CallExpr:
		name := u.callee(x)
		return name == "(context.Context).Err" || name == "context.Cause"
	}
	return false
}

func (u *uses) switchesSentinel(s *ast.SwitchStmt) bool {
	return slices.ContainsFunc(cases(s.Body), u.isSentinel)
}

// cases returns the expressions that a switch compares with.
func cases(body *ast.BlockStmt) (list []ast.Expr) {
	for _, clause := range body.List {
		list = append(list, clause.(*ast.CaseClause).List...)
	}
	return list
}

func switched(s *ast.TypeSwitchStmt) ast.Expr {
	var x ast.Expr
	switch assign := s.Assign.(type) {
	case *ast.ExprStmt:
		x = assign.X
	case *ast.AssignStmt:
		x = assign.Rhs[0]
	}
	return x.(*ast.TypeAssertExpr).X
}

func (u *uses) switchesTypes(s *ast.TypeSwitchStmt) bool {
	found := false
	for _, x := range cases(s.Body) {
		if u.ofAny(x) {
			continue
		}
		if looksInside(u.info.TypeOf(x)) {
			return false
		}
		found = true
	}
	return found
}

// looksInside reports whether a type can give access to a wrapped error.
func looksInside(t types.Type) bool {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok && isNamed(pointer.Elem(), retryPath, "Error") {
		return true
	}
	unwrap, _, _ := types.LookupFieldOrMethod(t, false, nil, "Unwrap")
	return types.IsInterface(t) && unwrap != nil
}

// ofAny reports whether a type in a case is nil, or is one that every error
// has.
func (u *uses) ofAny(x ast.Expr) bool {
	return u.info.Types[x].IsNil() || types.AssignableTo(types.Universe.Lookup("error").Type(), u.info.TypeOf(x))
}

// advice says what to write instead.
func (f *comparison) advice() string {
	err := types.ExprString(f.err)
	if _, ok := f.err.(*ast.Ident); !ok {
		err = "err"
	}
	switch {
	case f.kind == "a type assertion":
		return fmt.Sprintf("use errors.As(%s, &target), or look at retry.LastError(%s)", err, err)
	case f.kind == "a type switch":
		return fmt.Sprintf("use errors.As(%s, &target), or switch on retry.LastError(%s)", err, err)
	case f.kind == "a switch":
		return fmt.Sprintf("use errors.Is(%s, ...), or switch on retry.LastError(%s)", err, err)
	case f.negate:
		return fmt.Sprintf("use !errors.Is(%s, %s)", err, types.ExprString(f.targets[0]))
	default:
		return fmt.Sprintf("use errors.Is(%s, %s)", err, types.ExprString(f.targets[0]))
	}
}

// fixes returns the safe fixes of a comparison, if there are any. For an error
// that a call has returned, LastError gives the operation's error. The
// operation's own error may still be wrapped.
func (f *comparison) fixes(pass *analysis.Pass, returned bool) []analysis.SuggestedFix {
	file := enclosingFile(pass, f.node.Pos())
	if strings.HasPrefix(f.kind, "os.") {
		return nil
	}
	if f.kind == "==" || f.kind == "!=" {
		name, edits := imported(pass, file, f.node.Pos(), "errors")
		if name == "" {
			return nil
		}
		text := fmt.Sprintf("%s.Is(%s, %s)", name, types.ExprString(f.err), types.ExprString(f.targets[0]))
		if f.negate {
			text = "!" + text
		}
		edits = append(edits, analysis.TextEdit{Pos: f.node.Pos(), End: f.node.End(), NewText: []byte(text)})
		return []analysis.SuggestedFix{{Message: "use errors.Is", TextEdits: edits}}
	}
	name, edits := imported(pass, file, f.node.Pos(), retryPath)
	if !returned || name == "" {
		return nil
	}
	edits = append(edits,
		analysis.TextEdit{Pos: f.err.Pos(), NewText: []byte(name + ".LastError(")},
		analysis.TextEdit{Pos: f.err.End(), NewText: []byte(")")})
	return []analysis.SuggestedFix{{Message: "look at retry.LastError", TextEdits: edits}}
}

func enclosingFile(pass *analysis.Pass, pos token.Pos) *ast.File {
	for _, file := range pass.Files {
		if file.FileStart <= pos && pos < file.FileEnd {
			return file
		}
	}
	return nil
}

// imported returns the name of an imported package, and the edit that imports
// it if the file does not. The name is the last element of path. It is "" if
// something else has that name.
func imported(pass *analysis.Pass, file *ast.File, pos token.Pos, path string) (string, []analysis.TextEdit) {
	name := path[strings.LastIndex(path, "/")+1:]
	var edits []analysis.TextEdit
	i := slices.IndexFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == strconv.Quote(path) })
	switch {
	case i < 0 && len(file.Imports) == 0:
		return "", nil
	case i < 0:
		first := file.Imports[0]
		text := strconv.Quote(path) + "\n"
		if decl := file.Decls[0].(*ast.GenDecl); !decl.Lparen.IsValid() {
			return name, append(edits, analysis.TextEdit{Pos: decl.Pos(), NewText: []byte("import " + text)})
		}
		edits = append(edits, analysis.TextEdit{Pos: first.Pos(), NewText: []byte(text)})
	case file.Imports[i].Name != nil:
		name = file.Imports[i].Name.Name
	}
	scope := pass.Pkg.Scope().Innermost(pos)
	if scope == nil {
		return "", nil
	}
	_, obj := scope.LookupParent(name, pos)
	if pkg, ok := obj.(*types.PkgName); ok && pkg.Imported().Path() == path || obj == nil && i < 0 {
		return name, edits
	}
	return "", nil
}
