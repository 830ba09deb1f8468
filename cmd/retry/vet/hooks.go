package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Hooks reports functions of a policy that do not do what they are for.
var Hooks = newCheck("hooks", `report an OnEvent or RetryIf that does not do what it is for

OnEvent is called for each event, in the caller's goroutine, so it must look at the
Kind and not wait. RetryIf decides about an error, for many calls at once.`, func(pass *analysis.Pass, u *uses) {
	for field, op := range u.functions("OnEvent", "RetryIf", "Classify") {
		if field == "OnEvent" {
			u.onEvent(pass, op)
		} else {
			u.retryIf(pass, field, op)
		}
	}
	u.statusBlind(pass)
	u.replaced(pass)
})

// onEvent reports an OnEvent that waits, or that takes each event for a retry.
func (u *uses) onEvent(pass *analysis.Pass, op *operation) {
	for c := range op.cursor.Preorder((*ast.SendStmt)(nil), (*ast.CallExpr)(nil)) {
		if !own(op, c) || detached(c, op) {
			continue
		}
		switch n := c.Node().(type) {
		case *ast.SendStmt:
			_, selected := c.Parent().Node().(*ast.CommClause)
			if !selected && !u.buffered(n.Chan) {
				pass.ReportRangef(n, "OnEvent waits here until another goroutine receives, and the call waits with it: use a select with a default, or a buffered channel")
			}
		case *ast.CallExpr:
			if u.callee(n) == "time.Sleep" {
				pass.ReportRangef(n, "the call waits until OnEvent returns: do not sleep in it; Backoff sets the delay")
			} else if u.sends(n) || strings.HasPrefix(u.callee(n), "(*database/sql.") {
				pass.ReportRangef(n, "the call waits until %s returns, for each event: hand the event to a goroutine", types.ExprString(n.Fun))
			}
		}
	}
	event := u.param1(op)
	if event == nil {
		if at := u.counts(op); at != nil {
			pass.ReportRangef(at, "OnEvent is called for each event, several times an attempt: count only those whose Kind is the one that you mean, such as retry.RetryScheduled")
		}
		return
	}
	for use := range u.idents(event, op.cursor) {
		sel, ok := use.Parent().Node().(*ast.SelectorExpr)
		if !ok || sel.Sel.Name == "Kind" || inCondition(use) {
			return
		}
	}
	if at := u.counts(op); at != nil {
		pass.ReportRangef(at, "OnEvent is called for each event, several times an attempt: look at Kind first, for example whether it is retry.RetryScheduled")
	}
}

// param1 returns the second parameter of op, or nil if it has no name.
func (u *uses) param1(op *operation) *types.Var {
	var names []*ast.Ident
	for _, field := range typeOf(op.node).Params.List {
		names = append(names, field.Names...)
	}
	if len(names) < 2 {
		return nil
	}
	return u.local(names[1])
}

func inCondition(c inspector.Cursor) bool {
	for around := range c.Enclosing((*ast.IfStmt)(nil), (*ast.SwitchStmt)(nil), (*ast.CaseClause)(nil), (*ast.FuncLit)(nil)) {
		switch n := around.Node().(type) {
		case *ast.IfStmt:
			if n.Cond.Pos() <= c.Node().Pos() && c.Node().Pos() < n.Cond.End() {
				return true
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && n.Tag.Pos() <= c.Node().Pos() && c.Node().Pos() < n.Tag.End() {
				return true
			}
		case *ast.CaseClause:
			if c.Node().Pos() < n.Colon {
				return true
			}
		case *ast.FuncLit:
			return false
		}
	}
	return false
}

// counts returns the statement in op that counts or logs, or nil.
func (u *uses) counts(op *operation) ast.Node {
	for c := range op.cursor.Preorder((*ast.IncDecStmt)(nil), (*ast.AssignStmt)(nil), (*ast.CallExpr)(nil)) {
		if !own(op, c) {
			continue
		}
		switch n := c.Node().(type) {
		case *ast.IncDecStmt:
			return n
		case *ast.AssignStmt:
			if n.Tok == token.ADD_ASSIGN {
				return n
			}
		case *ast.CallExpr:
			x, name := method(n)
			callee := u.callee(n)
			if x != nil && (name == "Inc" || name == "Incr" || name == "Add" && len(n.Args) > 0 && u.info.Types[n.Args[len(n.Args)-1]].Value != nil) ||
				strings.HasPrefix(callee, "log.") || strings.HasPrefix(callee, "log/slog.") || hasAny(callee, "log.Logger)", "slog.Logger)") || strings.HasPrefix(callee, "sync/atomic.Add") {
				return n
			}
		}
	}
	return nil
}

// buffered reports whether a channel is known to have a buffer.
func (u *uses) buffered(x ast.Expr) bool {
	made, ok := u.deep(x).(*ast.CallExpr)
	return ok && isNamedIdent(made.Fun, "make") && len(made.Args) == 2
}

// retryIf reports a RetryIf with a memory, or with the answer turned around.
func (u *uses) retryIf(pass *analysis.Pass, field string, op *operation) {
	single := false // the policy is for the calls of one function
	for around := range op.cursor.Enclosing((*ast.FuncDecl)(nil)) {
		single = slices.ContainsFunc(u.calls, func(call *call) bool { return around.Node().Pos() <= call.Pos() && call.Pos() < around.Node().End() })
	}
	for c := range op.cursor.Preorder((*ast.IncDecStmt)(nil), (*ast.AssignStmt)(nil), (*ast.CallExpr)(nil), (*ast.ReturnStmt)(nil)) {
		if !own(op, c) {
			continue
		}
		switch n := c.Node().(type) {
		case *ast.IncDecStmt:
			if !single && u.isOutside(op, n.X) && u.readIn(op, n.X, n) {
				pass.ReportRangef(n, "%s counts across all calls that share the policy: limit the attempts with MaxAttempts", field)
			}
		case *ast.AssignStmt:
			if !single && n.Tok != token.DEFINE && u.isOutside(op, n.Lhs[0]) && u.readIn(op, n.Lhs[0], n) {
				pass.ReportRangef(n, "%s keeps a state that all calls with the policy share: decide from the error alone", field)
			}
		case *ast.CallExpr:
			if u.callee(n) == "time.Sleep" {
				pass.ReportRangef(n, "%s waits in addition to the delay: set Backoff, or mark the error with retry.After", field)
			}
		case *ast.ReturnStmt:
			if field == "RetryIf" && len(n.Results) == 1 {
				if call, ok := ast.Unparen(n.Results[0]).(*ast.CallExpr); ok && slices.Contains([]string{retryPath + ".IsPermanent", retryPath + "/retrynet.Permanent"}, u.callee(call)) {
					pass.ReportRangef(n, "RetryIf returns true for what to retry, and this is true for what not to: negate it")
				}
			}
		}
	}
}

// readIn reports whether op reads x elsewhere than in a statement.
func (u *uses) readIn(op *operation, x ast.Expr, stmt ast.Node) bool {
	id := rootOf(x)
	for use := range u.idents(u.info.ObjectOf(id), op.cursor) {
		if use.Node().Pos() < stmt.Pos() || use.Node().Pos() >= stmt.End() {
			return true
		}
	}
	return false
}

// statusBlind reports a Transport with a RetryIf that knows no HTTP status.
func (u *uses) statusBlind(pass *analysis.Pass) {
	report := func(x ast.Expr) {
		for _, value := range u.retryIfs(x, 5) {
			if value == nil {
				continue
			}
			sel, ok := ast.Unparen(value).(*ast.SelectorExpr)
			if !ok {
				continue
			}
			fn, ok := u.info.Uses[sel.Sel].(*types.Func)
			if ok && (fn.FullName() == retryPath+"/retrynet.Transient" || fn.FullName() == retrysqlPath+".Transient") {
				pass.ReportRangef(value, "%s knows no HTTP status, so a Transport with it never retries a 503 or a 429: leave RetryIf out, Check decides", types.ExprString(value))
			}
		}
	}
	for c := range u.root.Preorder((*ast.CompositeLit)(nil), (*ast.CallExpr)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CompositeLit:
			if x := keyed(n)["Policy"]; x != nil && isNamed(derefAny(u.info.TypeOf(n)), retryhttpPath, "Transport") {
				report(x)
			}
		case *ast.CallExpr:
			switch u.callee(n) {
			case retryhttpPath + ".WithPolicy":
				report(n.Args[1])
			case retryhttpPath + ".LLM":
				report(n.Args[0])
			}
		}
	}
}

// replaced reports a hook that is set a second time in the same block.
func (u *uses) replaced(pass *analysis.Pass) {
	for c := range u.root.Preorder((*ast.BlockStmt)(nil)) {
		set := map[string]bool{}
		for _, stmt := range c.Node().(*ast.BlockStmt).List {
			assign, ok := stmt.(*ast.AssignStmt)
			if !ok || len(assign.Lhs) != 1 || assign.Tok != token.ASSIGN {
				set = map[string]bool{}
				continue
			}
			sel, ok := assign.Lhs[0].(*ast.SelectorExpr)
			if !ok || !isPolicy(derefAny(u.info.TypeOf(sel.X))) || !slices.Contains([]string{"OnEvent", "RetryIf", "Classify"}, sel.Sel.Name) {
				continue
			}
			name := types.ExprString(sel)
			reads := false
			for n := range ast.Preorder(assign.Rhs[0]) {
				x, ok := n.(ast.Expr)
				reads = reads || ok && types.ExprString(x) == name
			}
			if set[name] && !reads {
				pass.ReportRangef(assign, "this replaces the %s that was set before: call both from one function", sel.Sel.Name)
			}
			set[name] = true
		}
	}
}
