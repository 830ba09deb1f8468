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
package vet

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"sync"

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
					own.ReportRangef(comment, "say why: %s %s and the reason", ignorePrefix, name)
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

// A place is a line of a file.
type place struct {
	file string
	line int
}

func placeOf(pass *analysis.Pass, pos token.Pos) place {
	p := pass.Fset.Position(pos)
	return place{p.Filename, p.Line}
}

const ignorePrefix = "//retry:vet-ignore"

var nolint = regexp.MustCompile(`^//\s*nolint:[\w,-]*\bretryvet\b`)

// findIgnores finds the comments that silence a check. Such a comment applies to its own line. If
// its own line has no code, the comment applies to the next line.
func (u *uses) findIgnores(pass *analysis.Pass) {
	u.ignored = map[place][]string{}
	for _, file := range pass.Files {
		// The lines are needed only in a file with such a comment, and most files have none.
		code := sync.OnceValue(func() map[int]bool { return codeLines(pass, file) })
		for _, group := range file.Comments {
			for _, comment := range group.List {
				rest, ok := strings.CutPrefix(comment.Text, ignorePrefix)
				if !ok && !nolint.MatchString(comment.Text) {
					continue
				}
				at := placeOf(pass, comment.Pos())
				if !code()[at.line] {
					at.line = placeOf(pass, group.End()).line + 1
				}
				if fields := strings.Fields(rest); !ok {
					u.ignored[at] = append(u.ignored[at], "")
				} else if len(fields) > 1 {
					u.ignored[at] = append(u.ignored[at], fields[0])
				} else {
					u.unreasoned = append(u.unreasoned, comment)
				}
			}
		}
	}
}

// codeLines returns the lines of a file on which code begins or ends.
func codeLines(pass *analysis.Pass, file *ast.File) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.Comment, *ast.CommentGroup:
			return false
		}
		lines[placeOf(pass, n.Pos()).line], lines[placeOf(pass, n.End()).line] = true, true
		return true
	})
	return lines
}
