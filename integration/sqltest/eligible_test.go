package sqltest

import (
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// three are the databases whose SQL differs.
var three = []string{"sqlite", "postgres", "mariadb"}

// A job is a row; nil is NULL.
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

// eligible computes what the SQL expression must return.
func (j job) eligible(p retry.Policy) bool {
	attempts := 0
	if j.attempts != nil {
		attempts = *j.attempts
	}
	if j.maxAttempts != nil {
		p = p.ForJob(*j.maxAttempts)
	}
	if j.retryable != nil && !*j.retryable {
		p.NonRetryable = true
	}
	return p.Eligible(attempts)
}

// policies are the valid rows of the table of limits, and more with caps and
// without limits.
var policies = []retry.Policy{
	{},
	{MaxAttempts: 1},
	{MaxAttempts: 3},
	{MaxAttempts: 5},
	{MaxRetries: 3},
	{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(time.Second)},
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
	{MaxAttempts: retry.Unlimited, AttemptCap: 1},
	{AttemptCap: 1},
	{AttemptCap: 4},
	{AttemptCap: math.MaxInt},
	{MaxElapsed: time.Hour, Backoff: retry.Fixed(time.Second)},
	{MaxElapsed: time.Hour, Backoff: retry.Fixed(time.Second), AttemptCap: 10},
	retry.Default(),
}

// allJobs returns a job for each combination of these numbers and NULL, with each
// retryable.
func allJobs(attempts, maxAttempts []int) (jobs []job) {
	yes, no := true, false
	orNull := func(numbers []int) []*int {
		all := []*int{nil}
		for i := range numbers {
			all = append(all, &numbers[i])
		}
		return all
	}
	for _, attempts := range orNull(attempts) {
		for _, maxAttempts := range orNull(maxAttempts) {
			for _, retryable := range []*bool{nil, &yes, &no} {
				jobs = append(jobs, job{attempts, maxAttempts, retryable})
			}
		}
	}
	return jobs
}

// The expression is evaluated for jobs at every boundary, and for others at random.
func TestEligible(t *testing.T) {
	counts := []int{math.MinInt, -1, 0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 19, 20, 21, math.MaxInt - 1, math.MaxInt}
	jobs := allJobs(counts, counts)
	require.Len(t, jobs, 18*18*3)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 5_000 {
		attempts, maxAttempts, retryable := random.IntN(25), random.IntN(25), random.IntN(2) == 0
		if random.IntN(20) == 0 {
			attempts = random.Int()
		}
		if random.IntN(20) == 0 {
			maxAttempts = random.Int()
		}
		jobs = append(jobs, job{&attempts, &maxAttempts, &retryable})
	}
	for _, database := range three {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			db := databases[database](t)
			name := fill(t, db, jobs)
			for _, p := range policies {
				eligible := expression(t, p, name)
				rows, err := db.QueryContext(t.Context(), "SELECT id, "+eligible+" FROM "+name)
				require.NoError(t, err)
				n, yes := 0, 0
				for ; rows.Next(); n++ {
					var id int
					var got bool // which cannot be NULL
					require.NoError(t, rows.Scan(&id, &got))
					if want := jobs[id].eligible(p); got != want {
						t.Fatalf("(%s) under %+v: %t in SQL, %t in Go", jobs[id].values(), p, got, want)
					}
					if got {
						yes++
					}
				}
				require.NoError(t, rows.Err())
				require.Equal(t, len(jobs), n)
				assert.Equal(t, yes, number(t, db, "SELECT COUNT(*) FROM "+name+" WHERE "+eligible), "%+v", p)
				assert.Equal(t, n-yes, number(t, db, "SELECT COUNT(*) FROM "+name+" WHERE NOT "+eligible), "%+v", p)
			}
		})
	}
}

// Tasker uses this condition for its steps: it is the same for every row but those
// with attempts below 0. DefaultMaxAttempts is the default for NULL, and does not cap
// the steps that have a limit.
func TestEligibleAsTaskerHasIt(t *testing.T) {
	const tasker = "(COALESCE(attempts, 0) = 0 OR (COALESCE(retryable, TRUE) = TRUE AND COALESCE(attempts, 0) < COALESCE(max_attempts, 3)))"
	jobs := allJobs([]int{-1, 0, 1, 2, 3, 4, 5, 999998, 999999}, []int{-1, 0, 1, 2, 3, 4, 5, 6, 999999})
	require.Len(t, jobs, 300)
	ours, err := retrysql.Eligible(retry.Policy{}, retrysql.Columns{
		Attempts: "attempts", MaxAttempts: "max_attempts", Retryable: "retryable", DefaultMaxAttempts: 3,
	})
	require.NoError(t, err)
	capped, err := retrysql.Eligible(retry.Policy{MaxAttempts: 3}, retrysql.Columns{Attempts: "attempts", MaxAttempts: "max_attempts", Retryable: "retryable"})
	require.NoError(t, err)
	for _, database := range three {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			db := databases[database](t)
			name := fill(t, db, jobs)
			differ := func(eligible, attempts string) int {
				return number(t, db, "SELECT COUNT(*) FROM "+name+" WHERE ("+eligible+") <> "+tasker+" AND "+attempts)
			}
			assert.Equal(t, 300, number(t, db, "SELECT COUNT(*) FROM "+name))
			assert.Zero(t, differ(ours, "COALESCE(attempts, 0) >= 0"))
			assert.Equal(t, 12, differ(ours, "attempts < 0"), "here such a row was never attempted")
			assert.Equal(t, 28, differ(capped, "COALESCE(attempts, 0) >= 0"), "the limit of the policy is a cap")
		})
	}
}

// A column of text may be compared as text, as the doc of Columns warns: in
// SQLite 10 attempts then count as fewer than 5.
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

// fill creates a table of the jobs, with ids from 0.
func fill(t *testing.T, db *sql.DB, jobs []job) string {
	name := table(t, db, "id INTEGER PRIMARY KEY, attempts BIGINT, max_attempts BIGINT, retryable BOOLEAN")
	const bulk = 5000
	for first := 0; first < len(jobs); first += bulk {
		var rows []string
		for i, j := range jobs[first:min(first+bulk, len(jobs))] {
			rows = append(rows, fmt.Sprintf("(%d, %s)", first+i, j.values()))
		}
		exec(t, db, "INSERT INTO "+name+" VALUES "+strings.Join(rows, ", "))
	}
	return name
}

func expression(t *testing.T, p retry.Policy, table string) string {
	eligible, err := retrysql.Eligible(p, retrysql.Columns{Attempts: "attempts", MaxAttempts: table + ".max_attempts", Retryable: "retryable"})
	require.NoError(t, err)
	return eligible
}

// Names that need quotes work in a WHERE in every database.
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
