package vet

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
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
