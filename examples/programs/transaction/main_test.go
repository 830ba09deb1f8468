package main

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// TestMain runs the program itself if a test has started this process.
func TestMain(m *testing.M) {
	if os.Getenv("RETRY_TEST_MAIN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program runs main with this DATABASE_URL and returns its output and its exit
// status.
func program(t *testing.T, url string) (stdout, stderr string, status int) {
	var out, errs strings.Builder
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "RETRY_TEST_MAIN=1", "DATABASE_URL="+url, "TMPDIR="+t.TempDir())
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// postgresURL returns the URL of the PostgreSQL to test with.
func postgresURL(t *testing.T) string {
	url, must := os.Getenv("RETRY_TEST_POSTGRES"), true
	if url == "" {
		url, must = "postgres://retry_test:retry_test@127.0.0.1:5432/retry_test?sslmode=disable", os.Getenv("CI") == "true"
	}
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := db.PingContext(ctx); err != nil && !must {
		t.Skip("no database answers: ", err)
	} else {
		require.NoError(t, err)
	}
	return url
}

func TestProgram(t *testing.T) {
	for _, row := range []struct {
		name     string
		url      func(*testing.T) string
		conflict string
	}{
		{"sqlite", func(*testing.T) string { return "" }, "SQLITE_BUSY|database is locked"},
		{"postgres", postgresURL, "SQLSTATE 40001"},
	} {
		t.Run(row.name, func(t *testing.T) {
			stdout, stderr, status := program(t, row.url(t))
			require.Zero(t, status, stderr)
			assert.Empty(t, stderr)
			assert.Contains(t, stdout, "6 attempts, exponential 20ms x2, at most 200ms, equal jitter, 5s for each\n")
			assert.Regexp(t, `(?m)^5 +100ms to 200ms`, stdout)
			assert.Regexp(t, `(?m)^(alice|bob  )  attempt 1 committed after `, stdout)
			assert.Regexp(t, `(?m)^(alice|bob  )  attempt 1 failed: .*(`+row.conflict+`)`, stdout)
			assert.Regexp(t, `(?m)^(alice|bob  )  attempt [2-6] committed after `, stdout)
			assert.Equal(t, 2, strings.Count(stdout, "stopped: success\n"))
			assert.True(t, strings.HasSuffix(stdout, "\n\nalice has 80, bob has 120, together 200\n"), stdout)
		})
	}
}

// An error ends the program with status 1 and one line.
func TestProgramFails(t *testing.T) {
	for _, row := range []struct{ name, url, stderr string }{
		{"no such server", "postgres://127.0.0.1:1/bank?sslmode=disable", `^transaction: failed to connect `},
		{"an invalid URL", "postgres://127.0.0.1:port/bank", `^transaction: cannot parse `},
	} {
		t.Run(row.name, func(t *testing.T) {
			stdout, stderr, status := program(t, row.url)
			assert.Equal(t, 1, status)
			assert.Regexp(t, regexp.MustCompile(row.stderr), stderr)
			assert.Empty(t, stdout)
		})
	}
}

func TestCheck(t *testing.T) {
	assert.NoError(t, check([2]int{80, 120}, 3))
	assert.EqualError(t, check([2]int{70, 120}, 3), "the balances are [70 120] and must be [80 120]")
	assert.EqualError(t, check([2]int{80, 130}, 3), "the balances are [80 130] and must be [80 120]")
	assert.EqualError(t, check([2]int{80, 120}, 2), "the payments took 2 attempts: they did not collide")
}

// Nothing is left behind, whatever happens.
func TestCleansUp(t *testing.T) {
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
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	defer db.Close()
	b, err := openBank(url)
	require.NoError(t, err)
	require.NoError(t, b.create(t.Context()))
	tables := func() (n int) {
		require.NoError(t, db.QueryRow("SELECT count(*) FROM pg_tables WHERE tablename = $1", b.accounts).Scan(&n))
		return n
	}
	assert.Equal(t, 1, tables())
	require.NoError(t, b.close())
	assert.Zero(t, tables())
}

func TestPayBothReportsWhoCannotPay(t *testing.T) {
	b, err := openBank("")
	require.NoError(t, err)
	defer func() { require.NoError(t, b.close()) }()
	require.NoError(t, b.create(t.Context()))
	_, err = payBoth(t.Context(), t.Output(), b, retry.Policy{}, payment{from: 1, to: 2, amount: 101, payer: "alice"})
	assert.ErrorContains(t, err, "account 1 holds less than 101")
	balances, err := b.read(t.Context(), b.db)
	require.NoError(t, err)
	assert.Equal(t, [2]int{100, 100}, balances)
}
