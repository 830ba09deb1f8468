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
		if !u.selects(call.policy) { // else it may retry because the key was taken
			u.keyInAttempt(pass, call, op)
		}
	}
})

// syncInAttempt reports uses of package sync, and closed channels, that only one
// attempt may have.
func (u *uses) syncInAttempt(pass *analysis.Pass, call *call, op *operation) {
	for c, inner := range all[*ast.CallExpr](op.cursor) {
		x, _ := method(inner)
		callee := u.callee(inner)
		if isNamedIdent(inner.Fun, "close") && len(inner.Args) == 1 {
			x, callee = inner.Args[0], "close"
		}
		if x == nil || !u.isOutside(op, x) {
			continue
		}
		name := types.ExprString(x)
		switch callee {
		case "close", "(*sync.WaitGroup).Done":
			if !u.mentionsCallee(op.cursor, "(*sync.WaitGroup).Add") && u.again(op, c) && !u.mayBeOnce(c, op) {
				pass.ReportRangef(inner, "each attempt calls %s, and the second time it panics: call it after %s", types.ExprString(inner), call.name)
			}
		case "(*sync.Once).Do":
			if u.setsOwnError(op, inner.Args[0]) {
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
		_, deferred := stmt.Node().(*ast.DeferStmt)
		return deferred || u.failsAfter(op, stmt.Node().(ast.Stmt))
	}
	return false
}

// setsOwnError reports whether a function assigns an error of op.
func (u *uses) setsOwnError(op *operation, fn ast.Expr) bool {
	for n := range ast.Preorder(fn) {
		if assign, ok := n.(*ast.AssignStmt); ok && assign.Tok == token.ASSIGN {
			v := u.local(assign.Lhs[len(assign.Lhs)-1])
			if v != nil && isError(v.Type()) && op.contains(v.Pos()) {
				return true
			}
		}
	}
	return false
}

// staysLocked reports whether op can return without the Unlock for the Lock at c.
func (u *uses) staysLocked(op *operation, c inspector.Cursor, name string) bool {
	return own(op, c) && flow(op.body, c.Parent().Node(), func(n ast.Node) bool {
		for n := range ast.Preorder(n) {
			if call, ok := n.(*ast.CallExpr); ok {
				if x, method := method(call); x != nil && types.ExprString(x) == name && strings.HasSuffix(method, "Unlock") {
					return false
				}
			}
		}
		return true
	})
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
	for c, assign := range all[*ast.AssignStmt](op.cursor) {
		item, from := u.taken(op, assign)
		if item == nil || from == nil || !u.isOutside(op, from) || !op.contains(item.Pos()) || resources.MatchString(item.Name()) {
			continue
		}
		if own(op, c) && !u.mayBeOnce(c, op) && u.processed(op, assign.Pos(), item) {
			pass.ReportRangef(assign, "the attempt takes from %s, so a retry no longer gets what the failed attempt took: take it before %s, or out when the attempt has succeeded", types.ExprString(from), call.name)
			return
		}
	}
}

// taken returns the variable that has what an assignment takes, and the channel, queue
// or slice that it takes it out of.
func (u *uses) taken(op *operation, assign *ast.AssignStmt) (item *types.Var, from ast.Expr) {
	left := assign.Lhs[0]
	item = u.local(left)
	switch x := ast.Unparen(assign.Rhs[0]).(type) {
	case *ast.UnaryExpr:
		if x.Op == token.ARROW && !isNamed(u.info.TypeOf(x), "time", "Time") {
			return item, x.X
		}
	case *ast.CallExpr:
		from, name := method(x)
		if from != nil && takes.MatchString(name) && !isRows(u.info.TypeOf(from)) && item != nil && !isNumber(item.Type()) {
			return item, from
		}
	}
	if assign.Tok == token.ASSIGN && u.shortens(left, assign.Rhs[0]) {
		return u.copyOf(op, left, assign.Pos()), left
	}
	return nil, nil
}

func isNumber(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsNumeric|types.IsBoolean) != 0
}

// copyOf returns the variable that op gives x, or a part of it, before pos.
func (u *uses) copyOf(op *operation, x ast.Expr, pos token.Pos) *types.Var {
	for _, assign := range all[*ast.AssignStmt](op.cursor) {
		for i, left := range assign.Lhs {
			right := valueAt(assign.Rhs, len(assign.Lhs), i)
			if assign.Pos() < pos && right != nil && strings.HasPrefix(types.ExprString(right)+"[", types.ExprString(x)+"[") {
				return u.local(left)
			}
		}
	}
	return nil
}

// shortens reports whether x is nil, an empty literal, or a part of the slice left.
func (u *uses) shortens(left, x ast.Expr) bool {
	if lit := literal(x); lit != nil {
		return len(lit.Elts) == 0
	}
	slice, ok := ast.Unparen(x).(*ast.SliceExpr)
	return u.info.Types[x].IsNil() || ok && types.ExprString(slice.X) == types.ExprString(left)
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
			if n.Tok != token.ASSIGN || !u.isOutside(op, n.Lhs[0]) || u.shortens(n.Lhs[0], n.Rhs[0]) {
				continue
			}
			if _, isSlice := u.info.TypeOf(n.Lhs[0]).Underlying().(*types.Slice); isSlice {
				return true
			}
		}
	}
	return false
}

// processed reports whether a call after pos that can fail gets the item, and its
// error is not the last word. What is taken after a failure may be the answer to it.
func (u *uses) processed(op *operation, pos token.Pos, item *types.Var) bool {
	for c, call := range all[*ast.CallExpr](op.cursor) {
		if !u.fails(call) {
			continue
		}
		if call.End() < pos {
			return false
		}
		if call.Pos() > pos && !u.isFinal(c) && u.hasUse(call, item) {
			return true
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
	check := func(name string, value ast.Expr) {
		name = strings.Trim(name, `"`)
		if random := u.random(value); keyName.MatchString(name) && random != nil && op.contains(random.Pos()) {
			pass.ReportRangef(random, "each attempt makes a new %s, so the receiver takes a retry for another request: make it before %s", name, call.name)
		}
	}
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil), (*ast.KeyValueExpr)(nil), (*ast.AssignStmt)(nil)) {
		switch n := c.Node().(type) {
		case *ast.KeyValueExpr:
			check(types.ExprString(n.Key), n.Value)
		case *ast.AssignStmt:
			check(lastName(n.Lhs[0]), n.Rhs[0])
		case *ast.CallExpr:
			signature, ok := u.info.TypeOf(n.Fun).Underlying().(*types.Signature)
			for i, arg := range n.Args {
				if i > 0 && u.info.Types[n.Args[i-1]].Value != nil {
					check(u.info.Types[n.Args[i-1]].Value.ExactString(), arg) // Set("Idempotency-Key", key)
				} else if ok && i < signature.Params().Len() {
					check(signature.Params().At(i).Name(), arg)
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
		return types.ExprString(x.Index)
	}
	return ""
}

// random returns the call in x, or behind the variable x, that makes a value which
// no other call makes.
func (u *uses) random(x ast.Expr) ast.Node {
	if _, ok := ast.Unparen(x).(*ast.Ident); ok {
		if call := u.from(x); call != nil {
			x = call
		}
	}
	for n := range ast.Preorder(x) {
		if call, ok := n.(*ast.CallExpr); ok && randomID.MatchString(u.callee(call)) {
			return call
		}
	}
	return nil
}
