// Package vet finds mistakes in the use of package retry that cannot be
// detected at run time: a closure that ignores the context of its attempt, a
// policy that never retries, retries inside retries, a body that is empty from
// the second attempt on.
//
// Each element of [Analyzers] is one check, for any driver of
// [golang.org/x/tools/go/analysis]. The command "retry vet" runs them all:
//
//	retry vet ./...
//
// The checks look only at uses of package retry, and report nothing when in
// doubt.
package vet

import "golang.org/x/tools/go/analysis"

// Analyzers are all the checks, in the order of docs/vet.md.
var Analyzers = []*analysis.Analyzer{
	OuterCtx,
	PolicyLiteral,
	Nested,
	Consumed,
	Accumulate,
	Compare,
	SharedSource,
	TxRetry,
	Lost,
	Repeated,
	Stale,
	Response,
	Hooks,
	SleepDrop,
}

// docs begins the URL of a check's explanation.
const docs = "https://github.com/goretry/retry/blob/main/docs/vet.md#"
