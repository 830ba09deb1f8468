package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every fault has its line, and plan reports the same faults as lint.
func TestFaults(t *testing.T) {
	const (
		empty = "there is no policy here: write one, such as {max_attempts: 5}, or one under retry"
		known = ": the keys of a policy are max_attempts, max_retries, "
	)
	for _, test := range []struct {
		file, flags, text string
		want              []string // the beginnings of the lines, after the file name
	}{
		{"neither.yaml", "", "name: x", []string{`1: unknown key "name"` + known}},
		{"neither.json", "-from=argyll", "{\n\n\"name\": \"x\"}", []string{`3: unknown key "name": the keys of Argyll are `}},
		{"under.yaml", "", "name: x\nretry:\n  # none\n  max_delay: 5\n  name: y\n", []string{"4: max_delay is 5", `5: unknown key "name"` + known}},
		{"under.json", "", "{\"name\": \"x\",\n\"retry\": {\n\t\"max_delay\": 5}}", []string{"3: max_delay is 5"}},
		{"inner.yaml", "", "backoff:\n  type: exponential\n  base: 5\n  factor: 0.5\n  step: 1\n", []string{
			"3: backoff.base is 5", "4: backoff.factor is 0.5: ", `5: unknown key "backoff.step": the keys of a backoff of type exponential are `}},
		{"delays.yaml", "", "backoff:\n  type: schedule\n  delays:\n  - 1s\n  - 2\n  - 3s\n  - x\n", []string{"5: backoff.delays[1] is 2", "7: backoff.delays[3] is \"x\""}},
		{"missing.yaml", "", "\nbackoff:\n  type: fixed\n", []string{"2: backoff.base is missing: "}},
		{"quoting.yaml", "", `jitter: 'a; max_delay is 7; b'` + "\nmax_delay: 8", []string{`1: jitter is "a; max_delay is 7; b": `, "2: max_delay is 8"}},
		{"order.yaml", "", "jitter: 2\nmax_attempts: 0\n", []string{"1: jitter is 2: ", "2: max_attempts is 0: "}},
		{"several.yaml", "", "a: 1\nb: 2\n", []string{`1: unknown key "a"` + known, `2: unknown key "b"` + known}},
		{"twice.yaml", "", "max_attempts: 5\njitter: 0\nmax_attempts: 6", []string{`3: mapping key "max_attempts" already defined at line 1`}},
		{"twice.json", "", "{\"max_attempts\": 5,\n\"max_attempts\": 6}", []string{`2: mapping key "max_attempts" already defined at line 1`}},
		{"blocks.yaml", "", "retry: {}\nretry: {}", []string{`2: mapping key "retry" already defined at line 1`}},
		{"blocks.json", "", `{"retry": {"max_attempts": 2}, "x": {"a": [1]}, "retry": {"max_attempts": 3}}`, []string{`1: mapping key "retry" already defined at line 1`}},
		{"merged.yaml", "", "<<: {max_delay: 5}\njitter: 3", []string{"1: max_delay is 5", "2: jitter is 3"}},
		{"hot.yaml", "", "jitter: full\nmax_attempts: -1", []string{"2: unlimited attempts without a delay: "}},
		{"hot.json", "", "{\"jitter\": 0,\n\"max_elapsed\": \"1m\"}", []string{"2: unlimited attempts without a delay: "}},
		{"broken.yaml", "", "retry:\n  jitter: [", []string{"2: did not find "}},
		{"broken.json", "", "{\n\"jitter\": 0,\n}", []string{"3: invalid character '}' "}},
		{"cut.json", "", "{\n\"jitter\": 0", []string{"2: unexpected end of JSON input"}},
		{"behind.json", "", "{}\n{}", []string{"2: invalid character '{' after top-level value"}},
		{"deep.json", "", strings.Repeat("[", 20_000), []string{"1: invalid character '[' exceeded max depth"}},
		{"list.yaml", "", "[1]", []string{"1: "}},
		{"list.json", "", "[1]", []string{"1: "}},
		{"text.yaml", "", "exponential", []string{"1: "}},
		{"null.yaml", "", "~", []string{"1: " + empty}},
		{"null.json", "", "\nnull\n", []string{"2: " + empty}},
		{"nothing.yaml", "", "name: x\nretry:", []string{"2: " + empty}},
		{"nothing.json", "", `{"retry": null}`, []string{"1: " + empty}},
		{"alias.yaml", "", "x: &x ~\nretry: *x", []string{"1: " + empty}},
		{"tasker.yaml", "-from=tasker", "retry:\n  backoff: cubic\n  max_attempts: 0", []string{`2: backoff is "cubic": `, "3: max_attempts is 0: "}},
		{"tasker.json", "-from=tasker", `{"retry": {"max_attempts": "3"}}`, []string{`1: max_attempts is "3": `}},
		{"meant.yaml", "", "max_attempts: 0\nbackoff_base_ms: 5\n", []string{"1: max_attempts is 0: "}},
		{"argyll.yaml", "-from=argyll", "work_config: {backoff_type: cubic, backoff: 1}", []string{`1: backoff_type is "cubic": `}},
		{"cut off.yaml", "", "jitter: " + strings.Repeat("x", 99) + "\nmax_delay: 8", []string{"1: jitter is ", "2: max_delay is 8"}},
	} {
		t.Run(test.file, func(t *testing.T) {
			file := filepath.Join(write(t, map[string]string{test.file: test.text}), test.file)
			flags := strings.Fields(test.flags)
			for _, command := range []string{"lint", "plan"} {
				stdout, stderr, status := tool("", append(append([]string{command}, flags...), file)...)
				assert.Equal(t, 1, status)
				if command == "plan" {
					stdout, stderr = stderr, stdout
				}
				assert.Empty(t, stderr)
				lines := strings.Split(strings.TrimSuffix(strings.TrimSuffix(stdout, "1 policy in 1 file\n"), "\n"), "\n")
				require.Len(t, lines, len(test.want), stdout)
				for i, want := range test.want {
					assert.True(t, strings.HasPrefix(lines[i], file+":"+want), lines[i])
				}
			}
		})
	}

	stdout, _, status := tool("\nmax_delay: 5", "lint", "-")
	assert.Equal(t, 1, status)
	assert.True(t, strings.HasPrefix(stdout, "standard input:2: max_delay "), stdout)
	stdout, _, _ = tool("# nothing\n", "lint", "-")
	assert.Equal(t, "standard input:1: there is no policy in it\n0 policies in 1 file; 1 file has none at the top: try -at\n", stdout)
	_, stderr, status := tool("# nothing\n", "plan", "-")
	assert.Equal(t, 1, status)
	assert.Equal(t, "standard input:1: there is nothing here: write a policy, such as {max_attempts: 5}\n", stderr)
	_, stderr, _ = tool("max_attempts: 2\n---\nmax_attempts: 3", "plan")
	assert.Equal(t, "standard input:3: there are 2 policies, and this is the second: choose one with -at 1, -at 2\n", stderr)
}

// Each report of Lint has the line of the setting that it is about.
func TestLints(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"an inner key", "max_attempts: 3\nbackoff:\n  type: schedule\n  delays: [1s, 2s, 3s]\n", "4: a list (delays) of 3 "},
		{"the key it begins with", "max_delay: 1s\nbackoff: {type: fixed, base: 2s}\nmax_attempts: 3\nmax_elapsed: 1m\n", "1: max_delay of 1s "},
		{"a key that is missing", "\nmax_delay: 1s\nmax_attempts: 3\n", "3: 3 attempts without a backoff"},
		{"a limit that is missing", "max_delay: 5s\nbackoff: {type: fixed, base: 2s}\n", "2: backoff without a limit"},
		{"a value", "max_attempts: 3\nretryable: false\nbackoff: {type: fixed, base: 2s}\n", "2: retryable: false beside "},
		{"growth", "max_attempts: -1\nbackoff:\n  type: linear\n  base: 1s\n", "2: unlimited attempts on a backoff that grows"},
		{"a dialect", "max_attempts: 3\nbackoff: linear\nmax_backoff_ms: 10\n", "3: max_delay of 10ms "},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, status := tool(test.text, "lint", "-")
			assert.Equal(t, 1, status)
			assert.Empty(t, stderr)
			assert.True(t, strings.HasPrefix(stdout, "standard input:"+test.want), stdout)
			assert.Equal(t, 2, strings.Count(stdout, "\n"), stdout)
		})
	}
	assert.Equal(t, "2 policies in 2 files\n", succeed(t, "", "lint", "testdata/policy.yaml", "testdata/tasker.yaml"))
}

func TestLintGitHub(t *testing.T) {
	dir := write(t, map[string]string{"50%, or: so.yaml": "max_delay: 5\njitter: '%\n\n\n\u00e4'\n", "lint.yaml": "max_attempts: 2"})
	t.Chdir(dir)
	stdout, _, status := tool("", "lint", "-format=github", ".")
	assert.Equal(t, 1, status)
	lines := strings.Split(stdout, "\n")
	require.Len(t, lines, 5)
	assert.True(t, strings.HasPrefix(lines[0], "::error file=50%25%2C or%3A so.yaml,line=1::max_delay "), lines[0])
	assert.True(t, strings.HasPrefix(lines[1], `::error file=50%25%2C or%3A so.yaml,line=2::jitter is "%25`), lines[1])
	assert.True(t, strings.HasPrefix(lines[2], "::warning file=lint.yaml,line=1::2 attempts without a backoff"), lines[2])
}

// A directory stands for the files in it that have a policy in one of the usual
// places.
func TestLintDirectories(t *testing.T) {
	dir := write(t, map[string]string{
		"policy.yaml":       "max_dely: 1s\nmax_attempts: 1",
		"sub/block.yml":     "name: x\nretry:\n  jitter: 2",
		"sub/work.json":     `{"work_config": {"backoff": -1}}`,
		"several.yaml":      "jitter: 3\n---\njitter: 4\n---\nname: x\n",
		"broken.json":       "{",
		"other.yaml":        "kind: Deployment\nretry: 3\n",
		"other.json":        "[1]",
		"sound.yaml":        "max_attempts: 1",
		"empty.yaml":        "",
		"policy.txt":        "jitter: 5",
		".github/some.yaml": "jitter: 6",
	})
	t.Chdir(dir)
	want := []string{
		"broken.json:1: unexpected end ",
		`policy.yaml:1: unknown key "max_dely"`,
		"several.yaml:1: jitter is 3",
		"several.yaml:3: jitter is 4",
		filepath.FromSlash("sub/block.yml:3: jitter is 2"),
		filepath.FromSlash("sub/work.json:1: backoff "),
	}
	for _, args := range [][]string{{"."}, {"./", "."}, {"*.yaml", "broken.json", "sub/*", "."}} {
		stdout, stderr, status := tool("", append([]string{"lint"}, args...)...)
		assert.Equal(t, 1, status)
		assert.Empty(t, stderr)
		for _, line := range want {
			assert.Equal(t, 1, strings.Count("\n"+stdout, "\n"+line), "%v: %s", args, line)
		}
		if args[0] == "." {
			assert.Equal(t, len(want)+1, strings.Count(stdout, "\n"), stdout)
			assert.Contains(t, stdout, "\n7 policies in 9 files; 3 files have none at the top: try -at\n")
		}
	}

	// A path leads to policies in all files that have it.
	config := write(t, map[string]string{
		"a.yaml": "services:\n  pay:\n    retry: {jitter: 2}\n  mail:\n    retry: {jitter: 3}\n  none: {}\n",
		"b.yaml": "jitter: 4",
	})
	t.Chdir(config)
	stdout, _, _ := tool("", "lint", ".")
	assert.Contains(t, stdout, "\n1 policy in 2 files; 1 file has none at the top: try -at services.*.retry\n")
	stdout, _, status := tool("", "lint", "-at", "services.*.retry", ".")
	assert.Equal(t, 1, status)
	assert.Regexp(t, `^a.yaml:3: jitter is 2.*\na.yaml:5: jitter is 3.*\n2 policies in 2 files; 1 file has none at services\.\*\.retry\n$`, stdout)
	stdout, _, status = tool("", "lint", "-at", "services.*.retry", "b.yaml")
	assert.Equal(t, 1, status)
	assert.Equal(t, "b.yaml:1: there is no policy at services.*.retry\n0 policies in 1 file; 1 file has none at services.*.retry\n", stdout)

	// If nothing is found to lint, that must not count as success.
	_, stderr, status := tool("", "lint", "-at", "service.*.retry", ".")
	assert.Equal(t, 2, status)
	assert.Equal(t, "retry lint: there is no policy in these files: say where with -at, and how it is written with -from\n", stderr)
}

// A file that cannot be read does not hide the faults of the others.
func TestLintUnreadable(t *testing.T) {
	dir := write(t, map[string]string{"b.yaml": "jitter: 2"})
	long, err := os.Create(filepath.Join(dir, "a.yaml"))
	require.NoError(t, err)
	require.NoError(t, long.Truncate(maxFile+1))
	require.NoError(t, long.Close())
	t.Chdir(dir)
	stdout, stderr, status := tool("", "lint", ".")
	assert.Equal(t, 2, status)
	assert.Equal(t, "retry lint: a.yaml is longer than 16 MiB\n", stderr)
	assert.True(t, strings.HasPrefix(stdout, "b.yaml:1: jitter is 2"), stdout)
}
