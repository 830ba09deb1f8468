package vet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

const zeroAttempts = "MaxAttempts of 0 is not set, and not unlimited, so there is one attempt: write retry.Unlimited, or set a limit"

var limits = []string{"MaxAttempts", "MaxRetries", "MaxElapsed"}

// judgeLimits reports a policy without a limit and two limits that contradict each
// other, where judge cannot because some fields are not constant.
func (u *uses) judgeLimits(pass *analysis.Pass, lit *ast.CompositeLit, used, known bool) {
	fields := keyed(lit)
	if x := fields["MaxAttempts"]; x != nil && u.isZero(x) && u.noLimit(fields) && len(fields) > 1 && !(used && known) {
		pass.ReportRangef(x, zeroAttempts)
		return
	}
	linted := known && (fields["Backoff"] != nil || fields["Classify"] != nil || fields["AttemptCap"] != nil)
	if used && !linted && len(fields) == len(lit.Elts) && fields["NonRetryable"] == nil && u.noLimit(fields) {
		for _, name := range []string{"Backoff", "MaxDelay", "Jitter", "RetryIf", "Budget", "Classify", "MaxRetryAfter"} {
			if fields[name] != nil {
				pass.ReportRangef(lit.Type, "%s without a limit: there is only one attempt; set MaxAttempts, MaxRetries or MaxElapsed", name)
				break
			}
		}
	}
	u.judgeTimes(pass, fields)
}

// noLimit reports whether the limits that are set are all 0.
func (u *uses) noLimit(fields map[string]ast.Expr) bool {
	for _, name := range limits {
		if x := fields[name]; x != nil && !u.isZero(x) {
			return false
		}
	}
	return true
}

// judgeTimes reports an AttemptTimeout that is longer than MaxElapsed.
func (u *uses) judgeTimes(pass *analysis.Pass, fields map[string]ast.Expr) {
	timeout, elapsed := fields["AttemptTimeout"], fields["MaxElapsed"]
	if timeout == nil || elapsed == nil {
		return
	}
	a, ok := u.duration(timeout)
	b, also := u.duration(elapsed)
	if ok && also && b > 0 && a > b {
		pass.ReportRangef(timeout, "AttemptTimeout of %v is longer than MaxElapsed of %v: the first attempt that times out is the last", a, b)
	}
}

// zeroLimit reports a limit of a variable that is set to 0 as if that were
// unlimited, or none.
func (u *uses) zeroLimit(pass *analysis.Pass, left *ast.SelectorExpr, x ast.Expr) {
	v := u.local(ast.Unparen(left.X))
	if v == nil || u.vars[v] == nil {
		return
	}
	last := map[string]ast.Expr{}
	for name, values := range u.vars[v].fields {
		last[name] = values[len(values)-1]
	}
	if left.Sel.Name == "MaxElapsed" || left.Sel.Name == "AttemptTimeout" {
		if last[left.Sel.Name] == x {
			u.judgeTimes(pass, last)
		}
		return
	}
	switch name := left.Sel.Name; {
	case name != "MaxAttempts" && name != "MaxRetries" || !u.isZero(x) || inTest(pass, left):
	case name == "MaxAttempts" && u.noLimit(last):
		pass.ReportRangef(x, zeroAttempts)
	case name == "MaxRetries" && last["MaxAttempts"] == nil && last["MaxElapsed"] == nil && u.fromDefault(v):
		pass.ReportRangef(x, "MaxRetries of 0 is not set, so the 5 attempts of retry.Default stay: set MaxAttempts to 1, or NonRetryable")
	}
}

// unnamedClass reports a Class without a name beside one with, in one function: its
// failures are counted together with those of no class.
func (u *uses) unnamedClass(pass *analysis.Pass) {
	named := map[ast.Node]bool{}
	unnamed := map[ast.Node]*ast.CompositeLit{}
	for c := range u.root.Preorder((*ast.CompositeLit)(nil)) {
		lit, fn := c.Node().(*ast.CompositeLit), enclosingFunc(c)
		if fn == nil || inTest(pass, lit) || !isNamed(derefAny(u.info.TypeOf(lit)), retryPath, "Class") {
			continue
		}
		if keyed(lit)["Name"] != nil {
			named[fn.Node()] = true
		} else if p := literal(u.deep(keyed(lit)["Policy"])); p != nil && keyed(p)["NonRetryable"] == nil {
			unnamed[fn.Node()] = lit
		}
	}
	for fn, lit := range unnamed {
		if named[fn] {
			pass.ReportRangef(lit, "this Class has no Name, beside one that has: give it one, so that its failures are counted apart")
		}
	}
}

// unknownReasons reports a Reason that is compared with a text that is none.
func (u *uses) unknownReasons(pass *analysis.Pass) {
	known := map[string]bool{`""`: true}
	for _, p := range pass.Pkg.Imports() {
		if p.Path() == retryPath {
			for _, name := range p.Scope().Names() {
				if c, ok := p.Scope().Lookup(name).(*types.Const); ok && isNamed(c.Type(), retryPath, "Reason") {
					known[c.Val().ExactString()] = true
				}
			}
		}
	}
	for c := range u.root.Preorder((*ast.BasicLit)(nil)) {
		lit := c.Node().(*ast.BasicLit)
		if tv := u.info.Types[lit]; len(known) > 1 && isNamed(tv.Type, retryPath, "Reason") && tv.Value != nil && !known[tv.Value.ExactString()] {
			switch p := c.Parent().Node().(type) {
			case *ast.BinaryExpr:
				if p.Op != token.EQL && p.Op != token.NEQ {
					continue
				}
			case *ast.CaseClause:
			default:
				continue
			}
			if !inTest(pass, lit) {
				pass.ReportRangef(lit, "no Reason is %s: use a constant, such as retry.ReasonExhausted", lit.Value)
			}
		}
	}
}

func (u *uses) fromDefault(v *types.Var) bool {
	values := u.vars[v].values
	call, ok := ast.Expr(nil), false
	if len(values) == 1 {
		call = values[0]
	}
	made, ok := call.(*ast.CallExpr)
	return ok && u.callee(made) == retryPath+".Default"
}

// units reports durations without a unit, wherever the library gets one.
func (u *uses) units(pass *analysis.Pass) {
	for c := range u.root.Preorder((*ast.KeyValueExpr)(nil), (*ast.AssignStmt)(nil), (*ast.CallExpr)(nil), (*ast.CompositeLit)(nil)) {
		if inTest(pass, c.Node()) {
			continue
		}
		switch n := c.Node().(type) {
		case *ast.KeyValueExpr:
			if lit, ok := c.Parent().Node().(*ast.CompositeLit); ok && u.ourType(u.info.TypeOf(lit)) {
				u.unit(pass, n.Value)
			}
		case *ast.CompositeLit:
			if u.retryType(n) == "Schedule" {
				for _, x := range n.Elts {
					u.unit(pass, x)
				}
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if sel, ok := left.(*ast.SelectorExpr); ok && len(n.Lhs) == len(n.Rhs) && n.Tok == token.ASSIGN && u.ourType(u.info.TypeOf(sel.X)) {
					u.unit(pass, n.Rhs[i])
				}
			}
		case *ast.CallExpr:
			if u.info.Types[n.Fun].IsType() {
				if isNamed(u.info.TypeOf(n), retryPath, "Fixed") || isNamed(u.info.TypeOf(n), retryPath, "Linear") || isNamed(u.info.TypeOf(n), retryPath, "Fibonacci") {
					u.unit(pass, n.Args[0])
				}
			} else if fn, ok := typeutil.Callee(u.info, n).(*types.Func); ok && fn.Pkg() != nil && isLibrary(fn.Pkg().Path()) && fn.Pkg() != pass.Pkg {
				for _, arg := range n.Args {
					u.unit(pass, arg)
				}
			}
		}
	}
}

// ourType reports whether t is a struct of the library.
func (u *uses) ourType(t types.Type) bool {
	if t == nil {
		return false
	}
	named, ok := types.Unalias(deref(t)).(*types.Named)
	return ok && named.Obj().Pkg() != nil && isLibrary(named.Obj().Pkg().Path())
}

var countsTime = regexp.MustCompile(`(?i)sec|milli|minute|hour|ms$|^ms|wait|delay|timeout|interval|after`)

// unit reports x if it is a duration and a bare number.
func (u *uses) unit(pass *analysis.Pass, x ast.Expr) {
	tv := u.info.Types[x]
	curve := isNamed(tv.Type, retryPath, "Fixed") || isNamed(tv.Type, retryPath, "Linear") || isNamed(tv.Type, retryPath, "Fibonacci")
	if _, made := x.(*ast.CallExpr); !isNamed(tv.Type, "time", "Duration") && !curve || curve && made {
		return
	}
	if tv.Value != nil {
		n, ok := constant.Int64Val(constant.ToInt(tv.Value))
		if ok && n > 0 && n < 1e6 && u.bare(x) {
			pass.ReportRangef(x, "%d is %d nanoseconds: give it a unit, as in %[1]d*time.Millisecond", n, n)
		}
		return
	}
	conversion, ok := ast.Unparen(x).(*ast.CallExpr)
	if !ok || !u.info.Types[conversion.Fun].IsType() || len(conversion.Args) != 1 {
		return
	}
	arg := conversion.Args[0]
	basic, ok := types.Unalias(u.info.TypeOf(arg)).(*types.Basic)
	if !ok || basic.Info()&types.IsInteger == 0 {
		return
	}
	made := u.from(arg)
	if name := lastName(arg); countsTime.MatchString(name) && !hasAny(strings.ToLower(name), "nano") ||
		made != nil && hasAny(u.callee(made), "strconv.Atoi", "strconv.ParseInt") {
		pass.ReportRangef(x, "%s counts nanoseconds here: multiply it with its unit, as in time.Duration(%s)*time.Second", types.ExprString(arg), types.ExprString(arg))
	}
}

// bare reports whether a constant is written without anything that could have a
// unit.
func (u *uses) bare(x ast.Expr) bool {
	for n := range ast.Preorder(x) {
		id, ok := n.(*ast.Ident)
		if !ok {
			continue
		}
		switch obj := u.info.Uses[id].(type) {
		case *types.Const:
			if basic, untyped := obj.Type().(*types.Basic); !untyped || basic.Info()&types.IsUntyped == 0 && basic.Info()&types.IsInteger == 0 {
				return false
			}
		case *types.Var, *types.Func:
			return false
		}
	}
	return true
}

// budgetPerCall reports a Budget of a policy that is made for a single call, and
// shares it with no other.
func (u *uses) budgetPerCall(pass *analysis.Pass) {
	for _, call := range u.calls {
		fn := enclosingFunc(call.cursor)
		if fn == nil || inTest(pass, call) || inFunc(call.cursor, (*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.GoStmt)(nil)) {
			continue
		}
		decl, ok := fn.Node().(*ast.FuncDecl)
		lit, isLit := fn.Node().(*ast.FuncLit)
		if !ok && !(isLit && handles(u.info.TypeOf(lit))) || ok && decl.Recv == nil && (decl.Name.Name == "main" || decl.Name.Name == "init" || strings.HasPrefix(decl.Name.Name, "Test") || strings.HasPrefix(decl.Name.Name, "Example")) {
			continue
		}
		calls := 0
		for _, other := range u.calls {
			if fn.Node().Pos() <= other.Pos() && other.Pos() < fn.Node().End() {
				calls++
			}
		}
		if calls > 1 {
			continue
		}
		for c := range fn.Preorder((*ast.UnaryExpr)(nil)) {
			lit := literal(c.Node().(ast.Expr))
			if lit != nil && isNamed(u.info.TypeOf(lit), retryPath, "Budget") && u.policyBudget(c) {
				pass.ReportRangef(lit.Type, "this Budget is made for one call, so it bounds nothing that MaxAttempts does not: make one for each target, and share it among all calls")
			}
		}
	}
}

// policyBudget reports whether the Budget at c goes into a policy, and nowhere else.
func (u *uses) policyBudget(c inspector.Cursor) bool {
	switch p := c.Parent().Node().(type) {
	case *ast.KeyValueExpr:
		lit, ok := c.Parent().Parent().Node().(*ast.CompositeLit)
		return ok && isPolicy(deref(u.info.TypeOf(lit)))
	case *ast.AssignStmt:
		if sel, ok := p.Lhs[0].(*ast.SelectorExpr); ok {
			return isPolicy(deref(u.info.TypeOf(sel.X))) && u.local(ast.Unparen(sel.X)) != nil
		}
		v, fn := u.local(p.Lhs[0]), enclosingFunc(c)
		if v == nil || fn == nil {
			return false
		}
		uses, inPolicy := 0, false
		for use := range u.idents(v, *fn) {
			uses++
			inPolicy = inPolicy || u.policyBudget(use)
		}
		return inPolicy && uses == 1
	}
	return false
}
