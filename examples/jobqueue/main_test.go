package main

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// varying matches what differs from run to run: times.
var varying = regexp.MustCompile(`(?m)^[-0-9]+ [:.0-9]+ \+[.0-9]+m?s |after [.0-9]+[nµm]?s|, at [:.0-9]+`)

func TestProgram(t *testing.T) {
	for _, r := range []struct {
		name string
		url  func(*testing.T) string
	}{
		{"sqlite", func(*testing.T) string { return "" }},
		{"postgres", postgresURL},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			require.NoError(t, run(t.Context(), &out, r.url(t)))
			assert.Equal(t, `4 attempts, exponential 50ms x2, at most 1s, ±20%, 10s for each

*mail-1: attempt 1 of 4 started
*mail-1: attempt 1 succeeded *
*mail-1: stopped after 1 attempt: it succeeded

*mail-2: attempt 1 of 4 started
*mail-2: attempt 1 failed *: 450 busy, ask again in 100ms
*mail-2: attempt 1 is retried in 108.089067ms* (Retry-After is 100ms, drawn from 100ms to 140ms with seed 11678305281923520411)
*mail-2: attempt 2 of 4 started
*mail-2: attempt 2 failed *: 450 busy, ask again in 100ms
*mail-2: attempt 2 is retried in 120.645352ms* (Retry-After is 100ms, drawn from 100ms to 140ms with seed 11678305281923520411)
*mail-2: attempt 3 of 4 started
*mail-2: attempt 3 succeeded *
*mail-2: stopped after 3 attempts: it succeeded

*mail-3: attempt 1 of 2 started
*mail-3: attempt 1 failed *: dial tcp: connection refused
*mail-3: attempt 1 is retried in 47.518905ms* (drawn from 40ms to 60ms with seed 5957086460019503424)
*mail-3: attempt 2 of 2 started
*mail-3: attempt 2 failed *: dial tcp: connection refused
*mail-3: stopped after 2 attempts: no attempt is left

*mail-4: attempt 1 of 4 started
*mail-4: attempt 1 failed *: dial tcp: connection refused
*mail-4: attempt 1 is retried in 58.574778ms* (drawn from 40ms to 60ms with seed 10410448234326871395)
*mail-4: attempt 2 of 4 started
*mail-4: attempt 2 failed *: dial tcp: connection refused
*mail-4: attempt 2 is retried in 100.185925ms* (drawn from 80ms to 120ms with seed 10410448234326871395)
*mail-4: attempt 3 of 4 started
*mail-4: attempt 3 failed *: dial tcp: connection refused
*mail-4: attempt 3 is retried in 179.90878ms* (drawn from 160ms to 240ms with seed 10410448234326871395)
*mail-4: attempt 4 of 4 started
*mail-4: attempt 4 failed *: dial tcp: connection refused
*mail-4: stopped after 4 attempts: no attempt is left

*mail-5: attempt 1 of 4 started
*mail-5: attempt 1 failed *: 550 no such user
*mail-5: stopped after 1 attempt: the error is permanent

5 jobs: every decision is the policy's

`, varying.ReplaceAllString(before(out.String(), "dead letter  "), "*"))
			letters := strings.Split(strings.TrimSpace(out.String()[len(before(out.String(), "dead letter  ")):]), "\n")
			// Which of two jobs dies first depends on timing.
			assert.ElementsMatch(t, []string{
				"dead letter  attempts  reason              final error",
				"mail-5       1         permanent_error     550 no such user",
				"mail-3       2         attempts_exhausted  dial tcp: connection refused",
				"mail-4       4         attempts_exhausted  dial tcp: connection refused",
				"",
				"dave has come back: mail-5 is requeued with all its attempts",
				"",
				"2 dead letters are left",
			}, letters)
		})
	}
}

func before(text, mark string) string {
	head, _, _ := strings.Cut(text, mark)
	return head
}

// Nothing is left behind, whatever happens.
func TestProgramCleansUp(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, run(interrupted, t.Output(), ""), context.Canceled)
	assert.NoError(t, run(t.Context(), t.Output(), ""))
	left, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	assert.Empty(t, left)

	url := postgresURL(t)
	db, _, remove, err := openTemporary(t.Context(), url)
	require.NoError(t, err)
	var schema string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&schema))
	require.Regexp(t, "^jobqueue_[a-z0-9]+$", schema)
	require.NoError(t, remove())
	db, err = openPostgres(url, "")
	require.NoError(t, err)
	defer db.Close()
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema).Scan(&n))
	assert.Zero(t, n)
}

func TestProgramFails(t *testing.T) {
	assert.ErrorContains(t, run(t.Context(), t.Output(), "postgres://127.0.0.1:1/jobs?sslmode=disable"), "failed to connect")
	assert.ErrorContains(t, run(t.Context(), t.Output(), "postgres://127.0.0.1:port/jobs"), "cannot parse")
}

// If a worker fails, workUntilDone does not wait for the jobs that no worker runs.
func TestWorkUntilDoneFails(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 0)
		b.exec("ALTER TABLE jobs RENAME COLUMN lease_until TO no_lease")
		ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		assert.ErrorContains(b, workUntilDone(ctx, b.queue, nil), "lease_until")
		assert.Less(b, time.Since(began), time.Second)
	})
}

// A worker may log its claim before another has logged the retry that led to it.
func TestExplainSorts(t *testing.T) {
	policy := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}
	start := time.UnixMicro(noon)
	event := func(kind retry.EventKind, attempt int, elapsed time.Duration) retry.Event {
		return retry.Event{Kind: kind, Time: start.Add(elapsed), Elapsed: elapsed, Attempt: attempt, Max: 2}
	}
	finished := event(retry.AttemptFinished, 1, 0)
	finished.Err = errors.New("down")
	scheduled := event(retry.RetryScheduled, 1, 0)
	scheduled.Delay, scheduled.Due = time.Second, start.Add(time.Second)
	log := []retrylog.Record{
		{Event: event(retry.AttemptStarted, 2, time.Second)},
		{Event: event(retry.AttemptStarted, 1, 0)}, {Event: finished}, {Event: scheduled},
	}
	var out strings.Builder
	require.NoError(t, explain(&out, log, policy, nil))
	assert.Contains(t, out.String(), "1 jobs: every decision is the policy's")
}
