package retrylog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// Check accepts the log of a call under the policy of the call. Under another policy, it names
// the first decision that differs. It accepts decisions that depend on facts that a log does not
// contain.
func TestCheck(t *testing.T) {
	three, five := []error{errRefused, errRefused, errRefused}, []error{errRefused, errRefused, errRefused, errRefused, errRefused}
	same := func(*retry.Policy) {}
	invalid := func(p *retry.Policy) { p.MaxAttempts = -2 }
	valid := func(p *retry.Policy) { p.MaxAttempts = 1 }
	healthy := func(p *retry.Policy) { p.HealthyAfter = 30 * time.Millisecond }
	asked := []error{retry.After(time.Second, errRefused)}
	cut := func(p *retry.Policy) { p.Jitter, p.MaxElapsed = retry.FullJitter, 1030*time.Millisecond+100 }
	short := []error{retry.After(time.Millisecond, errRefused)}
	exact := func(p *retry.Policy) { p.RetryAfter = retry.RetryAfterExact }
	spread := func(p *retry.Policy) { p.RetryAfter = retry.RetryAfterSpread }
	atLeast := func(p *retry.Policy) { p.RetryAfter = retry.RetryAfterAtLeast }
	longer := func(mode retry.RetryAfterMode) func(*retry.Policy) {
		return func(p *retry.Policy) {
			p.RetryAfter, p.Backoff, p.MaxDelay = mode, retry.Fixed(10*time.Second), time.Minute
		}
	}
	const anew = "line 3: the attempt ran past HealthyAfter, so the call begins anew: attempt 1 is retried in 219.325191ms, at 00:00:00.249Z " +
		"(drawn from 160ms to 240ms with seed 42), and reset is true, but under the policy an attempt of 30ms does not restart the count of attempts (HealthyAfter is "
	for _, row := range []struct {
		name    string
		made    func(*retry.Policy) // changes the policy before the call
		errs    []error
		reason  retry.Reason
		checked func(*retry.Policy) // changes the policy before Check
		says    string              // the error of Check; "": Check accepts the log
	}{
		{"another limit", same, three, retry.ReasonExhausted, func(p *retry.Policy) { p.MaxAttempts = 4 }, "line 1: max is 3, but under the policy it is 4"},
		{"another base", same, three, retry.ReasonExhausted, func(p *retry.Policy) { p.Backoff = retry.Exponential{Base: 100 * time.Millisecond} },
			"line 3: attempt 1 is retried in 219.325191ms"},
		{"another jitter", same, three, retry.ReasonExhausted, func(p *retry.Policy) { p.Jitter = retry.Proportional(0.1) }, "line 3"},
		{"no jitter", same, three, retry.ReasonExhausted, func(p *retry.Policy) { p.Jitter = nil }, "and under the policy the delay is 200ms"},
		{"a lower cap", same, three, retry.ReasonExhausted, func(p *retry.Policy) { p.MaxDelay = 300 * time.Millisecond }, "line 6"},
		{"a MaxElapsed", same, three, retry.ReasonExhausted, func(p *retry.Policy) { p.MaxElapsed = 300 * time.Millisecond }, "line 6: attempt 2 is retried in"},
		{"another window", func(p *retry.Policy) { p.Backoff = retry.Exponential{Base: 200*time.Millisecond + 1} }, []error{errRefused}, retry.ReasonSuccess,
			func(p *retry.Policy) { p.Backoff = policy.Backoff },
			"drawn from 160.000001ms to 240.000001ms with seed 42), and under the policy the delay is between 160ms and 240ms"},
		{"only a Wait may return early", func(p *retry.Policy) {
			p.Backoff, p.Jitter = retry.Fixed(5*time.Second), nil
			p.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) { time.Sleep(d / 2); return 0, nil }
		}, []error{errRefused}, retry.ReasonSuccess, func(p *retry.Policy) { p.Wait = nil },
			"retrylog: line 4: attempt 2 of 3 started, and the wait ended 2.5s early, but the policy has no Wait function that can end a wait early"},

		{"another window above a Retry-After", same, asked, retry.ReasonSuccess, func(p *retry.Policy) { p.Jitter = nil }, "and under the policy the delay is 1s"},
		{"another window that MaxElapsed cut", cut, asked, retry.ReasonSuccess, func(p *retry.Policy) { p.Jitter = nil }, "and under the policy the delay is 1s"},
		{"a window that a deadline may have cut", cut, asked, retry.ReasonSuccess, func(p *retry.Policy) { p.MaxElapsed = 0 }, ""},

		{"exact", exact, asked, retry.ReasonSuccess, exact, ""},
		{"exact, but the policy spreads, with a longer curve", exact, asked, retry.ReasonSuccess, longer(retry.RetryAfterSpread), "and under the policy the delay is between 8s and 12s"},
		{"exact, but the policy has at least, with a longer curve", exact, asked, retry.ReasonSuccess, longer(retry.RetryAfterAtLeast), "and under the policy the delay is between 8s and 12s"},
		{"exact, whatever the curve is", exact, asked, retry.ReasonSuccess, longer(retry.RetryAfterExact), ""},
		{"exact, below 10ms", exact, short, retry.ReasonSuccess, exact, ""},
		{"exact, below 10ms, which another mode ignores", exact, short, retry.ReasonSuccess, spread, "and under the policy the delay is between 160ms and 240ms"},
		{"at least, and the Retry-After is longer", atLeast, asked, retry.ReasonSuccess, atLeast, ""},
		{"at least, and the curve is longer", longer(retry.RetryAfterAtLeast), asked, retry.ReasonSuccess, longer(retry.RetryAfterAtLeast), ""},
		{"at least, but the policy has exact", longer(retry.RetryAfterAtLeast), asked, retry.ReasonSuccess, longer(retry.RetryAfterExact), "and under the policy the delay is 1s"},
		{"spread, but the policy has at least", same, asked, retry.ReasonSuccess, atLeast, "and under the policy the delay is 1s"},

		{"a RetryIf that needs the error value", same, three, retry.ReasonExhausted, func(p *retry.Policy) {
			p.RetryIf = func(err error) bool { return errors.Is(err, errRefused) }
		}, ""},
		{"a RetryIf that takes most of MaxElapsed", func(p *retry.Policy) {
			p.MaxElapsed = time.Second
			p.RetryIf = func(error) bool { time.Sleep(800 * time.Millisecond); return true }
		}, three, retry.ReasonElapsed, same, ""},
		{"a Budget that may have been in the context", func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1} }, three, retry.ReasonBudget,
			func(p *retry.Policy) { p.Budget = nil }, ""},
		{"Check does not call Source", same, three, retry.ReasonExhausted,
			func(p *retry.Policy) { p.Source = func() uint64 { panic("the Source was called") } }, ""},

		{"past HealthyAfter, but the policy has no HealthyAfter", healthy, five, retry.ReasonSuccess, func(p *retry.Policy) { p.HealthyAfter = 0 }, anew},
		{"past HealthyAfter, but the policy has a longer HealthyAfter", healthy, five, retry.ReasonSuccess, func(p *retry.Policy) { p.HealthyAfter = 31 * time.Millisecond }, anew},
		{"past HealthyAfter, but AttemptTimeout ends every attempt before HealthyAfter", healthy, five, retry.ReasonSuccess, func(p *retry.Policy) { p.AttemptTimeout = 30 * time.Millisecond }, anew},
		{"past HealthyAfter, but the policy has only an AttemptTimeout", healthy, five, retry.ReasonSuccess, func(p *retry.Policy) { p.HealthyAfter, p.AttemptTimeout = 0, time.Hour }, anew},
		{"a job, which never begins anew", same, three[:1], retry.ReasonSuccess, healthy, ""},

		{"an invalid policy, but the call had a valid policy", same, nil, retry.ReasonSuccess, invalid, "line 3: stopped after 1 attempt: it succeeded, and the policy gives the reason invalid"},
		{"a valid policy, but the call had an invalid policy", invalid, nil, retry.ReasonSuccess, valid,
			"(invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited), and the cause says that the policy is invalid, but the policy is valid"},
		{"a valid policy, but the call had an invalid policy and failed", invalid, three[:1], retry.ReasonInvalid, valid,
			"line 3: stopped after 1 attempt: the policy, a class, or the call is invalid"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := with(row.made)
			call := only(t, logOf(t, context.Background(), p, failing(row.errs...)))
			assert.Equal(t, row.reason, call.Reason)
			if p.Budget == nil { // the call has emptied its Budget
				assert.NoError(t, call.Check(p))
			}
			row.checked(&p)
			if err := call.Check(p); row.says == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, row.says)
			}
		})
	}
	assert.NoError(t, retrylog.Call{}.Check(policy))
}

// A delay is drawn from Lo to Hi. If an event has neither Lo nor Hi, Check compares its delay. Only
// a window that begins at a Retry-After may be shortened to the time that the call had left.
func TestCheckOfWindows(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing(errRefused, errRefused, errRefused))
	call := only(t, strings.NewReplacer(`"lo":"160ms","hi":"240ms",`, "", `"lo":"320ms","hi":"480ms",`, "").Replace(log))
	require.Zero(t, call.Attempts[0].Hi)
	assert.NoError(t, call.Check(policy))
	assert.ErrorContains(t, call.Check(with(func(p *retry.Policy) { p.Jitter = retry.Proportional(0.1) })),
		"line 3: attempt 1 is retried in 219.325191ms, at 00:00:00.249Z (by the curve), and under the policy the delay is 209.6625")

	d := retry.Decision{Hi: 100 * time.Millisecond, Seed: 42, Delay: retry.Draw(42, 1, 0, 100*time.Millisecond)}
	calls, err := retrylog.Replay(recordsOf(3, retry.Event{Kind: retry.AttemptStarted, Attempt: 1},
		retry.Event{Kind: retry.AttemptFinished, Attempt: 1, Err: errRefused}, retry.Event{Kind: retry.RetryScheduled, Attempt: 1, Decision: d}))
	require.NoError(t, err)
	assert.ErrorContains(t, calls[0].Check(with(func(p *retry.Policy) { p.Jitter = retry.FullJitter })),
		"and under the policy the delay is between 0s and 200ms")
}

// Check accepts the decisions that functions of the program made, and ByCode returns them.
func TestCheckOfWhatCodeDecided(t *testing.T) {
	unauthorized, busy, other, wrong := errors.New("401"), errors.New("503"), errors.New("404"), errors.New("500")
	file := policy // the policy that an operator reads from a file
	file.MaxAttempts, file.MaxElapsed = 5, time.Hour
	file.Wait = func(ctx context.Context, d time.Duration) (time.Duration, error) { time.Sleep(d); return 0, ctx.Err() }
	program := file
	program.Classify = func(err error) *retry.Class {
		switch err {
		case unauthorized:
			return &retry.Class{Name: "unauthorized", MaxAttempts: 2, Backoff: retry.Fixed(time.Millisecond)}
		case busy:
			return &retry.Class{NonRetryable: true, Cause: errors.New("it may have been processed")}
		case other:
			return &retry.Class{NonRetryable: true}
		case wrong:
			return &retry.Class{MaxAttempts: -2}
		}
		return nil
	}
	rejects, fails := program, program
	rejects.RetryIf = func(error) bool { return false }
	fails.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, errors.New("no link") }
	for _, row := range []struct {
		name   string
		policy retry.Policy
		errs   []error
		by     int // how many records ByCode returns for the policy in the file
		stop   bool
		says   string // the error of Check with the policy in the file; "": Check accepts the log
	}{
		{"a failure without a class", program, []error{errRefused}, 0, false, ""},
		{"the limit of the policy", program, []error{errRefused, errRefused, errRefused, errRefused, errRefused}, 0, false, ""},
		{"the delay of a class", program, []error{unauthorized}, 1, false, ""},
		{"the limit of a class", program, []error{unauthorized, errRefused, unauthorized}, 2, true, ""},
		{"the limit of the policy, after a failure with a class", program, []error{errRefused, errRefused, errRefused, errRefused, unauthorized}, 0, false, ""},
		{"a NonRetryable class with a Cause", program, []error{errRefused, busy}, 1, true, ""},
		{"a NonRetryable class without a Name and a Cause", program, []error{other}, 0, false, "and the policy says to retry"},
		{"an invalid class", program, []error{wrong}, 0, false, "and the policy says to retry"},
		{"RetryIf", rejects, []error{errRefused}, 1, true, ""},
		{"a permanent error", program, []error{errRefused, retry.Permanent(errRefused)}, 1, true, ""},
		{"a Wait that fails", fails, []error{errRefused}, 1, true, ""},
		{"a Retry-After that is too long", program, []error{retry.After(time.Hour, errRefused)}, 0, false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			call := only(t, logOf(t, context.Background(), row.policy, failing(row.errs...)))
			own, by := call.ByCode(row.policy), call.ByCode(file)
			assert.NoError(t, call.Check(row.policy))
			err := call.Check(file)
			assert.Len(t, by, row.by)
			assert.Equal(t, row.stop, len(by) > 0 && by[len(by)-1].Event.Kind == retry.CallFinished)
			if row.says == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, row.says)
				assert.Len(t, own, 1)
			}
		})
	}
	t.Run("the window of a class is not in the policy", func(t *testing.T) {
		call := only(t, logOf(t, context.Background(), program, failing(errRefused, errRefused)))
		assert.NoError(t, call.Check(program))
		assert.Len(t, call.ByCode(program), 2)
		asked := file
		asked.Classify = func(error) *retry.Class { panic("Check called Classify") }
		asked.Backoff = retry.Fixed(time.Minute)
		assert.NoError(t, call.Check(asked))
		asked.MaxElapsed = 100 * time.Millisecond
		assert.ErrorContains(t, call.Check(asked), "the policy says to stop (elapsed)", "but the limits of the policy apply")
		asked.NonRetryable = true
		assert.ErrorContains(t, call.Check(asked), "max is 5, but under the policy it is 1")
	})
}

// The reason of a stop may be impossible under the policy. The reason may also be wrong because the
// policy stops the call earlier, for another reason.
func TestCheckFindsAStopForAnotherReason(t *testing.T) {
	all := policy // a call with this policy can stop for all these reasons
	all.MaxElapsed, all.Budget, all.RetryIf = time.Hour, &retry.Budget{Size: 1}, func(error) bool { return false }
	invalid := retry.Policy{MaxAttempts: -2, RetryIf: all.RetryIf}
	waits := policy
	waits.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, nil }
	for _, row := range []struct {
		reason   retry.Reason
		policy   retry.Policy
		attempts int
		ok       bool
	}{
		{retry.ReasonElapsed, all, 1, true},
		{retry.ReasonElapsed, all, 3, false},
		{retry.ReasonElapsed, policy, 1, false},
		{retry.ReasonBudget, all, 1, true},
		{retry.ReasonBudget, all, 3, false},
		{retry.ReasonBudget, policy, 1, true}, // a Budget in the context may have decided
		{retry.ReasonBorrowed, policy, 1, true},
		{retry.ReasonBorrowed, all, 3, false},
		{retry.ReasonBudget, invalid, 1, false},
		{retry.ReasonRetryAfter, policy, 1, true},
		{retry.ReasonRetryAfter, policy, 3, false},
		{retry.ReasonRejected, all, 1, true},
		{retry.ReasonRejected, policy, 1, true}, // the RetryIf of the program may have decided
		{retry.ReasonRejected, invalid, 1, false},
		{retry.ReasonExhausted, policy, 1, false},
		{retry.ReasonNonRetryable, policy, 1, false},
		{retry.ReasonInvalid, policy, 1, false},
		{retry.ReasonInvalid, invalid, 1, true},
		{retry.ReasonPermanent, policy, 1, true},
		{retry.ReasonPermanent, invalid, 1, false},
		{retry.ReasonWait, policy, 1, false},
		{retry.ReasonWait, waits, 1, true},
		{"bored", policy, 1, true}, // a reason of a newer version
		{"bored", invalid, 1, false},
		{retry.ReasonCanceled, invalid, 1, false},
		{retry.ReasonCanceled, invalid, 0, false},
		{retry.ReasonInvalid, invalid, 0, true},
		{retry.ReasonInvalid, policy, 0, true}, // the function of the call was nil
	} {
		t.Run(fmt.Sprintf("%v after %d attempts of %v", row.reason, row.attempts, row.policy), func(t *testing.T) {
			var events []retry.Event
			stopped := retry.Event{Kind: retry.CallFinished, Attempt: row.attempts, Decision: retry.Decision{Reason: row.reason}}
			if row.reason == retry.ReasonWait || row.reason == retry.ReasonInvalid {
				stopped.Cause = errors.New("fault")
			}
			for n := 1; n <= row.attempts; n++ {
				stopped.Err = errRefused
				events = append(events, retry.Event{Kind: retry.AttemptStarted, Attempt: n}, retry.Event{Kind: retry.AttemptFinished, Attempt: n, Err: errRefused})
				if n < row.attempts || row.reason == retry.ReasonWait { // only a wait between two attempts can fail
					d := row.policy.Next(retry.Attempt{Number: n, Seed: 42})
					d.Seed, d.Reason = 42, ""
					events = append(events, retry.Event{Kind: retry.RetryScheduled, Attempt: n, Err: errRefused, Decision: d})
				}
			}
			records := recordsOf(row.policy.EffectiveMax(), append(events, stopped)...)
			calls, err := retrylog.Replay(records)
			require.NoError(t, err)
			if err := calls[0].Check(row.policy); row.ok {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, fmt.Sprintf("line %d: stopped after", len(records)))
			}
		})
	}
}

// changedLogs returns logs of calls, each with the policy of its calls.
func changedLogs(t *testing.T) map[string]retry.Policy {
	logs := map[string]retry.Policy{}
	for _, row := range []struct {
		change func(*retry.Policy)
		errs   []error
	}{
		{func(*retry.Policy) {}, []error{errRefused, errRefused, errRefused}},
		{func(p *retry.Policy) { p.MaxAttempts, p.Jitter = 5, retry.FullJitter }, []error{errRefused, retry.After(time.Second, errRefused), errRefused}},
		{func(p *retry.Policy) { p.HealthyAfter = 30 * time.Millisecond }, []error{errRefused, errRefused, errRefused, errRefused}},
		{func(p *retry.Policy) { p.MaxElapsed, p.Jitter = 600*time.Millisecond, nil }, []error{errRefused, errRefused, errRefused}},
	} {
		p := with(row.change)
		ctx := retrylog.WithKey(context.Background(), "7")
		logs[logOf(t, ctx, p, failing(row.errs...))+logOf(t, ctx, p, failing())+logOf(t, ctx, p, failing(retry.Permanent(errRefused)))] = p
	}
	return logs
}

// The test changes or removes one line, or swaps two lines. Replay and Check find seven of eight
// changes. They do not find some changes of a fact that is only on one line of the call, such as a
// time or how long an attempt took.
func TestCheckFindsEachChange(t *testing.T) {
	missed, lost, all := map[string]int{}, 0, 0
	checked := func(lines []string, p retry.Policy) error {
		records, err := retrylog.Read(strings.NewReader(strings.Join(lines, "\n") + "\n"))
		if err != nil {
			return err
		}
		calls, err := retrylog.Replay(records)
		for _, c := range calls {
			err = errors.Join(err, c.Check(p))
		}
		return err
	}
	for log, p := range changedLogs(t) {
		lines := strings.Split(strings.TrimSuffix(log, "\n"), "\n")
		require.NoError(t, checked(lines, p))
		try := func(kind string, changed []string) {
			if all++; checked(changed, p) == nil {
				missed[kind]++
				lost++
			}
		}
		for i, line := range lines {
			try("removed", slices.Delete(slices.Clone(lines), i, i+1))
			for j := range i {
				swapped := slices.Clone(lines)
				swapped[i], swapped[j] = lines[j], line
				try("swapped", swapped)
			}
			for key, value := range changes(t, line) {
				try(key, slices.Replace(slices.Clone(lines), i, i+1, value))
			}
		}
	}
	t.Logf("%d changes, %d not found: %v", all, lost, missed)
	assert.LessOrEqual(t, lost*8, all)
	assert.ElementsMatch(t, []string{"elapsed", "reason", "removed", "swapped", "time", "took"}, slices.Collect(maps.Keys(missed)))
}

// The function `changes` returns copies of a line. In each copy, the value of one key is changed.
// The result maps this key to the copy.
func changes(t *testing.T, line string) map[string]string {
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(line), &fields))
	lines := map[string]string{}
	for key, value := range fields {
		switch text, _ := value.(string); key {
		case "time", "due":
			at, err := time.Parse(time.RFC3339Nano, text)
			require.NoError(t, err)
			value = at.Add(time.Hour)
		case "took", "elapsed", "delay", "lo", "hi", "retry_after":
			d, err := time.ParseDuration(text)
			require.NoError(t, err)
			value = (d + time.Hour).String()
		case "kind", "reason":
			value = map[string]string{
				"attempt_started": "attempt_finished", "attempt_finished": "call_finished", "retry_scheduled": "call_finished", "call_finished": "retry_scheduled",
				"success": "canceled", "attempts_exhausted": "not_retryable", "permanent_error": "rejected", "elapsed": "attempts_exhausted",
			}[text]
		case "attempt", "max", "number":
			value = value.(float64) + 1
		case "reset":
			value = false
		default: // key, err, seed
			value = text + "1"
		}
		changed := maps.Clone(fields)
		changed[key] = value
		data, err := json.Marshal(changed)
		require.NoError(t, err)
		lines[key] = string(data)
	}
	return lines
}
