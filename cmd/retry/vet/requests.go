package vet

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"
)

// Some POST requests change nothing on the server, for example a search. readURL matches the URLs
// of such requests. readFunc matches the names of functions that send such requests.
var (
	readURL = regexp.MustCompile(
		`(?i)search|quer(y|ies)|graphql|rpc|token|login|oauth|authenticat|session|valid|` +
			`check($|[^o])|verif|preview|lookup|resolve|render|convert|translat|embed|complet|` +
			`predict|infer|simulat|estimat|(^|[^a-z])count|batch_?get|mget|dry_?run|introspect|` +
			`refresh`)
	readFunc = regexp.MustCompile(
		`(?i)^(get|search|query|fetch|find|list|lookup|read|login|authenticat|token|refresh|` +
			`check($|[^o])|valid|verify|preview|render|resolve|estimate|complete|ask|ping|poll)`)
)

// transport returns x if x is a retryhttp.Transport. If x is an http.Client that has a
// retryhttp.Transport, `transport` returns this Transport. For any other x it returns nil.
func (u *uses) transport(x ast.Expr) ast.Expr {
	x = u.deep(x)
	if x == nil {
		return nil
	}
	if typeName(u.info.TypeOf(x)) == retryhttpPath+".Transport" {
		return x
	}
	of := keyed(literal(x))["Transport"]
	if of != nil && typeName(u.info.TypeOf(x)) == "net/http.Client" &&
		typeName(u.info.TypeOf(of)) == retryhttpPath+".Transport" {
		return of
	}
	return nil
}

// retryingClient returns the http.Client with which a call sends a request, if this client has a
// retryhttp.Transport. For any other call it returns nil.
func (u *uses) retryingClient(call *ast.CallExpr) ast.Expr {
	if x, _ := method(call); x != nil && u.sendsRequest(call) && u.transport(x) != nil {
		return x
	}
	return nil
}

// sendsRequest reports whether a call sends an HTTP request.
func (u *uses) sendsRequest(call *ast.CallExpr) bool {
	callee := u.callee(call)
	if !strings.HasPrefix(callee, "(*net/http.Client).") && !strings.HasPrefix(callee, "net/http.") &&
		!strings.HasSuffix(callee, ").RoundTrip") {
		return false
	}
	tuple, ok := u.info.TypeOf(call).(*types.Tuple)
	return ok && tuple.Len() == 2 && typeName(tuple.At(0).Type()) == "net/http.Response"
}

// senders lists the methods that send a request.
var senders = []string{
	"(*net/http.Client).Do", "(net/http.RoundTripper).RoundTrip", "(*net/http.Transport).RoundTrip",
}

// withBody returns the variable that contains the request x, if the request certainly has a body.
// For any other x it returns nil.
func (u *uses) withBody(x ast.Expr) ast.Expr {
	if call, ok := ast.Unparen(x).(*ast.CallExpr); ok { // req.Clone and req.WithContext keep the body
		req, name := method(call)
		if req == nil || name != "Clone" && name != "WithContext" {
			return nil
		}
		x = req
	}
	made := u.callOf(x)
	if made == nil || !strings.HasPrefix(u.callee(made), "net/http.NewRequest") {
		return nil
	}
	if body := made.Args[len(made.Args)-1]; u.info.Types[body].IsNil() ||
		types.ExprString(body) == "http.NoBody" {
		return nil
	}
	return x
}

// methodOf returns POST or PATCH if a request certainly has this method. It returns "" for every
// other request, and also if the request seems to change nothing on the server.
func (u *uses) methodOf(req ast.Expr) string {
	if made := literal(u.value(req)); made != nil {
		if method := u.text(keyed(made)["Method"]); method == "POST" || method == "PATCH" {
			return u.unlessReadOnly(method, made, nil)
		}
	}
	made := u.maker(req)
	if made == nil {
		return ""
	}
	if x, name := method(made); x != nil && (name == "Clone" || name == "WithContext") {
		return u.methodOf(x)
	}
	if found := u.constantMethod(made); found != "" {
		return u.unlessReadOnly(found, made, made.Args)
	}
	if decl := u.declared(made); decl != nil {
		for n := range ast.Preorder(decl.Body) {
			if inner, ok := n.(*ast.CallExpr); ok &&
				strings.HasPrefix(u.callee(inner), "net/http.NewRequest") {
				return u.unlessReadOnly(u.constantMethod(inner), inner, inner.Args)
			}
		}
	}
	return ""
}

// constantMethod returns POST or PATCH if an argument of a call is a constant with this value. For
// any other call it returns "".
func (u *uses) constantMethod(call *ast.CallExpr) string {
	for _, arg := range call.Args {
		if text := u.text(arg); text == "POST" || text == "PATCH" {
			return text
		}
	}
	return ""
}

// unlessReadOnly returns the parameter `method`, or "" if the request seems to change nothing on
// the server. It looks at `args`, the arguments of the call that makes the request, and at the name
// of the function around this call.
func (u *uses) unlessReadOnly(method string, made ast.Node, args []ast.Expr) string {
	c, ok := u.root.FindNode(made)
	if !ok || method == "" {
		return ""
	}
	for fn := range c.Enclosing((*ast.FuncDecl)(nil)) {
		if readFunc.MatchString(fn.Node().(*ast.FuncDecl).Name.Name) {
			return ""
		}
	}
	for _, arg := range args {
		if t := u.info.TypeOf(arg); t == nil ||
			!types.Identical(types.Default(t), types.Typ[types.String]) {
			continue
		}
		for _, x := range []ast.Expr{arg, u.value(arg)} {
			if x != nil && readURL.MatchString(strings.Trim(types.ExprString(x), `"`)) {
				return ""
			}
		}
	}
	return method
}
