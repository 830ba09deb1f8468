package sqltest

import (
	"database/sql"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// three lists the databases whose SQL differs.
var three = []string{"sqlite", "postgres", "mariadb"}

// A job is a row of the table. nil is NULL.
type job struct {
	attempts, maxAttempts *int
	retryable             *bool
}

func (j job) values() string {
	return fmt.Sprintf("%s, %s, %s", literal(j.attempts), literal(j.maxAttempts), literal(j.retryable))
}

func literal[T any](v *T) string {
	if v == nil {
		return "NULL"
	}
	return strings.ToUpper(fmt.Sprint(*v))
}

// eligible returns the value that the SQL expression must have. A job without a limit has the default
// limit, if a default is set.
func (j job) eligible(p retry.Policy, byDefault int) bool {
	attempts, maxAttempts := 0, byDefault
	if j.attempts != nil {
		attempts = *j.attempts
	}
	if j.maxAttempts != nil {
		maxAttempts = *j.maxAttempts
	}
	p = p.ForJob(maxAttempts)
	if j.retryable != nil && !*j.retryable {
		p.NonRetryable = true
	}
	return p.Eligible(attempts)
}

// policies are the valid rows of the table of limits, and further policies with caps and without
// limits.
var policies = []retry.Policy{
	{},
	{MaxAttempts: 5},
	{MaxRetries: 3},
	{MaxAttempts: 5, MaxRetries: retry.Unlimited},
	{MaxAttempts: retry.Unlimited, MaxRetries: 2},
	{MaxAttempts: 5, MaxRetries: 2},
	{MaxRetries: retry.Unlimited, AttemptCap: 10},
	{MaxAttempts: 20, AttemptCap: 10},
	{MaxAttempts: 3, NonRetryable: true},
	{NonRetryable: true},
	{MaxAttempts: math.MaxInt, MaxRetries: math.MaxInt},
	{MaxAttempts: math.MaxInt, AttemptCap: math.MaxInt},
	{MaxAttempts: retry.Unlimited, AttemptCap: math.MaxInt},
	{AttemptCap: math.MaxInt},
	{MaxElapsed: time.Hour, Backoff: retry.Fixed(time.Second), AttemptCap: 10},
	retry.Default(),
}

// The database evaluates the expression for jobs with each combination of these numbers and NULL, and
// with each value of retryable. The numbers are the boundaries of the policies.
func TestEligible(t *testing.T) {
	counts := []*int{nil}
	for _, n := range []int{math.MinInt, -1, 0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 19, 20, 21, math.MaxInt - 1, math.MaxInt} {
		counts = append(counts, &n)
	}
	yes, no := true, false
	var jobs []job
	var rows []string // the rows of jobs, with ids from 0
	for _, attempts := range counts {
		for _, maxAttempts := range counts {
			for _, retryable := range []*bool{nil, &yes, &no} {
				rows = append(rows, fmt.Sprintf("(%d, %s)", len(jobs), job{attempts, maxAttempts, retryable}.values()))
				jobs = append(jobs, job{attempts, maxAttempts, retryable})
			}
		}
	}
	check := func(t *testing.T, db *sql.DB, name string, p retry.Policy, byDefault int) {
		eligible, err := retrysql.Eligible(p, retrysql.Columns{
			Attempts: "attempts", MaxAttempts: name + ".max_attempts", Retryable: "retryable", DefaultMaxAttempts: byDefault,
		})
		require.NoError(t, err)
		rows, err := db.QueryContext(t.Context(), "SELECT id, "+eligible+" FROM "+name)
		require.NoError(t, err)
		n, yes := 0, 0
		for ; rows.Next(); n++ {
			var id int
			var got bool // a bool, because the expression is never NULL
			require.NoError(t, rows.Scan(&id, &got))
			require.Equal(t, jobs[id].eligible(p, byDefault), got, "(%s) under %+v, by default %d", jobs[id].values(), p, byDefault)
			if got {
				yes++
			}
		}
		require.NoError(t, rows.Err())
		require.Equal(t, len(jobs), n)
		assert.Equal(t, yes, number(t, db, "SELECT COUNT(*) FROM "+name+" WHERE "+eligible), "%+v", p)
		assert.Equal(t, n-yes, number(t, db, "SELECT COUNT(*) FROM "+name+" WHERE NOT "+eligible), "%+v", p)
	}
	for _, database := range three {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			db := databases[database](t)
			name := table(t, db, "id INTEGER PRIMARY KEY, attempts BIGINT, max_attempts BIGINT, retryable BOOLEAN")
			exec(t, db, "INSERT INTO "+name+" VALUES "+strings.Join(rows, ", "))
			for _, p := range policies {
				check(t, db, name, p, 0)
				check(t, db, name, p, 3)
			}
		})
	}
}

// A column of text may be compared as text, as the documentation of Columns warns. In SQLite, 10
// attempts then count as fewer than 5 attempts.
func TestEligibleOfText(t *testing.T) {
	for database, row := range map[string]struct {
		want int
		err  string
	}{"sqlite": {1, ""}, "mariadb": {0, ""}, "postgres": {0, "SQLSTATE 42"}} {
		t.Run(database, func(t *testing.T) {
			db := databases[database](t)
			name := table(t, db, "attempts VARCHAR(10)")
			exec(t, db, "INSERT INTO "+name+" VALUES ('10')")
			eligible, err := retrysql.Eligible(retry.Policy{MaxAttempts: 5}, retrysql.Columns{Attempts: "attempts"})
			require.NoError(t, err)
			var n int
			err = db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+name+" WHERE "+eligible).Scan(&n)
			if row.err != "" {
				assert.ErrorContains(t, err, row.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, row.want, n)
		})
	}
}

// Quoted names of columns work in the WHERE of every database.
func TestEligibleQuotedNames(t *testing.T) {
	for _, row := range []struct {
		database string
		open     func(*testing.T) *sql.DB
		quote    string
		column   func(table, name string) string
	}{
		{"sqlite", sqlite, `"`, func(table, name string) string { return table + `."` + name + `"` }},
		{"sqlite, backticks", sqlite, "`", func(_, name string) string { return "`" + name + "`" }},
		{"postgres", postgres, `"`, func(table, name string) string { return table + `."` + name + `"` }},
		{"mariadb", mariadb, "`", func(_, name string) string { return "`" + name + "`" }},
	} {
		t.Run(row.database, func(t *testing.T) {
			t.Parallel()
			db := row.open(t)
			q := row.quote
			name := table(t, db, "id INTEGER PRIMARY KEY, "+q+"order"+q+" INTEGER, "+q+"maxAttempts"+q+" INTEGER, "+q+"null"+q+" BOOLEAN")
			exec(t, db, "INSERT INTO "+name+" VALUES (1, 1, 2, TRUE), (2, 2, 2, TRUE), (4, 1, 2, FALSE), (8, 0, 2, FALSE)")
			eligible, err := retrysql.Eligible(retry.Policy{MaxAttempts: 3}, retrysql.Columns{
				Attempts: row.column(name, "order"), MaxAttempts: row.column(name, "maxAttempts"), Retryable: row.column(name, "null"),
			})
			require.NoError(t, err)
			assert.Equal(t, 1+8, number(t, db, "SELECT SUM(id) FROM "+name+" WHERE id > 0 AND "+eligible))
			assert.Equal(t, 2+4, number(t, db, "SELECT SUM(id) FROM "+name+" WHERE NOT "+eligible))
		})
	}
}
