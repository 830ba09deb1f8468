package vet

import (
	"context"
	"errors"
	"go/ast"
	"maps"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/goretry/retry"
)

// judgeClass reports the faults of a Class, in the words of the call that it would end,
// and one that is retried at once again and again.
func (u *uses) judgeClass(pass *analysis.Pass, literal *ast.CompositeLit) {
	p, _ := u.evaluate(retry.Policy{}, classFields(literal))
	class := &retry.Class{MaxAttempts: p.MaxAttempts, Backoff: p.Backoff, MaxDelay: p.MaxDelay, Jitter: p.Jitter}
	failed := errors.New("an attempt failed")
	err := retry.Do(context.Background(), retry.Policy{MaxAttempts: 1, Classify: func(error) *retry.Class { return class }},
		func(context.Context) error { return failed })
	var e *retry.Error
	if errors.As(err, &e); e.Reason != retry.ReasonInvalid {
		if p.Backoff == retry.Fixed(0) && p.MaxAttempts > 2 && !p.NonRetryable {
			pass.ReportRangef(keyed(literal)["Backoff"], "all %d attempts of this Class follow each other at once: give it a Backoff, or a MaxAttempts of 2 for one retry without a delay", p.MaxAttempts)
		}
		return
	}
	for _, fault := range strings.Split(strings.TrimPrefix(e.Cause.Error(), `invalid policy of class "": `), "; ") {
		pass.Report(analysis.Diagnostic{Pos: partAt(fault, literal).Pos(), Message: fault})
	}
}

// classFields returns the fields of a Class that a Policy has too.
func classFields(literal *ast.CompositeLit) map[string]ast.Expr {
	fields := keyed(literal)
	maps.DeleteFunc(fields, func(name string, _ ast.Expr) bool { return name == "Name" || name == "Cause" })
	return fields
}

// oneClass reports a Classify that gives every error the same Class.
func (u *uses) oneClass(pass *analysis.Pass) {
	for _, op := range u.functions("Classify") {
		ret, ok := op.body.List[0].(*ast.ReturnStmt)
		if !ok || len(ret.Results) != 1 || inTest(pass, ret) {
			continue
		}
		class := literal(u.value(ret.Results[0]))
		if class == nil {
			continue
		}
		if _, constant := u.evaluate(retry.Policy{}, classFields(class)); !constant || !u.constantName(class) {
			continue
		}
		pass.ReportRangef(ret, "Classify gives every error this Class, so a mistake in the request is retried as an outage is: set its fields in the policy, or return nil for other errors")
	}
}

// constantName reports whether a Class has no name that is computed.
func (u *uses) constantName(class *ast.CompositeLit) bool {
	name := keyed(class)["Name"]
	return name == nil || u.info.Types[name].Value != nil
}
