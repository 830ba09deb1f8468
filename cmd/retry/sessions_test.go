package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the present output of the commands into testdata/sessions")

// A session is a transcript. A line that starts with "$ " is a command. After it come its output,
// its standard error with "! " before each line, and its exit status in brackets if it is not 0.
// The files that the commands read are at the end. After "go test -run TestSessions -update", read
// the diff.
func TestSessions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows writes paths and errors differently")
	}
	sessions, err := filepath.Glob("testdata/sessions/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, sessions)
	for _, name := range sessions {
		t.Run(filepath.Base(name), func(t *testing.T) {
			session, err := txtar.ParseFile(name)
			require.NoError(t, err)
			file, err := filepath.Abs(name)
			require.NoError(t, err)
			files := map[string]string{}
			for _, file := range session.Files {
				files[file.Name] = string(file.Data)
			}
			t.Chdir(write(t, files))
			var got strings.Builder
			for line := range strings.Lines(string(session.Comment)) {
				if strings.HasPrefix(line, "# ") {
					got.WriteString(line)
				}
				command, entered := strings.CutPrefix(line, "$ retry ")
				if !entered {
					continue
				}
				command, stdin, _ := strings.Cut(strings.TrimSpace(command), " < ")
				stdout, stderr, status := tool(files[stdin], strings.Fields(command)...)
				got.WriteString(line + strings.ReplaceAll(stdout, version(), "(devel)"))
				for line := range strings.Lines(stderr) {
					got.WriteString("! " + line)
				}
				if status != ok {
					fmt.Fprintf(&got, "[%d]\n", status)
				}
				got.WriteString("\n")
			}
			if *update {
				session.Comment = []byte(got.String())
				require.NoError(t, os.WriteFile(file, txtar.Format(session), 0o644))
			}
			assert.Equal(t, string(session.Comment), got.String())
		})
	}
}
