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
// Each name is copied into the SQL. A name without quotes consists of letters, digits and
// underscores. The name of the table and a dot may come before it: jobs.attempts. For MySQL and
// SQLite, quote a name with backticks: `maxAttempts`. With double quotes, write the table too:
// jobs."maxAttempts". Without the table, MySQL and SQLite may read a name in double quotes as a
// string. Inside the quotes, only letters, digits and underscores are allowed too.
//
// Attempts and MaxAttempts must be integer columns. If one of them is a text column, the
// expression fails in PostgreSQL. SQLite would compare the values as text, and '10' is less
// than '5'. Retryable must be a boolean column, or a column of numbers in MySQL and SQLite.
//
// The limit of the policy (MaxAttempts, MaxRetries or AttemptCap) caps every row, even a row whose
// own limit is higher. The zero policy sets no limit, so it does not cap a row that has a limit of
// its own. In the job engine Tasker, only the rows decide. To do the same, use the zero policy, and
// set DefaultMaxAttempts to the limit for rows whose limit is NULL. In Tasker this limit is 3.
type Columns struct {
	// Attempts is the column with the number of attempts that the job had. NULL counts as 0.
	Attempts string

	// MaxAttempts is the column with the job's own limit, see [retry.Policy.ForJob]. A job whose
	// value is below 1 has no limit of its own. NULL counts as DefaultMaxAttempts. If MaxAttempts
	// is empty, no job has a limit of its own.
	MaxAttempts string

	// Retryable is the column that says whether the job may run again after a failure. NULL counts
	// as true. If Retryable is empty, every job may run again.
	Retryable string

	// DefaultMaxAttempts is used as the job's own limit if the column MaxAttempts is NULL in the row
	// of the job. With 0, such a job has no limit of its own. Eligible returns an error if
	// DefaultMaxAttempts is negative. It also returns an error if DefaultMaxAttempts is positive and
	// the field MaxAttempts names no column.
	DefaultMaxAttempts int
}

// Eligible returns [retry.Policy.Eligible] as an SQL expression in parentheses, for a WHERE or
// a SELECT. PostgreSQL, SQLite, MySQL and MariaDB accept it. For each row it is true or false,
// never NULL, and has the same value as this Go code:
//
//	job := p.ForJob(maxAttempts)
//	job.NonRetryable = job.NonRetryable || !retryable
//	job.Eligible(attempts)
//
// The expression does not look at times or locks. The rest of your WHERE must check whether the
// job is due, and whether a worker already has the job. If MaxElapsed is the only limit of p,
// every retryable row without a limit of its own is eligible. In this case, add a condition on
// the age of the row:
//
//	AND created_at > now() - interval '1 hour'
//
// Do not use the expression to select a row whose worker may have died. After the last attempt,
// such a row is not eligible, so no worker would get the row and make it a dead letter. Select
// these rows without the expression, and pass them to retryjob.Run, which then makes no attempt.
//
// Eligible returns an error if p or c is invalid, for example because Attempts is empty or is
// not the name of a column.
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
		// The limit of the policy also applies to a job whose own limit is higher. `most` is the limit
		// for the highest possible own limit. If the policy sets no limit, `most` is math.MaxInt.
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
		return errors.New("Attempts is empty: write the name of the column that counts a job's attempts")
	}
	if n := c.DefaultMaxAttempts; n < 0 {
		return fmt.Errorf("DefaultMaxAttempts is %d: write a positive number, or 0 for no limit", n)
	}
	if n := c.DefaultMaxAttempts; n > 0 && c.MaxAttempts == "" {
		return fmt.Errorf("DefaultMaxAttempts is %d and Columns.MaxAttempts is empty: "+
			"set Columns.MaxAttempts to the name of a column, or set MaxAttempts of the policy", n)
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

// The function `below` returns an SQL expression that is true if `attempts` is less than `limit`.
func below(attempts string, limit int) string {
	if limit == retry.Unlimited {
		return "TRUE"
	}
	return fmt.Sprintf("%s < %d", attempts, limit)
}

// The regular expression `column` matches a plain name such as attempts, a name in backticks, and a
// name with its table, such as jobs.attempts. A name in quotes may contain only the characters of a
// plain name. So no name can smuggle in other SQL, even if the database does not know this kind of
// quotes.
var column = func() *regexp.Regexp {
	const plain = `[A-Za-z_][A-Za-z0-9_]*`
	const ticked, quoted = "`" + plain + "`", `"` + plain + `"`
	const part = "(?:" + plain + "|" + ticked + "|" + quoted + ")"
	return regexp.MustCompile("^(?:" + plain + "|" + ticked + "|" + part + `(?:\.` + part + ")+)$")
}()

// valueWords contains the words that SQL reads as a value, and not as the name of a column.
var valueWords = []string{
	"current_catalog", "current_date", "current_role", "current_schema", "current_time",
	"current_timestamp", "current_user", "false", "localtime", "localtimestamp", "null",
	"session_user", "system_user", "true", "user", "utc_date", "utc_time", "utc_timestamp",
}

func isColumn(name string) bool {
	return column.MatchString(name) && !slices.Contains(valueWords, strings.ToLower(name))
}
