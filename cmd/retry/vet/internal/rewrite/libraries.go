package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

const (
	backoff4  = "github.com/cenkalti/backoff/v4"
	backoff5  = "github.com/cenkalti/backoff/v5"
	avast4    = "github.com/avast/retry-go/v4"
	avast5    = "github.com/avast/retry-go/v5"
	sethvargo = "github.com/sethvargo/go-retry"
)

// libraries maps the import paths of the libraries to their package names.
var libraries = map[string]string{backoff4: "backoff", backoff5: "backoff", avast4: "retry", avast5: "retry", sethvargo: "retry"}

// retriers has a function for each function that retries. It rewrites a call.
var retriers = map[string]func(r *rewriter, call *ast.CallExpr) error{}

func init() { // in init, because these functions refer to retriers themselves
	for name, notify := range map[string]bool{"Retry": false, "RetryNotify": true, "RetryWithData": false, "RetryNotifyWithData": true} {
		retriers[backoff4+"."+name] = func(r *rewriter, call *ast.CallExpr) error {
			p, err := r.policy(call.Args[1], call, nil)
			if err != nil {
				return err
			}
			if notify {
				p.text = "rewrittenNotify(" + p.text + ", " + r.text(call.Args[2]) + ")"
			}
			return r.retry(call, call.Args[0], p, false)
		}
	}
	retriers[backoff5+".Retry"] = func(r *rewriter, call *ast.CallExpr) error {
		p, err := r.options5(call)
		if err != nil {
			return err
		}
		p.ctx = call.Args[0]
		return r.retry(call, call.Args[1], p, false)
	}
	for _, path := range []string{avast4, avast5} {
		for _, name := range []string{"Do", "DoWithData"} {
			retriers[path+"."+name] = func(r *rewriter, call *ast.CallExpr) error {
				p, last, err := r.optionsAvast(call, call.Args[1:])
				if err != nil {
					return err
				}
				return r.retry(call, call.Args[0], p, last)
			}
		}
	}
	retriers["(*"+avast5+".Retrier).Do"] = func(r *rewriter, call *ast.CallExpr) error {
		made, ok := call.Fun.(*ast.SelectorExpr).X.(*ast.CallExpr)
		if !ok || r.callee(made) != avast5+".New" {
			return errors.New("where the Retrier comes from is not known")
		}
		p, last, err := r.optionsAvast(call, made.Args)
		if err != nil {
			return err
		}
		return r.retry(call, call.Args[0], p, last)
	}
	for _, name := range []string{"Do", "DoValue"} {
		retriers[sethvargo+"."+name] = func(r *rewriter, call *ast.CallExpr) error {
			p, err := r.policy(call.Args[1], call, nil)
			if err != nil {
				return err
			}
			r.replace(call.Args[1], p.text)
			r.replace(call.Fun, "goretry."+name)
			return nil
		}
	}
}

// markers maps the functions that mark an error to those of this library.
var markers = map[string]string{
	backoff4 + ".Permanent":       "goretry.Permanent",
	backoff5 + ".Permanent":       "goretry.Permanent",
	avast4 + ".Unrecoverable":     "goretry.Permanent",
	avast5 + ".Unrecoverable":     "goretry.Permanent",
	sethvargo + ".RetryableError": "rewrittenRetryable",
}

// setters maps a field of a backoff b to the code for an assignment of v to it.
var setters = map[string]string{
	"InitialInterval":     "b = rewrittenBase(b, v)",
	"Multiplier":          "b = rewrittenFactor(b, v)",
	"RandomizationFactor": "b.Jitter = goretry.Proportional(v)",
	"MaxInterval":         "b.MaxDelay = v",
	"MaxElapsedTime":      "b.MaxElapsed = v",
}

// A translated policy is Go code for it, and the context that comes with it.
type translated struct {
	text string
	ctx  ast.Expr
}

func (r *rewriter) call(call *ast.CallExpr) error { return retriers[r.callee(call)](r, call) }

// retry replaces a call that runs op by a call of this library.
func (r *rewriter) retry(call *ast.CallExpr, op ast.Expr, p translated, last bool) error {
	signature, ok := r.pkg.TypesInfo.TypeOf(op).Underlying().(*types.Signature)
	if !ok || signature.Params().Len() > 0 {
		return errors.New("the operation is not a function")
	}
	name, wrap := "goretry.Do", "rewrittenOperation"
	if signature.Results().Len() == 2 {
		name, wrap = "goretry.DoValue", "rewrittenOperationValue"
	}
	ctx := "context.Background()"
	if p.ctx != nil {
		ctx = r.text(p.ctx)
	}
	var fn string
	if lit, ok := op.(*ast.FuncLit); ok {
		fn = r.takeContext(lit, p.ctx)
	} else if lit := r.onlyUse(op); lit != nil {
		r.replace(lit.Type.Params, r.parameters(lit, p.ctx))
		fn = r.text(op)
	} else {
		fn = wrap + "(" + r.text(op) + ")"
	}
	text := fmt.Sprintf("%s(%s, %s, %s)", name, ctx, p.text, fn)
	if last {
		text = "goretry.LastError(" + text + ")"
	}
	r.replace(call, text)
	return nil
}

// takeContext returns a function literal that takes the context of its attempt.
func (r *rewriter) takeContext(lit *ast.FuncLit, ctx ast.Expr) string {
	r.replace(lit.Type.Params, r.parameters(lit, ctx))
	return r.text(lit)
}

// parameters returns the parameters of a literal. The context is named like the
// one around the literal, if the literal uses that.
func (r *rewriter) parameters(lit *ast.FuncLit, ctx ast.Expr) string {
	if id, ok := ctx.(*ast.Ident); ok {
		for n := range ast.Preorder(lit.Body) {
			if used, ok := n.(*ast.Ident); ok && r.object(used) == r.object(id) {
				return "(" + id.Name + " context.Context)"
			}
		}
	}
	return "(context.Context)"
}

// onlyUse returns the function literal in a variable that is used nowhere else.
func (r *rewriter) onlyUse(op ast.Expr) *ast.FuncLit {
	id, ok := op.(*ast.Ident)
	if !ok {
		return nil
	}
	var lit *ast.FuncLit
	for other := range r.all(r.object(id)) {
		if other == id {
			continue
		}
		assign, ok := r.parents[other].(*ast.AssignStmt)
		if !ok || lit != nil || assign.Tok != token.DEFINE || len(assign.Lhs) != 1 {
			return nil
		}
		if lit, ok = assign.Rhs[0].(*ast.FuncLit); !ok {
			return nil
		}
	}
	return lit
}

// policy translates an expression for a backoff into a policy.
func (r *rewriter) policy(x ast.Expr, call *ast.CallExpr, user *slot) (p translated, err error) {
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		return r.slotPolicy(x, x, call, user)
	case *ast.SelectorExpr:
		return r.slotPolicy(x.Sel, x, call, user)
	case *ast.UnaryExpr:
		if lit, ok := x.X.(*ast.CompositeLit); ok && x.Op == token.AND {
			return r.literal(lit)
		}
	case *ast.CallExpr:
		return r.built(x, call, user)
	}
	return p, fmt.Errorf("%s is not known", types.ExprString(x))
}

func (r *rewriter) slotPolicy(id *ast.Ident, x ast.Expr, call *ast.CallExpr, user *slot) (p translated, err error) {
	obj, ok := r.object(id).(*types.Var)
	if !ok {
		return p, fmt.Errorf("%s is not a variable", id.Name)
	}
	if _, err := r.use(obj, call, user); err != nil {
		return p, err
	}
	r.done[id] = true
	// If a context comes with a variable, it is found at the variable's
	// assignment.
	return translated{r.text(x), r.contextOf(obj)}, nil
}

// contextOf returns the context of the WithContext in a local variable.
func (r *rewriter) contextOf(obj *types.Var) ast.Expr {
	if obj.IsField() {
		return nil
	}
	for id := range r.all(obj) {
		assign, ok := r.parents[id].(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != 1 || assign.Lhs[0] != id {
			continue
		}
		for n := range ast.Preorder(assign.Rhs[0]) {
			made, ok := n.(*ast.CallExpr)
			if !ok {
				continue
			}
			if r.callee(made) == backoff4+".WithContext" {
				return made.Args[1]
			}
			if fn, ok := r.calledHere(made); ok {
				if ctx := r.argumentFor(fn, made); ctx != nil {
					return ctx
				}
			}
		}
	}
	return nil
}

// calledHere returns the called function, if it belongs to this package.
func (r *rewriter) calledHere(call *ast.CallExpr) (*types.Func, bool) {
	var id *ast.Ident
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		id = fun
	case *ast.SelectorExpr:
		id = fun.Sel
	default:
		return nil, false
	}
	fn, ok := r.object(id).(*types.Func)
	return fn, ok && fn.Pkg() == r.pkg.Types
}

// argumentFor returns the argument for a function's only parameter that is a
// context.
func (r *rewriter) argumentFor(fn *types.Func, call *ast.CallExpr) ast.Expr {
	params := fn.Signature().Params()
	for i := range params.Len() {
		if params.At(i).Type().String() == "context.Context" && i < len(call.Args) {
			return call.Args[i]
		}
	}
	return nil
}

// literal translates &backoff.ExponentialBackOff{...} and similar literals.
func (r *rewriter) literal(lit *ast.CompositeLit) (p translated, err error) {
	switch t := r.pkg.TypesInfo.TypeOf(lit).String(); strings.TrimPrefix(strings.TrimPrefix(t, backoff4+"."), backoff5+".") {
	case "StopBackOff":
		return translated{text: "goretry.Policy{}"}, nil
	case "ZeroBackOff":
		return translated{text: constant("goretry.Fixed(1)")}, nil // a policy without any delay would be invalid
	case "ConstantBackOff":
		for _, element := range lit.Elts {
			if field, ok := element.(*ast.KeyValueExpr); ok {
				return translated{text: constant("goretry.Fixed(" + r.text(field.Value) + ")")}, nil
			}
		}
	case "ExponentialBackOff":
		e := exponential{elapsed: "0"}
		for _, element := range lit.Elts {
			field, ok := element.(*ast.KeyValueExpr)
			if !ok {
				return p, errors.New("a literal without the names of its fields")
			}
			if err := e.set(types.ExprString(field.Key), r.text(field.Value)); err != nil {
				return p, err
			}
		}
		return translated{text: e.String()}, nil
	}
	return p, fmt.Errorf("%s is not known", r.pkg.TypesInfo.TypeOf(lit))
}

func constant(curve string) string {
	return "goretry.Policy{MaxAttempts: goretry.Unlimited, Backoff: " + curve + "}"
}

// exponential has the settings of cenkalti's exponential backoff, as Go code.
type exponential struct{ base, factor, jitter, limit, elapsed string }

func newExponential() exponential {
	return exponential{"500_000_000", "1.5", "0.5", "60_000_000_000", "900_000_000_000"}
}

func (e *exponential) set(name, value string) error {
	switch strings.TrimPrefix(name, "With") {
	case "InitialInterval":
		e.base = value
	case "Multiplier":
		e.factor = value
	case "RandomizationFactor":
		e.jitter = value
	case "MaxInterval":
		e.limit = value
	case "MaxElapsedTime":
		e.elapsed = value
	case "Stop", "Clock", "ClockProvider", "RetryStopDuration": // a Policy has no such field
	default:
		return fmt.Errorf("a policy has no %s", name)
	}
	return nil
}

func (e *exponential) String() string {
	text := "goretry.Policy{MaxAttempts: goretry.Unlimited, Backoff: goretry.Exponential{Base: " + e.base
	if e.factor != "" {
		text += ", Factor: " + e.factor
	}
	text += "}"
	if e.limit != "" {
		text += ", MaxDelay: " + e.limit
	}
	if e.jitter != "" {
		text += ", Jitter: goretry.Proportional(" + e.jitter + ")"
	}
	if e.elapsed != "0" {
		text += ", MaxElapsed: " + e.elapsed
	}
	return text + "}"
}

// built translates a call that makes a backoff.
func (r *rewriter) built(x, call *ast.CallExpr, user *slot) (p translated, err error) {
	arg := func(i int) string { return r.text(x.Args[i]) }
	switch name := r.callee(x); name {
	case backoff4 + ".NewExponentialBackOff", backoff5 + ".NewExponentialBackOff":
		e := newExponential()
		if strings.HasPrefix(name, backoff5) {
			e.elapsed = "0"
		}
		for _, option := range x.Args {
			set, ok := option.(*ast.CallExpr)
			if !ok || len(set.Args) != 1 {
				return p, fmt.Errorf("the option %s is not known", types.ExprString(option))
			}
			if err := e.set(strings.TrimPrefix(r.callee(set), backoff4+"."), r.text(set.Args[0])); err != nil {
				return p, err
			}
		}
		return translated{text: e.String()}, nil
	case backoff4 + ".NewConstantBackOff", backoff5 + ".NewConstantBackOff":
		return translated{text: constant("goretry.Fixed(" + arg(0) + ")")}, nil
	case backoff4 + ".WithContext":
		p, err = r.policy(x.Args[0], call, user)
		p.ctx = x.Args[1]
		return p, err
	case backoff4 + ".WithMaxRetries":
		p, err = r.policy(x.Args[0], call, user)
		p.text = "rewrittenMaxRetries(" + p.text + ", " + arg(1) + ")"
		return p, err
	case sethvargo + ".NewConstant":
		return translated{text: opted("goretry.Fixed(" + arg(0) + ")")}, nil
	case sethvargo + ".NewExponential":
		return translated{text: opted("goretry.Exponential{Base: " + arg(0) + "}")}, nil
	case sethvargo + ".NewFibonacci":
		return translated{text: opted("goretry.Fibonacci(" + arg(0) + ")")}, nil
	case sethvargo + ".WithMaxRetries", sethvargo + ".WithCappedDuration", sethvargo + ".WithMaxDuration", sethvargo + ".WithJitterPercent":
		p, err = r.policy(x.Args[1], call, user)
		p.text = strings.Replace(strings.TrimPrefix(name, sethvargo+"."), "With", "rewritten", 1) + "(" + p.text + ", " + arg(0) + ")"
		return p, err
	}
	fn, ok := r.calledHere(x)
	if !ok {
		return p, fmt.Errorf("what %s makes is not known", types.ExprString(x.Fun))
	}
	s, err := r.use(fn, call, user)
	if err != nil {
		return p, err
	}
	for id := range r.all(s.obj) {
		if x.Pos() <= id.Pos() && id.Pos() < x.Lparen {
			r.done[id] = true
		}
	}
	return translated{r.text(x), r.argumentFor(fn, x)}, nil
}

// opted returns a policy for an operation that marks errors to retry, as
// sethvargo's operations do.
func opted(curve string) string {
	return "goretry.Policy{MaxAttempts: goretry.Unlimited, Backoff: " + curve + ", RetryIf: rewrittenIsRetryable}"
}

// options5 translates the options of backoff.Retry in version 5.
func (r *rewriter) options5(call *ast.CallExpr) (p translated, err error) {
	e := newExponential()
	e.elapsed = "0"
	p.text = e.String()
	var wrap []func(string) string
	elapsed := "900_000_000_000"
	for _, option := range call.Args[2:] {
		set, ok := option.(*ast.CallExpr)
		if !ok || call.Ellipsis.IsValid() {
			return p, fmt.Errorf("the option %s is not known", types.ExprString(option))
		}
		switch strings.TrimPrefix(r.callee(set), backoff5+".") {
		case "WithBackOff":
			if p, err = r.policy(set.Args[0], call, nil); err != nil {
				return p, err
			}
		case "WithMaxTries":
			wrap = append(wrap, func(text string) string { return "rewrittenMaxTries(" + text + ", " + r.text(set.Args[0]) + ")" })
		case "WithMaxElapsedTime":
			elapsed = r.text(set.Args[0])
		case "WithNotify":
			wrap = append(wrap, func(text string) string { return "rewrittenNotify(" + text + ", " + r.text(set.Args[0]) + ")" })
		default:
			return p, fmt.Errorf("the option %s is not known", types.ExprString(option))
		}
	}
	p.text = "rewrittenMaxDuration(" + p.text + ", " + elapsed + ")"
	for _, w := range wrap {
		p.text = w(p.text)
	}
	return p, nil
}

// optionsAvast translates the options of retry-go. The jitter of a policy is a
// share of the delay, while MaxJitter is the same for every delay.
func (r *rewriter) optionsAvast(call *ast.CallExpr, options []ast.Expr) (p translated, last bool, err error) {
	attempts, base, curve, limit, rest, notify := "10", "100_000_000", "BackOffDelay", "", "", ""
	for _, option := range options {
		set, ok := option.(*ast.CallExpr)
		if !ok || call.Ellipsis.IsValid() {
			return p, false, fmt.Errorf("the option %s is not known", types.ExprString(option))
		}
		name := r.callee(set)
		switch name[strings.LastIndex(name, ".")+1:] {
		case "Attempts":
			attempts = r.text(set.Args[0])
		case "Delay":
			base = r.text(set.Args[0])
		case "MaxDelay":
			limit = ", MaxDelay: " + r.text(set.Args[0])
		case "MaxJitter": // included in the share below
		case "DelayType":
			selector, ok := set.Args[0].(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "FixedDelay" && selector.Sel.Name != "BackOffDelay" {
				return p, false, fmt.Errorf("the delay type %s is not known", types.ExprString(set.Args[0]))
			}
			curve = selector.Sel.Name
		case "Context":
			p.ctx = set.Args[0]
		case "RetryIf":
			rest = ", RetryIf: " + r.text(set.Args[0])
		case "OnRetry":
			notify = r.text(set.Args[0])
		case "LastErrorOnly":
			last = types.ExprString(set.Args[0]) == "true"
		default:
			return p, false, fmt.Errorf("the option %s is not known", types.ExprString(option))
		}
	}
	if last && strings.Contains(r.callee(call), "WithData") {
		return p, false, errors.New("LastErrorOnly beside a value")
	}
	made := map[string]string{"BackOffDelay": "goretry.Exponential{Base: " + base + "}", "FixedDelay": "goretry.Fixed(" + base + ")"}[curve]
	p.text = "rewrittenMaxTries(goretry.Policy{Backoff: " + made + limit + ", Jitter: goretry.Proportional(0.5)" + rest + "}, " + attempts + ")"
	if notify != "" {
		p.text = "rewrittenOnRetry(" + p.text + ", " + notify + ")"
	}
	return p, last, nil
}
