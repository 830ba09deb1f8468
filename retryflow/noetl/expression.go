package noetl

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
	"github.com/nikolalohinski/gonja/v2/nodes"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
)

// maxText is the longest text with expressions: the parser is recursive, and a
// stack that overflows ends the process.
const maxText = 8 << 10

// A template is text with {{ … }} in it.
type template struct {
	text  string
	nodes []nodes.Node // *nodes.Output, the expressions, and *nodes.Data, the text between
	env   *exec.Environment
}

// compile reads text that may have any number of {{ … }}.
func compile(text string, source retry.Source) (*template, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("it has %d bytes: write at most %d", len(text), maxText)
	}
	t := &template{text: text, env: environment(source)}
	err := guard(func() error {
		own, err := loaders.NewMemoryLoader(map[string]string{"/": text}) // which reads no file
		if err != nil {
			return err
		}
		parsed, err := exec.NewTemplate("/", strict, own, t.env)
		if err != nil {
			return err
		}
		t.nodes = parsed.Root().Nodes
		return nil
	})
	if err != nil && strings.Contains(text, "{%") {
		return nil, fmt.Errorf("%s: statements ({%% … %%}) are not allowed: write {{ … }}", text)
	}
	if err != nil {
		return nil, err
	}
	var c checker
	for i, node := range t.nodes {
		switch n := node.(type) {
		case *nodes.Data:
		case *nodes.Output:
			t.nodes[i] = c.output(n)
		default:
			return nil, fmt.Errorf("%s: only {{ … }} is allowed, no statement and no comment", text)
		}
	}
	if c.err != nil {
		return nil, fmt.Errorf("%s: %w", text, c.err)
	}
	return t, nil
}

// compileOne reads text that is exactly one {{ … }}.
func compileOne(text string, source retry.Source) (*template, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("it is empty: write one {{ … }}")
	}
	t, err := compile(text, source)
	if err == nil && !t.one() {
		return nil, fmt.Errorf("%s: write exactly one {{ … }}", t.text)
	}
	return t, err
}

// one reports whether t is exactly one {{ … }}.
func (t *template) one() bool {
	if len(t.nodes) != 1 {
		return false
	}
	_, ok := t.nodes[0].(*nodes.Output)
	return ok
}

// evaluate calls use with the value of t, which is exactly one {{ … }}.
func (t *template) evaluate(o retryflow.Outcome, names map[string]any, use func(*exec.Value) error) error {
	err := guard(func() error {
		v := output(t.evaluator(o, names), t.nodes[0].(*nodes.Output))
		if v.IsError() {
			return v
		}
		return use(v)
	})
	if err != nil {
		return fmt.Errorf("%s: %s", oneLine(t.text), strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// value returns what t comes to: the value of its expression, if it is exactly
// one, and else a text.
func (t *template) value(o retryflow.Outcome) (any, error) {
	if t.one() {
		var value any
		err := t.evaluate(o, nil, func(v *exec.Value) error {
			value = v.ToGoSimpleType(false)
			err, _ := value.(error)
			return err
		})
		return value, err
	}
	var text strings.Builder
	for _, node := range t.nodes {
		if data, ok := node.(*nodes.Data); ok {
			text.WriteString(data.Data.Val)
			continue
		}
		part := &template{t.text, []nodes.Node{node}, t.env}
		if err := part.evaluate(o, nil, func(v *exec.Value) error { text.WriteString(v.String()); return nil }); err != nil {
			return nil, err
		}
	}
	return text.String(), nil
}

// evaluator returns what evaluates expressions about o: they know the names of
// the state, outcome, and names.
func (t *template) evaluator(o retryflow.Outcome, names map[string]any) *exec.Evaluator {
	env := *t.env
	env.Context = t.env.Context.Inherit()
	for name, value := range o.State {
		env.Context.Set(name, value)
	}
	env.Context.Set("outcome", object(o))
	for name, value := range names {
		env.Context.Set(name, value)
	}
	return &exec.Evaluator{Config: strict, Environment: &env}
}

// output evaluates {{ a }} and {{ a if b else c }}.
func output(e *exec.Evaluator, n *nodes.Output) *exec.Value {
	if n.Condition == nil {
		return e.Eval(n.Expression)
	}
	condition := e.Eval(n.Condition)
	switch {
	case condition.IsError():
		return condition
	case condition.IsTrue():
		return e.Eval(n.Expression)
	case n.Alternative == nil:
		return exec.AsValue(errors.New("the if is false, and there is no else"))
	default:
		return e.Eval(n.Alternative)
	}
}

// guard calls f and returns its panic as an error. The template engine panics
// on what it has not thought of, and so may what an expression calls.
func guard(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			err = fmt.Errorf("the template engine panicked: %v", p)
		}
	}()
	return f()
}

// strict makes an error of a name that is not there, where Jinja would have
// nothing: a retry must not hang on a word that is misspelt.
var strict = func() *config.Config {
	c := config.New()
	c.StrictUndefined = true
	return c
}()

// environment returns what expressions may use: the filters, tests and methods
// of Jinja but for what draws at random, and the functions rand and range.
func environment(source retry.Source) *exec.Environment {
	draw := rand.Uint64
	if source != nil {
		draw = source.Uint64
	}
	names := map[string]any{
		"none":  nil,
		"rand":  func() float64 { return float64(draw()>>11) / (1 << 53) },
		"range": intRange,
	}
	for name, function := range checkedFunctions {
		names[name] = function
	}
	return &exec.Environment{
		Context:           exec.NewContext(names),
		Filters:           filters,
		Tests:             checkedTests,
		Methods:           builtins.Methods,
		ControlStructures: exec.NewControlStructureSet(nil),
	}
}

// intRange is range of Python, for "in range(500, 600)". The engine's own
// leaves a goroutine behind.
func intRange(args ...int) ([]int, error) {
	const most = 100_000
	start, stop := 0, 0
	switch len(args) {
	case 1:
		stop = args[0]
	case 2:
		start, stop = args[0], args[1]
	default:
		return nil, errors.New("write range(stop) or range(start, stop)")
	}
	if stop > start && uint(stop-start) > most {
		return nil, fmt.Errorf("range(%d, %d) has more than %d numbers", start, stop, most)
	}
	var numbers []int
	for n := start; n < stop; n++ {
		numbers = append(numbers, n)
	}
	return numbers, nil
}
