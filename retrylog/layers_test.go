package retrylog_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Who logs calls needs the root and internal/ alone: no pipelines, no queues.
func TestNeedsTheRootAlone(t *testing.T) {
	const root = "github.com/goretry/retry"
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	found := false
	for dependency := range strings.FieldsSeq(string(out)) {
		within, ours := strings.CutPrefix(dependency, root)
		if ours && within != "/retrylog" {
			assert.True(t, within == "" || strings.HasPrefix(within, "/internal/"), "it needs %s", dependency)
		}
		found = found || dependency == root+"/internal/eventlog"
	}
	assert.True(t, found, "go list has the dependencies")
}
