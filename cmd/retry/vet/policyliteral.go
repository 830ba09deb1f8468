package vet

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"maps"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/goretry/retry"
)

// PolicyLiteral reports what Validate and Lint would say about the policies in the source.
var PolicyLiteral = newCheck("policyliteral", `report mistakes in a policy, as Validate and Lint do

An invalid policy never retries. If the value of a field is constant, this check reports
what Validate finds wrong with the field. If all fields are constant and the policy is
passed to the library, the check also reports the findings of Lint. The check skips
tests, because their policies are often wrong on purpose or
have no delays.`, func(pass *analysis.Pass, u *uses) {
	u.oneClass(pass)
	u.noPolicy(pass)
	used := u.usedPolicies()
	for _, lit := range nodes[*ast.CompositeLit](u.root) {
		switch typeName(u.info.TypeOf(lit)) { // in []*Policy{{...}}, the type of lit is *Policy
		case retryPath + ".Policy":
			u.judgePolicy(pass, lit, used[lit])
		case retryPath + ".Class":
			u.judgeClass(pass, lit)
		case retryhttpPath + ".Transport":
			u.judgeBudget(pass, lit)
		}
	}
	for _, s := range u.settings {
		if s.assigned() && isPolicy(s.of) {
			p, _ := u.evaluate(retry.Policy{}, map[string]ast.Expr{s.field.Name: s.value})
			for _, fault := range faultsOf(p.Validate()) {
				pass.ReportRangef(s.value, "%v", fault)
			}
			// A number from a flag or a text may be 0 by mistake. There is no report if the program also
			// uses the number in a second place, because the code in this place may refuse 0.
			if hasAny(s.field.Name, "MaxAttempts", "MaxRetries") && u.given(s.value) &&
				u.count(u.info.Uses[rootOf(s.value)], u.root) == 1 {
				pass.ReportRangef(s.value,
					"%s comes from a flag or a text, and 0 would mean that it is not set: write p, err = "+
						"p.WithMaxAttempts(n), which refuses 0 and replaces MaxAttempts and MaxRetries", s.field.Name)
			}
		}
	}
})

// usedPolicies returns the literals of policies that are passed to calls or set in Transports. The
// result maps a literal to false if an assignment changes one of its fields, and otherwise to true.
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
		if s.setsField(retryhttpPath, "Transport", "Policy") && !s.assigned() {
			add(s.value)
		}
	}
	return used
}

// judgePolicy reports the findings of Validate about the literal of a policy. It also reports the
// findings of Lint, which depend on all fields, if all fields are constant and `used` is true. The
// parameter `used` is true if the literal is passed to a call, and no assignment changes one of its
// fields.
func (u *uses) judgePolicy(pass *analysis.Pass, literal *ast.CompositeLit, used bool) {
	fields := keyed(literal)
	p, known := u.evaluate(retry.Policy{}, fields)
	found := faultsOf(p.Validate())
	if used && known {
		found = append(found, p.Lint()...)
	}
	_, computed := ast.Unparen(fields["MaxAttempts"]).(*ast.CallExpr)
	for _, f := range found {
		// With MaxAttempts: len(hosts), each attempt may go to another host, so no delay is needed.
		if !computed || f.Code != "no_backoff" {
			pass.ReportRangef(partAt(f, fields, literal), "%v", f)
		}
	}
}

// faultsOf returns the findings in the error of an invalid policy. For any other error it returns
// nil.
func faultsOf(err error) []retry.Finding {
	var invalid *retry.PolicyError
	if !errors.As(err, &invalid) {
		return nil
	}
	return invalid.Findings()
}

// partAt returns the part of a literal that a finding is about. This is the value of a field, or
// the whole literal if the literal does not set the field.
func partAt(f retry.Finding, fields map[string]ast.Expr, literal *ast.CompositeLit) ast.Expr {
	name, _, _ := strings.Cut(f.Field, ".")
	if value := fields[name]; value != nil {
		return value
	}
	return literal
}

// judgeClass reports the faults of a Class, with the texts that retry.Do puts into its error for
// this Class. It also reports a Class whose attempts follow each other without a delay.
func (u *uses) judgeClass(pass *analysis.Pass, literal *ast.CompositeLit) {
	fields := keyed(literal)
	p, _ := u.evaluate(retry.Policy{}, classFields(literal))
	class := &retry.Class{
		MaxAttempts: p.MaxAttempts,
		Backoff:     p.Backoff,
		MaxDelay:    p.MaxDelay,
		Jitter:      p.Jitter,
	}
	once := retry.Policy{MaxAttempts: 1, Classify: func(error) *retry.Class { return class }}
	err := retry.Do(context.Background(), once, func(context.Context) error {
		return errors.New("an attempt failed")
	})
	found := faultsOf(err)
	for _, fault := range found {
		pass.ReportRangef(partAt(fault, fields, literal), "%v", fault)
	}
	if found == nil && p.Backoff == retry.Fixed(0) && p.MaxAttempts > 2 && !p.NonRetryable {
		pass.ReportRangef(fields["Backoff"],
			"all %d attempts of this Class follow each other at once: set a Backoff, or a MaxAttempts of 2 "+
				"for one retry without a delay", p.MaxAttempts)
	}
}

// classFields returns the values of the fields that a Class and a Policy have in common.
func classFields(literal *ast.CompositeLit) map[string]ast.Expr {
	fields := keyed(literal)
	maps.DeleteFunc(fields, func(name string, _ ast.Expr) bool {
		_, has := reflect.TypeFor[retry.Policy]().FieldByName(name)
		return !has
	})
	return fields
}

// defaultBudget is how many retries a single call through a Transport may make by default. A
// Transport makes a Budget of this size for each target.
const defaultBudget = 10

// judgeBudget reports a Transport that sets no Budgets, if its policy allows more attempts than the
// default Budget of a target allows.
func (u *uses) judgeBudget(pass *analysis.Pass, transport *ast.CompositeLit) {
	fields := keyed(transport)
	if fields["Policy"] == nil || fields["Budgets"] != nil || len(fields) < len(transport.Elts) {
		return
	}
	allowed, known := u.attempts(fields["Policy"])
	if !known || allowed != retry.Unlimited && allowed <= defaultBudget+1 {
		return
	}
	for _, s := range u.settings { // an assignment may change this Transport or its policy
		if s.assigned() && (s.setsField(retryhttpPath, "Transport", "Budgets") || isPolicy(s.of) &&
			hasAny(s.field.Name, "MaxAttempts", "MaxRetries", "AttemptCap", "NonRetryable", "Budget")) {
			return
		}
	}
	attempts := "unlimited attempts"
	if allowed > 0 {
		attempts = fmt.Sprintf("%d attempts", allowed)
	}
	pass.ReportRangef(fields["Policy"],
		"a single call stops after %d of %s, because each target has a Budget of %d retries: "+
			"to wait until a server has started, set Budgets: retryhttp.NoBudgets; otherwise allow at most "+
			"%d attempts",
		defaultBudget+1, attempts, defaultBudget, defaultBudget+1)
}

// noPolicy reports the Transport of a client if the literal of the Transport sets no field except
// Base. Such a Transport has no Policy. noPolicy reports nothing if the package does one of these:
//
//   - it assigns a Policy to a Transport
//   - it gives a Policy to a request with WithPolicy
//   - it sets the Client of an sse.Stream, which replaces the Policy of its Transport
func (u *uses) noPolicy(pass *analysis.Pass) {
	elsewhere := func(s setting) bool {
		return s.assigned() && s.setsField(retryhttpPath, "Transport", "Policy") ||
			s.setsField(retryhttpPath+"/sse", "Stream", "Client")
	}
	if u.mentionsCallee(u.root, retryhttpPath+".WithPolicy") ||
		slices.ContainsFunc(u.settings, elsewhere) {
		return
	}
	for _, s := range u.settings {
		if !s.setsField("net/http", "Client", "Transport") || s.value == nil {
			continue
		}
		made := literal(u.value(s.value))
		fields := keyed(made)
		if delete(fields, "Base"); made != nil &&
			typeName(u.info.TypeOf(made)) == retryhttpPath+".Transport" && len(fields) == 0 {
			pass.ReportRangef(made,
				"this Transport has no Policy, so it never retries: write Policy: retry.Default()")
		}
	}
}

// oneClass reports a Classify function that gives every error the same Class.
func (u *uses) oneClass(pass *analysis.Pass) {
	for _, s := range u.settings {
		op := u.operation(s.value)
		if s.field.Name != "Classify" || !isPolicy(s.of) || op == nil {
			continue
		}
		ret, ok := op.body.List[0].(*ast.ReturnStmt)
		if !ok || len(ret.Results) != 1 {
			continue
		}
		class := literal(u.value(ret.Results[0]))
		name := keyed(class)["Name"]
		_, constant := u.evaluate(retry.Policy{}, classFields(class))
		if class != nil && constant && (name == nil || u.info.Types[name].Value != nil) {
			pass.ReportRangef(ret,
				"Classify gives every error this Class, so a mistake in the request is retried like an "+
					"outage: set its fields in the policy, or return nil for other errors")
		}
	}
}
