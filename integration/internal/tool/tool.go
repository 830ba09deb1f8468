// Package tool has the path of the retry command for tests: RETRY_TEST_TOOL, or one
// that is built from this checkout.
package tool

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Path is set by [Main].
var Path string

// Main runs the tests of a package.
func Main(m *testing.M) {
	if Path = os.Getenv("RETRY_TEST_TOOL"); Path != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "retry")
	if err != nil {
		panic(err)
	}
	Path = filepath.Join(dir, "retry")
	workspace, err := filepath.Abs("../../cmd/go.work")
	if err != nil {
		panic(err)
	}
	command := exec.Command("go", "build", "-C", "../../cmd/retry", "-o", Path, ".")
	command.Env = append(os.Environ(), "GOWORK="+workspace)
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		panic(err)
	}
	status := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(status)
}
