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

// A checker changes expressions, and notes the first filter or test that there
// is not.
type checker struct{ err error }

// output changes the expressions of {{ a if b else c }}.
func (c *checker) output(n *nodes.Output) *nodes.Output {
	n.Expression = c.checked(n.Expression)
	n.Condition = c.checked(n.Condition)
	n.Alternative = c.checked(n.Alternative)
	return n
}

func (c *checker) checked(node nodes.Node) nodes.Node {
	switch n := node.(type) {
	case *nodes.List:
		return call("[]", c.all(n.Val)...)
	case *nodes.Tuple:
		return call("[]", c.all(n.Val)...)
	case *nodes.BinaryExpression:
		n.Left, n.Right = c.checked(n.Left), c.checked(n.Right)
		if name := n.Operator.Token.Val; checkedFunctions[name] != nil {
			return call(name, n.Left, n.Right)
		}
	case *nodes.Negation:
		n.Term = c.checked(n.Term)
	case *nodes.UnaryExpression:
		n.Term = c.checked(n.Term)
	case *nodes.Dict:
		for _, pair := range n.Pairs {
			pair.Key, pair.Value = c.checked(pair.Key), c.checked(pair.Value)
		}
	case *nodes.GetAttribute:
		n.Node = c.checked(n.Node)
	case *nodes.GetItem:
		n.Node, n.Arg = c.checked(n.Node), c.checked(n.Arg)
	case *nodes.GetSlice:
		n.Node, n.Start, n.End, n.Step = c.checked(n.Node), c.checked(n.Start), c.checked(n.End), c.checked(n.Step)
	case *nodes.Call:
		n.Func, n.Parent = c.checked(n.Func), c.checked(n.Parent)
		c.all(n.Args)
		c.values(n.Kwargs)
	case *nodes.FilteredExpression:
		n.Expression = c.checked(n.Expression)
		for _, f := range n.Filters {
			c.filter(f)
		}
	case *nodes.TestExpression:
		n.Expression = c.checked(n.Expression)
		c.note(testExists(n.Test.Name))
		c.all(n.Test.Args)
		c.values(n.Test.Kwargs)
	}
	return node
}

func (c *checker) all(list []nodes.Expression) []nodes.Expression {
	for i := range list {
		list[i] = c.checked(list[i])
	}
	return list
}

func (c *checker) values(m map[string]nodes.Expression) {
	for key := range m {
		m[key] = c.checked(m[key])
	}
}

func (c *checker) filter(f *nodes.FilterCall) {
	c.note(filterExists(f.Name))
	if named, ok := namedBy[f.Name]; ok && named.argument < len(f.Args) {
		if name, ok := f.Args[named.argument].(*nodes.String); ok {
			c.note(named.exists(name.Val))
		}
	}
	c.all(f.Args)
	c.values(f.Kwargs)
}

func (c *checker) note(err error) {
	if c.err == nil {
		c.err = err
	}
}

func filterExists(name string) error {
	if !builtins.Filters.Exists(name) {
		return fmt.Errorf("there is no filter %q", name)
	}
	return nil
}

func testExists(name string) error {
	if !builtins.Tests.Exists(name) {
		return fmt.Errorf("there is no test %q", name)
	}
	return nil
}

// namedBy says which filters have the name of another, or of a test, in which
// argument.
var namedBy = map[string]struct {
	argument int
	exists   func(name string) error
}{
	"map":        {0, filterExists},
	"select":     {0, testExists},
	"reject":     {0, testExists},
	"selectattr": {1, testExists},
	"rejectattr": {1, testExists},
}

// filters are those of Jinja. The ones that call others, or tests, fail where
// those do.
var filters = func() *exec.FilterSet {
	set := exec.NewFilterSet(map[string]exec.FilterFunction{}).Update(builtins.Filters)
	for name := range namedBy {
		filter, _ := builtins.Filters.Get(name)
		_ = set.Replace(name, checkedFilter(name, filter))
	}
	_ = set.Replace("random", func(*exec.Evaluator, *exec.Value, *exec.VarArgs) *exec.Value {
		return exec.AsValue(errors.New("random does not draw from the Source of the policy: use rand()"))
	})
	return set
}()

func checkedFilter(name string, filter exec.FilterFunction) exec.FilterFunction {
	return func(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
		if named := namedBy[name]; named.argument < len(args.Args) {
			if err := named.exists(args.Args[named.argument].String()); err != nil {
				return exec.AsValue(err)
			}
		}
		v := filter(e, in, args)
		if err := hidden(v); err != nil {
			return exec.AsValue(err)
		}
		return v
	}
}

// hidden returns the error that v is or, if it is a list, has inside.
func hidden(v *exec.Value) (err error) {
	switch {
	case v.IsError():
		return v
	case v.IsList():
		v.Iterate(func(_, _ int, element, _ *exec.Value) bool {
			err = hidden(element)
			return err == nil
		}, func() {})
	}
	return err
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
	"in": contains,
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

// contains reports whether a text is in another, or a value in a list or a
// mapping.
func contains(args *exec.VarArgs) (any, error) {
	left, right := args.Args[0], args.Args[1]
	if right.IsNil() || right.IsBool() || right.IsNumber() || right.IsCallable() || right.IsString() && !left.IsString() {
		return nil, fmt.Errorf("%s cannot be in %s", kind(left), kind(right))
	}
	return right.Contains(left), nil
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
	for _, name := range []string{"boolean", "eq", "equalto", "==", "escaped", "even", "false", "float", "integer", "iterable", "lower",
		"mapping", "ne", "!=", "none", "number", "odd", "sameas", "sequence", "string", "true", "upper"} {
		test, _ := builtins.Tests.Get(name)
		_ = tests.Replace(name, checkedTest(test))
	}
	for operator, names := range map[string][]string{
		"in": {"in"}, "<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"}, ">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"},
	} {
		for _, name := range names {
			_ = tests.Replace(name, testOf(checkedFunctions[operator]))
		}
	}
	_ = tests.Replace("divisibleby", testOf(division(func(x, y float64) any { return math.Mod(x, y) == 0 })))
	return tests
}()

// A failure is what a test panics with: select and its like would take an
// error for an answer.
type failure struct{ error }

// testOf returns the test that calls a function with what it asks about and
// its one argument.
func testOf(of function) exec.TestFunction {
	return func(_ *exec.Evaluator, in *exec.Value, args *exec.VarArgs) (bool, error) {
		if in.IsError() {
			panic(failure{in})
		}
		if len(args.Args) != 1 {
			panic(failure{fmt.Errorf("the test has %d arguments: write one", len(args.Args))})
		}
		holds, err := of(&exec.VarArgs{Args: []*exec.Value{in, args.Args[0]}})
		if err != nil {
			panic(failure{err})
		}
		return holds.(bool), nil
	}
}

func checkedTest(test exec.TestFunction) exec.TestFunction {
	var ask func(*exec.Evaluator, *exec.Value, *exec.VarArgs) (bool, error)
	switch test := test.(type) {
	case func(*exec.Context, *exec.Value, *exec.VarArgs) (bool, error):
		ask = func(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) (bool, error) {
			return test(e.Environment.Context, in, args)
		}
	case func(*exec.Evaluator, *exec.Value, *exec.VarArgs) (bool, error):
		ask = test
	default:
		return test
	}
	return func(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) (bool, error) {
		if in.IsError() {
			panic(failure{in})
		}
		holds, err := ask(e, in, args)
		if err != nil {
			panic(failure{err})
		}
		return holds, nil
	}
}
