package vet

import (
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// units reports durations without a unit, wherever the library gets one.
func (u *uses) units(pass *analysis.Pass) {
	for _, s := range u.settings {
		named, ok := types.Unalias(s.of).(*types.Named)
		if ok && s.value != nil && isImported(pass, named.Obj().Pkg()) {
			u.unit(pass, s.value)
		}
	}
	for c := range u.root.Preorder((*ast.CallExpr)(nil), (*ast.CompositeLit)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CompositeLit:
			if u.retryType(n) == "Schedule" {
				u.unit(pass, n.Elts...)
			}
		case *ast.CallExpr:
			fn, _ := typeutil.Callee(u.info, n).(*types.Func)
			if u.info.Types[n.Fun].IsType() && u.isCurve(n) || fn != nil && isImported(pass, fn.Pkg()) {
				u.unit(pass, n.Args...)
			}
		}
	}
}

// isImported reports whether p is another package, and of the library.
func isImported(pass *analysis.Pass, p *types.Package) bool {
	return p != nil && p != pass.Pkg && isLibrary(p.Path())
}

// isCurve reports whether x is a curve that is one duration.
func (u *uses) isCurve(x ast.Expr) bool {
	return slices.Contains([]string{"Fixed", "Linear", "Fibonacci"}, u.retryType(x))
}

var countsTime = regexp.MustCompile(`(?i)sec|milli|minute|hour|ms$|^ms|wait|delay|timeout|interval|after`)

// unit reports those of the durations that are bare numbers.
func (u *uses) unit(pass *analysis.Pass, list ...ast.Expr) {
	for _, x := range list {
		tv := u.info.Types[x]
		call, made := ast.Unparen(x).(*ast.CallExpr)
		if inTest(pass, x) || !isNamed(tv.Type, "time", "Duration") && (made || !u.isCurve(x)) {
			continue
		}
		if tv.Value != nil {
			n, ok := constant.Int64Val(constant.ToInt(tv.Value))
			if ok && n > 0 && n < 1e6 && u.bare(x) {
				pass.ReportRangef(x, "%d is %d nanoseconds: give it a unit, as in %[1]d*time.Millisecond", n, n)
			}
			continue
		}
		if made && u.info.Types[call.Fun].IsType() && u.countsTime(call.Args[0]) {
			pass.ReportRangef(x, "%s counts nanoseconds here: multiply it with its unit, as in time.Duration(%[1]s)*time.Second", types.ExprString(call.Args[0]))
		}
	}
}

// countsTime reports whether an integer counts seconds or the like, by its name, or
// was read as a number.
func (u *uses) countsTime(x ast.Expr) bool {
	basic, ok := types.Unalias(u.info.TypeOf(x)).(*types.Basic)
	if !ok || basic.Info()&types.IsInteger == 0 {
		return false
	}
	made := u.from(x)
	name := lastName(x)
	return countsTime.MatchString(name) && !hasAny(strings.ToLower(name), "nano") ||
		made != nil && hasAny(u.callee(made), "strconv.Atoi", "strconv.ParseInt")
}

// bare reports whether nothing in a constant has a unit.
func (u *uses) bare(x ast.Expr) bool {
	for n := range ast.Preorder(x) {
		id, ok := n.(*ast.Ident)
		if c, isConst := u.info.Uses[id].(*types.Const); ok && isConst {
			if _, named := c.Type().(*types.Named); named {
				return false
			}
		}
	}
	return true
}
