package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// tool runs the command with arguments.
func tool(stdin string, args ...string) (stdout, stderr string, status int) {
	var out, errs bytes.Buffer
	status = run(&streams{ctx: context.Background(), in: strings.NewReader(stdin), out: &out, err: &errs}, args)
	return out.String(), errs.String(), status
}

// succeed runs the command, requires that it finds nothing wrong, and returns its output.
func succeed(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	stdout, stderr, status := tool(stdin, args...)
	require.Zero(t, status, stderr)
	require.Empty(t, stderr)
	return stdout
}

// write writes files to a new directory and returns the directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return dir
}

// A command without a file reads standard input, unless standard input is a terminal.
func TestCommandAsksForAFileAtATerminal(t *testing.T) {
	for _, args := range [][]string{{"plan"}, {"explain"}, {"explain", "-policy", "testdata/policy.yaml"}} {
		t.Run(args[0], func(t *testing.T) {
			var out, errs bytes.Buffer
			status := run(&streams{ctx: t.Context(), in: strings.NewReader("max_attempts: 2"), out: &out, err: &errs, typed: true}, args)
			assert.Equal(t, 2, status)
			assert.Empty(t, out.String())
			assert.Contains(t, errs.String(), "retry "+args[0]+": no file is given: write the name of a file, or - for standard input\n")
		})
	}
}

// Standard input and standard error are recognized as terminals, each by itself.
func TestStreamsKnowTerminals(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /dev/ptmx")
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer file.Close()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0) // a new terminal
	require.NoError(t, err)
	defer terminal.Close()
	for _, test := range []struct {
		name         string
		in, out, err *os.File
		want         streams
	}{
		{"no terminal", file, file, file, streams{}},
		{"input", terminal, file, file, streams{typed: true}},
		{"errors", file, file, terminal, streams{shown: true}},
		{"all", terminal, terminal, terminal, streams{typed: true, shown: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := test.want
			want.ctx, want.in, want.out, want.err = context.Background(), test.in, test.out, test.err
			assert.Equal(t, &want, newStreams(test.in, test.out, test.err))
		})
	}
}

// go.work replaces each module of this repository that the command requires by this checkout.
func TestWorkspaceReplacesTheModulesOfTheCommand(t *testing.T) {
	modules := func(file, pattern string) (names []string) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(data, -1) {
			names = append(names, string(match[1]))
		}
		return names
	}
	const module = `(?m)^\s*(github\.com/goretry/retry\S*) `
	required := modules("go.mod", module+`v`)
	assert.Contains(t, required, "github.com/goretry/retry")
	assert.Equal(t, required, modules("../go.work", module+`=>`))
	assert.Empty(t, modules("go.mod", `(?m)^(replace)`), "go install refuses a module that has a replace")
}

// A hook is an entry of .pre-commit-hooks.yaml, or an entry in the settings of a repository that
// uses pre-commit.
type hook struct {
	ID, Entry, Language string
	Files               string
	Args                []string
	PassFilenames       *bool    `yaml:"pass_filenames"`
	Dependencies        []string `yaml:"additional_dependencies"`
}

func readHook(t *testing.T) hook {
	data, err := os.ReadFile("../../.pre-commit-hooks.yaml")
	require.NoError(t, err)
	var hooks []hook
	require.NoError(t, yaml.Unmarshal(data, &hooks))
	require.Len(t, hooks, 1)
	return hooks[0]
}

// The hook for pre-commit reports faults in the files that its own pattern selects, and in the
// files that the settings in the README select.
func TestHookReportsFaults(t *testing.T) {
	defined := readHook(t)
	assert.Equal(t, "golang", defined.Language)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	users := []hook{{ID: defined.ID, Files: defined.Files}}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(readme, -1) {
		var repositories []struct{ Hooks []hook }
		require.NoError(t, yaml.Unmarshal(block[1], &repositories))
		users = append(users, repositories[0].Hooks...)
	}
	require.Len(t, users, 2)
	whole := users[1] // this user sets pass_filenames: false and adds a directory to args
	whole.PassFilenames, whole.Args = new(bool), append(slices.Clone(whole.Args), "config")
	users = append(users, whole)

	t.Chdir(write(t, map[string]string{
		"retry.yaml":           "max_attempts: 2\nbackoff: {type: fixed, base: 1s}",
		"config/services.yaml": "services: {pay: {retry: {max_attempts: 2, backoff: {type: fixed, base: 1s}}}}",
		"config/other.yaml":    "services: {pay: {timeout: 1s}}",
	}))
	for i, file := range []string{"retry.yaml", "config/services.yaml", "config/services.yaml"} {
		user := users[i]
		assert.Equal(t, defined.ID, user.ID)
		args := append(strings.Fields(defined.Entry), user.Args...)
		require.Equal(t, "retry", args[0])
		if user.PassFilenames == nil {
			for _, name := range []string{"retry.yaml", "config/services.yaml", "config/other.yaml"} {
				if regexp.MustCompile(user.Files).MatchString(name) {
					args = append(args, name)
				}
			}
		}
		assert.Regexp(t, user.Files, file)
		assert.Regexp(t, `^1 policy in \d files?[^\n]*\n$`, succeed(t, "", args[1:]...), "no fault in %s", args)

		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, bytes.Replace(text, []byte("max_attempts: 2"), []byte("jitter: 2"), 1), 0o600))
		stdout, _, status := tool("", args[1:]...)
		assert.Equal(t, 1, status)
		assert.Contains(t, stdout, file+":1: jitter is 2")
		require.NoError(t, os.WriteFile(file, text, 0o600))
	}
}

// The command can be installed from a checkout without a setting of the go command: in its own
// directory, and in the root as pre-commit does it.
func TestCommandCanBeInstalledFromACheckout(t *testing.T) {
	dependencies := readHook(t).Dependencies
	require.Len(t, dependencies, 1)
	for _, test := range []struct{ name, dir, arg string }{
		{"in the directory of the command", ".", "."},
		{"by pre-commit", "../..", dependencies[0]},
	} {
		t.Run(test.name, func(t *testing.T) {
			bin := t.TempDir()
			install := exec.Command("go", "install", test.arg)
			install.Dir = test.dir
			install.Env = append(os.Environ(), "GOWORK=", "GOBIN="+bin)
			output, err := install.CombinedOutput()
			require.NoError(t, err, "%s", output)
			output, err = exec.Command(filepath.Join(bin, "retry"), "plan", "testdata/policy.yaml").Output()
			require.NoError(t, err)
			assert.Contains(t, string(output), "\nEnds after 5 attempts.\n")
		})
	}
}

// The name of a file is printed without the characters on which a terminal or GitHub would act.
func TestNamesOfFilesArePrintable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such names")
	}
	const name = "a\x1b[2J\n::error file=b::c.yaml"
	t.Chdir(write(t, map[string]string{name: "jitter: 2", "ok/" + name: "max_attempts: 2\nbackoff: {type: fixed, base: 1s}\n\"\x7f\": 1"}))
	for _, args := range [][]string{{"lint", "."}, {"lint", "-format", "github", "."}, {"lint", "-format", "json", "."},
		{"lint", name}, {"plan", name}, {"plan", "ok/" + name}, {"plan", "x" + name}, {"lint", "x" + name}, {"plan", "-at", name, name}} {
		stdout, stderr, _ := tool("", args...)
		for line := range strings.Lines(stdout + stderr) {
			assert.NotContains(t, line, "\x1b")
			assert.NotRegexp(t, `^::error file=b`, line)
		}
	}
}

// full is an output whose disk is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A command whose output cannot be written has exit status 2.
func TestWriteErrorHasStatus2(t *testing.T) {
	t.Chdir(write(t, map[string]string{"a.log": twoCalls, "p.yaml": logPolicy}))
	for _, args := range []string{"help", "version", "plan p.yaml", "plan -json p.yaml", "plan -h", "lint p.yaml", "lint -format json p.yaml",
		"lint -format github p.yaml", "help policy", "lint -schema", "explain a.log", "explain -json a.log", "explain -failed a.log", "explain -",
		"explain -policy p.yaml a.log"} {
		var errs bytes.Buffer
		status := run(&streams{ctx: t.Context(), in: strings.NewReader(twoCalls), out: full{}, err: &errs}, strings.Fields(args))
		assert.Equal(t, 2, status, args)
		assert.Contains(t, errs.String(), "no space left on device\n", args)
	}
}
