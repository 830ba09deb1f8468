package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A directory may be a link, and have links, also to itself. A pipe in it is not
// opened, and neither is a link to a device, which never ends. A pattern stands for files.
func TestLintLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
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
	assert.Equal(t, "retry lint: top/pipe.yaml is a pipe, which may never end: write - and pass it as standard input\n", stderr)
}

// A name is quoted where a terminal or GitHub would act on it.
func TestNames(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such names there")
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

// A full disk is not success.
func TestWriteErrors(t *testing.T) {
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

// Keys and schema say what the page of the text form says.
func TestKeysAndSchema(t *testing.T) {
	page, err := os.ReadFile("../../docs/text-form.md")
	require.NoError(t, err)
	printed := succeed(t, "", "help", "policy")
	rows := regexp.MustCompile(`(?m)^([a-z_]+)  +(whole number|true or false|a mapping|duration|text, number|text)  +(.*?)  +\S`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, rows, 13)
	for _, row := range rows {
		value := row[2] + "; 0: " + row[3]
		if row[2] == "true or false" || row[3] == "-" {
			value = row[2]
		}
		assert.Contains(t, printed, fmt.Sprintf("%-18s %s\n", row[1], value))
	}
	assert.Equal(t, len(rows), strings.Count(printed, "\n                   "))
	for line := range strings.Lines(printed) {
		assert.LessOrEqual(t, len([]rune(line)), 81)
	}
	file, err := os.ReadFile("../../docs/policy.schema.json")
	require.NoError(t, err)
	assert.Equal(t, string(file), succeed(t, "", "lint", "-schema"), "cp policy.schema.json ../../docs")
}
