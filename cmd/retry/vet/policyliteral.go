package vet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis"

	"github.com/goretry/retry"
)

// PolicyLiteral reports what Validate and Lint of retry.Policy report about a
// policy literal.
var PolicyLiteral = newCheck("policyliteral", `report a policy literal that Validate or Lint would report

An invalid policy never retries. If the fields of a policy are constants, this
check reports what Validate reports about them, at the line of the field, and what
Lint reports about a policy that is passed to the library. It skips tests, whose
policies are often wrong on purpose, or without delays.`, runPolicyLiteral)

func runPolicyLiteral(pass *analysis.Pass, u *uses) {
	u.units(pass)
	u.budgetPerCall(pass)
	u.unnamedClass(pass)
	u.unknownReasons(pass)
	used := u.usedPolicies()
	for c := range u.root.Preorder((*ast.CompositeLit)(nil), (*ast.AssignStmt)(nil)) {
		if strings.HasSuffix(pass.Fset.Position(c.Node().Pos()).Filename, "_test.go") {
			continue
		}
		switch n := c.Node().(type) {
		case *ast.CompositeLit:
			if isPolicy(deref(u.info.TypeOf(n))) { // elements of a composite literal may leave out the &
				u.judge(pass, n, used[n])
			}
		case *ast.AssignStmt:
			u.judgeAssigned(pass, n)
		}
	}
}

// usedPolicies returns the literals that are passed to calls unchanged.
func (u *uses) usedPolicies() map[ast.Expr]bool {
	used := map[ast.Expr]bool{}
	add := func(x ast.Expr) {
		if p := u.policy(x); p != nil {
			used[p.base] = !p.changed
		} else if lit := literal(u.deep(x)); lit != nil {
			used[lit] = true
		}
	}
	for _, call := range u.calls {
		add(call.policy)
	}
	for c := range u.root.Preorder((*ast.CompositeLit)(nil)) {
		transport := c.Node().(*ast.CompositeLit)
		if !isNamed(deref(u.info.TypeOf(transport)), retryPath+"/retryhttp", "Transport") {
			continue
		}
		if x := keyed(transport)["Policy"]; x != nil {
			add(x)
		}
	}
	return used
}

// judge reports the faults of a literal. Lint depends on all fields, so it only
// applies to a literal that is used unchanged.
func (u *uses) judge(pass *analysis.Pass, literal *ast.CompositeLit, used bool) {
	fields := keyed(literal)
	p, known := u.evaluate(retry.Policy{}, fields)
	report := func(text string) { pass.Report(analysis.Diagnostic{Pos: partAt(text, literal).Pos(), Message: text}) }
	for _, fault := range faultsOf(p) {
		if !isHot(fault) || used && known {
			report(fault)
		}
	}
	u.judgeLimits(pass, literal, used, known)
	if used && known {
		for _, text := range p.Lint() {
			if _, computed := ast.Unparen(fields["MaxAttempts"]).(*ast.CallExpr); !computed || !strings.Contains(text, "without a Backoff") {
				report(text) // len(hosts) attempts go to another host each
			}
		}
	}
}

// judgeAssigned reports the faults of constants that are assigned to fields of
// policies, each on its own.
func (u *uses) judgeAssigned(pass *analysis.Pass, assign *ast.AssignStmt) {
	if assign.Tok != token.ASSIGN || len(assign.Lhs) != len(assign.Rhs) {
		return
	}
	for i, left := range assign.Lhs {
		field, ok := ast.Unparen(left).(*ast.SelectorExpr)
		if !ok || !isPolicy(deref(u.info.TypeOf(field.X))) {
			continue
		}
		u.zeroLimit(pass, field, assign.Rhs[i])
		p, _ := u.evaluate(retry.Policy{}, map[string]ast.Expr{field.Sel.Name: assign.Rhs[i]})
		for _, fault := range faultsOf(p) {
			if !isHot(fault) {
				pass.ReportRangef(assign.Rhs[i], "%s", fault)
			}
		}
	}
}

// faultsOf returns the faults that Validate finds.
func faultsOf(p retry.Policy) []string {
	err := p.Validate()
	if err == nil {
		return nil
	}
	return strings.Split(strings.TrimPrefix(err.Error(), "invalid policy: "), "; ")
}

// isHot reports whether a fault is the missing limit, which depends on several
// fields.
func isHot(fault string) bool { return strings.HasPrefix(fault, "unlimited attempts without a delay") }

var (
	fieldName = regexp.MustCompile(`\b(MaxAttempts|MaxRetries|AttemptCap|NonRetryable|Backoff|Schedule|MaxDelay|Jitter|MaxRetryAfter|MaxElapsed|AttemptTimeout|HealthyAfter|Classify|Budget)\b`)
	partName  = regexp.MustCompile(`^Backoff: (?:Exponential\.(\w+)|Schedule\[(\d+)\])`)
)

// partAt returns the part of a literal that a text is about: the first field in
// the text that the literal sets, or else the whole literal.
func partAt(text string, literal *ast.CompositeLit) ast.Node {
	fields := keyed(literal)
	for _, name := range fieldName.FindAllString(text, -1) {
		if name == "Schedule" {
			name = "Backoff"
		}
		value := fields[name]
		if value == nil {
			continue
		}
		for _, element := range literal.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok && pair.Value == value {
				if part := partOf(text, value); part != nil {
					return part
				}
				return pair
			}
		}
	}
	return literal
}

// partOf returns the field or element of a curve that a fault is about.
func partOf(fault string, curve ast.Expr) ast.Node {
	match := partName.FindStringSubmatch(fault)
	literal, ok := ast.Unparen(curve).(*ast.CompositeLit)
	if match == nil || !ok {
		return nil
	}
	if i, err := strconv.Atoi(match[2]); err == nil && i < len(literal.Elts) {
		return literal.Elts[i]
	}
	if value := keyed(literal)[match[1]]; value != nil {
		return value
	}
	return nil
}

// evaluate returns p with these fields set. It leaves out fields whose values
// are not constant; then known is false.
func (u *uses) evaluate(p retry.Policy, fields map[string]ast.Expr) (_ retry.Policy, known bool) {
	known = true
	for name, x := range fields {
		ok := true
		switch name {
		case "MaxAttempts":
			p.MaxAttempts, ok = u.integer(x)
		case "MaxRetries":
			p.MaxRetries, ok = u.integer(x)
		case "AttemptCap":
			p.AttemptCap, ok = u.integer(x)
		case "NonRetryable":
			p.NonRetryable, ok = u.boolean(x)
		case "MaxDelay":
			p.MaxDelay, ok = u.duration(x)
		case "MaxRetryAfter":
			p.MaxRetryAfter, ok = u.duration(x)
		case "MaxElapsed":
			p.MaxElapsed, ok = u.duration(x)
		case "AttemptTimeout":
			p.AttemptTimeout, ok = u.duration(x)
		case "Backoff":
			p.Backoff, ok = u.backoff(x)
		case "Jitter":
			p.Jitter, ok = u.jitter(x)
		case "Budget":
			p.Budget, ok = u.budget(x)
		case "HealthyAfter":
			p.HealthyAfter, ok = u.duration(x)
		case "Classify":
			p.Classify, ok = func(error) *retry.Class { return nil }, u.isFunction(x)
		}
		known = known && ok
	}
	return p, known
}

// constant returns the constant value of x, or of the variable x, or nil if it
// has none.
func (u *uses) constant(x ast.Expr) constant.Value {
	if value := u.value(x); value != nil {
		return u.info.Types[value].Value
	}
	return nil
}

func (u *uses) int64(x ast.Expr) (int64, bool) {
	value := u.constant(x)
	if value == nil {
		return 0, false
	}
	return constant.Int64Val(constant.ToInt(value))
}

func (u *uses) integer(x ast.Expr) (int, bool) {
	n, ok := u.int64(x)
	return int(n), ok && int64(int(n)) == n
}

func (u *uses) duration(x ast.Expr) (time.Duration, bool) {
	n, ok := u.int64(x)
	return time.Duration(n), ok
}

func (u *uses) float64(x ast.Expr) (float64, bool) {
	value := u.constant(x)
	if value == nil {
		return 0, false
	}
	f, _ := constant.Float64Val(constant.ToFloat(value))
	return f, true
}

func (u *uses) boolean(x ast.Expr) (is, ok bool) {
	value := u.constant(x)
	if value == nil {
		return false, false
	}
	return constant.BoolVal(value), true
}

// isFunction reports whether x is a function, and therefore not nil.
func (u *uses) isFunction(x ast.Expr) bool {
	switch x := u.value(x).(type) {
	case *ast.FuncLit:
		return true
	case *ast.Ident:
		_, ok := u.info.ObjectOf(x).(*types.Func)
		return ok
	case *ast.SelectorExpr:
		_, ok := u.info.ObjectOf(x.Sel).(*types.Func)
		return ok
	default:
		return false
	}
}

// retryType returns the name of the type of x, "nil" if x is nil, and "" if the
// type does not come from package retry.
func (u *uses) retryType(x ast.Expr) string {
	if x == nil {
		return ""
	}
	if u.info.Types[x].IsNil() {
		return "nil"
	}
	named, ok := types.Unalias(u.info.TypeOf(x)).(*types.Named)
	if !ok || named.Obj().Pkg() == nil || named.Obj().Pkg().Path() != retryPath {
		return ""
	}
	return named.Obj().Name()
}

func (u *uses) backoff(x ast.Expr) (b retry.Backoff, ok bool) {
	x = u.value(x)
	var d time.Duration
	switch u.retryType(x) {
	case "nil":
		return nil, true
	case "Fixed":
		d, ok = u.duration(x)
		b = retry.Fixed(d)
	case "Linear":
		d, ok = u.duration(x)
		b = retry.Linear(d)
	case "Fibonacci":
		d, ok = u.duration(x)
		b = retry.Fibonacci(d)
	case "Exponential":
		b, ok = u.exponential(x)
	case "Schedule":
		b, ok = u.schedule(x)
	}
	if !ok {
		return nil, false
	}
	return b, true
}

func (u *uses) exponential(x ast.Expr) (e retry.Exponential, ok bool) {
	literal, ok := x.(*ast.CompositeLit)
	if !ok {
		return e, false
	}
	fields := keyed(literal)
	if len(fields) != len(literal.Elts) {
		return e, false
	}
	if base := fields["Base"]; base != nil {
		e.Base, ok = u.duration(base)
	}
	if factor := fields["Factor"]; factor != nil && ok {
		e.Factor, ok = u.float64(factor)
	}
	return e, ok
}

func (u *uses) schedule(x ast.Expr) (retry.Schedule, bool) {
	literal, ok := x.(*ast.CompositeLit)
	if !ok {
		return nil, false
	}
	s := retry.Schedule{}
	for _, element := range literal.Elts {
		d, ok := u.duration(element)
		if !ok {
			return nil, false
		}
		s = append(s, d)
	}
	return s, true
}

func (u *uses) jitter(x ast.Expr) (retry.Jitter, bool) {
	x = u.value(x)
	switch u.retryType(x) {
	case "nil":
		return nil, true
	case "Proportional":
		share, ok := u.float64(x)
		return retry.Proportional(share), ok
	case "Spread":
		n, ok := u.int64(x)
		return retry.Spread(n), ok
	default:
		return nil, false
	}
}

func (u *uses) budget(x ast.Expr) (b *retry.Budget, ok bool) {
	x = u.value(x)
	if u.retryType(x) == "nil" {
		return nil, true
	}
	address, ok := x.(*ast.UnaryExpr)
	if !ok {
		return nil, false
	}
	literal, ok := address.X.(*ast.CompositeLit)
	if !ok {
		return nil, false
	}
	fields := keyed(literal)
	b, ok = &retry.Budget{}, len(fields) == len(literal.Elts)
	if size := fields["Size"]; size != nil && ok {
		b.Size, ok = u.integer(size)
	}
	if ratio := fields["Ratio"]; ratio != nil && ok {
		b.Ratio, ok = u.float64(ratio)
	}
	if every := fields["RefillEvery"]; every != nil && ok {
		b.RefillEvery, ok = u.duration(every)
	}
	if !ok {
		return nil, false
	}
	return b, true
}
