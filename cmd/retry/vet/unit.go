package vet

import (
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Unit reports durations without a unit if they are passed to the library.
var Unit = newCheck("unit", `report a duration without a unit

A number without a unit counts nanoseconds: retry.Fixed(500) waits for 500ns. This check
skips tests.`, func(pass *analysis.Pass, u *uses) {
	for c := range u.root.Preorder((*ast.CallExpr)(nil), (*ast.CompositeLit)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CompositeLit:
			if u.retryType(n) == "Schedule" {
				u.reportDurations(pass, n.Elts...)
			}
		case *ast.CallExpr:
			if isLibrary(u.callee(n)) || u.info.Types[n.Fun].IsType() && u.retryType(n) != "" {
				u.reportDurations(pass, n.Args...)
			}
			if u.info.Types[n.Fun].IsType() && u.retryType(n) == "BackoffFunc" {
				u.unitOfResults(pass, n.Args[0])
			}
		}
	}
	for _, s := range u.settings {
		if s.value != nil && isLibrary(typeName(s.of)) {
			u.reportDurations(pass, s.value)
		}
	}
})

// isDuration reports whether x is a duration, or a backoff whose type is a duration.
func (u *uses) isDuration(x ast.Expr) bool {
	basic, ok := u.info.TypeOf(x).Underlying().(*types.Basic)
	return ok && basic.Kind() == types.Int64 &&
		(u.retryType(x) != "" || typeName(u.info.TypeOf(x)) == "time.Duration")
}

var countsTime = regexp.MustCompile(
	`(?i)sec|milli|minute|hour|ms$|^ms|wait|delay|timeout|interval|after`)

// reportDurations reports each duration in `list` that is a number without a unit.
func (u *uses) reportDurations(pass *analysis.Pass, list ...ast.Expr) {
	for _, x := range list {
		call, made := ast.Unparen(x).(*ast.CallExpr)
		switch value := u.info.Types[x].Value; {
		case made && u.retryType(x) != "": // Unit checks the arguments of this call elsewhere
		case !u.isDuration(x):
		case value != nil:
			n, ok := constant.Int64Val(constant.ToInt(value))
			if ok && n > 0 && n < 1e6 && u.bare(x) {
				pass.ReportRangef(x, "%d is %d nanoseconds: give it a unit, as in %[1]d*time.Millisecond", n, n)
			}
		case made && u.info.Types[call.Fun].IsType() && u.countsTime(call.Args[0]):
			pass.ReportRangef(x,
				"%s counts nanoseconds here: multiply it by its unit, as in "+
					"time.Duration(%[1]s)*time.Second", types.ExprString(call.Args[0]))
		}
	}
}

// unitOfResults reports the results of a BackoffFunc that have no unit, because they are computed
// only from numbers and from the number of the attempt.
func (u *uses) unitOfResults(pass *analysis.Pass, fn ast.Expr) {
	made := u.operation(fn)
	if made == nil {
		return
	}
	for _, ret := range returnsOf(made.body) {
		for _, x := range ret.Results {
			if u.info.Types[x].Value == nil && u.onlyCounts(made, x) {
				pass.ReportRangef(x,
					"%s counts nanoseconds here: multiply it by its unit, as in "+
						"%[1]s*time.Millisecond", types.ExprString(x))
				continue
			}
			u.reportDurations(pass, x)
		}
	}
}

// onlyCounts reports whether a delay is computed only from parameters of the function fn and from
// constants without a unit. It returns false if no parameter is used. The computation may use the
// operators of Go and the functions of package math.
func (u *uses) onlyCounts(fn *operation, x ast.Expr) bool {
	counts := false
	for n := range ast.Preorder(x) {
		id, ok := n.(*ast.Ident)
		if !ok {
			continue
		}
		switch o := u.info.Uses[id].(type) {
		case *types.TypeName, *types.PkgName, *types.Builtin:
		case *types.Const:
			if _, named := o.Type().(*types.Named); named {
				return false
			}
		case *types.Func:
			if o.Pkg() == nil || o.Pkg().Path() != "math" {
				return false
			}
		case *types.Var:
			if !fn.contains(o.Pos()) || o.Pos() > fn.body.Pos() || u.isDuration(id) {
				return false
			}
			counts = true
		default:
			return false
		}
	}
	return counts
}

// countsTime reports whether an integer counts seconds or another unit of time. This is so if the
// name of the integer says it, or if the integer was parsed from a string or read from a flag.
func (u *uses) countsTime(x ast.Expr) bool {
	basic, ok := types.Unalias(u.info.TypeOf(x)).(*types.Basic)
	if !ok || basic.Info()&types.IsInteger == 0 {
		return false
	}
	name := lastName(x)
	return countsTime.MatchString(name) && !strings.Contains(strings.ToLower(name), "nano") ||
		u.given(x)
}

// given reports whether x is a number that the program parses from a string or reads from a flag.
func (u *uses) given(x ast.Expr) bool {
	if star, ok := ast.Unparen(x).(*ast.StarExpr); ok {
		x = star.X
	}
	made := u.callOf(x)
	return made != nil && hasAny(u.callee(made), "strconv.Atoi", "strconv.ParseInt", "flag.Int")
}

// bare reports whether a constant is written without a unit, such as 500.
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
