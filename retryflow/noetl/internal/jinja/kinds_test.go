package jinja_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "ask Jinja, and write testdata/kinds.golden.json")

// An outcome has the names that expressions know. An exact one has numbers that
// only json.Number can keep.
type outcome struct {
	Name    string
	Exact   bool
	Names   json.RawMessage
	decoded []map[string]any // as programs decode them: with json.Number, and with float64
}

func outcomes(t testing.TB) (outcomes []outcome) {
	data, err := os.ReadFile("testdata/outcomes.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &outcomes))
	for i, o := range outcomes {
		var exact, plain map[string]any
		decoder := json.NewDecoder(bytes.NewReader(o.Names))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&exact))
		outcomes[i].decoded = []map[string]any{exact}
		if !o.Exact {
			require.NoError(t, json.Unmarshal(o.Names, &plain))
			outcomes[i].decoded = append(outcomes[i].decoded, plain)
		}
	}
	return outcomes
}

// A kind is an expression with Jinja's answers, one for each outcome.
type kind struct {
	Expression string
	Refused    string   `json:",omitempty"` // why this package does not parse it
	Answers    []answer `json:",omitempty"`
	Excused    []string `json:",omitempty"` // by outcome, the errors of this package if Jinja has an answer
}

func kinds(t testing.TB) (expressions []string) {
	data, err := os.ReadFile("testdata/kinds.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			expressions = append(expressions, line)
		}
	}
	return expressions
}

// excuse returns this package's error if Jinja has an answer and this package
// has none.
func excuse(ours, jinjas answer) string {
	switch {
	case ours.Truth == nil && jinjas.Truth != nil:
		return ours.TruthError
	case ours.Text == nil && jinjas.Text != nil:
		return ours.TextError
	default:
		return ""
	}
}

// For each kind of expression in rules, this package gives Jinja's answer from
// testdata/kinds.golden.json, or rejects the expression when it is parsed, or
// fails with the error in that file.
func TestKinds(t *testing.T) {
	if *update {
		updateKinds(t)
	}
	golden, all := goldenKinds(t), outcomes(t)
	for _, expression := range kinds(t) {
		k, ok := golden[expression]
		require.True(t, ok, "%s: run the test with -update", expression)
		for i, o := range all {
			for _, names := range o.decoded {
				a, refused := ours(expression, names)
				if refused != nil || k.Refused != "" {
					assert.EqualError(t, refused, k.Refused, expression)
					continue
				}
				assert.Empty(t, compare(a, k.Answers[i]), "%s, of %s", expression, o.Name)
				assert.Equal(t, k.Excused[i], excuse(a, k.Answers[i]), "%s, of %s", expression, o.Name)
			}
		}
	}
	assert.Len(t, kinds(t), len(golden))
	assert.GreaterOrEqual(t, len(golden), 308)
}

func goldenKinds(t *testing.T) map[string]kind {
	data, err := os.ReadFile("testdata/kinds.golden.json")
	require.NoError(t, err)
	golden := map[string]kind{}
	for decoder := json.NewDecoder(bytes.NewReader(data)); decoder.More(); {
		var k kind
		require.NoError(t, decoder.Decode(&k))
		golden[k.Expression] = k
	}
	return golden
}

func updateKinds(t *testing.T) {
	o := theOracle(t)
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	for _, expression := range kinds(t) {
		k := kind{Expression: expression}
		jinjas := o.ask(t, expression)
		require.NotNil(t, jinjas, expression)
		for i, outcome := range outcomes(t) {
			a, refused := ours(expression, outcome.decoded[0])
			if refused != nil {
				k.Refused = refused.Error()
				break
			}
			k.Excused = append(k.Excused, excuse(a, jinjas[i]))
			if jinjas[i].Address {
				*jinjas[i].Text = "an address"
			}
			k.Answers = append(k.Answers, jinjas[i])
		}
		require.NoError(t, encoder.Encode(k))
	}
	require.NoError(t, os.WriteFile("testdata/kinds.golden.json", b.Bytes(), 0o644))
}

// Jinja on this machine gives the answers in the golden file.
func TestKindsAgainstTheOracle(t *testing.T) {
	o := theOracle(t)
	golden, all := goldenKinds(t), outcomes(t)
	each, compared := 0, 0
	for _, outcome := range all {
		each += len(outcome.decoded)
	}
	for _, expression := range kinds(t) {
		c := compareWith(t, o, expression, all)
		assert.False(t, c.late, expression)
		if golden[expression].Refused == "" {
			assert.Equal(t, each, c.answers, expression)
		}
		compared += c.answers
	}
	t.Logf("%d answers compared", compared)
}

// A comparison says how an expression was compared with Jinja.
type comparison struct {
	answers int  // how many were compared: 0 if the expression is refused
	excused bool // for one of them this package has an error, and Jinja an answer
	late    bool // Jinja took too long, and this package does not refuse to
}

// compareWith compares the answers for an expression.
func compareWith(t testing.TB, o *oracle, expression string, all []outcome) (c comparison) {
	var jinjas []answer
	for i, of := range all {
		for _, names := range of.decoded {
			a, refused := ours(expression, names)
			if refused != nil {
				return c
			}
			if jinjas == nil {
				if jinjas = o.ask(t, expression); jinjas == nil {
					c.excused = slices.ContainsFunc(all, func(o outcome) bool {
						a, _ := ours(expression, o.decoded[0])
						return isExcused(a.TextError)
					})
					c.late = !c.excused
					return c
				}
			}
			c.answers++
			c.excused = c.excused || excuse(a, jinjas[i]) != ""
			assert.Empty(t, compare(a, jinjas[i]), "%s, of %s", expression, of.Name)
		}
	}
	return c
}

// This package gives Jinja's answers for 2,000 expressions from the grammar.
func TestGeneratedExpressionsAgainstTheOracle(t *testing.T) {
	o := theOracle(t)
	g := newGenerator(16)
	all := outcomes(t)
	compared, refused, excused := 0, 0, 0
	for range 2000 {
		expression := g.expression(1 + g.IntN(3))
		c := compareWith(t, o, expression, all)
		assert.False(t, c.late, expression)
		compared += c.answers
		switch {
		case c.excused:
			excused++
		case c.answers == 0:
			refused++
		}
	}
	t.Logf("%d answers compared; of 2,000 expressions %d refused and %d excused", compared, refused, excused)
	assert.LessOrEqual(t, refused, 100)
	assert.LessOrEqual(t, excused, 60)
}

// FuzzGeneratedAgainstTheOracle compares the answers for expressions from the
// grammar.
func FuzzGeneratedAgainstTheOracle(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed)
	}
	all := outcomes(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		fuzzOracle.Do(func() { fuzzOracle.oracle = startOracle(t) })
		if fuzzOracle.oracle == nil {
			t.Skip("there is no oracle")
		}
		g := newGenerator(seed)
		expression := g.expression(1 + g.IntN(4))
		compareWith(t, fuzzOracle.oracle, expression, all)
	})
}

// Each process that fuzzes starts one oracle.
var fuzzOracle struct {
	sync.Once
	*oracle
}

// FuzzAgainstTheOracle mutates expressions and compares the answers with
// Jinja's.
func FuzzAgainstTheOracle(f *testing.F) {
	for i, expression := range kinds(f) { // TestKindsAgainstTheOracle compares all of them
		if i%8 == 0 {
			f.Add(expression)
		}
	}
	all := outcomes(f)
	f.Fuzz(func(t *testing.T, expression string) {
		fuzzOracle.Do(func() { fuzzOracle.oracle = startOracle(t) })
		if fuzzOracle.oracle == nil {
			t.Skip("there is no oracle")
		}
		compareWith(t, fuzzOracle.oracle, expression, all)
	})
}
