package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Response reports code that does not look at the status of an HTTP response.
var Response = newCheck("response", `report code that ignores the status of an HTTP response

net/http returns no error for a 503. So an attempt that ignores the status succeeds, and
there is no retry.`, func(pass *analysis.Pass, u *uses) {
	inOps := map[ast.Node]bool{}
	for call, op := range u.operations() {
		for c, sent := range nodes[*ast.CallExpr](op.cursor) {
			if runsDirectly(op, c) && u.sendsRequest(sent) {
				inOps[sent] = true
				u.unreadStatus(pass, c, op.cursor, call.name+" takes a 503 for success: "+
					"return retryhttp.Check(req, resp, err), or an error for a bad status")
			}
		}
	}
	for c, call := range nodes[*ast.CallExpr](u.root) {
		if fn := enclosingFunc(c); fn != nil && !inOps[call] && u.retryingClient(call) != nil {
			u.unreadStatus(pass, c, *fn,
				"after its retries the Transport returns the last response, which may be a 503: check "+
					"StatusCode, or return retryhttp.ErrorOf(resp)")
		}
	}
})

// unreadStatus reports the request at c if the function fn does not find out whether the request
// succeeded. Such a function uses no field of the response except Body, and does not look at the
// content of the body. For example, it copies the body to a file. The report ends with the
// parameter `text`.
func (u *uses) unreadStatus(pass *analysis.Pass, c, fn inspector.Cursor, text string) {
	assign, ok := c.Parent().Node().(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 2 {
		return
	}
	resp := u.local(assign.Lhs[0])
	if resp == nil && !isNamedIdent(assign.Lhs[0], "_") ||
		resp != nil && !covers(fn.Node(), resp.Pos()) {
		return // code outside of fn may look at the response
	}
	for use := range u.idents(resp, fn) {
		switch p := use.Parent().Node().(type) {
		case *ast.SelectorExpr:
			if p.Sel.Name != "Body" || !u.isUnjudged(use.Parent(), fn) {
				return
			}
		case *ast.BinaryExpr:
			if !u.info.Types[p.Y].IsNil() {
				return
			}
		case *ast.AssignStmt:
			if !slices.Contains(p.Lhs, use.Node().(ast.Expr)) {
				return
			}
		default:
			return
		}
	}
	pass.ReportRangef(c.Node(), "nothing looks at the status, and %s", text)
}

// isUnjudged reports whether the function fn learns nothing about the status of a response from the
// use of its body at c. This is so if fn closes the body there, or if fn copies, decodes or reads
// the body and then only returns or stores the data. With the body of a 503, these steps may
// succeed as well.
func (u *uses) isUnjudged(c, fn inspector.Cursor) bool {
	switch p := c.Parent().Node().(type) {
	case *ast.SelectorExpr:
		return p.Sel.Name == "Close"
	case *ast.CallExpr:
		into := c.Parent()
		switch u.callee(p) {
		case "io.Copy", "io.CopyBuffer":
			assign, ok := into.Parent().Node().(*ast.AssignStmt)
			return (!ok || isNamedIdent(assign.Lhs[0], "_")) && u.isHandedOut(p.Args[0], fn)
		case "io.ReadAll":
			assign, ok := into.Parent().Node().(*ast.AssignStmt)
			return ok && (isNamedIdent(assign.Lhs[0], "_") || u.isHandedOut(assign.Lhs[0], fn))
		case "encoding/json.NewDecoder", "encoding/xml.NewDecoder":
			decode, ok := into.Parent().Parent().Node().(*ast.CallExpr)
			return ok && into.Parent().Node() == decode.Fun && lastName(decode.Fun) == "Decode" &&
				u.isHandedOut(decode.Args[0], fn)
		}
	}
	return false
}

// isHandedOut reports whether the function fn only returns or stores the data that it reads, copies
// or decodes into x. The expression x is io.Discard, os.Stdout, a variable, or the address of a
// variable. fn may also close the variable, or decode it into another variable that fn only returns
// or stores. If fn uses the variable in another way, for example in a condition, the result is
// false. The parameter `seen` lists the variables that isHandedOut has already looked at.
func (u *uses) isHandedOut(x ast.Expr, fn inspector.Cursor, seen ...*types.Var) bool {
	if name := types.ExprString(x); name == "io.Discard" || name == "os.Stdout" {
		return true
	}
	root := rootOf(pointee(x))
	if root == nil {
		return false
	}
	v := u.local(root)
	if v == nil || slices.Contains(seen, v) {
		return v != nil
	}
	for use := range u.idents(v, fn) {
		if use.Node() == ast.Node(root) {
			continue
		}
		if address, ok := use.Parent().Node().(*ast.UnaryExpr); ok && address.Op == token.AND {
			use = use.Parent()
		}
		switch p := use.Parent().Node().(type) {
		case *ast.ReturnStmt:
		case *ast.AssignStmt:
			if slices.Contains(p.Rhs, use.Node().(ast.Expr)) && len(p.Lhs) == len(p.Rhs) &&
				u.declaredBy(fn, p.Lhs[slices.Index(p.Rhs, use.Node().(ast.Expr))]) {
				return false
			}
		case *ast.SelectorExpr:
			if p.Sel.Name != "Close" {
				return false
			}
		case *ast.CallExpr:
			if name := u.callee(p); name != "encoding/json.Unmarshal" && name != "encoding/xml.Unmarshal" ||
				!u.isHandedOut(p.Args[1], fn, append(seen, v)...) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// declaredBy reports whether x is a variable that the function fn declares.
func (u *uses) declaredBy(fn inspector.Cursor, x ast.Expr) bool {
	v := u.local(x)
	return v != nil && covers(fn.Node(), v.Pos())
}
