package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// system is one that a retry keeps down after an outage, and of which %s replaces the
// queue of its database.
const system = `services:
  web:
    rate: 20/s
    calls:
      - to: db-of-a-name-that-is-longer-than-a-column
        timeout: 1s
        retry: {max_attempts: 2}
  db-of-a-name-that-is-longer-than-a-column: {workers: 3, work: 100ms%s}
events:
  - {at: 20s, for: 10s, service: db-of-a-name-that-is-longer-than-a-column, workers: 0}
`

// What stays down has status 1, and its text fits a terminal.
func TestSimulate(t *testing.T) {
	t.Chdir(write(t, map[string]string{"down.yaml": fmt.Sprintf(system, ""), "up.yaml": fmt.Sprintf(system, ", queue: 5")}))
	out, stderr, status := tool("", "simulate", "down.yaml")
	assert.Equal(t, 1, status)
	assert.Empty(t, stderr)
	assert.Regexp(t, `^down.yaml
  web comes back up to 1\d\.?\d*/s, [67]\d% of your load; you run at 20/s
  stays down \(\d+ of 10 runs\)
  without retries: recovers \w+ after the end of the last event
  \d+ of \d+ calls lost \([\d.]+%\), \d+ without retries \([1-8][\d.]+%\)
`, out)
	assert.Contains(t, out, "workers 0 from 20s to 30s")
	assert.Contains(t, out, "\nqueue and load (requests a second): db-of-a-name-")
	assert.Contains(t, out, "\nA model, not a measurement: ")
	assert.Equal(t, 2, strings.Count(out, " x "), "the rows of the outage")
	assertNarrow(t, out)
	assert.Contains(t, succeed(t, "", "simulate", "up.yaml"), "recovers")

	// Both get the same calls; the status is that of the file, not of the other.
	for i, files := range [][2]string{{"down.yaml", "up.yaml"}, {"up.yaml", "down.yaml"}} {
		out, stderr, status = tool("", "simulate", "-compare", files[1], files[0])
		assert.Empty(t, stderr)
		assert.Equal(t, i == 0, status == 1)
		assert.Contains(t, out, fmt.Sprintf("B is %s.", files[1]))
		assertNarrow(t, out)
		_, last, _ := strings.Cut(out, "1m25s")
		fields := strings.Fields(last) // calls a second, and work, queue and load of both
		assert.Equal(t, "0%", fields[1+3*i])
		assert.Contains(t, []string{"98%", "99%", "100%"}, fields[4-3*i])
	}
}

func assertNarrow(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 81, line)
	}
}

func TestSimulateForPrograms(t *testing.T) {
	t.Chdir(write(t, map[string]string{"a&b.yaml": fmt.Sprintf(system, "")}))
	out, _, status := tool("", "simulate", "-json", "-svg", "out.svg", "-compare", "a&b.yaml", "a&b.yaml")
	assert.Equal(t, 1, status)
	var all []map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &all))
	require.Len(t, all, 2)
	assert.Equal(t, all[0], all[1])
	assert.Equal(t, "a&b.yaml", all[0]["file"])
	assert.Equal(t, 2, strings.Count(out, `"answer":{"entry":"web","entries":1,"rate":20,"margin":1`))
	assert.Contains(t, out, `"outcome":{"verdict":"stays down",`)

	svg, err := os.ReadFile("out.svg")
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(svg, &struct {
		Inner string `xml:",innerxml"`
	}{}))
	assert.Equal(t, 2*(2+2+1), strings.Count(string(svg), "<polyline"), "calls, loads and the queue of two runs")
	assert.Contains(t, string(svg), "a&amp;b.yaml: Load by service")
}

// Each fault has its line, and lint reports the same.
func TestSystemFaults(t *testing.T) {
	data, err := os.ReadFile("testdata/system-faults.json")
	require.NoError(t, err)
	type row struct {
		Text string
		Want []string
	}
	var rows []row
	require.NoError(t, json.Unmarshal(data, &rows))
	bomb, large := "services:\n  a0: &a0 {rate: 1/s, calls: [{to: x}, {to: x}]}\n", "services:\n  web: {rate: 1/s}\n"
	for i := range 1000 {
		large += fmt.Sprintf("  s%d: {}\n", i)
		if i < 24 { // each stands for twice as many calls
			bomb += fmt.Sprintf("  a%d: &a%d {calls: [{to: x, retry: *a%d}, {to: x, retry: *a%d}]}\n", i+1, i+1, i, i)
		}
	}
	rows = append(rows, row{large, []string{"1: this is larger than any system"}}, row{bomb, []string{"1: this is larger than any system"}})
	for _, row := range rows {
		file := filepath.Join(write(t, map[string]string{"x.yaml": row.Text}), "x.yaml")
		stdout, stderr, status := tool("", "simulate", file)
		assert.Equal(t, 1, status)
		assert.Empty(t, stdout)
		lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
		require.Len(t, lines, len(row.Want), stderr)
		for i, want := range row.Want {
			assert.True(t, strings.HasPrefix(lines[i], file+":"+want), lines[i])
		}
		if found, _, status := tool("", "lint", filepath.Dir(file)); !strings.Contains(row.Text, "---") {
			assert.Equal(t, 1, status)
			assert.Equal(t, stderr+"1 policy in 1 file\n", found)
		}
	}
}

// Lint reports what is unintended about the policies of a system, and leaves other
// files that have services alone.
func TestLintSystem(t *testing.T) {
	dir := write(t, map[string]string{
		"system.yaml":  "services:\n  web:\n    rate: 1/s\n    calls:\n      - to: db\n        retry: {max_attempts: 3}\n      - to: db\n        retry: {max_attempts: 3, backoff: {type: fixed, base: 1s}}\n  db: {}\n",
		"compose.yaml": "services:\n  web: {image: nginx}\n",
	})
	t.Chdir(dir)
	out, _, status := tool("", "lint", ".")
	assert.Equal(t, 1, status)
	assert.Equal(t, "system.yaml:6: services.web.calls[0]: 3 attempts without a Backoff (backoff): they follow each other at once; set one, or Fixed(0) for no delay\n2 policies in 2 files; 1 file has none at the top: try -at\n", out)
}

// Each row is what lint says of the calls of a system with three layers.
func TestLintLayers(t *testing.T) {
	const three = "max_attempts: 3, backoff: {type: fixed, base: 1s}"
	for name, tc := range map[string]struct{ entry, upper, middle, lower, want string }{
		"one layer":        {"", three, "", "", ""},
		"two":              {"", three, "", three, "3 attempts here, and 3 attempts in each of them where api calls db: they multiply; "},
		"above each other": {"", three, three, "", "3 attempts here, and 3 attempts in each of them where gate calls api: they multiply; "},
		"no limit":         {"", "max_attempts: -1, backoff: {type: fixed, base: 1s}", "", three, "attempts without a limit here, and 3 "},
		"lent":             {"lend: 3, ", three, "", three, ""},
		"a budget":         {"", three, "", three + "}, budget: {size: 10", ""},
	} {
		t.Chdir(write(t, map[string]string{"system.yaml": fmt.Sprintf(`services:
  web: {rate: 1/s, %scalls: [{to: gate, retry: {%s}}]}
  gate: {calls: [{to: api, retry: {%s}}]}
  api: {calls: [{to: db, retry: {%s}}]}
  db: {}
`, tc.entry, tc.upper, tc.middle, tc.lower)}))
		out, _, status := tool("", "lint", "system.yaml")
		assert.Equal(t, tc.want != "", status == 1, name)
		assert.Contains(t, out, "3 policies in 1 file\n", name)
		if tc.want != "" {
			assert.Contains(t, out, "system.yaml:2: services.web.calls[0]: "+tc.want, name)
		}
	}
}

// The output in docs/simulate.md is that of its file.
func TestSimulateDocs(t *testing.T) {
	if os.Getenv("RETRY_LONG") == "" {
		t.Skip("RETRY_LONG is not set")
	}
	page, err := os.ReadFile("../../docs/simulate.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, rest, _ := strings.Cut(rest, "```\n")
	_, shown, _ := strings.Cut(rest, "    system.yaml\n")
	shown, _, _ = strings.Cut(shown, "\n## What not to conclude")
	t.Chdir(write(t, map[string]string{"system.yaml": text}))
	out, _, _ := tool("", "simulate", "-rescue", "system.yaml")
	lines := 0
	for line := range strings.Lines(shown) {
		if line, indented := strings.CutPrefix(line, "    "); indented {
			lines++
			assert.Contains(t, out, line)
		}
	}
	assert.Greater(t, lines, 15)
}

// The page of a system says what the command says.
func TestSimulatePage(t *testing.T) {
	t.Chdir(write(t, map[string]string{"system.yaml": fmt.Sprintf(system, "")}))
	out, _, _ := tool("", "simulate", "-page", "page.html", "system.yaml")
	page, err := os.ReadFile("page.html")
	require.NoError(t, err)
	_, said, _ := strings.Cut(out, "\n")
	said, _, _ = strings.Cut(said, "\n")
	assert.Contains(t, string(page), "<strong>"+strings.TrimSpace(said)+"</strong>")
	assert.Equal(t, 3, strings.Count(string(page), "<svg "))
	_, stderr, status := tool("", "simulate", "-page", "nowhere/page.html", "system.yaml")
	assert.Equal(t, 2, status)
	assert.Contains(t, stderr, "retry simulate: open nowhere/page.html: ")
}

// A rescue is a table, on the page too, and what does not help is one line.
func TestRescue(t *testing.T) {
	t.Chdir(write(t, map[string]string{"down.yaml": fmt.Sprintf(strings.ReplaceAll(system, "db-of-a-name-that-is-longer-than-a-column", "db"), "")}))
	out, stderr, status := tool("", "simulate", "-rescue", "-page", "page.html", "down.yaml")
	assert.Equal(t, 1, status)
	assert.Empty(t, stderr)
	assert.Regexp(t, `
change +verdict +calls lost +margin
none +stays down +1,383 \(100%\) +14\.2/s \(71%\)
db: cancel: work +recovers +\d+ \(1\d[.\d]*%\) +[\d.]+/s \(1\d\d%\)
(?:.*\n)+does not help: web -> db: timeout: 500ms; .*\n
queue and load`, out)
	table, _, _ := strings.Cut(out, "does not help")
	assertNarrow(t, table)
	page, err := os.ReadFile("page.html")
	require.NoError(t, err)
	assert.True(t, strings.Contains(string(page), "<tr><td>none</td><td>stays down</td><td>1,383 (100%)</td><td>14.2/s (71%)"))
	assert.True(t, strings.Contains(string(page), "<p>Does not help: web -&gt; db: timeout: 500ms; "))

	_, stderr, status = tool("", "simulate", "-rescue", "-compare", "down.yaml", "down.yaml")
	assert.Equal(t, 2, status)
	assert.Contains(t, stderr, "-rescue is for one system: leave -compare out")
}

// Only a terminal sees how long it takes, from two seconds on, and what is done then.
func TestDuring(t *testing.T) {
	const clear = "\r\x1b[K"
	for takes, want := range map[time.Duration]string{
		1999 * time.Millisecond: "", 2500 * time.Millisecond: clear + "simulating, 2s" + clear, 3500 * time.Millisecond: clear + "simulating, 2s" + clear + "more, 3s" + clear,
	} {
		synctest.Test(t, func(t *testing.T) {
			var shown, hidden strings.Builder
			f := func(say func(string)) {
				time.Sleep(min(takes, 2100*time.Millisecond))
				say("more")
				time.Sleep(takes - min(takes, 2100*time.Millisecond))
			}
			(&streams{err: &shown, shown: true}).during("simulating", f)
			(&streams{err: &hidden}).during("simulating", f)
			assert.Equal(t, want, shown.String())
			assert.Empty(t, hidden.String())
		})
	}
}
