package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Repeated reports what must happen once but happens in each attempt.
var Repeated = newCheck("repeated", `report what must happen once, but happens in each attempt

The second attempt counts a WaitGroup down again, locks a Mutex that the first one
left locked, finds the queue empty, or sends a new idempotency key.`, func(pass *analysis.Pass, u *uses) {
	for call, op := range u.operations() {
		u.syncInAttempt(pass, call, op)
		u.takenInAttempt(pass, call, op)
		u.keyInAttempt(pass, call, op)
	}
})

// syncInAttempt reports uses of package sync, and closed channels, that only one
// attempt may have.
func (u *uses) syncInAttempt(pass *analysis.Pass, call *call, op *operation) {
	adds := map[types.Object]bool{}
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil)) {
		inner := c.Node().(*ast.CallExpr)
		if x, _ := method(inner); u.callee(inner) == "(*sync.WaitGroup).Add" && rootOf(x) != nil {
			adds[u.info.ObjectOf(rootOf(x))] = true
		}
	}
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil)) {
		inner := c.Node().(*ast.CallExpr)
		if id, ok := inner.Fun.(*ast.Ident); ok && id.Name == "close" && len(inner.Args) == 1 && u.isOutside(op, inner.Args[0]) && u.again(op, c) && !u.mayBeOnce(c, op) {
			pass.ReportRangef(inner, "each attempt closes %s, and closing it twice panics: close it after %s", types.ExprString(inner.Args[0]), call.name)
		}
		if id, ok := inner.Fun.(*ast.Ident); ok && u.isCached(op, id) {
			pass.ReportRangef(inner, "%s runs once and keeps its error, so every retry gets the same one: call the function itself in each attempt", id.Name)
		}
		x, _ := method(inner)
		if x == nil || !u.isOutside(op, x) {
			continue
		}
		name := types.ExprString(x)
		switch callee := u.callee(inner); callee {
		case "(*sync.WaitGroup).Done":
			if !adds[u.info.ObjectOf(rootOf(x))] && u.again(op, c) && !u.mayBeOnce(c, op) {
				pass.ReportRangef(inner, "each attempt counts %s down, and a counter below zero panics: call Done after %s", name, call.name)
			}
		case "(*sync.Once).Do":
			if len(inner.Args) == 1 && u.setsOwnError(op, inner.Args[0]) {
				pass.ReportRangef(inner, "%s runs its function in the first attempt only, so the second one has no error and succeeds: keep the result and check it, or leave the Once out", name)
			}
		case "(*sync.Mutex).Lock", "(*sync.RWMutex).Lock", "(*sync.RWMutex).RLock", "(sync.Locker).Lock":
			if u.staysLocked(op, c, name) {
				pass.ReportRangef(inner, "an attempt that fails leaves %s locked, and the next one waits for it without end: defer the Unlock", name)
			}
		}
	}
}

// again reports whether an attempt that runs the code at c can fail afterwards.
func (u *uses) again(op *operation, c inspector.Cursor) bool {
	if !own(op, c) {
		return false
	}
	for stmt := range c.Enclosing((*ast.DeferStmt)(nil), (*ast.ExprStmt)(nil), (*ast.AssignStmt)(nil), (*ast.DeclStmt)(nil), (*ast.ReturnStmt)(nil)) {
		if _, ok := stmt.Node().(*ast.DeferStmt); ok {
			return true
		}
		return u.failsAfter(op, stmt.Node().(ast.Stmt))
	}
	return false
}

// isCached reports whether a variable is a sync.OnceValue or sync.OnceValues of a
// function that returns an error.
func (u *uses) isCached(op *operation, id *ast.Ident) bool {
	if !u.isOutside(op, id) {
		return false
	}
	made := u.from(id)
	if made == nil || !strings.HasPrefix(u.callee(made), "sync.OnceValue") {
		return false
	}
	signature, ok := u.info.TypeOf(id).Underlying().(*types.Signature)
	return ok && isError(signature.Results().At(signature.Results().Len()-1).Type())
}

// setsOwnError reports whether a function assigns an error of op.
func (u *uses) setsOwnError(op *operation, fn ast.Expr) bool {
	lit, ok := fn.(*ast.FuncLit)
	if !ok {
		return false
	}
	for n := range ast.Preorder(lit.Body) {
		if assign, ok := n.(*ast.AssignStmt); ok {
			for _, left := range assign.Lhs {
				v := u.local(left)
				if v != nil && isError(v.Type()) && op.contains(v.Pos()) && (v.Pos() < lit.Pos() || v.Pos() > lit.End()) {
					return true
				}
			}
		}
	}
	return false
}

// staysLocked reports whether op can return without the Unlock for the Lock at c.
func (u *uses) staysLocked(op *operation, c inspector.Cursor, name string) bool {
	if _, ok := c.Parent().Node().(*ast.ExprStmt); !ok || !own(op, c) {
		return false
	}
	unlocks := func(n ast.Node) bool {
		for n := range ast.Preorder(n) {
			if call, ok := n.(*ast.CallExpr); ok {
				if x, method := method(call); x != nil && types.ExprString(x) == name && strings.HasSuffix(method, "Unlock") {
					return true
				}
			}
		}
		return false
	}
	return reaches(op.body, c.Parent().Node(), unlocks)
}

// resources are what each attempt may take another one of.
var resources = regexp.MustCompile(`(?i)host|proxy|endpoint|addr|conn|server|replica|worker|token|slot|peer|node|permit|target|mirror|region|url|client`)

var takes = regexp.MustCompile(`^(?i:l?r?b?pop|dequeue|take|shift|drain|swap|remove$|next$|getanddelete|loadanddelete)`)

// takenInAttempt reports an item that is taken out of a channel or queue before it
// is processed: the retry gets another one, or none.
func (u *uses) takenInAttempt(pass *analysis.Pass, call *call, op *operation) {
	if u.putsBack(op) {
		return
	}
	for c := range op.cursor.Preorder((*ast.AssignStmt)(nil), (*ast.RangeStmt)(nil)) {
		var from ast.Expr
		var item *types.Var
		at, body := c.Node(), op.body
		switch n := c.Node().(type) {
		case *ast.AssignStmt:
			if item = u.local(n.Lhs[0]); item != nil && !u.isOutside(op, n.Lhs[0]) && len(n.Rhs) == 1 {
				from = u.taken(op, n.Rhs[0])
			} else {
				item = nil
			}
			if item == nil || from == nil {
				if from, item = u.emptied(op, n); from != nil && !u.isOutside(op, from) {
					from = nil
				}
			}
		case *ast.RangeStmt:
			if _, ok := u.info.TypeOf(n.X).Underlying().(*types.Chan); ok && n.Key != nil && u.isOutside(op, n.X) {
				from, item, body = n.X, u.local(n.Key), n.Body
			}
		}
		if from == nil || item == nil || resources.MatchString(item.Name()) || !own(op, c) || u.mayBeOnce(c, op) || u.failsBefore(op, at.Pos()) || !u.processed(op, body, at.Pos(), item) {
			continue
		}
		pass.ReportRangef(at, "the attempt takes from %s, so a retry no longer gets what the failed attempt took: take it before %s, or out when the attempt has succeeded", types.ExprString(from), call.name)
		return
	}
}

// taken returns what x takes one element out of, or nil.
func (u *uses) taken(op *operation, x ast.Expr) ast.Expr {
	switch x := ast.Unparen(x).(type) {
	case *ast.TypeAssertExpr:
		return u.taken(op, x.X)
	case *ast.UnaryExpr:
		t := u.info.TypeOf(x.X)
		if x.Op == token.ARROW && t != nil && u.isOutside(op, x.X) && !isNamed(derefAny(u.info.TypeOf(x)), "time", "Time") {
			return x.X
		}
	case *ast.CallExpr:
		receiver, name := method(x)
		if u.callee(x) == "container/heap.Pop" {
			receiver = x.Args[0]
			if address, ok := receiver.(*ast.UnaryExpr); ok {
				receiver = address.X
			}
		}
		if receiver != nil && takes.MatchString(name) && u.isOutside(op, receiver) && !isRows(u.info.TypeOf(receiver)) && !u.isNumber(x) {
			return receiver
		}
	}
	return nil
}

func (u *uses) isNumber(x ast.Expr) bool {
	basic, ok := u.info.TypeOf(x).Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsNumeric|types.IsBoolean) != 0
}

// emptied returns the variable outside of op that assign empties or shortens, and
// the variable of op that has what it had.
func (u *uses) emptied(op *operation, assign *ast.AssignStmt) (ast.Expr, *types.Var) {
	for i, left := range assign.Lhs {
		if assign.Tok != token.ASSIGN || len(assign.Lhs) != len(assign.Rhs) || !u.isOutside(op, left) || !u.shortens(left, assign.Rhs[i]) {
			continue
		}
		name := types.ExprString(left)
		for n := range ast.Preorder(op.body) {
			before, ok := n.(*ast.AssignStmt)
			if !ok || before.Pos() > assign.Pos() || len(before.Lhs) != len(before.Rhs) {
				continue
			}
			for j, right := range before.Rhs {
				index, indexed := ast.Unparen(right).(*ast.IndexExpr)
				slice, sliced := ast.Unparen(right).(*ast.SliceExpr)
				if types.ExprString(right) == name || indexed && types.ExprString(index.X) == name || sliced && types.ExprString(slice.X) == name {
					if v := u.local(before.Lhs[j]); v != nil && op.contains(v.Pos()) {
						return left, v
					}
				}
			}
		}
	}
	return nil, nil
}

// shortens reports whether x is nil, or a part of the slice left.
func (u *uses) shortens(left, x ast.Expr) bool {
	if u.info.Types[x].IsNil() {
		return true
	}
	if lit := literal(x); lit != nil {
		return len(lit.Elts) == 0
	}
	if call, ok := ast.Unparen(x).(*ast.CallExpr); ok {
		return isNamedIdent(call.Fun, "make")
	}
	slice, ok := ast.Unparen(x).(*ast.SliceExpr)
	return ok && types.ExprString(slice.X) == types.ExprString(left)
}

// putsBack reports whether op gives back what it has taken.
func (u *uses) putsBack(op *operation) bool {
	for c := range op.cursor.Preorder((*ast.SendStmt)(nil), (*ast.CallExpr)(nil), (*ast.AssignStmt)(nil)) {
		switch n := c.Node().(type) {
		case *ast.SendStmt:
			return true
		case *ast.CallExpr:
			x, name := method(n)
			if x != nil && u.isOutside(op, x) && hasAny(strings.ToLower(name), "push", "enqueue", "requeue", "putback", "return", "unread", "nack") {
				return true
			}
		case *ast.AssignStmt: // s.pending = batch, s.pending = append(batch, s.pending...)
			for i, left := range n.Lhs {
				if u.isOutside(op, left) && len(n.Lhs) == len(n.Rhs) && n.Tok == token.ASSIGN && !u.shortens(left, n.Rhs[i]) {
					if _, isSlice := u.info.TypeOf(left).Underlying().(*types.Slice); isSlice {
						return true
					}
				}
			}
		}
	}
	return false
}

// failsBefore reports whether an attempt calls what can fail before pos: what it
// takes may be the answer to that.
func (u *uses) failsBefore(op *operation, pos token.Pos) bool {
	for n := range ast.Preorder(op.body) {
		if call, ok := n.(*ast.CallExpr); ok && call.End() < pos && u.canFail(call) && !wraps(u.callee(call)) {
			return true
		}
	}
	return false
}

// processed reports whether a call after pos that can fail gets the item, and its
// error is not the last word.
func (u *uses) processed(op *operation, body *ast.BlockStmt, pos token.Pos, item *types.Var) bool {
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if call.Pos() < pos || call.Pos() > body.End() || !u.canFail(call) || wraps(u.callee(call)) || u.isFinal(c) {
			continue
		}
		for n := range ast.Preorder(call) {
			if id, ok := n.(*ast.Ident); ok && u.info.Uses[id] == item {
				return true
			}
		}
	}
	return false
}

var (
	keyName  = regexp.MustCompile(`(?i)idempot|dedup|^(order|payment|transfer|charge|transaction|txn|invoice|refund|booking|message|event|job|command)_?id$`)
	randomID = regexp.MustCompile(`(?i)uuid|ulid|ksuid|nanoid|/xid\.|^crypto/rand\.|^math/rand|\.UnixNano$|\.UnixMilli$|\.UnixMicro$|^time\.Now$|new_?(id|key)$|(random|generate)`)
)

// keyInAttempt reports an idempotency key that each attempt makes.
func (u *uses) keyInAttempt(pass *analysis.Pass, call *call, op *operation) {
	if u.selective(call.policy) {
		return // it may retry because the key was taken
	}
	report := func(at ast.Node, name string, value ast.Expr, random ast.Node) {
		if keyName.MatchString(name) && random != nil && op.contains(random.Pos()) {
			pass.ReportRangef(random, "each attempt makes a new %s, so the receiver takes a retry for another request: make it before %s", strings.Trim(name, `"`), call.name)
		}
	}
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil), (*ast.KeyValueExpr)(nil), (*ast.AssignStmt)(nil)) {
		switch n := c.Node().(type) {
		case *ast.KeyValueExpr:
			report(n, strings.Trim(types.ExprString(n.Key), `"`), n.Value, u.random(n.Value))
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if right := valueAt(n.Rhs, len(n.Lhs), i); right != nil {
					report(n, lastName(left), right, u.random(right))
				} else if len(n.Rhs) == 1 && i == 0 && len(n.Lhs) == 2 {
					report(n, lastName(left), n.Rhs[0], u.random(n.Rhs[0]))
				}
			}
		case *ast.CallExpr:
			for i, arg := range n.Args {
				if i > 0 && u.info.Types[n.Args[i-1]].Value != nil {
					report(n, strings.Trim(u.info.Types[n.Args[i-1]].Value.ExactString(), `"`), arg, u.random(arg))
				} else if signature, ok := u.info.TypeOf(n.Fun).Underlying().(*types.Signature); ok && i < signature.Params().Len() {
					report(n, signature.Params().At(i).Name(), arg, u.random(arg))
				}
			}
		}
	}
}

// lastName returns the name of a variable or field, or the key of an element.
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.IndexExpr:
		return strings.Trim(types.ExprString(x.Index), `"`)
	}
	return ""
}

// random returns the call in x, or behind the variable x, that makes a value which
// no other call makes.
func (u *uses) random(x ast.Expr) ast.Node {
	if id, ok := ast.Unparen(x).(*ast.Ident); ok {
		call := u.from(id)
		if call == nil {
			return nil
		}
		x = call
	}
	for n := range ast.Preorder(x) {
		if call, ok := n.(*ast.CallExpr); ok && randomID.MatchString(u.callee(call)) {
			return call
		}
	}
	return nil
}

// selective reports whether a policy may have a RetryIf or Classify.
func (u *uses) selective(x ast.Expr) bool {
	p := u.policy(x)
	if p == nil {
		return false
	}
	_, retryIf := p.fields["RetryIf"]
	_, classify := p.fields["Classify"]
	return retryIf || classify
}
