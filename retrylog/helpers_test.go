package retrylog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

var errRefused = errors.New("connection refused")

var policy = retry.Policy{
	MaxAttempts: 3,
	Backoff:     retry.Exponential{Base: 200 * time.Millisecond},
	Jitter:      retry.Proportional(0.2),
	Source:      func() uint64 { return 42 },
}

// The function `failing` returns a function that takes 30ms for each attempt. Its attempts fail
// with the given errors, one after the other. After the last error, its attempts succeed.
func failing(errs ...error) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(30 * time.Millisecond)
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}
}

// The function `with` returns a copy of the variable `policy` that `change` has changed.
func with(change func(*retry.Policy)) retry.Policy {
	p := policy
	change(&p)
	return p
}

// logOf returns the log of a call in virtual time.
func logOf(t *testing.T, ctx context.Context, p retry.Policy, fn func(context.Context) error) (log string) {
	synctest.Test(t, func(t *testing.T) { log = logged(ctx, p, fn) })
	return log
}

// The function `logged` returns the log of a call.
func logged(ctx context.Context, p retry.Policy, fn func(context.Context) error) string {
	var log bytes.Buffer
	p.OnEvent = retrylog.NewWriter(&log).OnEvent
	_ = retry.Do(ctx, p, fn)
	return log.String()
}

func replay(t *testing.T, log string) []retrylog.Call {
	records, err := retrylog.Read(strings.NewReader(log))
	require.NoError(t, err)
	calls, err := retrylog.Replay(records)
	require.NoError(t, err)
	return calls
}

// The function `only` returns the call of a log that has only one call.
func only(t *testing.T, log string) retrylog.Call {
	calls := replay(t, log)
	require.Len(t, calls, 1)
	return calls[0]
}

// attemptsOf returns the attempts of a call as a text. After the number of an attempt, "+" means
// that it finished, "-" that it did not finish, "!" that the count was restarted, and ">" that it
// was retried.
func attemptsOf(c retrylog.Call) string {
	var attempts []string
	for _, a := range c.Attempts {
		attempts = append(attempts, fmt.Sprint(a.Attempt)+map[bool]string{true: "+", false: "-"}[a.Finished]+
			map[bool]string{true: "!"}[a.Reset]+map[bool]string{true: ">"}[a.Retry()])
	}
	return strings.Join(attempts, " ")
}

// recordsOf returns the records of a call with this limit on attempts. It sets the times of the
// events. If an event has no Elapsed, it has the time of the event before it, or the time at which
// the delay before it ends.
func recordsOf(limit int, events ...retry.Event) []retrylog.Record {
	records := make([]retrylog.Record, len(events))
	at := time.Duration(0)
	for i, e := range events {
		if e.Elapsed != 0 {
			at = e.Elapsed
		}
		e.Elapsed, e.Time, e.Max = at, time.Unix(0, 0).Add(at), limit
		if e.Kind == retry.RetryScheduled {
			e.Due = e.Time.Add(e.Delay)
			at += e.Delay
		}
		records[i].Event = e
	}
	return records
}
