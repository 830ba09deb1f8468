package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A file that cannot be read does not hide the faults of the others.
func TestLintUnreadable(t *testing.T) {
	dir := write(t, map[string]string{"b.yaml": "jitter: 2", "deep.json": strings.Repeat("[", 20_000)})
	long, err := os.Create(filepath.Join(dir, "a.yaml"))
	require.NoError(t, err)
	require.NoError(t, long.Truncate(maxFile+1))
	require.NoError(t, long.Close())
	t.Chdir(dir)
	stdout, stderr, status := tool("", "lint", "deep.json", ".")
	assert.Equal(t, 2, status)
	assert.Equal(t, "retry lint: a.yaml is longer than 16 MiB\n", stderr)
	assert.Regexp(t, `^deep.json:1: invalid character '\[' exceeded max depth\nb.yaml:1: jitter is 2.*\n2 policies in 3 files\n$`, stdout)
}
