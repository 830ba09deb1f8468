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
// double quotes it needs its table in front, jobs."maxAttempts", for alone
// MySQL and SQLite may take it for a text.
type Columns struct {
	Attempts    string // how often the job was executed, an integer; NULL is 0
	MaxAttempts string // the job's own limit as [retry.Policy.ForJob] has it, an integer; NULL, 0 and less: not set; "": no job has one
	Retryable   string // whether it may run again after a failure, a boolean, in MySQL and SQLite a number; NULL is true; "": every job may
}

// Eligible returns [retry.Policy.Eligible] as an expression for a WHERE or a
// SELECT, in parentheses, which PostgreSQL, SQLite, MySQL and MariaDB all
// accept. It is true or false and never NULL, the same as
//
//	job := p.ForJob(maxAttempts)
//	job.NonRetryable = job.NonRetryable || !retryable
//	job.Eligible(attempts)
//
// for the row's values: by count alone. When it is due, and whether anybody
// has it, is for the rest of the WHERE.
//
// It fails if p does not validate, or a name cannot be one.
func Eligible(p retry.Policy, c Columns) (string, error) {
	if err := p.Validate(); err != nil {
		return "", fmt.Errorf("retrysql: Eligible: %w", err)
	}
	if c.Attempts == "" {
		return "", fmt.Errorf("retrysql: Eligible: Columns.Attempts is empty: write the column that counts a job's executions")
	}
	for _, f := range []struct{ field, column string }{
		{"Attempts", c.Attempts}, {"MaxAttempts", c.MaxAttempts}, {"Retryable", c.Retryable},
	} {
		if f.column != "" && !isColumn(f.column) {
			return "", fmt.Errorf("retrysql: Eligible: Columns.%s: %q is no column: write a name of letters, digits and underscores, or table.name, or table.\"name\", or `name`", f.field, f.column)
		}
	}

	fresh := "COALESCE(" + c.Attempts + ", 0) <= 0"
	if p.NonRetryable {
		return "(" + fresh + ")", nil
	}
	again := below(c.Attempts, p.EffectiveMax())
	if c.MaxAttempts != "" {
		own := c.Attempts + " < " + c.MaxAttempts
		// What remains of the greatest limit a job can have is the policy's.
		if limit := p.ForJob(math.MaxInt).EffectiveMax(); limit != math.MaxInt {
			own += " AND " + below(c.Attempts, limit)
		}
		again = "CASE WHEN " + c.MaxAttempts + " > 0 THEN " + own + " ELSE " + again + " END"
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
