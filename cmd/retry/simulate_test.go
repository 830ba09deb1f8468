package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
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
	dir := write(t, map[string]string{"down.yaml": fmt.Sprintf(system, ""), "up.yaml": fmt.Sprintf(system, ", queue: 5")})
	t.Chdir(dir)
	out, stderr, status := tool("", "simulate", "down.yaml")
	assert.Equal(t, 1, status)
	assert.Empty(t, stderr)
	assert.Regexp(t, `^down.yaml
  web comes back up to 1\d\.?\d*/s; you run at 20/s
  stays down \(\d+ of 10 runs\)
  without retries: recovers \w+ after the end of the last event
`, out)
	assert.Contains(t, out, "workers 0 from 20s to 30s")
	assert.Contains(t, out, "\nA model, not a measurement: ")
	assert.Contains(t, out, "\nDo not trust the seconds: ")
	assert.Equal(t, 2, strings.Count(out, "\nx "), "the rows of the outage")
	assertNarrow(t, out)

	calm := succeed(t, "", "simulate", "up.yaml")
	assert.Contains(t, calm, "recovers")

	// Both get the same calls; the status is that of the file, not of the other.
	for _, files := range [][2]string{{"down.yaml", "up.yaml"}, {"up.yaml", "down.yaml"}} {
		out, stderr, status = tool("", "simulate", "-compare", files[1], files[0])
		assert.Empty(t, stderr)
		assert.Equal(t, files[0] == "down.yaml", status == 1)
		assert.Contains(t, out, fmt.Sprintf("A is %s, B is %s.", files[0], files[1]))
		assertNarrow(t, out)
		var last []string
		for line := range strings.Lines(out) {
			if strings.HasPrefix(strings.TrimSpace(line), "1m25s") {
				last = strings.Fields(line) // time, calls a second, and A and B of three
			}
		}
		require.Len(t, last, 8)
		down := strings.Index(files[0]+files[1], "down.yaml") / len("up.yaml")
		assert.Equal(t, "0%", last[2+down])
		assert.Contains(t, []string{"98%", "99%", "100%"}, last[3-down])
	}
}

func assertNarrow(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 81, line)
	}
}

func TestSimulateForPrograms(t *testing.T) {
	dir := write(t, map[string]string{"a&b.yaml": fmt.Sprintf(system, "")})
	t.Chdir(dir)
	out, _, status := tool("", "simulate", "-json", "-svg", "out.svg", "-compare", "a&b.yaml", "a&b.yaml")
	assert.Equal(t, 1, status)
	var all []struct {
		File   string
		Answer struct {
			Verdict string
			Margin  float64
			Run     struct{ Seconds []any }
			Limits  []string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &all))
	require.Len(t, all, 2)
	assert.Equal(t, all[0], all[1])
	assert.Equal(t, "a&b.yaml", all[0].File)
	assert.Equal(t, "stays down", all[0].Answer.Verdict)
	assert.InDelta(t, 14, all[0].Answer.Margin, 2)
	assert.Len(t, all[0].Answer.Run.Seconds, 90)
	assert.NotEmpty(t, all[0].Answer.Limits)

	svg, err := os.ReadFile("out.svg")
	require.NoError(t, err)
	lines := 0
	for dec := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if element, ok := token.(xml.StartElement); ok && element.Name.Local == "polyline" {
			lines++
		}
	}
	assert.Equal(t, 2*(2+2+1), lines, "calls, loads and the queue of two runs")
	assert.Contains(t, string(svg), "a&amp;b.yaml: Load by service")
}

// Each fault has its line, and lint reports the same.
func TestSystemFaults(t *testing.T) {
	many := "services:\n  web: {rate: 1/s}\n"
	for i := range 1000 {
		many += fmt.Sprintf("  s%d: {}\n", i)
	}
	for _, row := range []struct {
		name, text string
		want       []string
	}{
		{"values", "services:\n  web:\n    rate: 280\n  my-db:\n    workers: 0\n", []string{"3: services.web.rate is 280: write calls", "5: services.my-db.workers is 0: "}},
		{"keys", "service: 1\nservices:\n  web:\n    rate: 1/s\n    wokers: 3\n", []string{`1: unknown key "service": the keys of a system are `, `5: unknown key "services.web.wokers": `}},
		{"policy", "services:\n  web:\n    rate: 1/s\n    calls:\n    - to: web\n      retry:\n        max_attempts: 2\n        jitter: 7\n        foo: 1\nduration: 1\n",
			[]string{`8: services.web.calls[0].retry: jitter is 7: `, "10: duration is 1: "}},
		{"whole", "services:\n  web:\n    rate: 1/s\n    calls:\n      - to: db\nevents:\n  - {at: 1s, for: 1s, service: x, workers: 0}\n",
			[]string{`5: services.web.calls[0].to is "db": `, `7: events[0].service is "x": `}},
		{"circle", "services:\n  web: {rate: 1/s, calls: [{to: web}]}\n", []string{"1: services call each other in a circle: web -> web: "}},
		{"events", "services:\n  web: {rate: 1e8/s}\n", []string{"1: it takes about 1.2e+10 events without a single retry, more than 1000000000: write a shorter duration or a lower rate"}},
		{"services", many, []string{"1: this is larger than any system"}},
		{"bomb", "services:\n  web: &a {rate: 1/s, calls: [{to: x}, {to: x}]}\n" + bomb(), []string{"1: this is larger than any system"}},
		{"documents", "services: {web: {rate: 1}}\n---\nservices: {web: {rate: 1}}\n", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := filepath.Join(write(t, map[string]string{"x.yaml": row.text}), "x.yaml")
			stdout, stderr, status := tool("", "simulate", file)
			assert.Equal(t, 1, status)
			assert.Empty(t, stdout)
			if row.want == nil {
				assert.Equal(t, file+":1: there are 2 documents: write one\n", stderr)
				return
			}
			lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			require.Len(t, lines, len(row.want), stderr)
			for i, want := range row.want {
				assert.True(t, strings.HasPrefix(lines[i], file+":"+want), lines[i])
			}
			found, _, status := tool("", "lint", filepath.Dir(file))
			assert.Equal(t, 1, status)
			assert.Equal(t, stderr+"1 policy in 1 file\n", found)
		})
	}
}

// bomb returns keys whose aliases stand for 16 million policies.
func bomb() (text string) {
	for i := range 24 {
		text += fmt.Sprintf("  %c: &%c {calls: [{to: x, retry: *%c}, {to: x, retry: *%c}]}\n", 'b'+i, 'b'+i, 'a'+i, 'a'+i)
	}
	return text
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
	assert.Equal(t, "system.yaml:6: services.web.calls[0]: 3 attempts without a Backoff (backoff): they follow each other at once; set one, or Fixed(0) for no delay\n1 policy in 2 files; 1 file has none at the top: try -at\n", out)
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
	shown, _, _ = strings.Cut(shown, "\nThe rows ")
	t.Chdir(write(t, map[string]string{"system.yaml": text}))
	out, _, _ := tool("", "simulate", "system.yaml")
	require.Greater(t, strings.Count(shown, "\n"), 10)
	for line := range strings.Lines(shown) {
		assert.Contains(t, out, strings.TrimPrefix(line, "    "))
	}
}

// A system has a page, but no file of it.
func TestExploreSystem(t *testing.T) {
	t.Chdir(write(t, map[string]string{"system.yaml": fmt.Sprintf(system, "")}))
	_, stderr, status := tool("", "explore", "-o", "page.html", "system.yaml")
	assert.Equal(t, 2, status)
	assert.Contains(t, stderr, "retry explore: -o shows policies, and this file is a system: draw it with retry simulate -svg\n")
	_, err := os.Stat("page.html")
	assert.ErrorIs(t, err, os.ErrNotExist)

	// At a path there is a policy.
	assert.Empty(t, succeed(t, "", "explore", "-o", "page.html", "-at", "services.web.calls.0.retry", "system.yaml"))
}

// Only a terminal sees how long it takes, from the first second on.
func TestDuring(t *testing.T) {
	for _, row := range []struct {
		shown bool
		takes time.Duration
		want  string
	}{
		{true, 999 * time.Millisecond, ""},
		{true, 2500 * time.Millisecond, "\rsimulating, 1s\rsimulating, 2s\r\x1b[K"},
		{true, 1500 * time.Millisecond, "\rsimulating, 1s\r\x1b[K"},
		{false, 2500 * time.Millisecond, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var errs strings.Builder
			done := false
			(&streams{err: &errs, shown: row.shown}).during("simulating", func() {
				time.Sleep(row.takes)
				done = true
			})
			assert.True(t, done)
			assert.Equal(t, row.want, errs.String())
		})
	}
}
