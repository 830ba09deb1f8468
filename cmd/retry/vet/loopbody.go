package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// LoopBody reports a Loop whose body does not assign the error variable of the
// Loop, and a Loop whose error is never read.
var LoopBody = &analysis.Analyzer{
	Name: "loopbody",
	Doc: `report a Loop whose error variable is shadowed, or not read

After each iteration retry.Loop reads the error variable that was passed to it. A
body that declares another variable of the same name with := leaves it
unassigned. Only this variable shows that all attempts have failed.`,
	URL:      docs + "loopbody",
	Requires: []*analysis.Analyzer{usesAnalyzer},
	Run:      runLoopBody,
}

func runLoopBody(pass *analysis.Pass) (any, error) {
	u := pass.ResultOf[usesAnalyzer].(*uses)
	for _, call := range u.calls {
		if call.name != "retry.Loop" || len(call.ops) == 0 {
			continue
		}
		if err := u.addressed(call.Args[2]); err != nil {
			l := &loopBody{uses: u, call: call, op: call.ops[0], err: err}
			l.look()
			l.report(pass)
		}
	}
	return nil, nil
}

// addressed returns the local variable whose address x is, or nil if x is
// something else.
func (u *uses) addressed(x ast.Expr) *types.Var {
	address, ok := ast.Unparen(x).(*ast.UnaryExpr)
	if !ok || address.Op != token.AND {
		return nil
	}
	id, ok := ast.Unparen(address.X).(*ast.Ident)
	if !ok {
		return nil
	}
	v, ok := u.info.ObjectOf(id).(*types.Var)
	if !ok || v.Parent() == v.Pkg().Scope() {
		return nil
	}
	return v
}

// A loopBody holds what the body of a Loop does with errors.
type loopBody struct {
	*uses
	call *call
	op   *operation
	err  *types.Var // the error variable of the Loop

	assigned  token.Pos   // where the body first assigns err
	elsewhere bool        // a closure or a copy of its pointer may assign it
	shadows   []*shadow   // variables with the same name
	continues []token.Pos // the statements that end an iteration
	leaves    []token.Pos // the statements that leave the loop
	read      bool        // err is read outside of the body
}

// A shadow is a variable in a body that has the same name as the Loop's error
// variable.
type shadow struct {
	inspector.Cursor // the statement that declares it
	name             *ast.Ident
	scope            *types.Scope
}

// look fills in l.
func (l *loopBody) look() {
	for c := range l.root.Preorder((*ast.Ident)(nil)) {
		if id := c.Node().(*ast.Ident); l.info.Uses[id] == l.err {
			l.use(c)
		}
	}
	body, _ := l.op.cursor.FindNode(l.op.body)
	body.Inspect([]ast.Node{(*ast.FuncLit)(nil), (*ast.Ident)(nil), (*ast.BranchStmt)(nil), (*ast.ReturnStmt)(nil), (*ast.CallExpr)(nil)},
		func(c inspector.Cursor) bool {
			switch n := c.Node().(type) {
			case *ast.FuncLit:
				return false
			case *ast.Ident:
				obj, ok := l.info.Defs[n].(*types.Var)
				if ok && n.Name == l.err.Name() && types.Identical(obj.Type(), l.err.Type()) {
					l.shadows = append(l.shadows, &shadow{Cursor: c.Parent(), name: n, scope: obj.Parent()})
				}
			case *ast.BranchStmt:
				switch l.target(c, n) {
				case leaving:
					l.leaves = append(l.leaves, n.Pos())
				case continuing:
					l.continues = append(l.continues, n.Pos())
				}
			case *ast.ReturnStmt:
				l.leaves = append(l.leaves, n.Pos())
			case *ast.CallExpr:
				if neverReturns(l.callee(n)) || isPanic(l.info, n) {
					l.leaves = append(l.leaves, n.Pos())
				}
			}
			return true
		})
}

// use records one use of err.
func (l *loopBody) use(c inspector.Cursor) {
	id := c.Node()
	if id.Pos() >= l.call.Pos() && id.End() <= l.call.End() {
		return // the argument of the Loop
	}
	inBody := l.op.body.Pos() <= id.Pos() && id.Pos() < l.op.body.End()
	assigns := false
	switch parent := c.Parent().Node().(type) {
	case *ast.AssignStmt:
		for _, left := range parent.Lhs {
			assigns = assigns || left == id
		}
	case *ast.RangeStmt:
		assigns = parent.Key == id || parent.Value == id
	case *ast.UnaryExpr:
		l.elsewhere = l.elsewhere || parent.Op == token.AND
	}
	switch {
	case !inBody && !assigns:
		l.read = true
	case assigns && l.inClosure(c):
		l.elsewhere = true
	case inBody && assigns && (l.assigned == token.NoPos || id.Pos() < l.assigned):
		l.assigned = id.Pos()
	}
}

// inClosure reports whether c is in another function than the loop.
func (l *loopBody) inClosure(c inspector.Cursor) bool {
	return enclosingFunc(c).Node() != enclosingFunc(l.op.cursor).Node()
}

// These are the targets of a break, continue or goto in a body.
const (
	within = iota
	continuing
	leaving
)

func (l *loopBody) target(c inspector.Cursor, branch *ast.BranchStmt) int {
	if branch.Tok == token.GOTO {
		return leaving
	}
	if branch.Tok == token.FALLTHROUGH {
		return within
	}
	inner := []ast.Node{(*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)}
	if branch.Tok == token.BREAK && branch.Label == nil {
		inner = append(inner, (*ast.SwitchStmt)(nil), (*ast.TypeSwitchStmt)(nil), (*ast.SelectStmt)(nil))
	}
	for c := range c.Enclosing(inner...) {
		label, labeled := c.Parent().Node().(*ast.LabeledStmt)
		if branch.Label != nil && !(labeled && label.Label.Name == branch.Label.Name) {
			if c.Node() == l.op.node {
				return leaving // the target is a loop around this one
			}
			continue
		}
		switch {
		case c.Node() != l.op.node:
			return within
		case branch.Tok == token.CONTINUE:
			return continuing
		default:
			return leaving
		}
	}
	return within
}

func neverReturns(name string) bool {
	switch name {
	case "os.Exit", "runtime.Goexit", "log.Fatal", "log.Fatalf", "log.Fatalln", "log.Panic", "log.Panicf", "log.Panicln",
		"(*log.Logger).Fatal", "(*log.Logger).Fatalf", "(*testing.common).Fatal", "(*testing.common).Fatalf", "(*testing.common).FailNow":
		return true
	default:
		return false
	}
}

func isPanic(info *types.Info, call *ast.CallExpr) bool {
	id, ok := ast.Unparen(call.Fun).(*ast.Ident)
	return ok && info.Uses[id] == types.Universe.Lookup("panic")
}

func (l *loopBody) report(pass *analysis.Pass) {
	reported := false
	for _, s := range l.shadows {
		if l.loses(s) {
			reported = true
			l.reportShadow(pass, s)
		}
	}
	name := l.err.Name()
	switch {
	case reported:
	case l.assigned == token.NoPos && !l.elsewhere && !l.alwaysLeaves():
		pass.ReportRangef(l.call.Args[2], "the body never assigns %s, which retry.Loop reads after each iteration, so there is only one attempt: assign what the attempt failed with", name)
	case !l.read && !l.elsewhere && len(l.leaves) == 0 && !l.isResult():
		pass.ReportRangef(l.call.Args[2], "%s is not read after the loop, so it goes unnoticed that all attempts failed: return %s, or check it there", name, name)
	}
}

// loses reports whether an error assigned to s is lost to the Loop. It is if an
// iteration ends in the scope of s before the Loop's variable is assigned, or
// if no other code can read s.
func (l *loopBody) loses(s *shadow) bool {
	if l.elsewhere {
		return false
	}
	inBody := s.scope == l.info.Scopes[l.op.body]
	if inBody && l.count(l.leaves, s) == 0 {
		return true
	}
	for _, end := range l.continues {
		if s.name.Pos() < end && s.scope.Contains(end) && !(l.assigned != token.NoPos && l.assigned < end) {
			return true
		}
	}
	return inBody && l.assigned == token.NoPos && !l.alwaysLeaves()
}

// count returns how many of the positions are in the scope of s.
func (l *loopBody) count(positions []token.Pos, s *shadow) (n int) {
	for _, pos := range positions {
		if s.name.Pos() < pos && s.scope.Contains(pos) {
			n++
		}
	}
	return n
}

// alwaysLeaves reports whether the body never ends an iteration, because it
// leaves the loop in the first one.
func (l *loopBody) alwaysLeaves() bool {
	if len(l.continues) > 0 || len(l.op.body.List) == 0 {
		return false
	}
	last := l.op.body.List[len(l.op.body.List)-1]
	for _, pos := range l.leaves {
		if last.Pos() == pos {
			return true
		}
	}
	return false
}

// isResult reports whether err is a named result, which a return reads, or a
// parameter.
func (l *loopBody) isResult() bool {
	for c := range l.op.cursor.Enclosing((*ast.FuncLit)(nil), (*ast.FuncDecl)(nil)) {
		if c.Node().Pos() <= l.err.Pos() && l.err.Pos() < bodyOf(c.Node()).Pos() {
			return true
		}
	}
	return false
}

func (l *loopBody) reportShadow(pass *analysis.Pass, s *shadow) {
	what := "this " + s.name.Name + " is not the one that retry.Loop reads, so the loop does not see what failed: "
	assign, ok := s.Node().(*ast.AssignStmt)
	if !ok {
		pass.ReportRangef(s.name, "%sdo not declare it again", what)
		return
	}
	var others []string
	for _, left := range assign.Lhs {
		if id, ok := left.(*ast.Ident); ok && id != s.name && pass.TypesInfo.Defs[id] != nil && id.Name != "_" {
			others = append(others, id.Name)
		}
	}
	if len(others) > 0 {
		pass.ReportRangef(s.name, "%sdeclare %s before, and assign with = instead of :=", what, strings.Join(others, " and "))
		return
	}
	pass.Report(analysis.Diagnostic{
		Pos: s.name.Pos(), End: s.name.End(),
		Message: what + "assign it with = instead of :=",
		SuggestedFixes: []analysis.SuggestedFix{{
			Message:   "Assign with =",
			TextEdits: []analysis.TextEdit{{Pos: assign.TokPos, End: assign.TokPos + token.Pos(len(":=")), NewText: []byte("=")}},
		}},
	})
}
