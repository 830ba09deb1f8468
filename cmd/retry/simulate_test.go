package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The constant `system` describes a system that stays down after an outage because of its retries.
// The output of simulate for such a system is in testdata/sessions/simulate.txtar.
const system = `services:
  web: {rate: 20/s, calls: [{to: db, timeout: 1s, retry: {max_attempts: 2}}]}
  db: {workers: 3, work: 100ms}
events:
  - {at: 20s, for: 10s, service: db, workers: 0}
`

func TestSimulateForPrograms(t *testing.T) {
	t.Chdir(write(t, map[string]string{"a&b.yaml": system}))
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

// Simulate reports each fault of a system with its line, and lint reports the same faults.
func TestFaultsOfASystemHaveLines(t *testing.T) {
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
		if i < 24 { // each alias expands to twice as many calls as the alias before it
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

// The output in docs/simulate.md is the output for the file in docs/simulate.md.
func TestDocsShowTheOutputOfSimulate(t *testing.T) {
	if os.Getenv("RETRY_LONG") == "" {
		t.Skip("RETRY_LONG is not set")
	}
	page, err := os.ReadFile("../../docs/simulate.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, rest, _ := strings.Cut(rest, "```\n")
	_, shown, _ := strings.Cut(rest, "    system.yaml\n")
	shown, _, _ = strings.Cut(shown, "\n## What not to conclude from a simulation")
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

// The page of a system shows the verdict and the rescues that the command prints.
func TestPageOfASystemShowsTheVerdict(t *testing.T) {
	t.Chdir(write(t, map[string]string{"system.yaml": system}))
	out, _, _ := tool("", "simulate", "-rescue", "-page", "page.html", "system.yaml")
	page, err := os.ReadFile("page.html")
	require.NoError(t, err)
	_, said, _ := strings.Cut(out, "\n")
	said, _, _ = strings.Cut(said, "\n")
	assert.Contains(t, string(page), "<strong>"+strings.TrimSpace(said)+"</strong>")
	assert.Contains(t, string(page), "<tr><td>none</td><td>stays down</td><td>1,383 (100%)</td><td>14.2/s (71%)")
	assert.Contains(t, string(page), "<p>Does not help: web -&gt; db: timeout: 500ms; ")
	assert.Equal(t, 3, strings.Count(string(page), "<svg "))
	notes := regexp.MustCompile(`<p class="note">(.*)</p>`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, notes, 1, "one paragraph of whole sentences")
	assert.Regexp(t, `^([A-Z][^.]*\. )+[A-Z][^.]*\.$`, notes[0][1])
	_, stderr, status := tool("", "simulate", "-page", "nowhere/page.html", "system.yaml")
	assert.Equal(t, 2, status)
	assert.Contains(t, stderr, "retry simulate: open nowhere/page.html: ")
}

// After two seconds, withProgress shows the task and for how long it has run. It shows them only on
// a terminal.
func TestWithProgressShowsTheTaskOnATerminal(t *testing.T) {
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
			(&streams{err: &shown, shown: true}).withProgress("simulating", f)
			(&streams{err: &hidden}).withProgress("simulating", f)
			assert.Equal(t, want, shown.String())
			assert.Empty(t, hidden.String())
		})
	}
}
