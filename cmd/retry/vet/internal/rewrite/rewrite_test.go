package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each call in testdata/program is rewritten as in the golden file beside it,
// or stays unchanged. The result compiles.
func TestRewrite(t *testing.T) {
	dir := module(t)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")

	var said bytes.Buffer
	rewritten, err := run(&said, dir, []string{"."})
	require.NoError(t, err)
	assert.Equal(t, 10, rewritten)
	assert.Equal(t, strings.Join([]string{
		"cenkalti.go:21: rewritten: backoff.Retry",
		"cenkalti.go:32: rewritten: backoff.RetryNotify",
		"cenkalti.go:36: rewritten: backoff.Retry",
		"cenkalti.go:41: rewritten: backoff.Retry",
		"cenkalti.go:59: rewritten: backoff.RetryWithData[int]",
		"cenkalti.go:63: left backoff.Retry alone: b is a parameter",
		"cenkalti.go:67: left backoff.Retry alone: Backoff can be used in other packages",
		"cenkalti.go:71: left backoff.Retry alone: a policy has no NextBackOff, in line 72",
		"cenkalti.go:78: left backoff.Retry alone: tested is used otherwise in line 13",
		"cenkalti_test.go:10: rewritten: backoff.Retry",
		"others.go:13: rewritten: backoff5.Retry",
		"others.go:18: left backoff5.Retry alone: the option options is not known",
		"others.go:22: rewritten: avast.Do",
		"others.go:27: left avast.Do alone: the delay type avast.RandomDelay is not known",
		"others.go:41: rewritten: retry.Do",
		"others.go:42: rewritten: retry.Do",
		"others.go:44: left retry.Do alone: what retry.WithJitter makes is not known",
		"",
	}, "\n"), strings.ReplaceAll(said.String(), dir+"/", ""))

	for _, name := range []string{"cenkalti.go", "cenkalti_test.go", "others.go"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		golden := filepath.Join("testdata", "program", name+".golden")
		if os.Getenv("UPDATE") != "" {
			require.NoError(t, os.WriteFile(golden, got, 0o600))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got))
	}
	compile := exec.Command("go", "vet", ".") // with tests
	compile.Dir = dir
	out, err := compile.CombinedOutput()
	require.NoError(t, err, string(out))
}

// A package that does not compile is not changed.
func TestFaults(t *testing.T) {
	dir := module(t)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	broken := filepath.Join(dir, "broken.go")
	require.NoError(t, os.WriteFile(broken, []byte("package program\n\nvar x int = \"\"\n"), 0o600))
	rewritten, err := run(&bytes.Buffer{}, dir, []string{"."})
	require.ErrorContains(t, err, "broken.go:3")
	assert.Zero(t, rewritten)
	got, err := os.ReadFile(filepath.Join(dir, "cenkalti.go"))
	require.NoError(t, err)
	assert.Contains(t, string(got), "backoff.Retry(op, b)")
}

// module returns a copy of testdata/program as a module that uses this
// checkout. It replaces the libraries by small modules.
func module(t *testing.T) (dir string) {
	root, err := filepath.Abs("../../../../..")
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/program")))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "modules"), os.DirFS("testdata/modules")))
	mod := "module program\n\ngo 1.26.0\n\nrequire github.com/goretry/retry v0.0.0\n\nreplace github.com/goretry/retry => " + root + "\n"
	for path, version := range map[string]string{backoff4: "v4.0.0", backoff5: "v5.0.0", avast4: "v4.0.0", sethvargo: "v0.1.0"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "modules", path, "go.mod"), []byte("module "+path+"\n\ngo 1.26.0\n"), 0o600))
		mod += "require " + path + " " + version + "\nreplace " + path + " => ./modules/" + path + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600))
	return dir
}
