package main

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
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
			assert.Equal(t, `4 attempts, exponential 50ms x2, at most 1s, ±20%

*mail-1: attempt 1 of 4 started
*mail-1: attempt 1 succeeded *
*mail-1: stopped after 1 attempt: it succeeded

*mail-2: attempt 1 of 4 started
*mail-2: attempt 1 failed *: 450 busy, ask again in 100ms
*mail-2: attempt 1 is retried in 108.089067ms* (the server asks for 100ms, drawn with seed 11678305281923520411)
*mail-2: attempt 2 of 4 started
*mail-2: attempt 2 failed *: 450 busy, ask again in 100ms
*mail-2: attempt 2 is retried in 120.645352ms* (the server asks for 100ms, drawn with seed 11678305281923520411)
*mail-2: attempt 3 of 4 started
*mail-2: attempt 3 succeeded *
*mail-2: stopped after 3 attempts: it succeeded

*mail-3: attempt 1 of 2 started
*mail-3: attempt 1 failed *: dial tcp: connection refused
*mail-3: attempt 1 is retried in 47.518905ms* (drawn with seed 5957086460019503424)
*mail-3: attempt 2 of 2 started
*mail-3: attempt 2 failed *: dial tcp: connection refused
*mail-3: stopped after 2 attempts: no attempt is left

*mail-4: attempt 1 of 4 started
*mail-4: attempt 1 failed *: dial tcp: connection refused
*mail-4: attempt 1 is retried in 58.574778ms* (drawn with seed 10410448234326871395)
*mail-4: attempt 2 of 4 started
*mail-4: attempt 2 failed *: dial tcp: connection refused
*mail-4: attempt 2 is retried in 100.185925ms* (drawn with seed 10410448234326871395)
*mail-4: attempt 3 of 4 started
*mail-4: attempt 3 failed *: dial tcp: connection refused
*mail-4: attempt 3 is retried in 179.90878ms* (drawn with seed 10410448234326871395)
*mail-4: attempt 4 of 4 started
*mail-4: attempt 4 failed *: dial tcp: connection refused
*mail-4: stopped after 4 attempts: no attempt is left

*mail-5: attempt 1 of 4 started
*mail-5: attempt 1 failed *: 550 no such user
*mail-5: stopped after 1 attempt: the error is permanent

5 jobs: every decision is the policy's

`, varying.ReplaceAllString(before(out.String(), "dead letter  "), "*"))
			letters := strings.Split(strings.TrimSpace(out.String()[len(before(out.String(), "dead letter  ")):]), "\n")
			// Which of two dies first is a matter of time.
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

func TestCheck(t *testing.T) {
	three, four := DeadLetter{ID: "mail-3", Attempts: 2}, DeadLetter{ID: "mail-4", Attempts: 4, Reason: retry.ReasonExhausted}
	assert.NoError(t, check([]DeadLetter{four, three}))
	for _, wrong := range [][]DeadLetter{nil, {three}, {three, three}, {three, four, four}, {three, {ID: "mail-4", Attempts: 5}}, {four, {ID: "mail-5", Attempts: 2}}} {
		assert.ErrorContains(t, check(wrong), "they must be mail-3 after 2 attempts and mail-4 after 4")
	}
}
