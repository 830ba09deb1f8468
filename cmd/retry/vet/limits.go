package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

const zeroAttempts = "MaxAttempts of 0 is not set, and not unlimited, so there is one attempt: write retry.Unlimited, or set a limit"

// judgeLimits reports a policy without a limit and two limits that contradict each
// other, where Lint cannot because some fields are not constant.
func (u *uses) judgeLimits(pass *analysis.Pass, lit *ast.CompositeLit, used, known bool) {
	fields := keyed(lit)
	if len(fields) != len(lit.Elts) || fields["NonRetryable"] != nil {
		return
	}
	if !used || !known {
		u.judgeTimes(pass, fields)
	}
	linted := used && known && (fields["Backoff"] != nil || fields["Classify"] != nil || fields["AttemptCap"] != nil)
	if linted || !u.noLimit(fields) {
		return
	}
	if x := fields["MaxAttempts"]; x != nil && len(fields) > 1 {
		pass.ReportRangef(x, zeroAttempts)
		return
	}
	for _, name := range []string{"Backoff", "MaxDelay", "Jitter", "RetryIf", "Budget", "Classify", "MaxRetryAfter"} {
		if fields[name] != nil && used {
			pass.ReportRangef(lit.Type, "%s without a limit: there is only one attempt; set MaxAttempts, MaxRetries or MaxElapsed", name)
			return
		}
	}
}

// noLimit reports whether the limits that are set are all 0.
func (u *uses) noLimit(fields map[string]ast.Expr) bool {
	for _, name := range []string{"MaxAttempts", "MaxRetries", "MaxElapsed"} {
		if x, set := fields[name]; set && !u.isZero(x) {
			return false
		}
	}
	return true
}

// judgeTimes reports an AttemptTimeout that is longer than MaxElapsed.
func (u *uses) judgeTimes(pass *analysis.Pass, fields map[string]ast.Expr) {
	timeout, elapsed := fields["AttemptTimeout"], fields["MaxElapsed"]
	a, ok := u.duration(timeout)
	b, also := u.duration(elapsed)
	if ok && also && b > 0 && a > b {
		pass.ReportRangef(timeout, "AttemptTimeout of %v is longer than MaxElapsed of %v: the first attempt that times out is the last", a, b)
	}
}

// judgeLimit reports a limit of a variable that is set to 0 as if that were
// unlimited, or none.
func (u *uses) judgeLimit(pass *analysis.Pass, s setting) {
	v := u.local(ast.Unparen(s.x))
	if v == nil || u.vars[v] == nil {
		return
	}
	last, fromDefault := map[string]ast.Expr{}, false
	for _, x := range u.vars[v].values {
		if lit := literal(x); lit != nil {
			last = keyed(lit)
		}
		made, ok := x.(*ast.CallExpr)
		fromDefault = ok && u.callee(made) == retryPath+".Default"
	}
	for name, values := range u.vars[v].fields {
		last[name] = values[len(values)-1]
	}
	switch name := s.field.Name; {
	case last["NonRetryable"] != nil || last[name] != s.value:
	case name == "MaxElapsed" && last["AttemptTimeout"] != nil && last["AttemptTimeout"].Pos() < s.value.Pos(),
		name == "AttemptTimeout" && last["MaxElapsed"] != nil && last["MaxElapsed"].Pos() < s.value.Pos():
		u.judgeTimes(pass, last) // once, where both are set
	case name == "MaxAttempts" && u.isZero(s.value) && u.noLimit(last):
		pass.ReportRangef(s.value, zeroAttempts)
	case name == "MaxRetries" && u.isZero(s.value) && last["MaxAttempts"] == nil && last["MaxElapsed"] == nil && fromDefault:
		pass.ReportRangef(s.value, "MaxRetries of 0 is not set, so the 5 attempts of retry.Default stay: set MaxAttempts to 1, or NonRetryable")
	}
}

// unnamedClass reports a Class without a name beside one with, in one function: its
// failures are counted together with those of no class.
func (u *uses) unnamedClass(pass *analysis.Pass) {
	named := map[ast.Node]bool{}
	unnamed := map[ast.Node]*ast.CompositeLit{}
	for c, lit := range all[*ast.CompositeLit](u.root) {
		fn := enclosingFunc(c)
		if fn == nil || inTest(pass, lit) || !isNamed(derefAny(u.info.TypeOf(lit)), retryPath, "Class") {
			continue
		}
		_, kept := c.Parent().Parent().Node().(*ast.AssignStmt) // and may get its name later
		fields := keyed(lit)
		if fields["Name"] != nil {
			named[fn.Node()] = true
		} else if counted := fields["MaxAttempts"] != nil || fields["Backoff"] != nil; counted && !kept && fields["NonRetryable"] == nil {
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
		for _, name := range p.Scope().Names() {
			if c, ok := p.Scope().Lookup(name).(*types.Const); ok && isNamed(c.Type(), retryPath, "Reason") {
				known[c.Val().ExactString()] = true
			}
		}
	}
	for c, lit := range all[*ast.BasicLit](u.root) {
		tv := u.info.Types[lit]
		if len(known) == 1 || !isNamed(tv.Type, retryPath, "Reason") || known[tv.Value.ExactString()] || inTest(pass, lit) {
			continue
		}
		binary, ok := c.Parent().Node().(*ast.BinaryExpr)
		if _, isCase := c.Parent().Node().(*ast.CaseClause); isCase || ok && (binary.Op == token.EQL || binary.Op == token.NEQ) {
			pass.ReportRangef(lit, "no Reason is %s: use a constant, such as retry.ReasonExhausted", lit.Value)
		}
	}
}

// budgetPerCall reports a Budget of a policy that is made for a single call, and
// shares it with no other.
func (u *uses) budgetPerCall(pass *analysis.Pass) {
	for _, s := range u.settings {
		fn := enclosingFunc(s.cursor)
		if !s.is(retryPath, "Policy", "Budget") || fn == nil || inTest(pass, s.field) || !u.callsOnce(*fn) {
			continue
		}
		owner, _ := u.owner(s).(*types.Var)
		lit := literal(u.value(s.value))
		if lit != nil && within(fn.Node(), lit.Pos()) && u.isUsedOnce(*fn, owner) && u.isUsedOnce(*fn, u.local(s.value)) {
			pass.ReportRangef(lit.Type, "this Budget is made for one call, so it bounds nothing that MaxAttempts does not: make one for each target, and share it among all calls")
		}
	}
}

// callsOnce reports whether a function, which is not main, makes one call that
// retries, and makes it once.
func (u *uses) callsOnce(fn inspector.Cursor) bool {
	calls := slices.DeleteFunc(slices.Clone(u.calls), func(call *call) bool { return !within(fn.Node(), call.Pos()) })
	if len(calls) != 1 || inAny(calls[0].cursor, (*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.GoStmt)(nil)) {
		return false
	}
	decl, ok := fn.Node().(*ast.FuncDecl)
	if !ok {
		return handles(u.info.TypeOf(fn.Node().(*ast.FuncLit)))
	}
	return decl.Recv != nil || decl.Name.Name != "main" && decl.Name.Name != "init"
}

// isUsedOnce reports whether a function hands a variable, if there is one, on once.
func (u *uses) isUsedOnce(fn inspector.Cursor, v *types.Var) bool {
	handed := 0
	for use := range u.idents(v, fn) {
		if _, ok := use.Parent().Node().(*ast.SelectorExpr); !ok {
			handed++
		}
	}
	return v == nil || handed == 1
}
