package retrysql

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/goretry/retry"
)

// Columns names the columns that hold the state of a job.
//
// A name is written into the SQL as it is here: letters, digits and
// underscores, behind its table's name and a dot where that is needed. A name
// that must be quoted is in backticks for MySQL and SQLite, `maxAttempts`; in
// double quotes it needs its table in front, jobs."maxAttempts", because MySQL
// and SQLite may read a bare double-quoted name as a string.
//
// Attempts and MaxAttempts must be columns of integers. With a column of text
// the expression fails in PostgreSQL, and in SQLite it compares as text does,
// where '10' is less than '5'. Retryable is a boolean, in MySQL and SQLite a
// number.
//
// A limit of the policy caps every row, even one with a higher limit of its own.
// Where each row decides, as in Tasker, use the zero policy, with the limit of the
// rows that have none as DefaultMaxAttempts: 3 in Tasker.
type Columns struct {
	Attempts    string // how many attempts the job had; NULL is 0
	MaxAttempts string // its own limit, as in [retry.Policy.ForJob]; NULL or below 1: not set; "": none has one
	Retryable   string // whether it may run again after a failure; NULL is true; "": every job may

	DefaultMaxAttempts int // the own limit of a job whose MaxAttempts is NULL; 0: not set
}

// Eligible returns [retry.Policy.Eligible] as an expression for a WHERE or a
// SELECT, in parentheses, which PostgreSQL, SQLite, MySQL and MariaDB all
// accept. It is true or false and never NULL, the same as
//
//	job := p.ForJob(maxAttempts)
//	job.NonRetryable = job.NonRetryable || !retryable
//	job.Eligible(attempts)
//
// for the row's values. It goes by count alone: the rest of the WHERE says
// whether the job is due and whether a worker has it. Under a policy whose only
// limit is MaxElapsed every row is eligible that is retryable and has no limit
// of its own, so its age belongs in the WHERE too:
//
//	AND created_at > now() - interval '1 hour'
//
// It fails if p is invalid, or if a name cannot be a column.
func Eligible(p retry.Policy, c Columns) (string, error) {
	if err := p.Validate(); err != nil {
		return "", fmt.Errorf("retrysql: Eligible: %w", err)
	}
	if c.Attempts == "" {
		return "", fmt.Errorf("retrysql: Eligible: Columns.Attempts is empty: write the column that counts a job's attempts")
	}
	if c.DefaultMaxAttempts < 0 {
		return "", fmt.Errorf("retrysql: Eligible: Columns.DefaultMaxAttempts is %d: write a positive number, or 0 for none", c.DefaultMaxAttempts)
	}
	if c.DefaultMaxAttempts > 0 && c.MaxAttempts == "" {
		return "", fmt.Errorf("retrysql: Eligible: Columns.DefaultMaxAttempts is %d and Columns.MaxAttempts is empty: write the column, or set MaxAttempts of the policy", c.DefaultMaxAttempts)
	}
	for _, f := range []struct{ field, column string }{
		{"Attempts", c.Attempts}, {"MaxAttempts", c.MaxAttempts}, {"Retryable", c.Retryable},
	} {
		if f.column != "" && !isColumn(f.column) {
			return "", fmt.Errorf("retrysql: Eligible: Columns.%s: %q is not a column name: write a name of letters, digits and underscores, or table.name, or table.\"name\", or `name`", f.field, f.column)
		}
	}

	fresh := "COALESCE(" + c.Attempts + ", 0) <= 0"
	if p.NonRetryable {
		return "(" + fresh + ")", nil
	}
	again := below(c.Attempts, p.EffectiveMax())
	if c.MaxAttempts != "" {
		limit := c.MaxAttempts
		if c.DefaultMaxAttempts > 0 {
			limit = fmt.Sprintf("COALESCE(%s, %d)", limit, c.DefaultMaxAttempts)
		}
		own := c.Attempts + " < " + limit
		// What remains of the greatest limit a job can have is the policy's.
		if most := p.ForJob(math.MaxInt).EffectiveMax(); most != math.MaxInt {
			own += " AND " + below(c.Attempts, most)
		}
		again = "CASE WHEN " + limit + " > 0 THEN " + own + " ELSE " + again + " END"
	}
	if c.Retryable != "" {
		again = "COALESCE(" + c.Retryable + ", TRUE) AND " + again
	}
	return "(" + fresh + " OR " + again + ")", nil
}

// below writes whether attempts are fewer than limit.
func below(attempts string, limit int) string {
	if limit == retry.Unlimited {
		return "TRUE"
	}
	return fmt.Sprintf("%s < %d", attempts, limit)
}

// A column is a name that needs no quotes, or one in backticks, or one behind
// its table's. What is in quotes is no more than a plain name, so that quotes
// that a database does not know cannot let anything else through.
var column = func() *regexp.Regexp {
	const plain, ticked, quoted = `[A-Za-z_][A-Za-z0-9_]*`, "`[A-Za-z_][A-Za-z0-9_]*`", `"[A-Za-z_][A-Za-z0-9_]*"`
	const part = "(?:" + plain + "|" + ticked + "|" + quoted + ")"
	return regexp.MustCompile("^(?:" + plain + "|" + ticked + "|" + part + `(?:\.` + part + ")+)$")
}()

// values are the words that are values where a plain name stands.
var values = []string{
	"current_catalog", "current_date", "current_role", "current_schema", "current_time", "current_timestamp", "current_user",
	"false", "localtime", "localtimestamp", "null", "session_user", "system_user", "true", "user",
	"utc_date", "utc_time", "utc_timestamp",
}

func isColumn(name string) bool {
	return column.MatchString(name) && !slices.Contains(values, strings.ToLower(name))
}
