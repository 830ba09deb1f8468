package main

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

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
			log, letters, _ := strings.Cut(out.String(), "dead letter  ")
			assert.True(t, strings.HasPrefix(log, "4 attempts, exponential 50ms x2, at most 1s, ±20%, 10s for each\n"))
			ends := regexp.MustCompile(`mail-.: stopped after.*|\(Retry-After is 100ms,|.* jobs: .*`).FindAllString(log, -1)
			assert.Equal(t, []string{
				"mail-1: stopped after 1 attempt: it succeeded",
				"(Retry-After is 100ms,", "(Retry-After is 100ms,",
				"mail-2: stopped after 3 attempts: it succeeded",
				"mail-3: stopped after 2 attempts: no attempt is left of 2",
				"mail-4: stopped after 4 attempts: no attempt is left of 4",
				"mail-5: stopped after 1 attempt: the error is permanent",
				"5 jobs: every decision is the policy's",
			}, ends)
			// Which of two jobs dies first depends on timing.
			assert.ElementsMatch(t, []string{
				"attempts  reason              final error",
				"mail-5       1         permanent_error     retry: permanent error after 1 attempt: 550 no such user",
				"mail-3       2         attempts_exhausted  retry: attempts exhausted after 2 attempts: dial tcp: connection refused",
				"mail-4       4         attempts_exhausted  retry: attempts exhausted after 4 attempts: dial tcp: connection refused",
				"",
				"dave has come back: mail-5 is requeued with all its attempts",
				"",
				"2 dead letters are left",
			}, strings.Split(strings.TrimSpace(letters), "\n"))
		})
	}
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

	var schema string
	db := server{url: postgresURL(t)}.open(t)
	t.Run("its schema is there", func(t *testing.T) {
		schema = postgresServer(t).place
		require.Regexp(t, "^jobqueue_[a-z0-9]+$", schema)
	})
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
	synctest.Test(t, func(t *testing.T) {
		var log retrylog.Recorder
		policy := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), OnEvent: log.OnEvent}
		require.Error(t, retry.Do(t.Context(), policy, func(context.Context) error { return errors.New("down") }))
		records := log.Records()
		require.Equal(t, 2, records[3].Event.Attempt)
		var out strings.Builder
		require.NoError(t, explain(&out, append(records[3:], records[:3]...), policy, nil))
		assert.Contains(t, out.String(), "1 jobs: every decision is the policy's")
	})
}
