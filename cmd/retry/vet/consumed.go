package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// Consumed reports readers, rows and request bodies that the first attempt reads to the end.
var Consumed = newCheck("consumed", `report readers, requests or rows that the first attempt uses up

The first attempt reads a body or rows to the end, so nothing is left for the
second attempt. Each attempt must make its own reader, request or
rows.`, func(pass *analysis.Pass, u *uses) {
	for call, op := range u.operations() {
		for _, found := range u.consumptions(op) {
			pass.ReportRangef(found.x, "%s comes from outside of %s and %s", types.ExprString(found.x),
				call.name, consequences[found.kind])
		}
	}
})

// A consumption is a reader or rows that an operation reads to the end, or a request whose body it
// reads to the end.
type consumption struct {
	x    ast.Expr
	kind string // "reader", "rows", or "request"
}

// consequences maps the kind of a consumption to a text. The text says what happens in the second
// attempt, and what to write instead.
var consequences = map[string]string{
	"reader": "is empty from the second attempt on: keep the bytes outside, and make a reader of " +
		"them in each attempt",
	"rows": "the first attempt reads it to its end: run the query in each attempt",
	"request": "its body is empty from the second attempt on: make the request in each attempt, or " +
		"set Body from GetBody before it is sent",
}

// consumptions returns the readers and rows that op reads to the end, and the requests whose bodies
// op reads to the end. It returns each variable once.
func (u *uses) consumptions(op *operation) (found []consumption) {
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil), (*ast.KeyValueExpr)(nil),
		(*ast.AssignStmt)(nil)) {
		if u.detached(c, op) || u.mayBeOnce(c, op) {
			continue
		}
		for _, candidate := range u.candidates(c) {
			again := slices.ContainsFunc(found, func(f consumption) bool {
				return u.isSame(f.x, candidate.x)
			})
			if !again && u.comesFromOutside(op, candidate.x) && !u.restored(op, candidate) && !u.isFinal(c) {
				found = append(found, candidate)
			}
		}
	}
	return found
}

// candidates returns the readers, requests and rows that the syntax node at the cursor c reads to
// the end. Some of them may be made by the attempt itself; the method `consumptions` ignores these.
func (u *uses) candidates(c inspector.Cursor) (found []consumption) {
	read := func(x ast.Expr, to types.Type) {
		if x = target(x); x != nil && isReader(to) && u.isConsumable(x) {
			found = append(found, consumption{x, "reader"})
		}
	}
	switch n := c.Node().(type) {
	case *ast.KeyValueExpr:
		if field, ok := n.Key.(*ast.Ident); ok {
			if v, ok := u.info.ObjectOf(field).(*types.Var); ok && v.IsField() {
				read(n.Value, v.Type())
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if field, ok := left.(*ast.SelectorExpr); ok && len(n.Lhs) == len(n.Rhs) {
				read(n.Rhs[i], u.info.TypeOf(field))
			}
		}
	case *ast.CallExpr:
		for i, arg := range n.Args {
			keeps := u.callee(n) == retryhttpPath+".SetBody" &&
				slices.Contains(setBodyKeeps, typeName(u.info.TypeOf(arg)))
			if !keeps {
				read(arg, u.param(n, i))
			}
		}
		found = append(found, u.received(n)...)
	}
	return found
}

// setBodyKeeps lists the readers whose position retryhttp.SetBody does not change.
var setBodyKeeps = []string{"os.File", "bytes.Reader", "strings.Reader", "io.SectionReader"}

// readToEnd lists the methods that may read a reader to the end.
var readToEnd = []string{
	"Read", "ReadByte", "ReadBytes", "ReadRune", "ReadString", "WriteTo", "Scan", "Decode",
	"ReadAll", "Token", "NextPart",
}

// received returns the reader or the rows that a method call reads to the end. If the call sends a
// request with a body, it returns the request.
func (u *uses) received(call *ast.CallExpr) []consumption {
	x, name := method(call)
	if x == nil {
		return nil
	}
	if slices.Contains(senders, u.callee(call)) {
		if req := u.withBody(call.Args[0]); req != nil {
			return []consumption{{req, "request"}}
		}
		return nil
	}
	switch x = target(x); {
	case x == nil:
	case name == "Next" && isRows(u.info.TypeOf(x)):
		return []consumption{{x, "rows"}}
	case slices.Contains(readToEnd, name):
		if u.isConsumable(x) {
			return []consumption{{x, "reader"}}
		}
	}
	return nil
}

// isConsumable reports whether x is a reader that has an end. Connections and sources of random
// bytes have no end.
func (u *uses) isConsumable(x ast.Expr) bool {
	t := deref(u.info.TypeOf(x))
	if types.IsInterface(t) {
		name := strings.ToLower(types.ExprString(x))
		return hasMethod(t, "Read") && !hasMethod(t, "Write") && !strings.Contains(name, "rand") &&
			!strings.Contains(name, "entropy")
	}
	return slices.Contains([]string{
		"bytes.Reader", "bytes.Buffer", "strings.Reader", "os.File", "io.LimitedReader", "io.PipeReader",
		"io.SectionReader", "compress/gzip.Reader", "mime/multipart.Part",
	}, typeName(t))
}

// restored reports whether op may make found.x usable again after op has read it. The expression
// found.x is a reader, a request or rows. For example, op assigns a new reader to the variable
// found.x, rewinds the reader, or passes the reader to a function that may rewind the reader.
func (u *uses) restored(op *operation, found consumption) bool {
	// written reports whether x is the reader found.x, and t is an interface through which other code
	// may fill the reader. t is the type of the variable or field to which x is assigned. For example,
	// a command writes to the buffer in its Stdout.
	written := func(x ast.Expr, t types.Type) bool {
		x = target(x)
		return x != nil && found.kind == "reader" && u.isSame(x, found.x) && t != nil &&
			types.IsInterface(t) && !isReader(t)
	}
	for c := range op.cursor.Preorder((*ast.AssignStmt)(nil), (*ast.KeyValueExpr)(nil),
		(*ast.CallExpr)(nil)) {
		switch n := c.Node().(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				sel, isField := left.(*ast.SelectorExpr)
				body := isField && found.kind == "request" && sel.Sel.Name == "Body" && u.isSame(sel.X, found.x)
				if body || u.isSame(left, rootOf(found.x)) || u.isSame(left, found.x) ||
					written(valueAt(n.Rhs, len(n.Lhs), i), u.info.TypeOf(left)) {
					return true
				}
			}
		case *ast.KeyValueExpr:
			if written(n.Value, u.info.TypeOf(n.Key)) {
				return true
			}
		case *ast.CallExpr:
			if u.mayRestore(n, found) || u.mayRewind(op, n, found) {
				return true
			}
		}
	}
	return false
}

// readMethods lists methods that do not make a used reader, request or rows usable again. A method
// that is not in this list may make them usable again.
var readMethods = []string{
	"Bytes", "Clone", "Close", "Columns", "Context", "Decode", "Do", "Err", "InputOffset", "Len",
	"More", "Name", "Next", "Read", "ReadAll", "ReadByte", "ReadBytes", "ReadRune", "ReadString",
	"Scan", "Size", "Stat", "String", "Text", "Token", "WithContext", "WriteTo",
}

// mayRewind reports whether a call may make found.x, which is a reader, a request or rows, usable
// again although the call does not name found.x. There are two kinds of such calls. Either the call
// is a method call such as s.Reset(), and the value s is declared outside of op and may contain
// found.x. Or the call runs a function literal outside of op, and this function literal uses
// found.x.
func (u *uses) mayRewind(op *operation, call *ast.CallExpr, found consumption) bool {
	if x, name := method(call); x != nil {
		return hasAny(strings.ToLower(name), "seek", "rewind", "reset", "reopen") && u.isOutside(op, x) &&
			typeName(u.info.TypeOf(x)) != "time.Timer"
	}
	lit, ok := u.value(call.Fun).(*ast.FuncLit)
	return ok && !op.contains(lit.Pos()) && u.hasUse(lit.Body, u.info.ObjectOf(rootOf(found.x)))
}

// mayRestore reports whether a call may make found.x, which is a reader, a request or rows, usable
// again. This is so if found.x is the receiver or an argument of the call, unless it is known that
// the call only reads found.x. If found.x is a field, such as s.body, a call of a function of the
// checked package with s as the receiver or as an argument may also make found.x usable again.
func (u *uses) mayRestore(call *ast.CallExpr, found consumption) bool {
	root := rootOf(found.x)
	fn, known := typeutil.Callee(u.info, call).(*types.Func)
	ours := !known || u.funcs[fn.Origin()] != nil
	if x, name := method(call); x != nil {
		if u.isSame(x, found.x) && !slices.Contains(readMethods, name) ||
			ours && !u.isSame(x, found.x) && u.isSame(x, root) {
			return true // for example, the call s.rewind() may rewind the reader s.body
		}
	}
	for i, arg := range call.Args {
		switch arg = target(arg); {
		case arg == nil:
		case !u.isSame(arg, found.x):
			if ours && u.isSame(arg, root) {
				return true
			}
		case found.kind == "reader" && !isReader(u.param(call, i)), found.kind == "request" && ours:
			return true
		}
	}
	return false
}
