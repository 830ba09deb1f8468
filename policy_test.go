package retry_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// A row is a line of a table in testdata, by the names of its columns.
type row map[string]string

// readTable returns the rows of a table in testdata: what stands below its
// "== name", under a line that names the columns. A # begins a comment.
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

// String is the file and the line of r.
func (r row) String() string { return r[""] }

func (r row) cell(t *testing.T, column string) string {
	t.Helper()
	cell, ok := r[column]
	require.True(t, ok, "%v has no column %s", r, column)
	return cell
}

// or returns r with another value for a column that is null.
func (r row) or(t *testing.T, column, value string) row {
	t.Helper()
	if r.cell(t, column) == "null" {
		r[column] = value
	}
	return r
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

func (r row) float(t *testing.T, column string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(r.cell(t, column), 64)
	require.NoError(t, err, "%v: %s", r, column)
	return f
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

// limits returns the policy of the columns that limit executions.
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
	for _, r := range readTable(t, "limits.txt", "executions") {
		t.Run(r.String(), func(t *testing.T) {
			p, executions := r.limits(t), r.int(t, "executions")
			assert.Equal(t, executions, p.EffectiveMax())
			assert.Equal(t, r.bool(t, "sound"), p.Validate() == nil, "sound")
			assertExecutions(t, p, executions)
		})
	}
}

// assertExecutions checks what Eligible and Next make of a limit at both of its
// ends.
func assertExecutions(t *testing.T, p retry.Policy, executions int) {
	t.Helper()
	for _, attempts := range []int{math.MinInt, -1, 0} {
		assert.True(t, p.Eligible(attempts), "Eligible(%d)", attempts)
	}
	if executions == retry.Unlimited {
		for _, attempts := range []int{1, 2, 1_000_000, math.MaxInt} {
			assert.True(t, p.Eligible(attempts), "Eligible(%d)", attempts)
			assert.True(t, p.Next(retry.Attempt{Number: attempts}).Retry(), "Next after %d", attempts)
		}
		return
	}
	assert.True(t, p.Eligible(executions-1), "Eligible(%d)", executions-1)
	assert.False(t, p.Eligible(executions), "Eligible(%d)", executions)
	assert.False(t, p.Eligible(math.MaxInt), "Eligible(MaxInt)")
	assert.False(t, p.Next(retry.Attempt{Number: executions}).Retry(), "Next after %d", executions)
	assert.False(t, p.Next(retry.Attempt{Number: math.MaxInt}).Retry(), "Next after MaxInt")
	if executions > 1 {
		assert.True(t, p.Next(retry.Attempt{Number: executions - 1}).Retry(), "Next after %d", executions-1)
	}
}

func TestForJob(t *testing.T) {
	for _, r := range readTable(t, "limits.txt", "jobs") {
		t.Run(r.String(), func(t *testing.T) {
			p, executions := r.limits(t), r.int(t, "executions")
			derived := p.ForJob(r.int(t, "job"))
			assert.Equal(t, executions, derived.EffectiveMax())
			assert.Equal(t, p.Validate(), derived.Validate(), "an invalid policy stays invalid, a sound one sound")
			assertExecutions(t, derived, executions)
		})
	}

	t.Run("all but the limits stays", func(t *testing.T) {
		p := retry.Default()
		p.AttemptCap, p.MaxElapsed, p.Budget = 7, time.Minute, retry.NewBudget(1, .1)
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

	t.Run("one limit is left", func(t *testing.T) {
		p := retry.Policy{MaxRetries: 4, Backoff: retry.Fixed(time.Second)}
		assert.Equal(t, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}, p.ForJob(3))
		assert.Empty(t, p.ForJob(3).Lint())
	})

	t.Run("a hot loop is not mended by a job", func(t *testing.T) {
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
		assert.Equal(t, want-want/5, lo, "the least delay after %d", i+1)
		assert.Equal(t, want+want/5, hi, "the greatest delay after %d", i+1)
	}
	lo, hi := windowOf(p, retry.Attempt{Number: 6})
	assert.Equal(t, []time.Duration{4 * time.Second, 5 * time.Second}, []time.Duration{lo, hi}, "at most 5s")
}

// What 0, 1 and -1 mean differs from one library to the next, and so does what
// is counted. Each line is a reading of another library that is not ours.
func TestTrapNumbersWithTwoReadings(t *testing.T) {
	delay := retry.Fixed(time.Second)
	for _, row := range []struct {
		name       string
		policy     retry.Policy
		executions int
	}{
		{"MaxAttempts 0 is not unlimited", retry.Policy{Backoff: delay}, 1},
		{"MaxAttempts 0 is not a default of three", retry.Policy{MaxDelay: time.Second, Backoff: delay}, 1},
		{"MaxAttempts 0 does not mean that nothing runs", retry.Policy{MaxAttempts: 0, Backoff: delay}, 1},
		{"MaxAttempts 1 is not one retry", retry.Policy{MaxAttempts: 1, Backoff: delay}, 1},
		{"MaxAttempts 3 is not three retries", retry.Policy{MaxAttempts: 3, Backoff: delay}, 3},
		{"MaxAttempts 6 is not cut to five", retry.Policy{MaxAttempts: 6, Backoff: delay}, 6},
		{"MaxAttempts -1 is not one execution", retry.Policy{MaxAttempts: -1, Backoff: delay}, retry.Unlimited},
		{"MaxAttempts -5 is not unlimited", retry.Policy{MaxAttempts: -5, Backoff: delay}, 1},
		{"MaxRetries 1 is not one execution", retry.Policy{MaxRetries: 1, Backoff: delay}, 2},
		{"MaxRetries 3 is not three executions", retry.Policy{MaxRetries: 3, Backoff: delay}, 4},
		{"MaxRetries 0 beside MaxAttempts 3 does not forbid", retry.Policy{MaxAttempts: 3, MaxRetries: 0, Backoff: delay}, 3},
		{"MaxRetries -1 plus one is not no limit set", retry.Policy{MaxRetries: -1, Backoff: delay}, retry.Unlimited},
		{"MaxRetries -2 plus one is not unlimited", retry.Policy{MaxRetries: -2, Backoff: delay}, 1},
		{"MaxRetries -1 does not lift MaxAttempts", retry.Policy{MaxAttempts: 2, MaxRetries: -1, Backoff: delay}, 2},
		{"AttemptCap is a minimum of two, not the last word", retry.Policy{MaxAttempts: 3, AttemptCap: 10, Backoff: delay}, 3},
		{"Retries(0) is not unlimited", retry.Policy{MaxAttempts: retry.Retries(0), Backoff: delay}, 1},
		{"Retries(-1) is not zero attempts", retry.Policy{MaxAttempts: retry.Retries(-1), Backoff: delay}, retry.Unlimited},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.executions, row.policy.EffectiveMax())
			assertExecutions(t, row.policy, row.executions)
		})
	}
}

// Elsewhere a limit of 0 for one kind of error wraps around, or ends up as a
// sentinel, and lifts the limit.
func TestTrapLimitOfZeroForOneError(t *testing.T) {
	for _, selected := range []retry.Policy{
		{},
		{MaxAttempts: 0, Backoff: retry.Fixed(time.Second)},
	} {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Select: func(error) *retry.Policy { return &selected }}
		for attempt, want := range map[int]retry.Reason{1: retry.ReasonRetry, 2: retry.ReasonRetry, 3: retry.ReasonExhausted, 50: retry.ReasonExhausted} {
			assert.Equal(t, want, p.Next(retry.Attempt{Number: attempt, Err: errors.New("boom")}).Reason, "after %d", attempt)
		}
	}
}

// untouchable is a third party's Backoff and Jitter that must not be called.
type untouchable struct{}

func (untouchable) Delay(int) time.Duration { panic("the Backoff was called") }
func (untouchable) Window(time.Duration) (lo, hi time.Duration) {
	panic("the Jitter was called")
}

func TestValidateNamesEachFault(t *testing.T) {
	const (
		count = "write how many, 0 for not set, or -1 for unlimited"
		above = "write 0 for none, or a duration above it"
		delay = "write 0 for no delay, or a duration above it"
		ratio = "write NewBudget(size, ratio) with a ratio between 0 and 1"
		share = "write a share between 0 and 1: 0.2 is ±20 %"
		grow  = "write 0 for 2, or a finite number of at least 1"
		hot   = "no limit on executions and no delay that lasts: set MaxAttempts (max_attempts), MaxRetries (max_retries), MaxElapsed (max_elapsed), a Budget, or a Backoff (backoff) that goes on waiting"
	)
	exponential := func(factor float64) retry.Policy {
		return retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second, Factor: factor}}
	}
	for _, row := range []struct {
		policy retry.Policy
		fault  string
	}{
		{retry.Policy{MaxAttempts: -2}, "MaxAttempts is -2: " + count},
		{retry.Policy{MaxAttempts: math.MinInt}, fmt.Sprintf("MaxAttempts is %d: %s", math.MinInt, count)},
		{retry.Policy{MaxRetries: -2}, "MaxRetries is -2: " + count},
		{retry.Policy{MaxRetries: math.MinInt}, fmt.Sprintf("MaxRetries is %d: %s", math.MinInt, count)},
		{retry.Policy{AttemptCap: -1}, "AttemptCap is -1: write 0 for no cap, or how many executions it allows"},
		{retry.Policy{Backoff: retry.Fixed(-1)}, "Backoff: Fixed is -1ns: " + delay},
		{retry.Policy{Backoff: retry.Fixed(math.MinInt64)}, "Backoff: Fixed is -2562047h47m16.854775808s: " + delay},
		{retry.Policy{Backoff: retry.Linear(-time.Second)}, "Backoff: Linear is -1s: " + delay},
		{retry.Policy{Backoff: retry.Fibonacci(-time.Second)}, "Backoff: Fibonacci is -1s: " + delay},
		{retry.Policy{Backoff: retry.Exponential{Base: -time.Second}}, "Backoff: Exponential.Base is -1s: " + delay},
		{exponential(.5), "Backoff: Exponential.Factor is 0.5: " + grow},
		{exponential(math.Nextafter(1, 0)), "Backoff: Exponential.Factor is 0.9999999999999999: " + grow},
		{exponential(math.SmallestNonzeroFloat64), "Backoff: Exponential.Factor is 5e-324: " + grow},
		{exponential(-2), "Backoff: Exponential.Factor is -2: " + grow},
		{exponential(math.NaN()), "Backoff: Exponential.Factor is NaN: " + grow},
		{exponential(math.Inf(1)), "Backoff: Exponential.Factor is +Inf: " + grow},
		{exponential(math.Inf(-1)), "Backoff: Exponential.Factor is -Inf: " + grow},
		{retry.Policy{Backoff: retry.Schedule{1, 2, -3}}, "Backoff: Schedule[2] is -3ns: " + delay},
		{retry.Policy{MaxDelay: -1}, "MaxDelay is -1ns: " + above},
		{retry.Policy{Jitter: retry.Proportional(-.1)}, "Jitter: Proportional is -0.1: " + share},
		{retry.Policy{Jitter: retry.Proportional(1.1)}, "Jitter: Proportional is 1.1: " + share},
		{retry.Policy{Jitter: retry.Proportional(20)}, "Jitter: Proportional is 20: " + share},
		{retry.Policy{Jitter: retry.Proportional(math.NaN())}, "Jitter: Proportional is NaN: " + share},
		{retry.Policy{Jitter: retry.Proportional(math.Inf(1))}, "Jitter: Proportional is +Inf: " + share},
		{retry.Policy{MaxRetryAfter: -1}, "MaxRetryAfter is -1ns: write 0 for one minute or MaxDelay, whichever is longer, or a duration above it"},
		{retry.Policy{MaxElapsed: -1}, "MaxElapsed is -1ns: " + above},
		{retry.Policy{AttemptTimeout: -1}, "AttemptTimeout is -1ns: " + above},
		{retry.Policy{Budget: retry.NewBudget(0, .1)}, "Budget: size is 0: write NewBudget(size, ratio) with a size of at least 1"},
		{retry.Policy{Budget: &retry.Budget{}}, "Budget: size is 0: write NewBudget(size, ratio) with a size of at least 1"},
		{retry.Policy{Budget: retry.NewBudget(math.MinInt, .1)}, fmt.Sprintf("Budget: size is %d: write NewBudget(size, ratio) with a size of at least 1", math.MinInt)},
		{retry.Policy{Budget: retry.NewBudget(1, -.1)}, "Budget: ratio is -0.1: " + ratio},
		{retry.Policy{Budget: retry.NewBudget(1, 1.1)}, "Budget: ratio is 1.1: " + ratio},
		{retry.Policy{Budget: retry.NewBudget(1, math.NaN())}, "Budget: ratio is NaN: " + ratio},
		{retry.Policy{Budget: retry.NewBudget(1, math.Inf(1))}, "Budget: ratio is +Inf: " + ratio},
		{retry.Policy{MaxAttempts: retry.Unlimited}, hot},
		{retry.Policy{MaxRetries: retry.Unlimited}, hot},
	} {
		t.Run(row.fault, func(t *testing.T) {
			require.EqualError(t, row.policy.Validate(), "invalid policy: "+row.fault)
			assertInvalid(t, row.policy)
		})
	}
}

// assertInvalid checks what an invalid policy means for every question but Do.
func assertInvalid(t *testing.T, p retry.Policy) {
	t.Helper()
	assert.Equal(t, 1, p.EffectiveMax())
	assert.True(t, p.Eligible(0))
	assert.False(t, p.Eligible(1))
	for _, number := range []int{math.MinInt, 0, 1, 2, math.MaxInt} {
		assert.Equal(t, retry.Decision{Reason: retry.ReasonInvalid}, p.Next(retry.Attempt{Number: number, Seed: 1}))
	}
	assert.Equal(t, p.Validate(), p.ForJob(3).Validate())
	assert.Nil(t, p.Lint())
	assert.Equal(t, p.Validate().Error(), p.String())
}

func TestValidateNamesEveryFaultAtOnce(t *testing.T) {
	p := retry.Policy{
		MaxAttempts: -2, MaxRetries: -3, AttemptCap: -4,
		Backoff: retry.Schedule{-5, time.Second, -6}, MaxDelay: -7, Jitter: retry.Proportional(-8), MaxRetryAfter: -9,
		MaxElapsed: -10, AttemptTimeout: -11, Budget: retry.NewBudget(-12, -13),
	}
	err := p.Validate()
	require.Error(t, err)
	want := []string{
		"MaxAttempts is -2", "MaxRetries is -3", "AttemptCap is -4",
		"Backoff: Schedule[0] is -5ns", "Backoff: Schedule[2] is -6ns", "MaxDelay is -7ns", "Jitter: Proportional is -8", "MaxRetryAfter is -9ns",
		"MaxElapsed is -10ns", "AttemptTimeout is -11ns", "Budget: size is -12", "Budget: ratio is -13",
	}
	var got []string
	for fault := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "invalid policy: "), "; ") {
		field, write, _ := strings.Cut(fault, ": write ")
		assert.NotEmpty(t, write, "%s: what to write instead", fault)
		got = append(got, field)
	}
	assert.Equal(t, want, got)
	assert.NotContains(t, err.Error(), "\n")
	assertInvalid(t, p)

	p = retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: -1, Factor: .5}}
	assert.EqualError(t, p.Validate(), "invalid policy: "+
		"Backoff: Exponential.Base is -1ns: write 0 for no delay, or a duration above it; "+
		"Backoff: Exponential.Factor is 0.5: write 0 for 2, or a finite number of at least 1; "+
		"no limit on executions and no delay that lasts: set MaxAttempts (max_attempts), MaxRetries (max_retries), MaxElapsed (max_elapsed), a Budget, or a Backoff (backoff) that goes on waiting")
}

func TestValidateSound(t *testing.T) {
	negativeZero := math.Copysign(0, -1)
	for name, p := range map[string]retry.Policy{
		"zero":                        {},
		"default":                     retry.Default(),
		"the greatest of everything":  {MaxAttempts: math.MaxInt, MaxRetries: math.MaxInt, AttemptCap: math.MaxInt, Backoff: retry.Exponential{Base: math.MaxInt64, Factor: math.MaxFloat64}, MaxDelay: math.MaxInt64, Jitter: retry.Proportional(1), MaxRetryAfter: math.MaxInt64, MaxElapsed: math.MaxInt64, AttemptTimeout: math.MaxInt64, Budget: retry.NewBudget(math.MaxInt, 1)},
		"the least above zero":        {MaxAttempts: 1, AttemptCap: 1, Backoff: retry.Exponential{Base: 1, Factor: 1}, MaxDelay: 1, Jitter: retry.Proportional(math.SmallestNonzeroFloat64), MaxRetryAfter: 1, MaxElapsed: 1, AttemptTimeout: 1, Budget: retry.NewBudget(1, 0)},
		"a factor of minus zero is 0": {MaxAttempts: 2, Backoff: retry.Exponential{Base: 1, Factor: negativeZero}},
		"a jitter of minus zero is 0": {MaxAttempts: 2, Jitter: retry.Proportional(negativeZero)},
		"no delay, but a limit":       {MaxAttempts: 1_000_000},
		"fixed 0, but a limit":        {MaxAttempts: 3, Backoff: retry.Fixed(0)},
		"linear 0, but a limit":       {MaxAttempts: 3, Backoff: retry.Linear(0)},
		"fibonacci 0, but a limit":    {MaxAttempts: 3, Backoff: retry.Fibonacci(0)},
		"exponential 0, but a limit":  {MaxAttempts: 3, Backoff: retry.Exponential{}},
		"schedule of 0, but a limit":  {MaxAttempts: 3, Backoff: retry.Schedule{0, 0}},
		"an empty schedule":           {MaxAttempts: 3, Backoff: retry.Schedule{}},
		"full jitter":                 {MaxAttempts: 3, Jitter: retry.FullJitter},
		"equal jitter":                {MaxAttempts: 3, Jitter: retry.EqualJitter},
	} {
		t.Run(name, func(t *testing.T) { assert.NoError(t, p.Validate()) })
	}
}

func TestValidateHotLoop(t *testing.T) {
	unlimited := func(b retry.Backoff) retry.Policy { return retry.Policy{MaxAttempts: retry.Unlimited, Backoff: b} }
	with := func(change func(*retry.Policy)) retry.Policy {
		p := unlimited(nil)
		change(&p)
		return p
	}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		hot    bool
	}{
		{"no Backoff", unlimited(nil), true},
		{"unlimited by MaxRetries", retry.Policy{MaxRetries: retry.Unlimited}, true},
		{"unlimited by both", retry.Policy{MaxAttempts: retry.Unlimited, MaxRetries: retry.Unlimited}, true},
		{"Fixed 0", unlimited(retry.Fixed(0)), true},
		{"Linear 0", unlimited(retry.Linear(0)), true},
		{"Fibonacci 0", unlimited(retry.Fibonacci(0)), true},
		{"Exponential 0", unlimited(retry.Exponential{Factor: 3}), true},
		{"Schedule nil", unlimited(retry.Schedule(nil)), true},
		{"Schedule empty", unlimited(retry.Schedule{}), true},
		{"Schedule 0", unlimited(retry.Schedule{0, 0}), true},
		{"Schedule that ends in a hot loop", unlimited(retry.Schedule{time.Second, 0}), true},
		{"BackoffFunc nil", unlimited(retry.BackoffFunc(nil)), true},
		{"a cap and a jitter slow nothing down", with(func(p *retry.Policy) { p.MaxDelay, p.Jitter = time.Second, retry.FullJitter }), true},
		{"AttemptTimeout limits no executions", with(func(p *retry.Policy) { p.AttemptTimeout = time.Second }), true},
		{"RetryIf limits no executions", with(func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }), true},

		{"Schedule that begins hot", unlimited(retry.Schedule{0, 0, time.Nanosecond}), false},
		{"Fixed 1ns", unlimited(retry.Fixed(1)), false},
		{"Exponential 1ns", unlimited(retry.Exponential{Base: 1, Factor: 1}), false},
		{"a BackoffFunc is trusted", unlimited(retry.BackoffFunc(untouchable{}.Delay)), false},
		{"a third party's Backoff is trusted", unlimited(untouchable{}), false},
		{"MaxRetries", with(func(p *retry.Policy) { p.MaxRetries = 3 }), false},
		{"AttemptCap", with(func(p *retry.Policy) { p.AttemptCap = 3 }), false},
		{"NonRetryable", with(func(p *retry.Policy) { p.NonRetryable = true }), false},
		{"MaxElapsed", with(func(p *retry.Policy) { p.MaxElapsed = 1 }), false},
		{"Budget", with(func(p *retry.Policy) { p.Budget = retry.NewBudget(1, 0) }), false},
		{"no limit set", retry.Policy{}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := row.policy.Validate()
			if !row.hot {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, "no limit on executions and no delay that lasts")
			assertInvalid(t, row.policy)
		})
	}
}

// What is asked of a policy before it runs calls nothing of a third party.
func TestValidateCallsNobody(t *testing.T) {
	p := retry.Policy{
		MaxAttempts: retry.Unlimited, Backoff: untouchable{}, Jitter: untouchable{}, MaxDelay: time.Second, MaxElapsed: time.Second,
		Source:  sourceFunc(func() uint64 { panic("the Source was called") }),
		RetryIf: func(error) bool { panic("RetryIf was called") },
		Select:  func(error) *retry.Policy { panic("Select was called") },
	}
	for _, b := range []retry.Backoff{untouchable{}, &untouchable{}, retry.BackoffFunc(untouchable{}.Delay)} {
		p.Backoff = b
		assert.NoError(t, p.Validate())
		assert.Empty(t, p.Lint())
		assert.NotEmpty(t, p.String())
		assert.Equal(t, retry.Unlimited, p.EffectiveMax())
		assert.True(t, p.Eligible(1_000_000))
		assert.Equal(t, 3, p.ForJob(3).EffectiveMax())
	}
}

// The errors of two policies can be compared with ==, as any two errors can.
func TestValidateErrorsCanBeCompared(t *testing.T) {
	a, b := retry.Policy{MaxAttempts: -2}.Validate(), retry.Policy{MaxAttempts: -3}.Validate()
	assert.NotPanics(t, func() { assert.False(t, a == b) })
	assert.ErrorIs(t, fmt.Errorf("wrapped: %w", a), a)
}

// Elsewhere a policy is built from NaN, a negative number or a jitter above one
// without a word, and panics or loops later.
func TestTrapUnvalidatedNumbers(t *testing.T) {
	for name, p := range map[string]retry.Policy{
		"a jitter of 300 %":       {MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: retry.Proportional(3)},
		"a factor that is NaN":    {MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second, Factor: math.NaN()}},
		"a negative fixed delay":  {MaxAttempts: 3, Backoff: retry.Fixed(-1)},
		"a negative jitter":       {MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: retry.Proportional(-1)},
		"unlimited without delay": {MaxAttempts: retry.Unlimited, Backoff: retry.Schedule{}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, p.Validate())
			assertInvalid(t, p)
			for attempt := range 100 {
				for _, d := range []time.Duration{p.Backoff.Delay(attempt), p.Backoff.Delay(-attempt)} {
					assert.GreaterOrEqual(t, d, time.Duration(0))
					if p.Jitter != nil {
						lo, hi := p.Jitter.Window(d)
						assert.True(t, 0 <= lo && lo <= hi && hi <= 2*d, "window of %v: %v, %v", d, lo, hi)
					}
				}
			}
		})
	}
}

func TestLint(t *testing.T) {
	second := retry.Fixed(time.Second)
	doubling := retry.Exponential{Base: time.Second}
	const (
		noLimit      = "Backoff (backoff) beside no limit: there is one execution and no delay; set MaxAttempts (max_attempts) or MaxRetries (max_retries)"
		bothLimits   = "MaxAttempts (max_attempts) and MaxRetries (max_retries) are both set: the smaller counts, "
		nonRetryable = "NonRetryable (retryable: false) beside MaxAttempts (max_attempts) or MaxRetries (max_retries) for "
		growing      = "unlimited attempts on a Backoff (backoff) that grows: the delays reach years; set MaxDelay (max_delay)"
	)
	for _, row := range []struct {
		name   string
		policy retry.Policy
		lint   []string
	}{
		{"nothing set", retry.Policy{}, nil},
		{"default", retry.Default(), nil},

		{"a Backoff without a limit", retry.Policy{Backoff: second}, []string{noLimit}},
		{"a third party's Backoff without a limit", retry.Policy{Backoff: untouchable{}}, []string{noLimit}},
		{"a Backoff with MaxElapsed and no limit", retry.Policy{Backoff: second, MaxElapsed: time.Minute}, []string{noLimit}},
		{"a Backoff with AttemptCap and no limit", retry.Policy{Backoff: second, AttemptCap: 5}, []string{noLimit}},
		{"a Schedule without a limit", retry.Policy{Backoff: retry.Schedule{1, 2}}, []string{noLimit}},
		{"a Backoff with MaxAttempts", retry.Policy{Backoff: second, MaxAttempts: 2}, nil},
		{"a Backoff with MaxAttempts 1, which says so", retry.Policy{Backoff: second, MaxAttempts: 1}, nil},
		{"a Backoff with MaxRetries", retry.Policy{Backoff: second, MaxRetries: 1}, nil},
		{"a Backoff that is unlimited", retry.Policy{Backoff: second, MaxRetries: -1}, nil},
		{"a Backoff with NonRetryable", retry.Policy{Backoff: second, NonRetryable: true}, nil},

		{"both limits", retry.Policy{MaxAttempts: 5, MaxRetries: 2}, []string{bothLimits + "3 attempts; set one"}},
		{"both limits, unlimited", retry.Policy{MaxAttempts: 5, MaxRetries: -1}, []string{bothLimits + "5 attempts; set one"}},
		{"both limits, both unlimited", retry.Policy{MaxAttempts: -1, MaxRetries: -1, Backoff: second}, []string{bothLimits + "unlimited attempts; set one"}},
		{"a limit and a cap", retry.Policy{MaxAttempts: 5, AttemptCap: 3}, nil},

		{"a delay that no retry reaches", retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{5 * time.Minute, 15 * time.Minute, time.Hour}},
			[]string{"a Schedule (delays) of 3 beside 3 attempts: the delay of 1h0m0s and what follows is never reached; MaxAttempts (max_attempts) counts the first execution"}},
		{"a delay that no retry reaches, by MaxRetries", retry.Policy{MaxRetries: 1, Backoff: retry.Schedule{1, 2, 3}},
			[]string{"a Schedule (delays) of 3 beside 2 attempts: the delay of 2ns and what follows is never reached; MaxAttempts (max_attempts) counts the first execution"}},
		{"a delay that no retry reaches, by AttemptCap", retry.Policy{MaxAttempts: 9, AttemptCap: 2, Backoff: retry.Schedule{1, 2, 3}},
			[]string{"a Schedule (delays) of 3 beside 2 attempts: the delay of 2ns and what follows is never reached; MaxAttempts (max_attempts) counts the first execution"}},
		{"a delay that no retry reaches, unlimited but for AttemptCap", retry.Policy{MaxAttempts: -1, AttemptCap: 2, Backoff: retry.Schedule{1, 2, 3}},
			[]string{"a Schedule (delays) of 3 beside 2 attempts: the delay of 2ns and what follows is never reached; MaxAttempts (max_attempts) counts the first execution"}},
		{"a delay beside one attempt", retry.Policy{MaxAttempts: 1, Backoff: retry.Schedule{time.Second}},
			[]string{"a Schedule (delays) of 1 beside 1 attempt: the delay of 1s and what follows is never reached; MaxAttempts (max_attempts) counts the first execution"}},
		{"a Schedule that is reached", retry.Policy{MaxAttempts: 4, Backoff: retry.Schedule{1, 2, 3}}, nil},
		{"a Schedule that repeats its last", retry.Policy{MaxAttempts: 9, Backoff: retry.Schedule{1, 2, 3}}, nil},
		{"a Schedule that is unlimited", retry.Policy{MaxAttempts: -1, Backoff: retry.Schedule{1, 2, 3}}, nil},
		{"an empty Schedule", retry.Policy{MaxAttempts: 1, Backoff: retry.Schedule{}}, nil},

		{"NonRetryable beside attempts", retry.Policy{NonRetryable: true, MaxAttempts: 3}, []string{nonRetryable + "3 attempts: there is one execution"}},
		{"NonRetryable beside retries", retry.Policy{NonRetryable: true, MaxRetries: 3}, []string{nonRetryable + "4 attempts: there is one execution"}},
		{"NonRetryable beside unlimited", retry.Policy{NonRetryable: true, MaxAttempts: -1}, []string{nonRetryable + "unlimited attempts: there is one execution"}},
		{"NonRetryable beside a Schedule", retry.Policy{NonRetryable: true, MaxAttempts: 2, Backoff: retry.Schedule{1, 2, 3}}, []string{nonRetryable + "2 attempts: there is one execution"}},
		{"NonRetryable beside one attempt", retry.Policy{NonRetryable: true, MaxAttempts: 1}, nil},
		{"NonRetryable alone", retry.Policy{NonRetryable: true}, nil},
		{"NonRetryable beside a cap", retry.Policy{NonRetryable: true, AttemptCap: 10}, nil},

		{"unlimited and exponential", retry.Policy{MaxAttempts: -1, Backoff: doubling}, []string{growing}},
		{"unlimited and linear", retry.Policy{MaxRetries: -1, Backoff: retry.Linear(1)}, []string{growing}},
		{"unlimited and fibonacci", retry.Policy{MaxAttempts: -1, Backoff: retry.Fibonacci(1)}, []string{growing}},
		{"unlimited and growing, with a Budget", retry.Policy{MaxAttempts: -1, Backoff: doubling, Budget: retry.NewBudget(1, 1)}, []string{growing}},
		{"unlimited and growing, with MaxDelay", retry.Policy{MaxAttempts: -1, Backoff: doubling, MaxDelay: time.Minute}, nil},
		{"unlimited and growing, with MaxElapsed", retry.Policy{MaxAttempts: -1, Backoff: doubling, MaxElapsed: time.Minute}, nil},
		{"unlimited and growing, with AttemptCap", retry.Policy{MaxAttempts: -1, Backoff: doubling, AttemptCap: 9}, nil},
		{"unlimited and fixed", retry.Policy{MaxAttempts: -1, Backoff: second}, nil},
		{"unlimited and a factor of one", retry.Policy{MaxAttempts: -1, Backoff: retry.Exponential{Base: time.Second, Factor: 1}}, nil},
		{"unlimited and a Schedule", retry.Policy{MaxAttempts: -1, Backoff: retry.Schedule{1, 2, 3}}, nil},
		{"unlimited and a third party's", retry.Policy{MaxAttempts: -1, Backoff: untouchable{}}, nil},
		{"unlimited, no delay, MaxElapsed", retry.Policy{MaxAttempts: -1, Backoff: retry.Linear(0), MaxElapsed: time.Minute}, nil},

		{"the first delay is beyond MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute), MaxElapsed: time.Second},
			[]string{"MaxElapsed (max_elapsed) of 1s is shorter than the first delay of 1m0s: there is no retry"}},
		{"the first delay is beyond a MaxElapsed of 1ns", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(2), MaxElapsed: 1},
			[]string{"MaxElapsed (max_elapsed) of 1ns is shorter than the first delay of 2ns: there is no retry"}},
		{"the first delay is MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: second, MaxElapsed: time.Second}, nil},
		{"the second delay is beyond MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: doubling, MaxElapsed: time.Second}, nil},

		{"MaxDelay is below the first delay", retry.Policy{MaxAttempts: 3, Backoff: doubling, MaxDelay: time.Second - 1},
			[]string{"MaxDelay (max_delay) of 999.999999ms is shorter than the first delay of 1s: it cuts that already"}},
		{"MaxDelay of 1ns is below the first delay", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(2), MaxDelay: 1},
			[]string{"MaxDelay (max_delay) of 1ns is shorter than the first delay of 2ns: it cuts that already"}},
		{"MaxDelay is the first delay", retry.Policy{MaxAttempts: 3, Backoff: doubling, MaxDelay: time.Second}, nil},
		{"MaxDelay cuts the first delay to less than MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute), MaxDelay: time.Second, MaxElapsed: 10 * time.Second},
			[]string{"MaxDelay (max_delay) of 1s is shorter than the first delay of 1m0s: it cuts that already"}},

		{"several at once", retry.Policy{MaxAttempts: 3, MaxRetries: 9, Backoff: retry.Schedule{time.Minute, 2, 3}, MaxElapsed: time.Second},
			[]string{
				bothLimits + "3 attempts; set one",
				"a Schedule (delays) of 3 beside 3 attempts: the delay of 3ns and what follows is never reached; MaxAttempts (max_attempts) counts the first execution",
				"MaxElapsed (max_elapsed) of 1s is shorter than the first delay of 1m0s: there is no retry",
			}},
		{"an invalid policy", retry.Policy{MaxAttempts: -2, MaxRetries: 3, Backoff: second}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.lint, row.policy.Lint())
			for _, line := range row.policy.Lint() {
				assert.NotContains(t, line, "\n")
			}
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
		{retry.Policy{MaxAttempts: 3, MaxElapsed: time.Minute, AttemptTimeout: time.Second, MaxRetryAfter: time.Hour}, "3 attempts, within 1m0s, 1s for each, a server's wait at most 1h0m0s"},
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

// curveOf returns the Backoff that the tables in testdata call by this name.
func curveOf(t *testing.T, name string, base time.Duration) retry.Backoff {
	t.Helper()
	curves := map[string]retry.Backoff{
		"fixed": retry.Fixed(base), "linear": retry.Linear(base), "exponential": retry.Exponential{Base: base, Factor: 2},
	}
	require.Contains(t, curves, name)
	return curves[name]
}

// assertDelays checks the delays after the attempts that follow from, and that
// a policy that allows no more of them stops there.
func assertDelays(t *testing.T, p retry.Policy, from int, delays []time.Duration) {
	t.Helper()
	require.NoError(t, p.Validate())
	boom := errors.New("boom")
	for i, want := range delays {
		assert.Equal(t, retry.Decision{Delay: want, Reason: retry.ReasonRetry}, p.Next(retry.Attempt{Number: from + i, Err: boom}), "after attempt %d", from+i)
	}
	if limit := p.EffectiveMax(); limit != retry.Unlimited {
		require.LessOrEqual(t, from+len(delays), limit, "there are more delays than retries")
		assert.False(t, p.Next(retry.Attempt{Number: limit, Err: boom}).Retry(), "after the last attempt")
	}
}

func TestTasker(t *testing.T) {
	for _, r := range readTable(t, "tasker.txt", "eligibility") {
		t.Run(r.String()+" "+r["name"], func(t *testing.T) {
			r.or(t, "retryable", "true").or(t, "max_attempts", "3").or(t, "attempts", "0")
			p := retry.Policy{MaxAttempts: r.int(t, "max_attempts"), NonRetryable: !r.bool(t, "retryable")}
			attempts, eligible := r.int(t, "attempts"), r.bool(t, "eligible")
			assert.Equal(t, eligible, p.Eligible(attempts))
			if attempts > 0 {
				assert.Equal(t, eligible, p.Next(retry.Attempt{Number: attempts}).Retry(), "Next says the same")
			}
		})
	}
	for _, r := range readTable(t, "tasker.txt", "delays") {
		t.Run(r.String(), func(t *testing.T) {
			r.or(t, "retryable", "true").or(t, "max_attempts", "3").or(t, "base", "1s").or(t, "max_delay", "0s")
			p := retry.Policy{
				MaxAttempts: r.int(t, "max_attempts"), NonRetryable: !r.bool(t, "retryable"),
				Backoff: retry.Exponential{Base: r.duration(t, "base"), Factor: 2}, MaxDelay: r.duration(t, "max_delay"),
			}
			assert.Equal(t, r.int(t, "executions"), p.EffectiveMax())
			assertDelays(t, p, 1, r.durations(t, "delays"))
		})
	}
}

func TestArgyll(t *testing.T) {
	for _, r := range readTable(t, "argyll.txt", "executions") {
		t.Run(r.String(), func(t *testing.T) {
			p := retry.Policy{MaxAttempts: retry.Retries(r.int(t, "max_retries")), Backoff: retry.Fixed(time.Second)}
			assertExecutions(t, p, r.int(t, "executions"))
		})
	}
	for _, r := range readTable(t, "argyll.txt", "delays") {
		t.Run(r.String(), func(t *testing.T) {
			p := retry.Policy{
				MaxAttempts: retry.Retries(r.int(t, "max_retries")),
				Backoff:     curveOf(t, r["curve"], r.duration(t, "base")), MaxDelay: r.duration(t, "max_delay"),
			}
			assert.Equal(t, r.int(t, "executions"), p.EffectiveMax())
			assertDelays(t, p, r.int(t, "from"), r.durations(t, "delays"))
		})
	}
}

// jobPolicy is the policy of a row with the limits of a job and of a policy,
// where a number of 0 or below is not set.
func (r row) jobPolicy(t *testing.T) retry.Policy {
	t.Helper()
	p := retry.Policy{NonRetryable: r.cell(t, "policy") == "null"}
	p.MaxAttempts = max(0, r.or(t, "policy", "0").int(t, "policy"))
	return p.ForJob(r.int(t, "job"))
}

func TestTaskHarbor(t *testing.T) {
	for _, r := range readTable(t, "taskharbor.txt", "effective_max") {
		t.Run(r.String(), func(t *testing.T) {
			p, executions := r.jobPolicy(t), r.int(t, "executions")
			assert.Equal(t, executions, p.EffectiveMax())
			assertExecutions(t, p, executions)
		})
	}
	for _, r := range readTable(t, "taskharbor.txt", "dead") {
		t.Run(r.String(), func(t *testing.T) {
			err := errors.New(r["error"])
			if r["error"] == "unrecoverable" {
				err = retry.Permanent(err)
			}
			next := r.jobPolicy(t).Next(retry.Attempt{Number: r.int(t, "failures"), Err: err})
			assert.Equal(t, r.bool(t, "dead"), !next.Retry(), "%v", next.Reason)
		})
	}
	for _, r := range slices.Concat(readTable(t, "taskharbor.txt", "delays"), readTable(t, "taskharbor.txt", "windows")) {
		t.Run(r.String(), func(t *testing.T) {
			p := retry.Policy{
				MaxAttempts: 25, MaxDelay: r.duration(t, "max_delay"),
				Backoff: retry.Exponential{Base: r.duration(t, "base"), Factor: r.float(t, "factor")},
			}
			if _, jitter := r["jitter"]; !jitter {
				assertDelays(t, p, 1, r.durations(t, "delays"))
				return
			}
			p.Jitter = retry.Proportional(r.float(t, "jitter"))
			greatest := r.durations(t, "greatest")
			for i, least := range r.durations(t, "least") {
				lo, hi := windowOf(p, retry.Attempt{Number: i + 1})
				assert.Equal(t, least, lo, "the least delay after %d", i+1)
				assert.Equal(t, greatest[i], hi, "the greatest delay after %d", i+1)
			}
		})
	}
}

func TestNoETL(t *testing.T) {
	for _, r := range readTable(t, "noetl.txt", "delays") {
		t.Run(r.String(), func(t *testing.T) {
			p := retry.Policy{MaxAttempts: r.int(t, "attempts"), Backoff: curveOf(t, r["curve"], r.duration(t, "base"))}
			assertDelays(t, p, 1, r.durations(t, "delays"))
		})
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
			assert.Equal(t, retry.Decision{Delay: r.duration(t, "delay"), Reason: retry.ReasonRetry}, next)
		})
	}

	p.MaxAttempts = 3
	assert.Len(t, p.Lint(), 1, "with three attempts the last delay is never reached")
	p.MaxAttempts = 6
	assertDelays(t, p, 3, []time.Duration{schedule[2], schedule[2], schedule[2]})
}
