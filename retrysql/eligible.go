package retrysql

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/goretry/retry"
)

// Columns names the columns that contain the state of a job.
//
// Each name is copied into the SQL. A name has letters, digits and underscores. It may have
// the name of its table and a dot before it. Write a name that must be quoted in backticks
// for MySQL and SQLite: `maxAttempts`. A name in double quotes needs its table,
// jobs."maxAttempts", because MySQL and SQLite may read a bare name in double quotes as a
// string.
//
// Attempts and MaxAttempts must be integer columns. With a text column, the expression fails
// in PostgreSQL, and SQLite compares the values as text, so that '10' is less than '5'.
// Retryable is a boolean column, or a number in MySQL and SQLite.
//
// A limit of the policy caps every row, also a row with a higher limit of its own. If each row
// decides, as in Tasker, use the zero policy. DefaultMaxAttempts is then the limit of rows
// without a limit: 3 in Tasker.
type Columns struct {
	// Attempts is the column with the count of attempts that the job had. NULL is 0.
	Attempts string

	// MaxAttempts is the column with the job's own limit, see [retry.Policy.ForJob]. NULL and
	// numbers below 1: the job has no limit of its own. "": no job has a limit of its own.
	MaxAttempts string

	// Retryable is the column that says whether the job may run again after a failure. NULL
	// is true. "": every job may run again.
	Retryable string

	// DefaultMaxAttempts is the limit of a job whose MaxAttempts is NULL. 0: no limit. Below 0
	// it is an error of Eligible.
	DefaultMaxAttempts int
}

// Eligible returns [retry.Policy.Eligible] as an SQL expression in parentheses, for a WHERE or
// a SELECT. PostgreSQL, SQLite, MySQL and MariaDB accept it. For each row it is true or false,
// never NULL, and has the same value as
//
//	job := p.ForJob(maxAttempts)
//	job.NonRetryable = job.NonRetryable || !retryable
//	job.Eligible(attempts)
//
// The expression looks only at the count of attempts. The rest of the WHERE says whether the
// job is due, and whether a worker already has the job. If MaxElapsed is the only limit of p,
// every retryable row without a limit of its own is eligible. Then also write a condition on
// the age of the row:
//
//	AND created_at > now() - interval '1 hour'
//
// Eligible returns an error if p is invalid, or if a name cannot be the name of a column.
func Eligible(p retry.Policy, c Columns) (string, error) {
	if err := p.Validate(); err != nil {
		return "", fmt.Errorf("retrysql: Eligible: %w", err)
	}
	if err := c.validate(); err != nil {
		return "", fmt.Errorf("retrysql: Eligible: Columns.%w", err)
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
		// A job with the greatest possible limit of its own gets the limit of the policy.
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

// validate returns an error that starts with the name of the invalid field.
func (c Columns) validate() error {
	if c.Attempts == "" {
		return errors.New("Attempts is empty: write the column that counts a job's attempts")
	}
	if n := c.DefaultMaxAttempts; n < 0 {
		return fmt.Errorf("DefaultMaxAttempts is %d: write a positive number, or 0 for none", n)
	}
	if n := c.DefaultMaxAttempts; n > 0 && c.MaxAttempts == "" {
		return fmt.Errorf("DefaultMaxAttempts is %d and Columns.MaxAttempts is empty: "+
			"write the column, or set MaxAttempts of the policy", n)
	}
	for _, f := range []struct{ field, column string }{
		{"Attempts", c.Attempts}, {"MaxAttempts", c.MaxAttempts}, {"Retryable", c.Retryable},
	} {
		if f.column != "" && !isColumn(f.column) {
			return fmt.Errorf("%s: %q is not a column name: write a name of letters, digits and "+
				"underscores, or table.name, or table.\"name\", or `name`", f.field, f.column)
		}
	}
	return nil
}

// below returns an SQL expression that is true if attempts are fewer than limit.
func below(attempts string, limit int) string {
	if limit == retry.Unlimited {
		return "TRUE"
	}
	return fmt.Sprintf("%s < %d", attempts, limit)
}

// A column is a plain name, a name in backticks, or a name after the name of its table. A name
// in quotes has the same characters as a plain name. So even a database that does not know
// the quotes reads no other SQL from it.
var column = func() *regexp.Regexp {
	const plain = `[A-Za-z_][A-Za-z0-9_]*`
	const ticked, quoted = "`" + plain + "`", `"` + plain + `"`
	const part = "(?:" + plain + "|" + ticked + "|" + quoted + ")"
	return regexp.MustCompile("^(?:" + plain + "|" + ticked + "|" + part + `(?:\.` + part + ")+)$")
}()

// values are the words that SQL reads as a value, and not as the name of a column.
var values = []string{
	"current_catalog", "current_date", "current_role", "current_schema", "current_time",
	"current_timestamp", "current_user", "false", "localtime", "localtimestamp", "null",
	"session_user", "system_user", "true", "user", "utc_date", "utc_time", "utc_timestamp",
}

func isColumn(name string) bool {
	return column.MatchString(name) && !slices.Contains(values, strings.ToLower(name))
}
