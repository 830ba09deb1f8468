package vet

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/goretry/retry"
)

// PerCall reports a Transport, a Budget or a Gate that is made anew for each call.
var PerCall = newCheck("percall", `report a Transport, a Budget or a Gate that is made for each call

A Budget limits the retries of many calls together, and a new Budget is always full. A
new Transport has new Budgets. A new Gate holds back no other call. To give all layers
of one call a common Budget, use retry.WithBudget.`, func(pass *analysis.Pass, u *uses) {
	report := func(c inspector.Cursor, x ast.Expr) {
		fn := enclosingFunc(c)
		if fn == nil {
			return
		}
		if at, name := u.madeIn(*fn, x); name != "" && u.eachTime(c, at) {
			pass.Reportf(at, "this %s is made for each call, so %s: make one, and use it for all calls",
				calledName(name), useless[name])
		}
	}
	for _, call := range u.calls {
		// If the attempts are unlimited, a Budget that is made for each call may be their only limit.
		if most, _ := u.attempts(call.policy); most != retry.Unlimited {
			report(call.cursor, call.policy)
		}
	}
	for c, call := range nodes[*ast.CallExpr](u.root) {
		if x, _ := method(call); x != nil &&
			(u.sendsRequest(call) || u.callee(call) == "(*"+retryPath+".Gate).Hold") {
			report(c, x)
		}
	}
	for _, s := range u.settings {
		op := u.operation(s.value)
		if op == nil || !s.setsField(retryhttpPath, "Transport", "Budgets") {
			continue
		}
		for _, ret := range returnsOf(op.body) {
			if at, name := u.madeIn(op.cursor, ret.Results[0]); name != "" {
				pass.Reportf(at,
					"Budgets is called for each request, so this Budget is always full: make one Budget for each "+
						"target, and return it")
			}
		}
	}
})

// useless lists the types that PerCall looks for. It maps the name of a type to the reason why a
// new value of this type for each call is useless.
var useless = map[string]string{
	retryhttpPath + ".Transport": "its Budgets are always full",
	retryPath + ".Budget":        "it is always full",
	retryPath + ".Gate":          "it stops no other call",
}

// holders lists types with a field that can contain a Transport or a Budget. It maps the name of a
// type to the name of this field.
var holders = map[string]string{"net/http.Client": "Transport", retryPath + ".Policy": "Budget"}

// madeIn looks for a Transport, a Budget or a Gate that is the value of x or of a field of x. It
// returns the name of the type of this value, and the position in the function fn where the value
// is made. The name is "" if the value is made outside of fn, or if fn passes the value on to other
// code.
func (u *uses) madeIn(fn inspector.Cursor, x ast.Expr) (at token.Pos, name string) {
	for part := x; part != nil; {
		part = pointee(part)
		name = typeName(u.info.TypeOf(part))
		switch e := part.(type) {
		case *ast.Ident:
			v := u.local(e)
			if v == nil || !covers(fn.Node(), v.Pos()) || u.handedOnIn(fn, v, x) {
				return at, ""
			}
			made := u.vars[v]
			switch held := made.fields[holders[name]]; {
			case len(held) == 1:
				part = held[0]
			case made.fields["Budgets"] != nil || made.zero == (len(made.values) == 1):
				return at, ""
			case made.zero:
				return cmp.Or(at, v.Pos()), name
			default:
				part = made.values[0]
			}
		case *ast.CompositeLit:
			fields := keyed(e)
			if fields["Budgets"] != nil || u.sets(fields["Policy"], "Budget") {
				return at, "" // the Budgets are made elsewhere, so a new Transport or Policy does no harm
			}
			if useless[name] != "" {
				return cmp.Or(at, e.Pos()), name
			}
			part = fields[holders[name]]
		case *ast.CallExpr:
			if useless[name] != "" && (isNamedIdent(e.Fun, "new") || u.callee(e) == retryhttpPath+".LLM") {
				return cmp.Or(at, e.Pos()), name
			}
			decl := u.declared(e)
			if decl == nil || at.IsValid() {
				return at, ""
			}
			fn, _ = u.root.FindNode(decl)
			at, x = e.Pos(), onlyResult(decl)
			part = x
		default:
			return at, ""
		}
	}
	return at, ""
}

// handedOnIn reports whether the function fn passes its variable v on to other code. The value of v
// is, or contains, a Transport, a Budget or a Gate. The parameter x is the expression in which
// madeIn looks for such a value. If x is v itself, handedOnIn ignores this use of v.
func (u *uses) handedOnIn(fn inspector.Cursor, v *types.Var, x ast.Expr) bool {
	for c, id := range u.idents(v, fn) {
		if enclosingFunc(c).Node() != fn.Node() {
			return true
		}
		if id == ast.Unparen(x) {
			continue
		}
		if _, ok := c.Parent().Node().(*ast.UnaryExpr); ok {
			c = c.Parent()
		}
		switch p := c.Parent().Node().(type) {
		case *ast.SelectorExpr:
			if call, ok := c.Parent().Parent().Node().(*ast.CallExpr); ok && call.Fun == p {
				return true
			}
		case *ast.KeyValueExpr:
			if name := typeName(u.info.TypeOf(c.Parent().Parent().Node().(ast.Expr))); holders[name] == "" &&
				useless[name] == "" {
				return true
			}
		case *ast.AssignStmt:
			if i := slices.Index(p.Rhs, c.Node().(ast.Expr)); i >= 0 {
				sel, ok := p.Lhs[i].(*ast.SelectorExpr)
				if !ok || u.local(sel.X) == nil || holders[typeName(u.info.TypeOf(sel.X))] == "" {
					return true
				}
			}
		default:
			return true
		}
	}
	return false
}

// atStart matches the names of functions that a program probably calls once.
var atStart = regexp.MustCompile(
	`^(?i:main|init|new|must|setup|bootstrap|start|run|serve|listen|wire|provide|migrate)`)

// eachTime reports whether the program runs the code at c again and again, for example in a handler
// or a loop, and makes the value at pos each time. eachTime and calledEachTime look at the function
// around c, then at the callers of this function, then at their callers. The parameter `callees`
// lists the functions that they have already looked at.
func (u *uses) eachTime(c inspector.Cursor, pos token.Pos, callees ...ast.Node) bool {
	for around := range c.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil),
		(*ast.FuncDecl)(nil)) {
		switch n := around.Node().(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return covers(n, pos)
		case *ast.FuncLit:
			call, runs := around.Parent().Node().(*ast.CallExpr)
			if !runs || u.isHandler(n.Type) {
				return u.isHandler(n.Type) || u.calledEachTime(n, callees)
			}
			if hasAny(u.callee(call), "sync.Once") {
				return false
			}
		case *ast.FuncDecl:
			fn := u.info.Defs[n.Name]
			forOthers := fn.Pkg().Name() != "main" && (n.Name.IsExported() || u.count(fn, u.root) == 0)
			return u.isHandler(n.Type) || !atStart.MatchString(n.Name.Name) &&
				(forOthers || u.calledEachTime(n, callees))
		}
	}
	return false
}

// calledEachTime reports whether the program calls the function fn again and again. It returns
// false if fn is in `callees`, the functions that eachTime has already looked at: then fn calls
// itself, and the search must end. It also returns false if the program uses fn only as a value.
// Such a function may run only once, for example as the function of a subcommand.
func (u *uses) calledEachTime(fn ast.Node, callees []ast.Node) bool {
	if slices.Contains(callees, fn) {
		return false
	}
	for c, call := range nodes[*ast.CallExpr](u.root) {
		if op := u.operation(call.Fun); op != nil && op.node == fn &&
			u.eachTime(c, call.Pos(), append(callees, fn)...) {
			return true
		}
	}
	return false
}

// isHandler reports whether a function is a handler of HTTP requests.
func (u *uses) isHandler(fn *ast.FuncType) bool {
	return slices.ContainsFunc(fn.Params.List, func(param *ast.Field) bool {
		return hasAny(typeName(u.info.TypeOf(param.Type)), "net/http.ResponseWriter", "/gin.Context",
			"/echo.Context", "/fiber.Ctx")
	})
}
