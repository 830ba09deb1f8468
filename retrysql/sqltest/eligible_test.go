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

var databases = []struct {
	name string
	open func(*testing.T) *sql.DB
}{
	{"sqlite", sqlite}, {"postgres", postgres}, {"mariadb", mariadb},
}

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

func TestEligibleAtEveryBoundary(t *testing.T) {
	counts := []int{math.MinInt, -1, 0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 19, 20, 21, math.MaxInt - 1, math.MaxInt}
	numbers := []*int{nil}
	for i := range counts {
		numbers = append(numbers, &counts[i])
	}
	yes, no := true, false
	var jobs []job
	for _, attempts := range numbers {
		for _, maxAttempts := range numbers {
			for _, retryable := range []*bool{nil, &yes, &no} {
				jobs = append(jobs, job{attempts, maxAttempts, retryable})
			}
		}
	}
	require.Len(t, jobs, 18*18*3)
	for _, database := range databases {
		t.Run(database.name, func(t *testing.T) {
			t.Parallel()
			db := database.open(t)
			name := fill(t, db, jobs)
			for _, p := range policies {
				eligible := expression(t, p, name)
				var want, got []int
				for id, j := range jobs {
					if j.eligible(p) {
						want = append(want, id)
					}
				}
				rows, err := db.QueryContext(t.Context(), "SELECT id FROM "+name+" WHERE "+eligible+" ORDER BY id")
				require.NoError(t, err)
				for rows.Next() {
					var id int
					require.NoError(t, rows.Scan(&id))
					got = append(got, id)
				}
				require.NoError(t, rows.Err())
				require.Equal(t, want, got, "%+v", p)

				// The rows that are not eligible are the others, so the
				// expression is never NULL.
				assert.Equal(t, len(jobs)-len(want), number(t, db, "SELECT COUNT(*) FROM "+name+" WHERE NOT "+eligible), "%+v", p)
			}
		})
	}
}

// Tasker uses this condition for its steps. DefaultMaxAttempts is the default
// for NULL, and does not cap the steps that have a limit.
func TestEligibleAsTaskerHasIt(t *testing.T) {
	const tasker = "(COALESCE(attempts, 0) = 0 OR (COALESCE(retryable, TRUE) = TRUE AND COALESCE(attempts, 0) < COALESCE(max_attempts, 3)))"
	ints := func(numbers ...int) []*int {
		all := []*int{nil}
		for i := range numbers {
			all = append(all, &numbers[i])
		}
		return all
	}
	yes, no := true, false
	var jobs []job
	for _, attempts := range ints(0, 1, 2, 3, 4, 5, 999998, 999999) {
		for _, maxAttempts := range ints(-1, 0, 1, 2, 3, 4, 5, 999999) {
			for _, retryable := range []*bool{nil, &yes, &no} {
				jobs = append(jobs, job{attempts, maxAttempts, retryable})
			}
		}
	}
	require.Len(t, jobs, 243)
	ours, err := retrysql.Eligible(retry.Policy{}, retrysql.Columns{
		Attempts: "attempts", MaxAttempts: "max_attempts", Retryable: "retryable", DefaultMaxAttempts: 3,
	})
	require.NoError(t, err)
	capped, err := retrysql.Eligible(retry.Policy{MaxAttempts: 3}, retrysql.Columns{Attempts: "attempts", MaxAttempts: "max_attempts", Retryable: "retryable"})
	require.NoError(t, err)
	for _, database := range databases {
		t.Run(database.name, func(t *testing.T) {
			t.Parallel()
			db := database.open(t)
			name := fill(t, db, jobs)
			differ := func(eligible string) int {
				return number(t, db, "SELECT COUNT(*) FROM "+name+" WHERE ("+eligible+") <> "+tasker)
			}
			assert.Equal(t, 243, number(t, db, "SELECT COUNT(*) FROM "+name))
			assert.Zero(t, differ(ours))
			assert.Equal(t, 22, differ(capped), "the limit of the policy is a cap")
		})
	}
}

// A column of text may be compared as text, as the doc of Columns warns: in
// SQLite 10 attempts then count as fewer than 5.
func TestEligibleOfText(t *testing.T) {
	for _, row := range []struct {
		name string
		open func(*testing.T) *sql.DB
		want int
		err  string
	}{
		{"sqlite", sqlite, 1, ""},
		{"mariadb", mariadb, 0, ""},
		{"postgres", postgres, 0, "SQLSTATE 42"},
	} {
		t.Run(row.name, func(t *testing.T) {
			db := row.open(t)
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

// One query checks 100,000 jobs. Each job's id selects its policy.
func TestEligibleAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	number := func() *int {
		n := random.IntN(25)
		switch random.IntN(20) {
		case 0:
			return nil
		case 1:
			n = random.Int()
		}
		return &n
	}
	jobs := make([]job, 100_000)
	for i := range jobs {
		jobs[i] = job{attempts: number(), maxAttempts: number()}
		if retryable := random.IntN(2) == 0; random.IntN(3) > 0 {
			jobs[i].retryable = &retryable
		}
	}
	for _, database := range databases {
		t.Run(database.name, func(t *testing.T) {
			t.Parallel()
			db := database.open(t)
			name := fill(t, db, jobs)
			var picked strings.Builder
			for i, p := range policies {
				fmt.Fprintf(&picked, " WHEN %d THEN %s", i, expression(t, p, name))
			}
			rows, err := db.QueryContext(t.Context(), fmt.Sprintf("SELECT id, CASE id %% %d%s END FROM %s", len(policies), &picked, name))
			require.NoError(t, err)
			n, yes := 0, 0
			for ; rows.Next(); n++ {
				var id int
				var got bool
				require.NoError(t, rows.Scan(&id, &got))
				p := policies[id%len(policies)]
				if want := jobs[id].eligible(p); got != want {
					t.Fatalf("(%s) under %+v: %t in SQL, %t in Go", jobs[id].values(), p, got, want)
				}
				if got {
					yes++
				}
			}
			require.NoError(t, rows.Err())
			assert.Equal(t, len(jobs), n)
			t.Logf("%d of %d are eligible", yes, n)
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
