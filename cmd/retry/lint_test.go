package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Lint reports the faults of the other files if one file cannot be read.
func TestLintReportsOtherFilesIfOneCannotBeRead(t *testing.T) {
	dir := write(t, map[string]string{"b.yaml": "jitter: 2", "deep.json": strings.Repeat("[", 20_000)})
	long, err := os.Create(filepath.Join(dir, "a.yaml"))
	require.NoError(t, err)
	require.NoError(t, long.Truncate(maxFile+1))
	require.NoError(t, long.Close())
	t.Chdir(dir)
	stdout, stderr, status := tool("", "lint", "deep.json", ".")
	assert.Equal(t, 2, status)
	assert.Equal(t, "retry lint: a.yaml is longer than 16 MiB: move the policies to a shorter file\n", stderr)
	assert.Regexp(t, `^deep.json:1: invalid character '\[' exceeded max depth\nb.yaml:1: jitter is 2.*\n2 policies in 3 files\n$`, stdout)
}

// Lint follows links: a directory may be a link, and may contain links, even to itself. Lint opens
// neither a pipe in a directory nor a link to a device, because these may never end. A pattern
// matches only files and directories.
func TestLintFollowsLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	dir := write(t, map[string]string{"..data/policy.yaml": "jitter: 2", "other/deep.yaml": "jitter: 3", "top/x.txt": ""})
	for link, to := range map[string]string{"top/policy.yaml": "../..data/policy.yaml", "top/again": ".", "top/other": "../other", "top/lost.yaml": "nowhere", "top/zero.yaml": "/dev/zero", "link": "top"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	require.NoError(t, exec.Command("mkfifo", filepath.Join(dir, "top/pipe.yaml")).Run())
	t.Chdir(dir)
	for _, name := range []string{"top", "link", "link/"} {
		stdout, stderr, status := tool("", "lint", name)
		assert.Equal(t, 1, status)
		assert.Empty(t, stderr)
		assert.Equal(t, 2, strings.Count(stdout, ": jitter is "), stdout)
		assert.Contains(t, stdout, "2 policies in 2 files\n")
	}
	stdout, _, status := tool("", "lint", "top/p*.yaml", "top/z*.yaml")
	assert.Equal(t, 1, status)
	assert.Contains(t, stdout, "top/policy.yaml:1: jitter is 2")
	assert.Contains(t, stdout, "1 policy in 1 file\n")
	_, stderr, status := tool("", "lint", "top/pipe.yaml")
	assert.Equal(t, 2, status)
	assert.Equal(t, "retry lint: top/pipe.yaml is a pipe, which may never end: write - and pass the pipe as standard input\n", stderr)
}
