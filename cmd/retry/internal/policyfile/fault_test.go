package policyfile

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A fault has the line of its key and a code. For a misspelled key it suggests a key of the same mapping,
// but not a key of another type of backoff.
func TestFaultHasTheLineOfItsKey(t *testing.T) {
	type fault struct {
		line            int
		code, key, text string // `text` is the beginning of the fault's text
	}
	for name, row := range map[string]struct {
		text string
		want []fault
	}{
		"misspelt":                             {"max_attempts: 3\nmax_dely: 1s\n", []fault{{2, "unknown_key", "max_dely", `unknown key "max_dely": write max_delay`}}},
		"misspelt in a mapping":                {"max_attempts: 3\nbackoff:\n  type: fixed\n  bse: 1s\n  base: 1s\n", []fault{{4, "unknown_key", "backoff.bse", `unknown key "backoff.bse": write backoff.base`}}},
		"a key of another backoff":             {"max_attempts: 3\nbackoff:\n  type: fixed\n  base: 1s\n  factor: 2\n", []fault{{5, "unknown_key", "backoff.factor", `unknown key "backoff.factor": the keys of a backoff of type fixed are type, base`}}},
		"a budget":                             {"max_attempts: 3\nbudget:\n  size: 3\n  remembr: 1m\n", []fault{{4, "unknown_key", "budget.remembr", `unknown key "budget.remembr": write budget.remember`}}},
		"another mapping's key":                {"max_attempts: 3\nsize: 3\n", []fault{{2, "unknown_key", "size", `unknown key "size": the keys of a policy are `}}},
		"a name similar to a key of a mapping": {"max_attempts: 3\nbackoff_base: 1s\n", []fault{{2, "unknown_key", "backoff_base", `unknown key "backoff_base": the keys of a policy are `}}},
		"two unknown keys":                     {"max_attempts: 3\nfoo: 1\nbar: 2\n", []fault{{2, "unknown_key", "foo", `unknown key "foo": the keys`}, {3, "unknown_key", "bar", `unknown key "bar": the keys`}}},
		"a key that is missing":                {"max_attempts: 3\nbackoff:\n  type: fixed\n", []fault{{2, "missing_key", "backoff.base", "backoff.base is missing: write "}}},
		"a key of a dialect":                   {"max_attempts: 3\nbackoff_base_ms: 3\nmax_backoff: 3\n", []fault{{3, "unknown_key", "max_backoff", `unknown key "max_backoff": write max_backoff_ms`}}},
		"a key of another system":              {"num_retries: 3\nretry_on: 5xx\nretry_back_off:\n  base_interval: 1s\n  max_intervl: 3s\n", []fault{{5, "unknown_key", "retry_back_off.max_intervl", `unknown key "retry_back_off.max_intervl": write retry_back_off.max_interval`}}},
		"a value of a system":                  {"num_retries: -3\nretry_on: 5xx\n", []fault{{1, "invalid_value", "num_retries", "num_retries is -3: write a whole number"}}},
		"two policies further in":              {"a:\n  b:\n    retry: {max_attempts: 3}\n  c:\n    retry: {max_atempts: 3}\n", []fault{{3, "no_policy", "", "there is a policy at a.b.retry: use -at a.*.retry"}}},
		"a policy is further in":               {"a:\n  b:\n    retry: {max_attempts: 3}\n", []fault{{3, "no_policy", "", "there is a policy at a.b.retry: use -at a.b.retry"}}},
		"nothing":                              {"a: 1\n", []fault{{1, "no_policy", "", "there is no policy here"}}},
		"a number for a backoff":               {"max_attempts: 3\nbackoff: 7\n", []fault{{2, "invalid_value", "backoff", "backoff is 7: write a mapping such as"}}},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := Parse("file.yaml", []byte(row.text))
			require.NoError(t, err)
			block := file.Find("")[0]
			_, _, faults := block.Read("")
			require.Len(t, faults, len(row.want), faults)
			for i, want := range row.want {
				f := faults[i]
				assert.True(t, strings.HasPrefix(f.Text, want.text), f.Text)
				assert.Equal(t, fault{want.line, want.code, want.key, want.text}, fault{f.Line, f.Code, f.Key, want.text})
			}
		})
	}
}

// The fault of a file that does not parse has the line that the parser names.
func TestFaultHasTheLineThatTheParserNames(t *testing.T) {
	for name, text := range map[string]string{"file.yaml": "a: 1\nb: 2\n c: 3\n", "file.json": "{\"a\": 1,\n\n]"} {
		_, err := Parse(name, []byte(text))
		var fault *Fault
		require.ErrorAs(t, err, &fault)
		assert.Equal(t, 3, fault.Line, fault)
		assert.Equal(t, "unreadable", fault.Code)
		assert.NotContains(t, fault.Text, "line 3")
	}
}

// Argo expands the templates in an expression itself, so there is no note about them.
func TestArgoExpandsItsExpression(t *testing.T) {
	const text = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec: {templates: [{retryStrategy: {limit: 3, retryPolicy: Always, expression: '{{retries}} < 3', backoff: {duration: '{{wait}}'}}}]}"
	file, err := Parse("file.yaml", []byte(text))
	require.NoError(t, err)
	block := file.Find("")[0]
	_, name, faults := block.Read("")
	require.Empty(t, faults)
	assert.Equal(t, "argo", name)
	assert.Equal(t, []string{`backoff.duration: "{{wait}}" is not known here: it is read as if it were left out`}, block.Notes)
}

// A timeout next to the settings silences the findings of Lint about calls without a limit.
func TestLintWithATimeoutNextToTheSettings(t *testing.T) {
	for text, want := range map[string][]string{
		"{max_attempts: 2, backoff: {type: fixed, base: 1000h}}": {"too_long"},
		"{max_attempts: -1, backoff: {type: fixed, base: 20ms}}": {"endless_attempts"},
		"{backoff: {type: fixed, base: 1s}, max_delay: 1ms}":     {"no_limit", "short_max_delay"},
		"{max_attempts: 3, retryable: false}":                    {"unused_limit"},
	} {
		file, err := Parse("file.yaml", []byte(text))
		require.NoError(t, err)
		block := file.Find("")[0]
		p, _, faults := block.Read(Native)
		require.Empty(t, faults)
		codes := func() (all []string) {
			for _, f := range block.Lint(p) {
				assert.True(t, f.Lint)
				all = append(all, f.Code)
			}
			return all
		}
		assert.Equal(t, want, codes(), text)
		block.All, block.AllKey = 1<<60, "timeout"
		for _, code := range codes() {
			assert.Equal(t, "short_max_delay", code, text)
		}
	}
}

// The README of the command lists the codes that package retry does not have.
func TestCodesAreDocumented(t *testing.T) {
	source, err := os.ReadFile("fault.go")
	require.NoError(t, err)
	read := func(name string) string {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(page)
	}
	readme, library := read("../../README.md"), read("../../../../docs/compatibility.md")
	codes := regexp.MustCompile(`(?m)^\t\w+ += "([a-z_]+)"$`).FindAllStringSubmatch(string(source), -1)
	require.Len(t, codes, 11)
	for _, code := range codes {
		row := "\n| `" + code[1] + "` | "
		assert.NotEqual(t, strings.Contains(readme, row), strings.Contains(library, row), code[1])
	}
}

// The text of a fault has no characters of a file on which a terminal or GitHub would act.
func TestFaultIsPrintable(t *testing.T) {
	fault := &Fault{File: "\x1b[31m\n::error::x.yaml", Line: 1, Text: "an \x07"}
	assert.Equal(t, `\x1b[31m; ::error::x.yaml:1: an \a`, fault.Error())
}
