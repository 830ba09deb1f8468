package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// incident returns the log of six pods for an hour. Pod web-3 has a wrong limit on attempts, and
// for five minutes all its calls fail with the same error. In every pod, about one call in fifty
// fails once.
func incident(t *testing.T) string {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		random := rand.New(rand.NewPCG(1, 2))
		for call := range 6 * 60 * 10 {
			pod, at := call%6, time.Duration(call/6)*6*time.Second
			broken := pod == 3 && at >= 20*time.Minute && at < 25*time.Minute
			p := retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(100 * time.Millisecond)}
			if pod == 3 {
				p.MaxAttempts = 9
			}
			noise := random.IntN(50) == 0
			var line bytes.Buffer
			p.OnEvent = retrylog.NewWriter(&line).OnEvent
			time.Sleep(time.Until(begun.Add(at)))
			_ = retry.Do(retrylog.WithKey(t.Context(), fmt.Sprint("order-", call)), p, func(context.Context) error {
				switch noisy := noise; {
				case broken:
					return errors.New("dial tcp 10.0.0.3:5432: connect: connection refused")
				case noisy:
					noise = false
					return errors.New("503 Service Unavailable")
				}
				return nil
			})
			for l := range strings.Lines(line.String()) {
				_, _ = io.WriteString(&log, fmt.Sprintf("[pod/web-%d/web] %s", pod, l))
			}
		}
	})
	return log.String()
}

// The counts show the broken pod, its error, its limit and the time. They are the counts that a
// person would find in the lines of the log.
func TestCountsShowTheBrokenPod(t *testing.T) {
	log := incident(t)
	text := succeed(t, log, "explain", "-failed")
	numbers := text[strings.LastIndex(text, "\n\n3,600 calls, 50 gave up, 1.13 attempts a call\n")+2:]
	assert.Regexp(t, `(?m)^CALLS  GAVE UP  ATTEMPTS  LIMIT  SOURCE +COMMONEST ERROR \(FAILURES\)\n600 +50 +1,011 +9 +pod/web-3/web +dial tcp 10.0.0.3:5432: connect: connection refused \(450\)\n600 +0 +\d+ +4 +pod/web-`, numbers)
	assert.Regexp(t, `(?m)^FAILURES.*\n450 +\d+% +dial tcp 10.0.0.3:5432: connect: connection refused\n`, numbers)
	assert.Regexp(t, `(?m)^IN EACH MINUTE .*\n(?:\S+ \S+ +0 .*\n|\.\.\.\n)+(?:2000-01-01 00:2[0-4]:00Z +10 +#{24} +\d+ +#+\n){5}(?:\S+ \S+ +0 .*\n|\.\.\.\n)+$`, numbers)

	var got summary
	require.NoError(t, json.Unmarshal([]byte(succeed(t, log, "explain", "-json")), &got))
	counts := map[string]int{}
	for line := range strings.Lines(log) {
		var event struct{ Kind, Err, Reason string }
		_, object, _ := strings.Cut(line, "] ")
		require.NoError(t, json.Unmarshal([]byte(object), &event))
		counts[event.Kind]++
		counts[event.Reason]++
		if event.Kind == "attempt_finished" {
			counts[event.Err]++
		}
	}
	assert.Equal(t, counts["attempt_started"], got.Attempts)
	assert.Equal(t, counts["retry_scheduled"], got.Retries)
	assert.Equal(t, counts["success"], got.Succeeded)
	assert.Equal(t, counts["attempts_exhausted"], got.Reasons[0].Calls)
	for _, line := range got.Errors {
		assert.Equal(t, counts[line.Error], line.Count, line.Error)
	}
	t.Chdir(write(t, map[string]string{"p.yaml": "{max_attempts: 4, backoff: {type: fixed, base: 100ms}}"}))
	report, _, status := tool(log, "explain", "-policy", "p.yaml")
	assert.Equal(t, found, status)
	assert.Regexp(t, `(?m)^standard input:\d+: pod/web-3/web: max is 9, but under the policy it is 4\nthe policy: 4 attempts, fixed 100ms\ndiffer from the policy: 600 calls \(600 of 600 from pod/web-3/web\)\n3,600 calls: 3,600 checked`, report)
}
