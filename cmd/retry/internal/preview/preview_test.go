package preview

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
)

var update = flag.Bool("update", false, "write the present previews into testdata/previews.txt")

// testdata/previews.txt contains policies, and below each policy its preview. The line of a policy
// has its name and the number of rows of its table. -1 stands for all rows.
func TestText(t *testing.T) {
	const file = "testdata/previews.txt"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	want := strings.ReplaceAll(string(data), "\r\n", "\n")
	require.NotEmpty(t, want)
	var got strings.Builder
	for line := range strings.Lines(want) {
		if !strings.HasPrefix(line, "== ") {
			continue
		}
		var name string
		var rows int
		_, err := fmt.Sscanf(line, "== %s %d ", &name, &rows)
		require.NoError(t, err, line)
		var p retry.Policy
		require.NoError(t, p.UnmarshalJSON([]byte(line[strings.Index(line, "{"):])), name)
		got.WriteString(line + Text(p, rows, policyfile.Bounds{Each: p.AttemptTimeout, EachKey: "attempt_timeout"}) + "\n\n")
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
	}
	assert.Equal(t, want, got.String())
}
