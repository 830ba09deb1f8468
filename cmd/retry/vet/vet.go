// Package vet finds mistakes in programs that use package retry. These mistakes pass tests, and
// show only in an outage. For example, a function ignores the context of its attempt, or the body
// of a request is empty from the second attempt on.
//
// Each element of [Analyzers] is one check. Every driver of [golang.org/x/tools/go/analysis] can
// run it. The command "retry vet" runs all checks:
//
//	retry vet ./...
//
// The checks look only at uses of package retry and its subpackages. A check that is not sure
// reports nothing.
//
// Each check is in a file with the name of the check. The other files contain code that the checks
// use:
//
//   - find.go runs checks and returns their reports; ignore.go finds the comments that silence a
//     check.
//   - uses.go finds the calls that retry, and the functions of a package. The type `uses` contains
//     what the checks know about a package. operations.go describes the functions that these calls
//     retry, and says which code is inside and outside of these functions.
//   - vars.go records what is assigned to variables, and settings.go what is assigned to fields.
//     values.go finds the value of an expression that can have only one value.
//   - policyvalue.go finds the values of the fields of a policy, and evaluate.go makes a
//     retry.Policy of them.
//   - requests.go recognizes HTTP requests, and permanent.go recognizes errors that are passed to
//     retry.Permanent.
//   - code.go searches a part of the code, for example for a statement that changes a variable.
//     expressions.go, names.go and types.go look at a single expression, name or type.
package vet

import (
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Analyzers lists all checks, in the order of docs/vet.md.
var Analyzers = []*analysis.Analyzer{
	OuterCtx,
	PolicyLiteral,
	Unit,
	Nested,
	Consumed,
	TxRetry,
	Stale,
	Response,
	Idempotent,
	Endless,
	Held,
	PerCall,
	OtherMark,
}

// docs is the start of the address of a section in docs/vet.md. The name of the check follows.
const docs = "https://github.com/goretry/retry/blob/main/docs/vet.md#"

// newCheck returns the analyzer of a check. Each report of the check ends with the name of the
// check in brackets.
func newCheck(name, doc string, run func(*analysis.Pass, *uses)) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: name, Doc: doc, URL: docs + name, Requires: []*analysis.Analyzer{usesAnalyzer},
		Run: func(pass *analysis.Pass) (any, error) {
			u := pass.ResultOf[usesAnalyzer].(*uses)
			if !u.any {
				return nil, nil
			}
			own := *pass
			own.Report = func(d analysis.Diagnostic) {
				at := placeOf(pass, d.Pos)
				if strings.HasSuffix(at.file, "_test.go") && slices.Contains(notInTests, name) {
					return
				}
				if by := u.ignored[at]; !slices.Contains(by, name) && !slices.Contains(by, "") {
					d.Message += " [" + name + "]"
					pass.Report(d)
				}
			}
			for _, comment := range u.unreasoned {
				if about := strings.TrimSpace(comment.Text[len(ignorePrefix):]); about == name || about == "" &&
					name == "outerctx" {
					own.ReportRangef(comment, "a reason is missing: write %s %s and then the reason",
						ignorePrefix, name)
				}
			}
			run(&own, u)
			return nil, nil
		},
	}
}

// notInTests lists the checks that skip test files. The policies of tests are often wrong on
// purpose, and a test may ignore a result that a program must look at, such as the status of a
// response.
var notInTests = []string{"policyliteral", "unit", "nested", "stale", "response", "idempotent",
	"endless", "held", "percall"}
