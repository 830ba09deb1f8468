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

// blocks returns the text of the indented blocks of the package documentation.
func blocks(t *testing.T) (blocks []string) {
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	inside := false
	for line := range strings.Lines(string(source)) {
		text, ok := strings.CutPrefix(line, "//\t")
		switch {
		case ok && inside:
			blocks[len(blocks)-1] += text
		case ok:
			blocks = append(blocks, text)
		}
		inside = ok
	}
	return blocks
}

func TestTheDocumentsOfTheDocumentationAreRead(t *testing.T) {
	blocks := blocks(t)
	require.Len(t, blocks, 4, "a step, the table of keys, the old block, and the names")
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
	assert.Equal(t, retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Second}}, rules[0].Policy)
}
