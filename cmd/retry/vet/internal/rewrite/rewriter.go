package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/types/typeutil"
)

// A rewriter rewrites one package. A variable, field or function result that
// holds a backoff is a slot. It becomes a policy if a policy supports
// everything that the package does with it.
type rewriter struct {
	pkg     *packages.Package
	parents map[ast.Node]ast.Node
	sources map[string][]byte
	calls   []*ast.CallExpr // the calls that retry, inner ones first

	refused map[*ast.CallExpr]string  // why a call stays unchanged
	kept    map[types.Object]string   // why a slot stays unchanged
	slots   map[types.Object]*slot    // the slots that the calls use, in this pass
	order   []*slot                   // the same slots in the order in which they were found
	uses    map[*ast.CallExpr][]*slot // the slots of each call
	edits   map[string][]edit         // the edits of each file
	done    map[*ast.Ident]bool       // occurrences of slots that a pass has rewritten
}

// A slot is a variable, field or function whose backoff becomes a policy.
type slot struct {
	obj   types.Object
	ctx   ast.Expr // the context of a WithContext; for a function a parameter, if param is not negative
	param int
	users []*slot // the slots that are built from it
}

// An edit replaces a part of a file.
type edit struct {
	from, to int
	text     string
}

func newRewriter(pkg *packages.Package) *rewriter {
	r := &rewriter{
		pkg: pkg, parents: map[ast.Node]ast.Node{}, sources: map[string][]byte{},
		refused: map[*ast.CallExpr]string{}, kept: map[types.Object]string{},
	}
	for _, file := range pkg.Syntax {
		var stack []ast.Node
		ast.Inspect(file, func(n ast.Node) bool {
			if n == nil {
				stack = stack[:len(stack)-1]
				return true
			}
			if len(stack) > 0 {
				r.parents[n] = stack[len(stack)-1]
			}
			stack = append(stack, n)
			if call, ok := n.(*ast.CallExpr); ok && retriers[r.callee(call)] != nil {
				r.calls = append(r.calls, call)
			}
			return true
		})
	}
	slices.SortStableFunc(r.calls, func(a, b *ast.CallExpr) int { return cmp.Compare(a.End()-a.Pos(), b.End()-b.Pos()) })
	return r
}

// callee returns the full name of the function that is called.
func (r *rewriter) callee(call *ast.CallExpr) string {
	fn, ok := typeutil.Callee(r.pkg.TypesInfo, call).(*types.Func)
	if !ok {
		return ""
	}
	return fn.Origin().FullName()
}

// rewrite rewrites the package and returns the number of rewritten calls.
func (r *rewriter) rewrite(w io.Writer) (rewritten int, err error) {
	for r.pass() { // until all remaining calls and slots can be rewritten
	}
	for _, call := range slices.SortedFunc(slices.Values(r.calls), r.compare) {
		at := r.pkg.Fset.Position(call.Pos())
		if why, ok := r.refused[call]; ok {
			fmt.Fprintf(w, "%s:%d: left %s alone: %s\n", at.Filename, at.Line, types.ExprString(call.Fun), why)
			continue
		}
		fmt.Fprintf(w, "%s:%d: rewritten: %s\n", at.Filename, at.Line, types.ExprString(call.Fun))
		rewritten++
	}
	if rewritten == 0 {
		return 0, nil
	}
	return rewritten, r.write()
}

// compare orders calls by file, whatever the order in which the files were
// parsed.
func (r *rewriter) compare(a, b *ast.CallExpr) int {
	x, y := r.pkg.Fset.Position(a.Pos()), r.pkg.Fset.Position(b.Pos())
	return cmp.Or(cmp.Compare(x.Filename, y.Filename), cmp.Compare(x.Offset, y.Offset))
}

// pass rewrites everything that earlier passes have not found to be unsafe. It
// reports whether it has found more that is unsafe.
func (r *rewriter) pass() (more bool) {
	r.slots, r.order = map[types.Object]*slot{}, nil
	r.uses = map[*ast.CallExpr][]*slot{}
	r.edits, r.done = map[string][]edit{}, map[*ast.Ident]bool{}
	r.marks()
	for _, call := range r.calls {
		if _, ok := r.refused[call]; ok {
			continue
		}
		if err := r.call(call); err != nil {
			r.refused[call] = err.Error()
			for _, s := range r.uses[call] {
				r.keep(s, "a call that uses it is left alone")
			}
			more = true
		}
	}
	for i := 0; i < len(r.order); i++ { // order grows in the loop
		if err := r.define(r.order[i]); err != nil {
			r.keep(r.order[i], err.Error())
			more = true
		}
	}
	for _, s := range r.order {
		if err := r.occurrences(s); err != nil {
			r.keep(s, err.Error())
			more = true
		}
	}
	return more
}

// keep makes a slot stay unchanged, and the slots that are built from it as
// well.
func (r *rewriter) keep(s *slot, why string) {
	if _, ok := r.kept[s.obj]; ok {
		return
	}
	r.kept[s.obj] = why
	for _, user := range s.users {
		r.keep(user, why)
	}
}

// marks rewrites the marks of errors. If any call stays unchanged, errors get
// the marks of both libraries.
func (r *rewriter) marks() {
	for _, file := range r.pkg.Syntax {
		for n := range ast.Preorder(file) {
			call, ok := n.(*ast.CallExpr)
			if !ok || markers[r.callee(call)] == "" {
				continue
			}
			mark := markers[r.callee(call)]
			if len(r.refused) == 0 {
				r.replace(call.Fun, mark)
				continue
			}
			r.insert(call.Pos(), mark+"(")
			r.insert(call.End(), ")")
		}
	}
}

// use returns the slot of an object for a call, or for another slot.
func (r *rewriter) use(obj types.Object, call *ast.CallExpr, user *slot) (*slot, error) {
	if why, ok := r.kept[obj]; ok {
		return nil, errors.New(why)
	}
	if obj.Pkg() != r.pkg.Types || obj.Exported() {
		return nil, fmt.Errorf("%s can be used in other packages", obj.Name())
	}
	s := r.slots[obj]
	if s == nil {
		s = &slot{obj: obj, param: -1}
		r.slots[obj] = s
		r.order = append(r.order, s)
	}
	if user != nil && user != s {
		s.users = append(s.users, user)
	}
	if call != nil {
		r.uses[call] = append(r.uses[call], s)
	}
	return s, nil
}

// define rewrites the statements that assign a slot.
func (r *rewriter) define(s *slot) error {
	if fn, ok := s.obj.(*types.Func); ok {
		return r.defineFunc(s, fn)
	}
	defined := false
	for id := range r.all(s.obj) {
		target, parent := r.wholeOf(id)
		switch p := parent.(type) {
		case *ast.AssignStmt:
			i := slices.Index(p.Lhs, target)
			if i < 0 {
				continue
			}
			if len(p.Lhs) != len(p.Rhs) {
				return fmt.Errorf("%s is one of several results", id.Name)
			}
			if err := r.redefine(s, p.Rhs[i]); err != nil {
				return err
			}
		case *ast.ValueSpec:
			i := slices.Index(p.Names, id)
			if i < 0 {
				continue
			}
			if p.Type != nil {
				r.replace(p.Type, "goretry.Policy")
			}
			if i < len(p.Values) {
				if len(p.Values) != len(p.Names) {
					return fmt.Errorf("%s is one of several results", id.Name)
				}
				if err := r.redefine(s, p.Values[i]); err != nil {
					return err
				}
			}
		case *ast.Field:
			if _, ok := r.parents[r.parents[p]].(*ast.StructType); !ok {
				return fmt.Errorf("%s is a parameter", id.Name)
			}
			r.replace(p.Type, "goretry.Policy")
			r.done[id] = true
			continue // a field, whose values are assigned elsewhere
		case *ast.KeyValueExpr:
			if p.Key != id {
				continue
			}
			if err := r.redefine(s, p.Value); err != nil {
				return err
			}
		default:
			continue
		}
		defined = true
		r.done[id] = true
	}
	if !defined {
		return fmt.Errorf("where %s comes from is not known", s.obj.Name())
	}
	return nil
}

func (r *rewriter) redefine(s *slot, value ast.Expr) error {
	p, err := r.policy(value, nil, s)
	if err != nil {
		return err
	}
	s.ctx = cmp.Or(p.ctx, s.ctx)
	r.replace(value, p.text)
	return nil
}

func (r *rewriter) defineFunc(s *slot, fn *types.Func) error {
	var decl *ast.FuncDecl
	for id := range r.all(fn) {
		if d, ok := r.parents[id].(*ast.FuncDecl); ok {
			decl = d
			r.done[id] = true
		}
	}
	if decl == nil || decl.Body == nil || decl.Type.Results.NumFields() != 1 || len(decl.Type.Results.List[0].Names) > 0 {
		return fmt.Errorf("what %s returns is not known", fn.Name())
	}
	r.replace(decl.Type.Results.List[0].Type, "goretry.Policy")
	returned := false
	for n := range ast.Preorder(decl.Body) {
		ret, ok := n.(*ast.ReturnStmt)
		if !ok {
			continue
		}
		if r.functionOf(ret) != decl {
			continue
		}
		if err := r.redefine(s, ret.Results[0]); err != nil {
			return err
		}
		returned = true
	}
	if !returned {
		return fmt.Errorf("%s returns nothing", fn.Name())
	}
	if s.ctx == nil {
		return nil
	}
	i := 0
	for _, field := range decl.Type.Params.List {
		for _, name := range field.Names {
			if id, ok := s.ctx.(*ast.Ident); ok && r.object(id) == r.object(name) {
				s.param = i
			}
			i++
		}
	}
	if s.param < 0 {
		return fmt.Errorf("the context of %s is not known where it is called", fn.Name())
	}
	return nil
}

// occurrences rewrites all other uses of a slot in the package.
func (r *rewriter) occurrences(s *slot) error {
	for id := range r.all(s.obj) {
		if r.done[id] {
			continue
		}
		target, parent := r.wholeOf(id)
		selector, ok := parent.(*ast.SelectorExpr)
		if !ok {
			return fmt.Errorf("%s is used otherwise in line %d", id.Name, r.pkg.Fset.Position(id.Pos()).Line)
		}
		if err := r.member(s, target, selector); err != nil {
			return err
		}
	}
	return nil
}

// member rewrites b.Field = value and b.Reset().
func (r *rewriter) member(s *slot, target ast.Expr, selector *ast.SelectorExpr) error {
	switch p := r.parents[selector].(type) {
	case *ast.AssignStmt:
		if len(p.Lhs) != 1 || p.Lhs[0] != selector || p.Tok != token.ASSIGN {
			break
		}
		name, value := r.text(target), r.text(p.Rhs[0])
		if setter := setters[selector.Sel.Name]; setter != "" {
			r.replace(p, strings.NewReplacer("b", name, "v", value).Replace(setter))
			return nil
		}
	case *ast.CallExpr:
		if stmt, ok := r.parents[p].(*ast.ExprStmt); ok && selector.Sel.Name == "Reset" {
			r.replace(stmt, "")
			return nil
		}
		if compared, ok := r.parents[p].(*ast.BinaryExpr); ok && selector.Sel.Name == "NextBackOff" && compared.Op == token.EQL &&
			strings.HasSuffix(types.ExprString(compared.Y), ".Stop") {
			// After a failed call, this asks whether the time was up.
			if err := r.errorOf(s, compared); err != "" {
				r.replace(compared, "goretry.ReasonOf("+err+") == goretry.ReasonElapsed")
				return nil
			}
		}
	}
	return fmt.Errorf("a policy has no %s, in line %d", selector.Sel.Name, r.pkg.Fset.Position(selector.Pos()).Line)
}

// errorOf returns the variable with the error of the call that uses a slot, if
// n is inside "if err := call; err != nil".
func (r *rewriter) errorOf(s *slot, n ast.Node) string {
	for ; n != nil; n = r.parents[n] {
		branch, ok := n.(*ast.IfStmt)
		if !ok {
			continue
		}
		if assign, ok := branch.Init.(*ast.AssignStmt); ok && len(assign.Lhs) == 1 {
			if call, ok := assign.Rhs[0].(*ast.CallExpr); ok && slices.Contains(r.uses[call], s) {
				return types.ExprString(assign.Lhs[0])
			}
		}
	}
	return ""
}

// all returns the occurrences of an object in the package.
func (r *rewriter) all(obj types.Object) func(yield func(*ast.Ident) bool) {
	return func(yield func(*ast.Ident) bool) {
		for _, file := range r.pkg.Syntax {
			for n := range ast.Preorder(file) {
				if id, ok := n.(*ast.Ident); ok && r.object(id) == obj && !yield(id) {
					return
				}
			}
		}
	}
}

func (r *rewriter) object(id *ast.Ident) types.Object { return r.pkg.TypesInfo.ObjectOf(id) }

// wholeOf returns the expression that ends in id, such as c.policy for policy,
// and the node around it.
func (r *rewriter) wholeOf(id *ast.Ident) (ast.Expr, ast.Node) {
	if selector, ok := r.parents[id].(*ast.SelectorExpr); ok && selector.Sel == id {
		return selector, r.parents[selector]
	}
	return id, r.parents[id]
}

func (r *rewriter) functionOf(n ast.Node) ast.Node {
	for n = r.parents[n]; n != nil; n = r.parents[n] {
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			return n
		}
	}
	return nil
}

func (r *rewriter) replace(n ast.Node, text string) {
	name, from := r.offset(n.Pos())
	_, to := r.offset(n.End())
	e := edit{from, to, text}
	if !slices.Contains(r.edits[name], e) {
		r.edits[name] = append(r.edits[name], e)
	}
}

func (r *rewriter) insert(pos token.Pos, text string) {
	name, at := r.offset(pos)
	r.edits[name] = append(r.edits[name], edit{at, at, text})
}

func (r *rewriter) offset(pos token.Pos) (string, int) {
	p := r.pkg.Fset.Position(pos)
	return p.Filename, p.Offset
}

// text returns the source of n with the edits so far.
func (r *rewriter) text(n ast.Node) string {
	name, from := r.offset(n.Pos())
	_, to := r.offset(n.End())
	return r.render(name, from, to)
}

// render applies the edits to a part of a file. An edit inside another one is
// already in the text of the outer one.
func (r *rewriter) render(name string, from, to int) string {
	var inside []edit
	for _, e := range r.edits[name] {
		if from <= e.from && e.to <= to && !(e.from == e.to && (e.from == from || e.to == to) && from != 0) {
			inside = append(inside, e)
		}
	}
	slices.SortStableFunc(inside, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to))
	})
	var text strings.Builder
	source := r.source(name)
	at := from
	for _, e := range inside {
		if e.from < at {
			continue
		}
		text.Write(source[at:e.from])
		text.WriteString(e.text)
		at = e.to
	}
	text.Write(source[at:to])
	return text.String()
}

func (r *rewriter) source(name string) []byte {
	if r.sources[name] == nil {
		data, err := os.ReadFile(name)
		if err != nil {
			panic(err) // the text was just parsed
		}
		r.sources[name] = data
	}
	return r.sources[name]
}

// write writes the changed files, and a file with the helpers that they need.
func (r *rewriter) write() error {
	var dir string
	for name := range r.edits {
		dir = filepath.Dir(name)
		source := r.render(name, 0, len(r.source(name)))
		source, err := imports(name, source)
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(source), 0o600); err != nil {
			return err
		}
	}
	suffix := ""
	if strings.HasSuffix(r.pkg.Name, "_test") || r.onlyTests() {
		suffix = "_test"
	}
	helpers := strings.Replace(helpers, "package helpers", "package "+r.pkg.Name, 1)
	return os.WriteFile(filepath.Join(dir, "rewritten"+suffix+".go"), []byte(helpers), 0o600)
}

func (r *rewriter) onlyTests() bool {
	for name := range r.edits {
		if !strings.HasSuffix(name, "_test.go") {
			return false
		}
	}
	return true
}

// imports adds the import of this library, and removes libraries that are no
// longer used.
func imports(name, source string) (string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments)
	if err != nil {
		return "", fmt.Errorf("%w in\n%s", err, source)
	}
	used := map[string]bool{}
	for n := range ast.Preorder(file) {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := selector.X.(*ast.Ident); ok && id.Obj == nil {
				used[id.Name] = true
			}
		}
	}
	imported := map[string]bool{}
	var result bytes.Buffer
	at := 0
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		imported[path] = true
		base, library := libraries[path]
		if spec.Name != nil {
			base = spec.Name.Name
		}
		if library && !used[base] {
			result.WriteString(source[at:fset.Position(spec.Pos()).Offset])
			result.WriteString("_ " + spec.Path.Value)
			at = fset.Position(spec.End()).Offset
		}
	}
	rest := source[at:]
	source = result.String() + rest
	after := fset.Position(file.Name.End()).Offset
	var added string
	if used["goretry"] {
		added += "\nimport goretry \"github.com/goretry/retry\"\n"
	}
	if used["context"] && !imported["context"] {
		added += "\nimport \"context\"\n"
	}
	return source[:after] + "\n" + added + source[after:], nil
}
