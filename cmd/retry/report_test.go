package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The forms for programs have the same faults as the text.
func TestLintFormats(t *testing.T) {
	t.Chdir(write(t, map[string]string{"a b.yaml": "jitter: 2", "c.yaml": "max_attempts: 2", "sub/none.yaml": "a: {retry: {max_attempts: 3}}"}))
	text, _, status := tool("", "lint", ".")
	assert.Equal(t, 1, status)
	assert.Regexp(t, `^a b.yaml:1: jitter is 2[^\n]*\nc.yaml:1: 2 attempts without a backoff[^\n]*\n2 policies in 3 files; 1 file has none at the top: try -at a.retry\n$`, text)

	texts := regexp.MustCompile(`(?m)^[^:]*yaml:1: (.*)$`).FindAllStringSubmatch(text, -1)
	for format, want := range map[string]string{
		"json": `{"policies": 2, "files": 3, "without": ["sub/none.yaml"], "faults": [
			{"file": "a b.yaml", "line": 1, "warning": false, "text": %[1]q}, {"file": "c.yaml", "line": 1, "warning": true, "text": %[2]q}]}`,
		"sarif": `{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [{
			"tool": {"driver": {"name": "retry", "version": %[3]q, "informationUri": "https://github.com/goretry/retry", "rules": [
				{"id": "invalid", "shortDescription": {"text": "The policy is invalid."}},
				{"id": "unintended", "shortDescription": {"text": "The policy is valid, but probably not what is meant."}}]}},
			"results": [{"ruleId": "invalid", "level": "error", "message": {"text": %[1]q}, "locations": [
					{"physicalLocation": {"artifactLocation": {"uri": "a%%20b.yaml"}, "region": {"startLine": 1}}}]},
				{"ruleId": "unintended", "level": "warning", "message": {"text": %[2]q}, "locations": [
					{"physicalLocation": {"artifactLocation": {"uri": "c.yaml"}, "region": {"startLine": 1}}}]}]}]}`,
	} {
		stdout, _, status := tool("", "lint", "-format", format, ".")
		assert.Equal(t, 1, status)
		assert.JSONEq(t, fmt.Sprintf(strings.Replace(want, "%[3]q", strconv.Quote(version()), 1), texts[0][1], texts[1][1]), stdout)
	}

	assert.Contains(t, succeed(t, "max_attempts: 1", "lint", "-format", "sarif", "-"), `"results": []`)
	assert.Contains(t, succeed(t, "max_attempts: 1", "lint", "-format", "json", "-"), `"faults": []`)
	_, stderr, status := tool("", "lint", "sub")
	assert.Equal(t, 2, status)
	assert.Equal(t, "retry lint: there is no policy at the top of these files: try -at a.retry\n", stderr)
}

// A directory may be a link, and have links, also to itself. A pipe in it is not
// opened.
func TestLintLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	dir := write(t, map[string]string{"..data/policy.yaml": "jitter: 2", "other/deep.yaml": "jitter: 3", "top/x.txt": ""})
	for link, to := range map[string]string{"top/policy.yaml": "../..data/policy.yaml", "top/again": ".", "top/other": "../other", "top/lost.yaml": "nowhere", "link": "top"} {
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
	for _, args := range [][]string{{"lint", "."}, {"lint", "-format", "github", "."}, {"lint", "-format", "json", "."}, {"lint", "-format", "sarif", "."},
		{"lint", name}, {"plan", name}, {"plan", "ok/" + name}, {"convert", "-to", "grpc", "-codes", "ABORTED", "ok/" + name}, {"plan", "x" + name}, {"lint", "x" + name}, {"plan", "-at", name, name}} {
		stdout, stderr, _ := tool("", args...)
		for line := range strings.Lines(stdout + stderr) {
			assert.NotContains(t, line, "\x1b")
			assert.NotRegexp(t, `^::error file=b`, line)
		}
	}
}

// A full disk is not success.
func TestWriteErrors(t *testing.T) {
	t.Chdir(write(t, map[string]string{"a.log": writeLog(t), "p.yaml": logPolicy}))
	for _, args := range []string{"help", "version", "plan p.yaml", "plan -json p.yaml", "plan -h", "lint p.yaml", "lint -format json p.yaml", "lint -format sarif p.yaml",
		"lint -format github p.yaml", "convert -to native p.yaml", "keys", "schema", "explain a.log", "explain -json a.log", "explain -failed a.log", "explain -",
		"check -policy p.yaml a.log"} {
		var errs bytes.Buffer
		status := run(&streams{ctx: t.Context(), in: strings.NewReader(writeLog(t)), out: full{}, err: &errs}, strings.Fields(args))
		assert.Equal(t, 2, status, args)
		assert.Contains(t, errs.String(), "no space left on device\n", args)
	}
}

// Keys and schema say what the page of the text form says.
func TestKeysAndSchema(t *testing.T) {
	page, err := os.ReadFile("../../docs/text-form.md")
	require.NoError(t, err)
	printed := succeed(t, "", "keys")
	rows := regexp.MustCompile(`(?m)^([a-z_]+)  +(whole number|true or false|a mapping|duration|text, number)  +(.*?)  +\S`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, rows, 12)
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
	assert.Equal(t, string(file), succeed(t, "", "schema"), "cp policy.schema.json ../../docs")
	for _, command := range []string{"keys", "schema"} {
		_, stderr, status := tool("", command, "x")
		assert.Equal(t, 2, status)
		assert.Contains(t, stderr, "there is nothing to read")
	}
}
