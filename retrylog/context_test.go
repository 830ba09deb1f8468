package retrylog_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// The record of an AttemptFinished is Hedged if the client says so. The record of an
// AttemptStarted is never Hedged.
func TestWithHedged(t *testing.T) {
	for _, hedged := range []bool{false, true} {
		var out bytes.Buffer
		ctx := retrylog.WithHedged(context.Background(), func() bool { return hedged })
		w := retrylog.NewWriter(&out)
		w.OnEvent(ctx, retry.Event{Kind: retry.AttemptStarted, Time: time.Unix(7, 0), Attempt: 1, Max: 1})
		w.OnEvent(ctx, retry.Event{Kind: retry.AttemptFinished, Time: time.Unix(7, 0), Attempt: 1, Max: 1})
		records, err := retrylog.Read(&out)
		require.NoError(t, err)
		assert.Equal(t, []bool{false, hedged}, []bool{records[0].Hedged, records[1].Hedged})
	}
}
