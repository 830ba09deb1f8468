package noetl_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/noetl"
)

// blocks returns the indented block of the package documentation, and the fenced
// ones of README.md.
func blocks(t *testing.T) (blocks []string) {
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var indented strings.Builder
	for line := range strings.Lines(string(source)) {
		if text, ok := strings.CutPrefix(line, "//\t"); ok {
			indented.WriteString(text)
		}
	}
	for i, part := range strings.Split(string(page), "```\n") {
		if i%2 == 1 {
			blocks = append(blocks, part)
		}
	}
	return append([]string{indented.String()}, blocks...)
}

func TestTheDocumentsOfTheDocumentationAreRead(t *testing.T) {
	blocks := blocks(t)
	require.Len(t, blocks, 10, "a step, the keys, the old form, its names, an error, the names, filters, tests, libraries and differences")
	tasks, err := noetl.ParseTasks([]byte(blocks[0]), nil)
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	assert.Equal(t, "fetch_page", tasks[0].Label)
	assert.Equal(t, map[string]any{"kind": "http", "url": "{{ workload.api_url }}/pages"}, tasks[0].Config)
	require.Len(t, tasks[0].Rules, 3)
	for i, do := range []retryflow.Directive{retryflow.Retry, retryflow.Jump, retryflow.Continue} {
		assert.Equal(t, do, tasks[0].Rules[i].Do)
	}

	rules, err := noetl.ParseRules([]byte(blocks[2]), nil)
	require.NoError(t, err)
	assert.Equal(t, retry.Policy{
		MaxAttempts: 5, MaxDelay: 30 * time.Second, Backoff: retry.Exponential{Base: 500 * time.Millisecond, Factor: 2}, Jitter: retry.Proportional(0.5),
	}, rules[0].Policy)
}

// Every name of the old form in the documentation is known.
func TestTheNamesOfTheOldFormAreKnown(t *testing.T) {
	for line := range strings.Lines(blocks(t)[3]) {
		names, _, _ := strings.Cut(line, "  ")
		for name := range strings.SplitSeq(names, ", ") {
			rules := rulesOf(t, `retry: {retry_when: "{{ `+name+` is defined }}"}`)
			known, err := rules[0].When(about())
			assert.NoError(t, err, name)
			assert.True(t, known, name)
		}
	}
}

// The documentation lists the filters and tests that there are. Others are rejected
// with that list.
func TestTheDocumentationNamesWhatThereIs(t *testing.T) {
	for i, of := range []struct{ what, expression string }{{"filter", "x | groupby"}, {"test", "x is groupby"}} {
		_, err := noetl.ParseRules([]byte("eval: [{expr: \"{{ "+of.expression+" }}\", do: continue}]"), nil)
		names := strings.Join(strings.Fields(blocks(t)[6+i]), ", ")
		assert.ErrorContains(t, err, "the "+of.what+" groupby is not supported: write one of "+names)
	}
}
