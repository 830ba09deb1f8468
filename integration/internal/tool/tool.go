// Package tool builds the retry command of this checkout for tests.
package tool

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Path is the path of the retry command that the function Main has built.
var Path string

// Main builds the command retry, and then runs the tests of a package.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "retry")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	Path = filepath.Join(dir, "retry")
	build := exec.Command("go", "build", "-C", "../../cmd/retry", "-buildvcs=false", "-o", Path, ".")
	// With an empty GOWORK, the go command uses cmd/go.work.
	build.Env = append(os.Environ(), "GOWORK=")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	m.Run()
}
