package noetl

import (
	"errors"
	"fmt"
	"math"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// Where Python raises an error, the engine often goes on with something: none
// is 0, text is compared with numbers as text, an error in a list is a member
// like any other, and tests ask it as if it were a value. A rule would match, or
// not, for no reason that anyone can see. So expressions are changed as they
// are read: operators and lists become calls of the functions below, whose
// arguments the engine does check.

// checkedOutput changes the expressions of {{ a if b else c }}.
func checkedOutput(n *nodes.Output) *nodes.Output {
	n.Expression = checked(n.Expression)
	n.Condition = checked(n.Condition)
	n.Alternative = checked(n.Alternative)
	return n
}

func checked(node nodes.Node) nodes.Node {
	switch n := node.(type) {
	case *nodes.List:
		return call("[]", checkedAll(n.Val)...)
	case *nodes.Tuple:
		return call("[]", checkedAll(n.Val)...)
	case *nodes.BinaryExpression:
		n.Left, n.Right = checked(n.Left), checked(n.Right)
		if name := n.Operator.Token.Val; checkedFunctions[name] != nil {
			return call(name, n.Left, n.Right)
		}
	case *nodes.Negation:
		n.Term = checked(n.Term)
	case *nodes.UnaryExpression:
		n.Term = checked(n.Term)
	case *nodes.Dict:
		for _, pair := range n.Pairs {
			pair.Key, pair.Value = checked(pair.Key), checked(pair.Value)
		}
	case *nodes.GetAttribute:
		n.Node = checked(n.Node)
	case *nodes.GetItem:
		n.Node, n.Arg = checked(n.Node), checked(n.Arg)
	case *nodes.GetSlice:
		n.Node, n.Start, n.End, n.Step = checked(n.Node), checked(n.Start), checked(n.End), checked(n.Step)
	case *nodes.Call:
		n.Func, n.Parent = checked(n.Func), checked(n.Parent)
		checkedAll(n.Args)
		checkedValues(n.Kwargs)
	case *nodes.FilteredExpression:
		n.Expression = checked(n.Expression)
		for _, f := range n.Filters {
			checkedAll(f.Args)
			checkedValues(f.Kwargs)
		}
	case *nodes.TestExpression:
		n.Expression = checked(n.Expression)
		checkedAll(n.Test.Args)
		checkedValues(n.Test.Kwargs)
	}
	return node
}

func checkedAll(list []nodes.Expression) []nodes.Expression {
	for i := range list {
		list[i] = checked(list[i])
	}
	return list
}

func checkedValues(m map[string]nodes.Expression) {
	for key := range m {
		m[key] = checked(m[key])
	}
}

// call returns the call of one of checkedFunctions, none of which an expression
// can name.
func call(function string, args ...nodes.Expression) nodes.Node {
	return &nodes.Call{Func: &nodes.Name{Name: &tokens.Token{Type: tokens.Name, Val: function}}, Args: args}
}

type function = func(*exec.VarArgs) (any, error)

var checkedFunctions = map[string]function{
	"[]": func(args *exec.VarArgs) (any, error) {
		list := make([]any, len(args.Args))
		for i, v := range args.Args {
			list[i] = v.ToGoSimpleType(false)
			if err, ok := list[i].(error); ok {
				return nil, err
			}
		}
		return list, nil
	},
	"<":  comparison(func(c int) bool { return c < 0 }),
	"<=": comparison(func(c int) bool { return c <= 0 }),
	">":  comparison(func(c int) bool { return c > 0 }),
	">=": comparison(func(c int) bool { return c >= 0 }),
	"+":  arithmetic("add", func(x, y float64) float64 { return x + y }),
	"-":  arithmetic("subtract", func(x, y float64) float64 { return x - y }),
	"*":  arithmetic("multiply", func(x, y float64) float64 { return x * y }),
	"**": arithmetic("raise", math.Pow),
	"/":  division(func(x, y float64) any { return x / y }),
	"//": division(func(x, y float64) any { return number(math.Floor(x / y)) }),
	"%":  division(func(x, y float64) any { return number(x - y*math.Floor(x/y)) }),
}

// comparison compares two numbers, or two texts.
func comparison(holds func(int) bool) function {
	return func(args *exec.VarArgs) (any, error) {
		left, right := args.Args[0], args.Args[1]
		switch {
		case left.IsNumber() && right.IsNumber():
			x, y := left.Float(), right.Float()
			if math.IsNaN(x) || math.IsNaN(y) {
				return false, nil
			}
			return holds(compare(x, y)), nil
		case left.IsString() && right.IsString():
			return holds(compare(left.String(), right.String())), nil
		default:
			return nil, fmt.Errorf("%s cannot be compared with %s", kind(left), kind(right))
		}
	}
}

func compare[T float64 | string](x, y T) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	default:
		return 0
	}
}

// arithmetic works on two numbers, and is whole if both are.
func arithmetic(verb string, of func(x, y float64) float64) function {
	return func(args *exec.VarArgs) (any, error) {
		left, right := args.Args[0], args.Args[1]
		switch {
		case left.IsNumber() && right.IsNumber():
			result := of(left.Float(), right.Float())
			if left.IsInteger() && right.IsInteger() {
				return number(result), nil
			}
			return result, nil
		case verb == "add" && left.IsString() && right.IsString():
			return left.String() + right.String(), nil
		default:
			return nil, fmt.Errorf("%s and %s: cannot %s them", kind(left), kind(right), verb)
		}
	}
}

func division(of func(x, y float64) any) function {
	return func(args *exec.VarArgs) (any, error) {
		left, right := args.Args[0], args.Args[1]
		switch {
		case !left.IsNumber() || !right.IsNumber():
			return nil, fmt.Errorf("%s cannot be divided by %s", kind(left), kind(right))
		case right.Float() == 0:
			return nil, errors.New("division by zero")
		default:
			return of(left.Float(), right.Float()), nil
		}
	}
}

// number returns x as an int if it is one that a float holds exactly.
func number(x float64) any {
	if x == math.Trunc(x) && math.Abs(x) <= 1<<53 {
		return int(x)
	}
	return x
}

func kind(v *exec.Value) string {
	switch {
	case v.IsNil():
		return "none"
	case v.IsString():
		return fmt.Sprintf("text %q", v.String())
	case v.IsBool(), v.IsNumber():
		return v.String()
	case v.IsList():
		return "a list"
	default:
		return "a mapping"
	}
}

// checkedTests are the tests of Jinja, which fail where what they ask about
// cannot be evaluated, but for defined and undefined.
var checkedTests = func() *exec.TestSet {
	tests := exec.NewTestSet(map[string]exec.TestFunction{}).Update(builtins.Tests)
	for _, name := range []string{"boolean", "divisibleby", "eq", "equalto", "==", "escaped", "even", "false", "float", "ge", ">=", "gt",
		"greaterthan", ">", "in", "integer", "iterable", "le", "<=", "lower", "lt", "lessthan", "<", "mapping", "ne", "!=", "none",
		"number", "odd", "sameas", "sequence", "string", "true", "upper"} {
		test, _ := builtins.Tests.Get(name)
		_ = tests.Replace(name, checkedTest(test))
	}
	return tests
}()

func checkedTest(test exec.TestFunction) exec.TestFunction {
	switch test := test.(type) {
	case func(*exec.Context, *exec.Value, *exec.VarArgs) (bool, error):
		return func(c *exec.Context, in *exec.Value, args *exec.VarArgs) (bool, error) {
			if in.IsError() {
				return false, in
			}
			return test(c, in, args)
		}
	case func(*exec.Evaluator, *exec.Value, *exec.VarArgs) (bool, error):
		return func(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) (bool, error) {
			if in.IsError() {
				return false, in
			}
			return test(e, in, args)
		}
	default:
		return test
	}
}
