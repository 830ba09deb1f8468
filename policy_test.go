package retry_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// A row is a line of a table in testdata: a value for each column's name.
type row map[string]string

// readTable returns the rows of a table in testdata. A table begins with "==
// name" and a line that names the columns. A # begins a comment.
func readTable(t *testing.T, file, name string) (rows []row) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	var inside bool
	var columns []string
	for i, line := range strings.Split(string(text), "\n") {
		cells := strings.Fields(line)
		switch {
		case len(cells) == 0 || strings.HasPrefix(cells[0], "#"):
		case cells[0] == "==":
			inside, columns = cells[1] == name, nil
		case !inside:
		case columns == nil:
			columns = cells
		default:
			require.Len(t, cells, len(columns), "%s:%d", file, i+1)
			r := row{"": fmt.Sprintf("%s:%d", file, i+1)}
			for j, column := range columns {
				r[column] = cells[j]
			}
			rows = append(rows, r)
		}
	}
	require.NotEmpty(t, rows, "%s has no table %s", file, name)
	return rows
}

// String returns the file and the line of r.
func (r row) String() string { return r[""] }

func (r row) cell(t *testing.T, column string) string {
	t.Helper()
	cell, ok := r[column]
	require.True(t, ok, "%v has no column %s", r, column)
	return cell
}

func (r row) int(t *testing.T, column string) int {
	t.Helper()
	switch cell := r.cell(t, column); cell {
	case "max":
		return math.MaxInt
	case "min":
		return math.MinInt
	case "unlimited":
		return retry.Unlimited
	default:
		n, err := strconv.Atoi(cell)
		require.NoError(t, err, "%v: %s", r, column)
		return n
	}
}

func (r row) bool(t *testing.T, column string) bool {
	t.Helper()
	cell := r.cell(t, column)
	require.Contains(t, []string{"yes", "no", "true", "false"}, cell, "%v: %s", r, column)
	return cell == "yes" || cell == "true"
}

func (r row) duration(t *testing.T, column string) time.Duration {
	t.Helper()
	return r.durations(t, column)[0]
}

func (r row) durations(t *testing.T, column string) (ds []time.Duration) {
	t.Helper()
	cell := r.cell(t, column)
	if cell == "none" {
		return nil
	}
	for text := range strings.SplitSeq(cell, ",") {
		d, err := time.ParseDuration(text)
		require.NoError(t, err, "%v: %s", r, column)
		ds = append(ds, d)
	}
	return ds
}

// limits returns the policy that the columns about limits describe.
func (r row) limits(t *testing.T) retry.Policy {
	t.Helper()
	return retry.Policy{
		MaxAttempts:  r.int(t, "max_attempts"),
		MaxRetries:   r.int(t, "max_retries"),
		AttemptCap:   r.int(t, "attempt_cap"),
		NonRetryable: r.bool(t, "non_retryable"),
		Backoff:      retry.Fixed(time.Second),
	}
}

func TestEffectiveMax(t *testing.T) {
	for _, r := range readTable(t, "limits.txt", "limits") {
		t.Run(r.String(), func(t *testing.T) {
			p, limit := r.limits(t), r.int(t, "limit")
			assert.Equal(t, limit, p.EffectiveMax())
			assert.Equal(t, r.bool(t, "sound"), p.Validate() == nil, "sound")
			assertLimit(t, p, limit)
		})
	}
}

// assertLimit checks Eligible and Next at a limit and just before it.
func assertLimit(t *testing.T, p retry.Policy, limit int) {
	t.Helper()
	for _, attempts := range []int{math.MinInt, -1, 0} {
		assert.True(t, p.Eligible(attempts), "Eligible(%d)", attempts)
	}
	if limit == retry.Unlimited {
		for _, attempts := range []int{1, 2, 1_000_000, math.MaxInt} {
			assert.True(t, p.Eligible(attempts), "Eligible(%d)", attempts)
			assert.True(t, p.Next(retry.Attempt{Number: attempts}).Retry(), "Next after %d", attempts)
		}
		return
	}
	assert.True(t, p.Eligible(limit-1), "Eligible(%d)", limit-1)
	assert.False(t, p.Eligible(limit), "Eligible(%d)", limit)
	assert.False(t, p.Eligible(math.MaxInt), "Eligible(MaxInt)")
	assert.False(t, p.Next(retry.Attempt{Number: limit}).Retry(), "Next after %d", limit)
	assert.False(t, p.Next(retry.Attempt{Number: math.MaxInt}).Retry(), "Next after MaxInt")
	if limit > 1 {
		assert.True(t, p.Next(retry.Attempt{Number: limit - 1}).Retry(), "Next after %d", limit-1)
	}
}

func TestForJob(t *testing.T) {
	for _, r := range readTable(t, "limits.txt", "jobs") {
		t.Run(r.String(), func(t *testing.T) {
			p, limit := r.limits(t), r.int(t, "limit")
			derived := p.ForJob(r.int(t, "job"))
			assert.Equal(t, limit, derived.EffectiveMax())
			assert.Equal(t, p.Validate(), derived.Validate(), "an invalid policy stays invalid, and a valid one valid")
			assertLimit(t, derived, limit)
		})
	}

	t.Run("only the limits change", func(t *testing.T) {
		p := retry.Default()
		p.AttemptCap, p.MaxElapsed, p.Budget = 7, time.Minute, &retry.Budget{Size: 1, Ratio: .1}
		derived := p.ForJob(3)
		assert.Equal(t, 3, derived.EffectiveMax())
		assert.Equal(t, 5, p.EffectiveMax(), "p itself is not changed")
		derived.MaxAttempts = p.MaxAttempts
		assert.Equal(t, p, derived)
	})

	t.Run("a job without a limit changes nothing", func(t *testing.T) {
		p := retry.Policy{MaxRetries: 4, Backoff: retry.Fixed(time.Second)}
		for _, none := range []int{0, -1, math.MinInt} {
			assert.Equal(t, p, p.ForJob(none))
		}
	})

	t.Run("one limit remains", func(t *testing.T) {
		p := retry.Policy{MaxRetries: 4, Backoff: retry.Fixed(time.Second)}
		assert.Equal(t, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}, p.ForJob(3))
		assert.Empty(t, p.ForJob(3).Lint())
	})

	t.Run("the job's limit does not make a hot loop valid", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: retry.Unlimited}.ForJob(3)
		assert.Error(t, p.Validate())
		assert.Equal(t, 1, p.EffectiveMax())
	})
}

func TestRetries(t *testing.T) {
	for _, row := range []struct{ retries, attempts int }{
		{0, 1}, {1, 2}, {3, 4}, {math.MaxInt - 1, math.MaxInt}, {math.MaxInt, math.MaxInt},
		{-1, retry.Unlimited}, {-2, retry.Unlimited}, {math.MinInt, retry.Unlimited},
	} {
		t.Run(fmt.Sprint(row.retries), func(t *testing.T) {
			assert.Equal(t, row.attempts, retry.Retries(row.retries))
			p := retry.Policy{MaxAttempts: retry.Retries(row.retries), Backoff: retry.Fixed(1)}
			assert.Equal(t, row.attempts, p.EffectiveMax(), "as the MaxAttempts of a policy")
		})
	}
}

func TestDefault(t *testing.T) {
	p := retry.Default()
	require.NoError(t, p.Validate())
	assert.Empty(t, p.Lint())
	assert.Equal(t, 5, p.EffectiveMax())
	ms := time.Millisecond
	for i, want := range []time.Duration{200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms} {
		lo, hi := windowOf(p, retry.Attempt{Number: i + 1})
		assert.Equal(t, want-want/5, lo, "the shortest delay after %d", i+1)
		assert.Equal(t, want+want/5, hi, "the longest delay after %d", i+1)
	}
	lo, hi := windowOf(p, retry.Attempt{Number: 6})
	assert.Equal(t, []time.Duration{4 * time.Second, 5 * time.Second}, []time.Duration{lo, hi}, "at most 5s")
}

// Libraries differ in what 0, 1 and -1 mean, and in what is counted. Each name
// below denies how another library reads the number.
func TestTrapNumbersWithTwoReadings(t *testing.T) {
	delay := retry.Fixed(time.Second)
	for _, row := range []struct {
		name   string
		policy retry.Policy
		limit  int
	}{
		{"MaxAttempts 0 is not unlimited", retry.Policy{Backoff: delay}, 1},
		{"MaxAttempts 0 is not a default of three", retry.Policy{MaxDelay: time.Second, Backoff: delay}, 1},
		{"MaxAttempts 0 does not mean that nothing runs", retry.Policy{MaxAttempts: 0, Backoff: delay}, 1},
		{"MaxAttempts 1 is not one retry", retry.Policy{MaxAttempts: 1, Backoff: delay}, 1},
		{"MaxAttempts 3 is not three retries", retry.Policy{MaxAttempts: 3, Backoff: delay}, 3},
		{"MaxAttempts 6 is not cut to five", retry.Policy{MaxAttempts: 6, Backoff: delay}, 6},
		{"MaxAttempts -1 is not one attempt", retry.Policy{MaxAttempts: -1, Backoff: delay}, retry.Unlimited},
		{"MaxAttempts -5 is not unlimited", retry.Policy{MaxAttempts: -5, Backoff: delay}, 1},
		{"MaxRetries 1 is not one attempt", retry.Policy{MaxRetries: 1, Backoff: delay}, 2},
		{"MaxRetries 3 is not three attempts", retry.Policy{MaxRetries: 3, Backoff: delay}, 4},
		{"MaxRetries 0 beside MaxAttempts 3 does not forbid retries", retry.Policy{MaxAttempts: 3, MaxRetries: 0, Backoff: delay}, 3},
		{"MaxRetries -1 plus one does not mean that no limit is set", retry.Policy{MaxRetries: -1, Backoff: delay}, retry.Unlimited},
		{"MaxRetries -2 plus one is not unlimited", retry.Policy{MaxRetries: -2, Backoff: delay}, 1},
		{"MaxRetries -1 does not lift MaxAttempts", retry.Policy{MaxAttempts: 2, MaxRetries: -1, Backoff: delay}, 2},
		{"AttemptCap lowers the limit and never raises it", retry.Policy{MaxAttempts: 3, AttemptCap: 10, Backoff: delay}, 3},
		{"Retries(0) is not unlimited", retry.Policy{MaxAttempts: retry.Retries(0), Backoff: delay}, 1},
		{"Retries(-1) is not zero attempts", retry.Policy{MaxAttempts: retry.Retries(-1), Backoff: delay}, retry.Unlimited},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.limit, row.policy.EffectiveMax())
			assertLimit(t, row.policy, row.limit)
		})
	}
}

func TestPolicyString(t *testing.T) {
	for _, row := range []struct {
		policy retry.Policy
		want   string
	}{
		{retry.Policy{}, "1 attempt"},
		{retry.Default(), "5 attempts, exponential 200ms x2, at most 5s, ±20%"},
		{retry.Policy{MaxRetries: 3, Backoff: retry.Exponential{Base: 200 * time.Millisecond}, MaxDelay: 5 * time.Second, Jitter: retry.Proportional(.2)},
			"4 attempts, exponential 200ms x2, at most 5s, ±20%"},
		{retry.Policy{MaxAttempts: -1, Backoff: retry.Fixed(time.Second)}, "unlimited attempts, fixed 1s"},
		{retry.Policy{MaxAttempts: -1, AttemptCap: 9, Backoff: retry.Linear(time.Second), Jitter: retry.FullJitter}, "9 attempts, linear 1s, full jitter"},
		{retry.Policy{MaxAttempts: 3, Backoff: retry.Fibonacci(time.Second), Jitter: retry.EqualJitter}, "3 attempts, fibonacci 1s, equal jitter"},
		{retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{time.Second, time.Minute}}, "3 attempts, schedule [1s 1m0s]"},
		{retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second, Factor: 1.5}, Jitter: retry.Proportional(.125)}, "3 attempts, exponential 1s x1.5, ±12.5%"},
		{retry.Policy{MaxAttempts: 3, Backoff: untouchable{}, Jitter: untouchable{}}, "3 attempts, backoff retry_test.untouchable, jitter retry_test.untouchable"},
		{retry.Policy{MaxAttempts: 3, NonRetryable: true}, "1 attempt"},
		{retry.Policy{MaxAttempts: 3, MaxElapsed: time.Minute, AttemptTimeout: time.Second, MaxRetryAfter: time.Hour}, "3 attempts, within 1m0s, 1s for each, Retry-After at most 1h0m0s"},
		{retry.Policy{MaxAttempts: 3, HealthyAfter: time.Minute, ExactRetryAfter: true}, "3 attempts, healthy after 1m0s, Retry-After exactly, at most 1m0s"},
		{retry.Policy{MaxAttempts: 3, MaxDelay: time.Hour, ExactRetryAfter: true}, "3 attempts, at most 1h0m0s, Retry-After exactly, at most 1h0m0s"},
		{retry.Policy{MaxAttempts: 3, MaxRetryAfter: time.Second, ExactRetryAfter: true}, "3 attempts, Retry-After exactly, at most 1s"},
		{retry.Policy{Backoff: retry.Fixed(time.Second), MaxElapsed: time.Minute}, "unlimited attempts, fixed 1s, within 1m0s"},
		{retry.Policy{MaxAttempts: -2}, "invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited"},
	} {
		t.Run(row.want, func(t *testing.T) {
			assert.Equal(t, row.want, row.policy.String())
			assert.Equal(t, row.want, fmt.Sprint(row.policy))
		})
	}
}

func TestJitterString(t *testing.T) {
	assert.Equal(t, []string{"full", "equal"}, []string{fmt.Sprint(retry.FullJitter), fmt.Sprint(retry.EqualJitter)})
	assert.Equal(t, "none", fmt.Sprint(retry.EqualJitter+1), "a number that is neither")
}

// assertDelays checks the delays after the attempts from the given one on. A
// policy that allows no more attempts must stop there.
func assertDelays(t *testing.T, p retry.Policy, from int, delays []time.Duration) {
	t.Helper()
	require.NoError(t, p.Validate())
	boom := errors.New("boom")
	for i, want := range delays {
		assert.Equal(t, drawnFrom(want, retry.ReasonRetry), p.Next(retry.Attempt{Number: from + i, Err: boom}), "after attempt %d", from+i)
	}
	if limit := p.EffectiveMax(); limit != retry.Unlimited {
		require.LessOrEqual(t, from+len(delays), limit, "there are more delays than retries")
		assert.False(t, p.Next(retry.Attempt{Number: limit, Err: boom}).Retry(), "after the last attempt")
	}
}

func TestScheduleInARow(t *testing.T) {
	policy := readTable(t, "schedule.txt", "policy")[0]
	schedule := retry.Schedule(policy.durations(t, "schedule"))
	p := retry.Policy{MaxAttempts: policy.int(t, "max_attempts"), Backoff: schedule}
	require.Empty(t, p.Lint())
	for _, r := range readTable(t, "schedule.txt", "rows") {
		t.Run(r.String(), func(t *testing.T) {
			next := p.Next(retry.Attempt{Number: r.int(t, "attempt"), Err: errors.New("boom")})
			if r["status"] == "failed" {
				assert.Equal(t, retry.ReasonExhausted, next.Reason)
				return
			}
			assert.Equal(t, drawnFrom(r.duration(t, "delay"), retry.ReasonRetry), next)
		})
	}

	p.MaxAttempts = 3
	assert.Len(t, p.Lint(), 1, "with three attempts the last delay is never reached")
	p.MaxAttempts = 6
	assertDelays(t, p, 3, []time.Duration{schedule[2], schedule[2], schedule[2]})
}
