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
	if Path = os.Getenv("RETRY_TEST_TOOL"); Path == "" {
		dir, err := os.MkdirTemp("", "retry")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		Path = filepath.Join(dir, "retry")
		command := exec.Command("go", "build", "-C", "../../cmd/retry", "-o", Path, ".")
		command.Env = append(os.Environ(), "GOWORK=") // the one in cmd
		command.Stderr = os.Stderr
		if err := command.Run(); err != nil {
			panic(err)
		}
	}
	m.Run()
}
