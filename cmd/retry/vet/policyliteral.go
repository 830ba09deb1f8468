package vet

import (
	"go/ast"
	"regexp"
	"strconv"
	"strings"

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
	u.oneClass(pass)
	used := u.usedPolicies()
	for _, lit := range all[*ast.CompositeLit](u.root) {
		if isPolicy(deref(u.info.TypeOf(lit))) && !inTest(pass, lit) { // elements of a composite literal may leave out the &
			u.judge(pass, lit, used[lit])
		}
		if isNamed(derefAny(u.info.TypeOf(lit)), retryPath, "Class") && !inTest(pass, lit) {
			u.judgeClass(pass, lit)
		}
	}
	for _, s := range u.settings {
		if s.assigned() && isPolicy(s.of) && s.value != nil && !inTest(pass, s.field) {
			u.judgeAssigned(pass, s)
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
	for _, s := range u.settings {
		if s.is(retryhttpPath, "Transport", "Policy") && !s.assigned() {
			add(s.value)
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
		report(fault)
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

// judgeAssigned reports the faults of a constant that is assigned to a field of a
// policy.
func (u *uses) judgeAssigned(pass *analysis.Pass, s setting) {
	u.judgeLimit(pass, s)
	p, _ := u.evaluate(retry.Policy{}, map[string]ast.Expr{s.field.Name: s.value})
	for _, fault := range faultsOf(p) {
		pass.ReportRangef(s.value, "%s", fault)
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

var (
	fieldName = regexp.MustCompile(`\b(MaxAttempts|MaxRetries|AttemptCap|NonRetryable|Backoff|Schedule|MaxDelay|Jitter|MaxRetryAfter|RetryAfter|MaxElapsed|AttemptTimeout|HealthyAfter|Classify|Budget)\b`)
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
