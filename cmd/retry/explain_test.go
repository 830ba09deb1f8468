package main

import (
	"bytes"
	_ "embed"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const logPolicy = "{max_attempts: 3, backoff: {type: exponential, base: 1s}, jitter: full}"

// Call a fails twice and then succeeds, and call b fails three times, under logPolicy.
//
//go:embed testdata/two.log
var twoCalls string

// An observer is an output that calls see with all that has been written to it.
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
