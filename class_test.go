package retry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// A kindError is a failure of the kind that its text names.
type kindError string

func (e kindError) Error() string { return "a failure of kind " + string(e) }

// The function `classes` returns a Classify that finds the class of a kindError.
func classes(known map[kindError]*retry.Class) func(error) *retry.Class {
	return func(err error) *retry.Class {
		var kind kindError
		errors.As(err, &kind)
		return known[kind]
	}
}

// The function `failing` returns a function that counts its attempts. Each attempt fails with the
// next error of the script. After the last error, the attempts succeed.
func failing(script []kindError, attempts *int) func(context.Context) error {
	return func(context.Context) error {
		*attempts++
		if *attempts > len(script) {
			return nil
		}
		return script[*attempts-1]
	}
}

func TestClass(t *testing.T) {
	unauthorized := &retry.Class{Name: "unauthorized", MaxAttempts: 2}
	unsafe := errors.New("it may have been processed")
	for _, row := range []struct {
		name   string
		policy retry.Policy
		class  *retry.Class
		script []kindError
		want   string
	}{
		{"a 401 after two 503 still has its retry", retry.Policy{MaxAttempts: 5}, unauthorized, []kindError{"503", "503", "401"}, "<nil>"},
		{"the second 401 is the last", retry.Policy{MaxAttempts: 5}, unauthorized, []kindError{"401", "503", "401"},
			`retry: attempts exhausted after 3 attempts (2 of "unauthorized"): a failure of kind 401`},
		{"if both limits are reached, the text names the limit of the policy", retry.Policy{MaxAttempts: 2}, unauthorized, []kindError{"401", "401"},
			"retry: attempts exhausted after 2 attempts: a failure of kind 401"},
		{"a class without a name counts all failures", retry.Policy{MaxAttempts: 5}, &retry.Class{MaxAttempts: 2}, []kindError{"503", "401"},
			"retry: attempts exhausted after 2 attempts: a failure of kind 401"},
		{"without a limit of the policy there is no retry", retry.Policy{}, unauthorized, []kindError{"401"},
			"retry: gave up after 1 attempt (no limit is set, so there is no retry): a failure of kind 401"},
		{"the text contains the Cause of a NonRetryable class", retry.Policy{MaxAttempts: 5}, &retry.Class{NonRetryable: true, Cause: unsafe}, []kindError{"401"},
			"retry: not retryable after 1 attempt (it may have been processed): a failure of kind 401"},
		{"if the policy is NonRetryable, the Cause of the class is not used", retry.Policy{MaxAttempts: 5, NonRetryable: true}, &retry.Class{NonRetryable: true, Cause: unsafe}, []kindError{"401"},
			"retry: not retryable after 1 attempt: a failure of kind 401"},
		{"the Cause of a class is used only for NonRetryable", retry.Policy{MaxAttempts: 5}, &retry.Class{MaxAttempts: 1, Cause: unsafe}, []kindError{"401"},
			"retry: attempts exhausted after 1 attempt: a failure of kind 401"},
		{"an invalid class", retry.Policy{MaxAttempts: 5}, &retry.Class{Name: "x\n", MaxDelay: -1, Jitter: retry.Proportional(2)}, []kindError{"401"},
			`retry: invalid policy after 1 attempt (class "x\n": MaxDelay is -1ns: write 0 for the MaxDelay of the policy, or a positive duration; Jitter: Proportional is 2: write a share between 0 and 1: 0.2 is ±20 %): a failure of kind 401`},
		{"no delay, but unlimited attempts wait at least 10ms", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)},
			&retry.Class{Name: "hot", MaxAttempts: 3, Backoff: retry.Fixed(0)}, []kindError{"401", "401", "401"},
			`retry: attempts exhausted after 3 attempts (20ms waited, 3 of "hot"): a failure of kind 401`},
		{"a class with only a name limits nothing", retry.Policy{MaxAttempts: 2}, &retry.Class{Name: "seen"}, []kindError{"503", "401"},
			"retry: attempts exhausted after 2 attempts: a failure of kind 401"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				row.policy.Classify = classes(map[kindError]*retry.Class{"401": row.class})
				before := *row.class
				err := retry.Do(t.Context(), row.policy, failing(row.script, &attempts))
				assert.Equal(t, row.want, fmt.Sprint(err))
				assert.Equal(t, before, *row.class, "the Class is not modified")
			})
		})
	}
}

// The function `with` returns p after the function `change` has changed it.
func with(p retry.Policy, change func(p *retry.Policy)) retry.Policy {
	change(&p)
	return p
}

// Failures with a ninth name have no count of their own, and neither have failures of a class
// without a name.
func TestACallCountsEightNames(t *testing.T) {
	var script []kindError
	known := map[kindError]*retry.Class{}
	for i := range 9 {
		kind := kindError(fmt.Sprintf("%d", i+1))
		script = append(script, kind)
		known[kind] = &retry.Class{Name: string(kind), MaxAttempts: 2, Backoff: retry.Linear(time.Second)}
	}
	p := retry.Policy{MaxAttempts: 100, Classify: classes(known)}
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		err := retry.Do(t.Context(), p, failing(script, &attempts))
		assert.EqualError(t, err, `retry: attempts exhausted after 9 attempts (8s waited, 9 of "9"): a failure of kind 9`)
		attempts = 0
		err = retry.Do(t.Context(), p, failing(append(script[:8:8], "8"), &attempts))
		assert.EqualError(t, err, `retry: attempts exhausted after 9 attempts (8s waited, 2 of "8"): a failure of kind 8`)
	})
}

func TestAttemptClasses(t *testing.T) {
	p := retry.Policy{MaxAttempts: 100}
	p.Classify = classes(map[kindError]*retry.Class{"x": {Name: "x", MaxAttempts: 3, Backoff: retry.Linear(time.Second)}})
	eight := map[string]int{"1": 1, "2": 1, "3": 1, "4": 1, "5": 1, "6": 1, "7": 1, "8": 1}
	for _, row := range []struct {
		name    string
		classes map[string]int
		number  int
		reason  retry.Reason
		delay   time.Duration
	}{
		{"nil: this is the first failure of its class", nil, 50, retry.ReasonRetry, time.Second},
		{"empty", map[string]int{}, 50, retry.ReasonRetry, time.Second},
		{"other classes do not count", map[string]int{"y": 7}, 50, retry.ReasonRetry, time.Second},
		{"one earlier failure of the class", map[string]int{"x": 1}, 50, retry.ReasonRetry, 2 * time.Second},
		{"two earlier failures of the class", map[string]int{"x": 2}, 50, retry.ReasonExhausted, 3 * time.Second},
		{"a negative count is treated as 0", map[string]int{"x": -5}, 50, retry.ReasonRetry, time.Second},
		{"the largest number", map[string]int{"x": math.MaxInt}, 50, retry.ReasonExhausted, time.Duration(min(math.MaxInt64/time.Second, math.MaxInt)) * time.Second},
		{"after eight other classes, all failures count", eight, 50, retry.ReasonExhausted, 50 * time.Second},
		{"after eight other classes, the second of all failures", eight, 2, retry.ReasonRetry, 2 * time.Second},
		{"one of nine classes", func() map[string]int { nine := maps.Clone(eight); nine["x"] = 1; return nine }(), 50, retry.ReasonRetry, 2 * time.Second},
		{"seven other classes, and names without failures", map[string]int{"1": 1, "2": 1, "3": 1, "4": 1, "5": 1, "6": 1, "7": 1, "8": 0, "9": -1, "": 3},
			50, retry.ReasonRetry, time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := retry.Attempt{Number: row.number, Classes: row.classes, Err: kindError("x")}
			want := retry.Decision{Reason: row.reason, Delay: row.delay, Lo: row.delay, Hi: row.delay, Number: row.number, Class: "x"}
			if row.name == "the largest number" && math.MaxInt == math.MaxInt64 {
				want.Delay, want.Lo, want.Hi = math.MaxInt64, math.MaxInt64, math.MaxInt64
			}
			assert.Equal(t, want, p.Next(a))
			d, err := retry.Once(t.Context(), p, a, failWith(a.Err))
			assert.Equal(t, want, d)
			assert.Equal(t, row.reason, retry.ReasonOf(err))
		})
	}
}

// A failure that is permanent or rejected has no class. If the context is canceled during the
// attempt, the failure has a class.
func TestWhichErrorsAreClassified(t *testing.T) {
	asked := 0
	p := retry.Policy{MaxAttempts: 5, RetryIf: func(err error) bool { return err != errDial }}
	p.Classify = func(error) *retry.Class { asked++; return &retry.Class{Name: "x"} }
	for _, row := range []struct {
		name  string
		err   error
		asked int
		class string
	}{
		{"no error", nil, 0, ""},
		{"permanent", retry.Permanent(errBoom), 0, ""},
		{"rejected", errDial, 0, ""},
		{"any other", errBoom, 1, "x"},
	} {
		t.Run(row.name, func(t *testing.T) {
			asked = 0
			assert.Equal(t, row.class, p.Next(retry.Attempt{Number: 1, Err: row.err}).Class)
			assert.Equal(t, row.asked, asked)
		})
	}
	t.Run("under a canceled context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d, err := retry.Once(ctx, p, retry.Attempt{Number: 1}, func(context.Context) error { cancel(); return errBoom })
		assert.Equal(t, retry.ReasonCanceled, d.Reason)
		assert.Equal(t, "x", d.Class)
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
	})
	t.Run("the Error and the CallFinished have the class of the last failure, and a success has none", func(t *testing.T) {
		var stopped []string
		p := p
		p.MaxAttempts = 2
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.CallFinished {
				stopped = append(stopped, e.Class)
			}
		}
		err := retry.Do(t.Context(), p, func(context.Context) error { return errBoom })
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "x", failed.Class)
		attempts := 0
		require.NoError(t, retry.Do(t.Context(), p, failing([]kindError{"a"}, &attempts)))
		assert.Equal(t, []string{"x", ""}, stopped)
	})
}

func TestInvalidClass(t *testing.T) {
	for _, row := range []struct {
		name  string
		class retry.Class
		says  string
	}{
		{"MaxAttempts", retry.Class{MaxAttempts: -1}, "MaxAttempts is -1: write how many failures end the call, or 0 for no limit"},
		{"Backoff", retry.Class{Backoff: retry.Linear(-1)}, "Backoff: Linear is -1ns: write 0 for no delay, or a positive duration"},
		{"MaxDelay", retry.Class{MaxDelay: -1}, "MaxDelay is -1ns: write 0 for the MaxDelay of the policy, or a positive duration"},
		{"Jitter", retry.Class{Jitter: retry.Spread(3)}, "Jitter: Spread is 3: write FullJitter, EqualJitter, or nil for none"},
		{"an invalid class that is NonRetryable", retry.Class{NonRetryable: true, MaxDelay: -1}, "MaxDelay is -1ns: write 0 for the MaxDelay of the policy, or a positive duration"},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			p := everySecond
			p.Classify = func(error) *retry.Class { return &row.class }
			assert.Equal(t, retry.Decision{Reason: retry.ReasonInvalid}, p.Next(retry.Attempt{Number: 1, Err: errDial}))
			err := call(t.Context(), p, failWith(errDial))
			e := stopped(t, err)
			assert.Equal(t, &retry.Error{Reason: retry.ReasonInvalid, Attempts: 1, Err: errDial, Cause: e.Cause}, plain(err))
			assert.EqualError(t, e.Cause, `invalid policy of class "": `+row.says)
		})
	}
}
