package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/cmd/retry/internal/explore"
)

// The page is served until the program is interrupted.
func TestExploreServes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	var errs strings.Builder
	ended := make(chan int, 1)
	go func() {
		ended <- run(&streams{ctx: ctx, in: strings.NewReader(""), out: write, err: &errs},
			[]string{"explore", "-clients", "7", "-size", "3", "-ratio", "0.5", "-outage", "90s", "-at", "retry", "testdata/policy.yaml", "testdata/policy.json"})
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	require.NoError(t, err)
	site, rest, _ := strings.Cut(line, " ")
	assert.Regexp(t, `^http://127\.0\.0\.1:\d+/$`, site)
	assert.Equal(t, "(Ctrl-C ends it)\n", rest)

	response, err := http.Get(site)
	require.NoError(t, err)
	html, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	for _, text := range []string{
		"<title>testdata/policy.yaml - testdata/policy.json - retry explore</title>",
		"5 attempts, exponential 200ms x2", "Line 1: there is nothing at retry", // in the second file
		`name="clients" type="number" min="1" max="100000" value="7"`, "7 calls make at most 3 retries, and 0.5 for each attempt that succeeds.", "an outage of 1m30s begins",
	} {
		assert.Contains(t, string(html), text)
	}
	unused, err := net.Dial("tcp", strings.Trim(site, "htp:/"))
	require.NoError(t, err)
	defer unused.Close()
	cancel()
	assert.Zero(t, <-ended)
	assert.Empty(t, errs.String())
	_, err = http.Get(site)
	assert.Error(t, err)
}

func TestExploreWrites(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.html")
	assert.Empty(t, succeed(t, "", "explore", "-o", file, "testdata/policy.yaml"))
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(html), "<strong>5 attempts, exponential 200ms x2, at most 2s, ±20%, 1s for each</strong> (native)")
	assert.NotContains(t, string(html), "<script")

	assert.Empty(t, succeed(t, "max_attempts: 2", "explore", "-o", file, "-"))
	html, err = os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(html), "Policy A: standard input")

	// The page for a policy with a fault is written, and shows the fault.
	stdout, stderr, status := tool("a:\n  jitter: 2", "explore", "-o", file, "-at", "a", "-")
	assert.Equal(t, 1, status)
	assert.Empty(t, stdout)
	assert.True(t, strings.HasPrefix(stderr, "standard input:2: jitter is 2: "), stderr)
	html, err = os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(html), "<li>Line 2: jitter is 2: ")

	_, stderr, status = tool(strings.Repeat("#", explore.MaxText+1), "explore", "-o", file, "-")
	assert.Equal(t, 2, status)
	assert.Equal(t, "retry explore: standard input is longer than 128 KiB\n", stderr)
}
