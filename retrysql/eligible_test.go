package retrysql_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// integration/sqltest runs these expressions in databases.
func TestEligible(t *testing.T) {
	all := retrysql.Columns{Attempts: "attempts", MaxAttempts: "max_attempts", Retryable: "retryable"}
	const fresh, retryable = "(COALESCE(attempts, 0) <= 0", "COALESCE(retryable, TRUE) AND "
	own := retrysql.Columns{Attempts: "attempts", MaxAttempts: "max_attempts", DefaultMaxAttempts: 3}
	unlimited := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)}
	for _, row := range []struct {
		name    string
		policy  retry.Policy
		columns retrysql.Columns
		want    string
	}{
		{"a limit", retry.Policy{MaxAttempts: 5}, all,
			fresh + " OR " + retryable + "CASE WHEN max_attempts > 0 THEN attempts < max_attempts AND attempts < 5 ELSE attempts < 5 END)"},
		{"no limit set", retry.Policy{}, all,
			fresh + " OR " + retryable + "CASE WHEN max_attempts > 0 THEN attempts < max_attempts ELSE attempts < 1 END)"},
		{"unlimited", unlimited, all,
			fresh + " OR " + retryable + "CASE WHEN max_attempts > 0 THEN attempts < max_attempts ELSE TRUE END)"},
		{"not retryable", retry.Policy{MaxAttempts: 5, NonRetryable: true}, all, fresh + ")"},
		{"jobs without a limit", retry.Policy{MaxAttempts: 5}, retrysql.Columns{Attempts: "attempts", Retryable: "retryable"},
			fresh + " OR " + retryable + "attempts < 5)"},
		{"a default for NULL", retry.Policy{}, own,
			fresh + " OR CASE WHEN COALESCE(max_attempts, 3) > 0 THEN attempts < COALESCE(max_attempts, 3) ELSE attempts < 1 END)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := retrysql.Eligible(row.policy, row.columns)
			require.NoError(t, err)
			assert.Equal(t, row.want, got)
		})
	}
}

func TestEligibleFaults(t *testing.T) {
	for _, row := range []struct {
		name    string
		policy  retry.Policy
		columns retrysql.Columns
		text    string
	}{
		{"an invalid policy", retry.Policy{MaxAttempts: -2}, retrysql.Columns{Attempts: "a"}, retry.Policy{MaxAttempts: -2}.Validate().Error()},
		{"no column of attempts", retry.Policy{}, retrysql.Columns{MaxAttempts: "b"},
			"Columns.Attempts is empty: write the name of the column that counts a job's attempts"},
		{"a negative default", retry.Policy{}, retrysql.Columns{Attempts: "a", MaxAttempts: "b", DefaultMaxAttempts: -1},
			"Columns.DefaultMaxAttempts is -1: write a positive number, or 0 for no limit"},
		{"a default without a column", retry.Policy{}, retrysql.Columns{Attempts: "a", DefaultMaxAttempts: 3},
			"Columns.DefaultMaxAttempts is 3 and Columns.MaxAttempts is empty: set Columns.MaxAttempts to the name of a column, or set MaxAttempts of the policy"},
	} {
		sql, err := retrysql.Eligible(row.policy, row.columns)
		assert.Empty(t, sql, row.name)
		assert.EqualError(t, err, "retrysql: Eligible: "+row.text, row.name)
	}
}

func TestEligibleNames(t *testing.T) {
	for _, name := range []string{
		"attempts", "Attempts", "_attempts", "a1", "A_1", "jobs.attempts", "queue.jobs.attempts", "`attempts`", "`maxAttempts`", "`jobs`.`order`",
		`jobs."maxAttempts"`, `"Jobs"."maxAttempts"`, `public."Jobs"."maxAttempts"`, "jobs.`order`", "`null`", `jobs."user"`, "jobs.user", "rowid", "nullable",
	} {
		sql, err := retrysql.Eligible(retry.Policy{MaxAttempts: 2}, retrysql.Columns{Attempts: name, MaxAttempts: name, Retryable: name})
		if assert.NoError(t, err, name) {
			assert.Equal(t, 7, strings.Count(sql, name), sql)
		}
	}

	bad := []string{
		" ", " attempts", "attempts ", "attempts\n", "max attempts", "max-attempts", "max+1", "1", "1e5", "0x1F", "1st", "'attempts'", "?", "$1", ":n", "@n",
		`"attempts"`, `"maxAttempts"`, `jobs."max""Attempts"`, `jobs."max Attempts"`, `jobs."maxAttempts`, `jobs.maxAttempts"`, `jobs.""`, `jobs."a\"`,
		"`max``Attempts`", "`max Attempts`", "``", "`", "`attempts", "`attempts\"", "[attempts]",
		".attempts", "jobs.", "jobs..attempts", "jobs.*", "*", "count(*)", "attempts--", "attempts/**/", "attempts) OR (1=1", "attempts; DROP TABLE jobs", "a\x00b", "versuché", "ａttempts",
		"null", "NULL", "True", "false", "user", "USER", "current_user", "Current_Date", "localtime", "utc_timestamp", "session_user", "system_user",
		strings.Repeat("(", 100000),
	}
	for _, name := range bad {
		for field, columns := range map[string]retrysql.Columns{
			"Attempts":    {Attempts: name, MaxAttempts: "b", Retryable: "c"},
			"MaxAttempts": {Attempts: "a", MaxAttempts: name, Retryable: "c"},
			"Retryable":   {Attempts: "a", MaxAttempts: "b", Retryable: name},
		} {
			// The name is rejected even if the policy does not need the column.
			for _, p := range []retry.Policy{{MaxAttempts: 2}, {NonRetryable: true}} {
				sql, err := retrysql.Eligible(p, columns)
				assert.Empty(t, sql, name)
				assert.ErrorContains(t, err, "retrysql: Eligible: Columns."+field+": ", name)
				assert.ErrorContains(t, err, "is not a column name: write a name", name)
				assert.NotContains(t, err.Error(), "\n")
			}
		}
	}
}

// Eligible either uses a text as the name of a column, or rejects it.
func FuzzEligible(f *testing.F) {
	f.Add("attempts", "max_attempts", "retryable", 5, 10)
	f.Add("jobs.\"a\"", "`b`", "", -1, 0)
	f.Add("a) OR (1=1", "\"b\"", "null", 0, math.MaxInt)
	f.Fuzz(func(t *testing.T, attempts, max, retryable string, limit, limitCap int) {
		sql, err := retrysql.Eligible(retry.Policy{MaxAttempts: limit, AttemptCap: limitCap}, retrysql.Columns{Attempts: attempts, MaxAttempts: max, Retryable: retryable})
		if err != nil {
			assert.Empty(t, sql)
			assert.True(t, strings.HasPrefix(err.Error(), "retrysql: Eligible: "), err)
			assert.NotContains(t, err.Error(), "\n")
			return
		}
		for _, name := range []string{attempts, max, retryable} {
			assert.NotContains(t, name, " ")
			assert.Empty(t, strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.`\""))
			assert.Zero(t, strings.Count(name, "`")%2, name)
			assert.Zero(t, strings.Count(name, `"`)%2, name)
		}
		assert.Equal(t, strings.Count(sql, "("), strings.Count(sql, ")"))
		assert.NotContains(t, sql, "--")
	})
}
