package jinja_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "ask Jinja, and write the golden files")

// A line of a golden file is an expression, lists of values for its names, and for each list
// Jinja's answer and the errors of this package.
type line struct {
	Expression string
	Uses       int               `json:",omitempty"` // how often the playbooks use the expression
	InRules    int               `json:",omitempty"` // how often the rules of the playbooks use the expression
	Written    int               `json:",omitempty"` // in how many ways the playbooks write the expression
	Refused    string            `json:",omitempty"` // why this package does not parse the expression
	Names      []json.RawMessage `json:",omitempty"` // if empty, the names of testdata/outcomes.json
	Answers    []answer          `json:",omitempty"` // a single answer is for all names
	Errors     []string          `json:",omitempty"`
}

// outcomes returns the names of an outcome with an error, and of a success.
func outcomes(t testing.TB) (names []json.RawMessage) {
	data, err := os.ReadFile("testdata/outcomes.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &names))
	return names
}

// decoded returns names decoded with json.Number, and decoded with float64.
func decoded(t testing.TB, names json.RawMessage) (decoded [2]map[string]any) {
	decoder := json.NewDecoder(bytes.NewReader(names))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&decoded[0]))
	require.NoError(t, json.Unmarshal(names, &decoded[1]))
	return decoded
}

// by returns the value for the i-th names, or the last value if there are fewer values.
func by[T any](values []T, i int) T { return values[min(i, len(values)-1)] }

// oneForAll returns one value if all values are the same.
func oneForAll[T any](values []T) []T {
	for _, v := range values {
		if !assert.ObjectsAreEqual(values[0], v) {
			return values
		}
	}
	return values[:1]
}

// golden reads a golden file. With -update it asks Jinja and writes the file.
func golden(t testing.TB, file string) (lines []line) {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for text := range strings.Lines(string(data)) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		lines = append(lines, l)
	}
	if !*update {
		return lines
	}
	o := theOracle(t)
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	for i, l := range lines {
		l.Refused, l.Errors = "", nil
		l.Answers = o.ask(t, l.Expression, l.names(t))
		for _, names := range l.names(t) {
			a, refused := ours(l.Expression, decoded(t, names)[0])
			if refused != nil {
				l.Refused, l.Names, l.Answers, l.Errors = refused.Error(), nil, nil, nil
				break
			}
			l.Errors = append(l.Errors, a.failure())
		}
		if l.Refused == "" {
			l.Answers, l.Errors = oneForAll(l.Answers), oneForAll(l.Errors)
		}
		lines[i] = l
		require.NoError(t, encoder.Encode(l))
	}
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	return lines
}

func (l line) names(t testing.TB) []json.RawMessage {
	if l.Names != nil {
		return l.Names
	}
	return outcomes(t)
}

// check compares the answers of a line with the answers of this package.
func (l line) check(t testing.TB) {
	for i, names := range l.names(t) {
		for _, names := range decoded(t, names) {
			a, refused := ours(l.Expression, names)
			if refused != nil || l.Refused != "" {
				assert.EqualError(t, refused, l.Refused, l.Expression)
				continue
			}
			require.NotEmpty(t, l.Answers, "%s: run the test with -update", l.Expression)
			assert.Empty(t, compare(a, by(l.Answers, i)), "%s, of %v", l.Expression, names)
			assert.Equal(t, by(l.Errors, i), a.failure(), "%s, of %v", l.Expression, names)
		}
	}
}

// The corpus lists every expression of the 228 playbooks in NoETL's public repositories noetl,
// e2e, ops and ai-meta (July 2026), and how often it occurs. Names, keys and texts that a
// playbook chose are replaced by step_a, b and 'c'. The values are ours. The playbooks contain
// 1,646 expressions, and 558 of these expressions are more than a path.
func TestCorpus(t *testing.T) {
	lines := golden(t, "testdata/corpus.golden")
	uses, inRules, written, more, refused := 0, 0, 0, 0, map[string]int{}
	for _, l := range lines {
		l.check(t)
		uses, inRules, written = uses+l.Uses, inRules+l.InRules, written+l.Written
		if strings.ContainsAny(l.Expression, " '([{") {
			more += l.Written
		}
		if l.Refused != "" {
			refused[l.Expression] = l.Uses
			assert.Zero(t, l.InRules, "%s is in a rule", l.Expression)
		}
	}
	assert.Len(t, lines, 265)
	assert.Equal(t, []int{4587, 228, 1646, 558}, []int{uses, inRules, written, more})
	assert.Equal(t, map[string]int{"now()": 2, "token(step_a)": 2}, refused)
}

// kinds.golden lists expressions that rules may contain, in addition to the expressions of the
// playbooks.
func TestKinds(t *testing.T) {
	for _, l := range golden(t, "testdata/kinds.golden") {
		l.check(t)
	}
}

// Templates that join two or three expressions to a new expression.
var (
	forms   = strings.Split("(A) OP (B)¦(A) OP (B)¦(A) OP (B)¦A OP B¦A FILTER¦(A) FILTER¦(A) FILTER FILTER¦A if B else C¦[A, B]¦{'a': A, 'b': B}¦not A¦-(A)¦(A)[1].b", "¦")
	between = strings.Split("and¦or¦==¦!=¦<¦<=¦>¦>=¦in¦not in¦+¦-¦*", "¦")
	behind  = strings.Split("| default(3)¦| default¦| first¦| last¦| int¦| int('x')¦| float¦| float(none)¦| join¦| join(', ')¦| length¦"+
		"| lower¦| upper¦| replace('e', 'EE')¦| string¦| tojson¦is defined¦is not defined¦is none¦is not none", "¦")
)

// The Jinja of this machine gives the answers in the golden files. For 4,000 expressions that
// are made of these expressions, it gives the same answers as this package.
func TestJinja(t *testing.T) {
	o := theOracle(t)
	compared, refused, excused := 0, 0, 0
	var kinds []string
	ask := func(expression string, all []json.RawMessage) (answers []answer) {
		for i, names := range all {
			for _, names := range decoded(t, names) {
				a, err := ours(expression, names)
				if err != nil {
					refused++
					return nil
				}
				if answers == nil {
					answers = o.ask(t, expression, all)
				}
				assert.Empty(t, compare(a, answers[i]), "%s, of %v", expression, names)
				if compared++; a.Text == nil && answers[i].Text != nil {
					excused++
				}
			}
		}
		return answers
	}
	for _, file := range []string{"testdata/corpus.golden", "testdata/kinds.golden"} {
		for _, l := range golden(t, file) {
			if l.Refused == "" && l.Names == nil {
				kinds = append(kinds, l.Expression)
			}
			if answers := ask(l.Expression, l.names(t)); l.Refused == "" {
				assert.Equal(t, truths(l.Answers, len(answers)), truths(answers, len(answers)), l.Expression)
			}
		}
	}
	t.Logf("golden files: %d answers compared, %d of Jinja's are errors here", compared, excused)
	compared, refused, excused = 0, 0, 0
	source := rand.New(rand.NewPCG(16, 46))
	pick := func(from []string) string { return from[source.IntN(len(from))] }
	for range 4000 {
		ask(strings.NewReplacer("A", pick(kinds), "B", pick(kinds), "C", pick(kinds), "OP", pick(between), "FILTER", pick(behind)).Replace(pick(forms)), outcomes(t))
	}
	t.Logf("joined: %d answers compared, %d of Jinja's are errors here, %d expressions refused", compared, excused, refused)
	assert.LessOrEqual(t, refused, 400, "only chains of comparisons and of tests are refused")
	assert.LessOrEqual(t, excused, compared/4, "most excused answers are texts of lists")
}

// truths returns the truth of each answer. It leaves out the texts of errors, which differ
// between versions of Jinja.
func truths(answers []answer, n int) (truths []*string) {
	for i := range n {
		truths = append(truths, by(answers, i).Truth)
	}
	return truths
}
