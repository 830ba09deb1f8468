package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

const logPolicy = "{max_attempts: 3, backoff: {type: exponential, base: 1s}, jitter: full}"

// Call a fails twice and then succeeds, and call b fails three times, under logPolicy.
//
//go:embed testdata/two.log
var twoCalls string

// The README's filter for jq counts the calls that succeeded within 3 attempts, and the calls that
// needed more. Calls that failed are in neither count.
func TestReadmeCountsTheCallsForWhichAttemptsWereEnough(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	filter := regexp.MustCompile(`explain -json \S+ \| jq -c '(.*)'`).FindSubmatch(readme)
	require.NotNil(t, filter)
	var log bytes.Buffer
	for failures := range 6 { // the sixth call fails
		policy := retry.Policy{MaxAttempts: 5, OnEvent: retrylog.NewWriter(&log).OnEvent}
		attempts := 0
		_ = retry.Do(retrylog.WithKey(t.Context(), strconv.Itoa(failures)), policy, func(context.Context) error {
			if attempts++; attempts <= failures {
				return errors.New("refused")
			}
			return nil
		})
	}
	report := succeed(t, log.String(), "explain", "-json")

	var read struct {
		List []struct {
			Attempts int
			Reason   string
		} `json:"calls_list"`
	}
	require.NoError(t, json.Unmarshal([]byte(report), &read))
	within, later := 0, 0
	for _, call := range read.List {
		switch {
		case call.Reason == "success" && call.Attempts <= 3:
			within++
		case call.Reason == "success":
			later++
		}
	}
	assert.Equal(t, [...]int{3, 2}, [...]int{within, later})

	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is not installed")
	}
	jq := exec.CommandContext(t.Context(), "jq", "-c", string(filter[1]))
	jq.Stdin = strings.NewReader(report)
	counts, err := jq.Output()
	require.NoError(t, err)
	assert.Equal(t, `{"enough":3,"more":2}`+"\n", string(counts))
}

// An observer is an output. After each write it calls the function `see` with everything that has
// been written so far.
type observer struct {
	bytes.Buffer
	see func(all string)
}

func (o *observer) Write(b []byte) (int, error) {
	n, err := o.Buffer.Write(b)
	o.see(o.String())
	return n, err
}

// Explain prints each call of an endless pipe as soon as the call has ended. An interrupt ends the
// reading, and explain prints the counts.
func TestInterruptEndsExplain(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot interrupt itself")
	}
	in, grows, err := os.Pipe()
	require.NoError(t, err)
	_, err = io.WriteString(grows, twoCalls)
	require.NoError(t, err)
	out := &observer{see: func(all string) {
		if strings.HasSuffix(all, "b: stopped after 3 attempts: no attempt is left of 3\n") {
			require.NoError(t, self.Signal(os.Interrupt))
		}
	}}
	require.Zero(t, run(&streams{ctx: t.Context(), in: in, out: out, err: io.Discard}, []string{"explain"}))
	assert.Contains(t, out.String(), "left of 3\n\n2 calls, 1 gave up, ")
	require.NoError(t, errors.Join(grows.Close(), in.Close()))
}
