package vet

import (
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Idempotent reports requests that a server may process twice.
var Idempotent = newCheck("idempotent", `report a retried POST or PATCH without an idempotency key

If a response is lost, the server may have processed the request already. Without an
idempotency key, the server processes the retry as another request, such as a second
payment. If all attempts send the same key, the server recognizes
the retry.`, func(pass *analysis.Pass, u *uses) {
	seen := map[*ast.CallExpr]bool{}
	report := func(call *ast.CallExpr, method, by string) {
		if !seen[call] {
			seen[call] = true
			pass.ReportRangef(call,
				"the server may have processed this %s although its response is lost, and %s sends it again: "+
					"make an Idempotency-Key before the attempts and set it in each attempt", method, by)
		}
	}
	for call, op := range u.operations() {
		// RetryIf or Classify may choose a retry because the first key was already in use. Such a retry
		// needs a new key.
		if !u.sets(call.policy, "RetryIf", "Classify") {
			u.keyInAttempt(pass, call, op)
		}
		if u.oneAttempt(call.policy) || u.choosesItself(call.policy) {
			continue
		}
		for _, part := range u.reached(op.cursor) {
			for c, sent := range nodes[*ast.CallExpr](part) {
				if method := u.notIdempotent(sent); method != "" && !u.detached(c, op) && !u.endsOnError(c) &&
					!u.isKeyed(part, call.cursor) {
					report(sent, method, call.name)
				}
			}
		}
	}
	for c, sent := range nodes[*ast.CallExpr](u.root) {
		client := u.retryingClient(sent)
		if client == nil || enclosingFunc(c) == nil || !u.letsAllThrough(u.transport(client)) {
			continue
		}
		if method := u.notIdempotent(sent); method != "" && !u.isKeyed(*enclosingFunc(c), c) {
			report(sent, method, "the Transport")
		}
	}
})

// notIdempotent returns POST or PATCH if a call sends a request with this method. It returns "" for
// every other call, and also if the request seems to change nothing on the server.
func (u *uses) notIdempotent(call *ast.CallExpr) string {
	if u.sendsRequest(call) && strings.HasPrefix(calledName(u.callee(call)), "Post") {
		return u.unlessReadOnly("POST", call, call.Args)
	}
	tuple, ok := u.info.TypeOf(call).(*types.Tuple)
	if !ok || tuple.Len() != 2 || typeName(tuple.At(0).Type()) != "net/http.Response" {
		return ""
	}
	for _, arg := range call.Args {
		if typeName(u.info.TypeOf(arg)) == "net/http.Request" {
			return u.methodOf(arg)
		}
	}
	return ""
}

var (
	keyNames = regexp.MustCompile(
		`(?i)idempot|dedup|client_?(token|request_?id)|request_?token|external_?(id|ref)|` +
			`nonce`)
	keyHeader = regexp.MustCompile(
		`(?i)^if-(none-)?match$|(request|webhook|event|message|msg|delivery|transaction|` +
			`client|operation|order|payment|correlation|mutation)-(id|key|token|ref|reference)$`)
)

// isKeyed reports whether the code around a request, or the code that makes the request, contains
// the name of an idempotency key. The name of a header is ignored if each attempt sets the header
// to a new value.
func (u *uses) isKeyed(part, call inspector.Cursor) bool {
	anew := map[ast.Node]bool{}
	parts := u.reached(part)
	for _, part := range parts {
		for _, set := range nodes[*ast.CallExpr](part) {
			if len(set.Args) == 2 {
				random := u.random(set.Args[1])
				anew[set.Args[0]] = random != nil && covers(part.Node(), random.Pos())
			}
		}
	}
	for decl := range call.Enclosing((*ast.FuncDecl)(nil)) {
		parts = append(parts, decl)
	}
	return slices.ContainsFunc(parts, func(part inspector.Cursor) bool {
		for n := range ast.Preorder(part.Node()) {
			x, ok := n.(ast.Expr)
			id, _ := n.(*ast.Ident)
			// A name that this library declares, such as Transport.Idempotent, does not show that the
			// request has an idempotency key.
			o := u.info.ObjectOf(id)
			if o != nil && keyNames.MatchString(o.Name()) && (o.Pkg() == nil || !isLibrary(o.Pkg().Path())) {
				return true
			}
			if text := u.text(x); ok &&
				(keyNames.MatchString(text) || keyHeader.MatchString(text) && !anew[n]) {
				return true
			}
		}
		return false
	})
}

// letsAllThrough reports whether the function Idempotent of a Transport accepts every request. It
// returns false for the Transport of retryhttp.LLM, although this Transport accepts every request:
// the servers of most models know no idempotency key, and the documentation of LLM says that a
// request may be billed twice.
func (u *uses) letsAllThrough(transport ast.Expr) bool {
	op := u.operation(keyed(literal(u.deep(transport)))["Idempotent"])
	if op == nil {
		return false
	}
	ret, ok := op.body.List[0].(*ast.ReturnStmt)
	if !ok {
		return false
	}
	accepts := u.info.Types[ret.Results[0]].Value // nil: the result is not a constant
	return accepts != nil && constant.BoolVal(accepts)
}

// endsOnError reports whether an error of the call at c ends the retries, because the next
// statement is an if that calls retry.Permanent. In such code, only a response of the server can
// lead to a retry.
func (u *uses) endsOnError(c inspector.Cursor) bool {
	next, followed := c.Parent().NextSibling()
	if !followed {
		return false
	}
	branch, ok := next.Node().(*ast.IfStmt)
	return ok && u.mentionsCallee(next, retryPath+".Permanent") && branch.Else == nil
}

var (
	keyName = regexp.MustCompile(
		`(?i)idempot|dedup|^(order|payment|transfer|charge|transaction|txn|invoice|refund|` +
			`booking|message|event|job|command)_?id$`)
	randomID = regexp.MustCompile(
		`(?i)uuid|ulid|ksuid|nanoid|/xid\.|^crypto/rand\.|^math/rand|\.UnixNano$|` +
			`\.UnixMilli$|\.UnixMicro$|^time\.Now$|new_?(id|key)$|(random|generate)`)
)

// keyInAttempt reports an idempotency key if each attempt makes a new key.
func (u *uses) keyInAttempt(pass *analysis.Pass, call *call, op *operation) {
	check := func(name string, value ast.Expr) {
		if name = strings.Trim(name, `"`); !keyName.MatchString(name) {
			return
		}
		if random := u.random(value); random != nil && op.contains(random.Pos()) {
			pass.ReportRangef(random, "each attempt makes a new %s, so the receiver takes a retry for a "+
				"new request: make it before %s", name, call.name)
		}
	}
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil), (*ast.KeyValueExpr)(nil),
		(*ast.AssignStmt)(nil)) {
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

// random returns a call that makes a new value each time, such as uuid.New. It looks for this call
// in x and, if x is a variable, in the value of x. It returns nil if there is no such call.
func (u *uses) random(x ast.Expr) ast.Node {
	if call := u.callOf(x); call != nil {
		x = call
	}
	for n := range ast.Preorder(x) {
		if call, ok := n.(*ast.CallExpr); ok && randomID.MatchString(u.callee(call)) {
			return call
		}
	}
	return nil
}
