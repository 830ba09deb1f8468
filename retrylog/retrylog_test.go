package retrylog_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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

// failing returns a function whose attempts take 30ms each. They fail with the
// given errors and then succeed.
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

// logOf returns the log of a call in virtual time.
func logOf(t *testing.T, ctx context.Context, p retry.Policy, fn func(context.Context) error) string {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		w := retrylog.NewWriter(&log)
		p.OnEvent = w.OnEvent
		_ = retry.Do(ctx, p, fn)
		assert.NoError(t, w.Err())
	})
	return log.String()
}

func replay(t *testing.T, log string) []retrylog.Call {
	records, err := retrylog.Read(strings.NewReader(log))
	require.NoError(t, err)
	calls, err := retrylog.Replay(records)
	require.NoError(t, err)
	return calls
}
