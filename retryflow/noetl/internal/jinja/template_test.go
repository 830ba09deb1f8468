package jinja_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "ask Jinja, and write testdata/kinds.golden")

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

// A kind is a line of testdata/kinds.golden: an expression with Jinja's answers
// and the errors of this package. Both are by outcome, or one for all.
type kind struct {
	Expression string
	Refused    string   `json:",omitempty"` // why this package does not parse it
	Answers    []answer `json:",omitempty"`
	Errors     []string `json:",omitempty"`
}

// by returns the value of an outcome.
func by[T any](values []T, outcome int) T { return values[min(outcome, len(values)-1)] }

// oneForAll returns one value if all are the same.
func oneForAll[T any](values []T) []T {
	for _, v := range values {
		if !assert.ObjectsAreEqual(values[0], v) {
			return values
		}
	}
	return values[:1]
}

// kinds returns the lines of the file, of which some are comments.
func kinds(t testing.TB) (lines []string, kinds []kind) {
	data, err := os.ReadFile("testdata/kinds.golden")
	require.NoError(t, err)
	lines = strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for _, line := range lines {
		if k := (kind{}); strings.HasPrefix(line, "{") {
			require.NoError(t, json.Unmarshal([]byte(line), &k), line)
			kinds = append(kinds, k)
		}
	}
	return lines, kinds
}

// For each kind of expression in rules, this package gives Jinja's answer, or
// rejects the expression when it is parsed, or fails with the error in the file.
func TestKinds(t *testing.T) {
	if *update {
		updateKinds(t)
	}
	_, kinds := kinds(t)
	for _, k := range kinds {
		for i, o := range outcomes(t) {
			for _, names := range o.decoded {
				a, refused := ours(k.Expression, names)
				if refused != nil || k.Refused != "" {
					assert.EqualError(t, refused, k.Refused, k.Expression)
					continue
				}
				require.NotEmpty(t, k.Answers, "%s: run the test with -update", k.Expression)
				assert.Empty(t, compare(a, by(k.Answers, i)), "%s, of %s", k.Expression, o.Name)
				assert.Equal(t, by(k.Errors, i), a.failure(), "%s, of %s", k.Expression, o.Name)
			}
		}
	}
	assert.GreaterOrEqual(t, len(kinds), 670)
}

func updateKinds(t *testing.T) {
	o, all := theOracle(t), outcomes(t)
	lines, kinds := kinds(t)
	for i, line := range lines {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		k := kind{Expression: kinds[0].Expression}
		kinds = kinds[1:]
		jinjas := o.ask(t, k.Expression)
		require.NotNil(t, jinjas, k.Expression)
		for i, outcome := range all {
			a, refused := ours(k.Expression, outcome.decoded[0])
			if refused != nil {
				k.Refused = refused.Error()
				break
			}
			if jinjas[i].Address {
				*jinjas[i].Text = "an address"
			}
			k.Answers, k.Errors = append(k.Answers, jinjas[i]), append(k.Errors, a.failure())
		}
		if k.Refused == "" {
			k.Answers, k.Errors = oneForAll(k.Answers), oneForAll(k.Errors)
		}
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		require.NoError(t, encoder.Encode(k))
		lines[i] = strings.TrimSuffix(b.String(), "\n")
	}
	require.NoError(t, os.WriteFile("testdata/kinds.golden", []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

// Jinja on this machine gives the answers in the golden file.
func TestKindsAgainstTheOracle(t *testing.T) {
	o, all := theOracle(t), outcomes(t)
	_, kinds := kinds(t)
	each, compared := 0, 0
	for _, outcome := range all {
		each += len(outcome.decoded)
	}
	for _, k := range kinds {
		c := compareWith(t, o, k.Expression, all)
		assert.False(t, c.late, k.Expression)
		if k.Refused == "" {
			assert.Equal(t, each, c.answers, k.Expression)
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
			c.excused = c.excused || a.Truth == nil && jinjas[i].Truth != nil || a.Text == nil && jinjas[i].Text != nil
			assert.Empty(t, compare(a, jinjas[i]), "%s, of %s", expression, of.Name)
		}
	}
	return c
}

// This package gives Jinja's answers for 400 expressions from the grammar, or with
// RETRY_LONG for 4,000.
func TestGeneratedExpressionsAgainstTheOracle(t *testing.T) {
	o := theOracle(t)
	g := newGenerator(16)
	all := outcomes(t)
	compared, refused, excused := 0, 0, 0
	expressions := 400
	if os.Getenv("RETRY_LONG") != "" {
		expressions = 4000
	}
	for range expressions {
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
	t.Logf("%d answers compared; of %d expressions %d refused and %d excused", compared, expressions, refused, excused)
	assert.LessOrEqual(t, refused, expressions/20)
	assert.LessOrEqual(t, excused, expressions*5/100)
}

// FuzzGeneratedAgainstTheOracle compares the answers for expressions from the
// grammar.
func FuzzGeneratedAgainstTheOracle(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed)
	}
	all := outcomes(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := newGenerator(seed)
		compareWith(t, fuzzOracle(t), g.expression(1+g.IntN(4)), all)
	})
}

// FuzzAgainstTheOracle mutates expressions and compares the answers with
// Jinja's.
func FuzzAgainstTheOracle(f *testing.F) {
	_, kinds := kinds(f)
	for i, k := range kinds { // TestKindsAgainstTheOracle compares all of them
		if i%16 == 0 {
			f.Add(k.Expression)
		}
	}
	all := outcomes(f)
	f.Fuzz(func(t *testing.T, expression string) { compareWith(t, fuzzOracle(t), expression, all) })
}
