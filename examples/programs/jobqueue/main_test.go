package main

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
				"5 jobs: every decision follows the policy",
			}, ends)
			// The order of the dead letters depends on timing.
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

// The program removes its file or its schema, also after an error.
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
	t.Run("the schema exists during the test", func(t *testing.T) {
		schema = postgresServer(t).place
		require.Regexp(t, "^jobqueue_[a-z0-9]+$", schema)
	})
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema).Scan(&n))
	assert.Zero(t, n)
}
