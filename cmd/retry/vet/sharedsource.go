package vet

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// SharedSource reports policies that several goroutines use although their
// Source is not safe for concurrent use.
var SharedSource = newCheck("sharedsource", `report a Source that is not safe for concurrent use

Any number of goroutines may share a policy, and then they share its Source too.
The generators of math/rand and math/rand/v2 have no lock.`, runSharedSource)

func runSharedSource(pass *analysis.Pass, u *uses) {
	for _, s := range u.settings {
		if !s.is(retryPath, "Policy", "Source") || s.value == nil {
			continue
		}
		shared := ""
		if s.assigned() {
			shared = u.sharedTarget(pass, s.x)
		} else {
			shared = u.sharedLiteral(pass, s.cursor.Parent())
		}
		generator := u.unlocked(s.value)
		if generator == "" || shared == "" {
			continue
		}
		pass.ReportRangef(s.value, "a %s is not safe for concurrent use, and %s: leave Source out, which draws from math/rand/v2, or lock around Uint64", generator, shared)
	}
}

// unlocked returns the name of the standard library's generator whose method x is,
// or "" if it is none.
func (u *uses) unlocked(x ast.Expr) string {
	selector, ok := u.value(x).(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	method, ok := u.info.Uses[selector.Sel].(*types.Func)
	if !ok || method.Signature().Recv() == nil {
		return "" // such as rand.Uint64, which is safe
	}
	path, name, _ := strings.Cut(typeName(method.Signature().Recv().Type()), ".")
	if path == "math/rand" || path == "math/rand/v2" {
		return "*rand." + name
	}
	return ""
}

// sharedLiteral returns how the policy of a literal is shared, or "" if that is
// not known.
func (u *uses) sharedLiteral(pass *analysis.Pass, c inspector.Cursor) string {
	for {
		parent := c.Parent()
		switch n := parent.Node().(type) {
		case *ast.ParenExpr, *ast.UnaryExpr, *ast.CompositeLit:
			c = parent
			continue
		case *ast.KeyValueExpr:
			if literal, ok := parent.Parent().Node().(*ast.CompositeLit); ok {
				if how := concurrent(pass, u.info.TypeOf(literal), n); how != "" {
					return how
				}
			}
			c = parent
			continue
		case *ast.ValueSpec:
			for i, value := range n.Values {
				if value == c.Node() && i < len(n.Names) {
					return u.sharedTarget(pass, n.Names[i])
				}
			}
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				if value == c.Node() && len(n.Lhs) == len(n.Rhs) {
					return u.sharedTarget(pass, n.Lhs[i])
				}
			}
		}
		return ""
	}
}

// sharedTarget returns how the policy in x is shared: by a variable of the
// package, by a field of something that is used concurrently, or by goroutines.
func (u *uses) sharedTarget(pass *analysis.Pass, x ast.Expr) string {
	switch x := ast.Unparen(x).(type) {
	case *ast.SelectorExpr:
		if u.info.Selections[x] != nil {
			return concurrent(pass, deref(u.info.TypeOf(x.X)), x)
		}
	case *ast.Ident:
		v, ok := u.info.ObjectOf(x).(*types.Var)
		if !ok {
			return ""
		}
		if v.Parent() == pass.Pkg.Scope() && !inTest(pass, x) {
			return v.Name() + " is a policy of the whole package"
		}
		return u.sharedByGoroutines(v)
	}
	return ""
}

// inTest reports whether n is in a test, which may use only one goroutine.
func inTest(pass *analysis.Pass, n ast.Node) bool {
	return strings.HasSuffix(pass.Fset.Position(n.Pos()).Filename, "_test.go")
}

// concurrent returns why a struct is known to be used by several goroutines: it
// serves or sends HTTP, or has a lock.
func concurrent(pass *analysis.Pass, t types.Type, n ast.Node) string {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || inTest(pass, n) {
		return ""
	}
	name := named.Obj().Name()
	for method, role := range map[string]string{"RoundTrip": "an http.RoundTripper", "ServeHTTP": "an http.Handler"} {
		if fn, _, _ := types.LookupFieldOrMethod(named, true, nil, method); fn != nil {
			return name + " is " + role + ", which many goroutines use"
		}
	}
	if fields, ok := named.Underlying().(*types.Struct); ok {
		for field := range fields.Fields() {
			if isNamed(field.Type(), "sync", "Mutex") || isNamed(field.Type(), "sync", "RWMutex") {
				return name + " has a lock because many goroutines use it"
			}
		}
	}
	return ""
}

// sharedByGoroutines returns how several goroutines use a variable.
func (u *uses) sharedByGoroutines(v *types.Var) string {
	starts := 0
	for id := range u.root.Preorder((*ast.Ident)(nil)) {
		if u.info.Uses[id.Node().(*ast.Ident)] != v {
			continue
		}
		for fn := range id.Enclosing((*ast.FuncLit)(nil)) {
			if fn.Node().Pos() <= v.Pos() && v.Pos() < fn.Node().End() {
				break // a variable of the function itself
			}
			if handles(u.info.TypeOf(fn.Node().(*ast.FuncLit))) {
				return v.Name() + " is used by an HTTP handler, which runs in many goroutines"
			}
			if starts += starting(fn, v); starts > 1 {
				return v.Name() + " is used by several goroutines"
			}
		}
	}
	return ""
}

// handles reports whether a function has the signature of an HTTP handler.
func handles(t types.Type) bool {
	signature, ok := t.(*types.Signature)
	return ok && signature.Params().Len() == 2 && isNamed(signature.Params().At(0).Type(), "net/http", "ResponseWriter")
}

// starting returns how many goroutines are started from a function literal:
// none, one, or two, which stands for many, if it is started in a loop.
func starting(fn inspector.Cursor, v *types.Var) int {
	call, ok := fn.Parent().Node().(*ast.CallExpr)
	if !ok {
		return 0
	}
	_, goes := fn.Parent().Parent().Node().(*ast.GoStmt)
	if sel, ok := call.Fun.(*ast.SelectorExpr); !goes && (!ok || sel.Sel.Name != "Go") {
		return 0
	}
	for loop := range fn.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		if v.Pos() < loop.Node().Pos() || loop.Node().End() <= v.Pos() {
			return 2
		}
	}
	return 1
}
