package retrylog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// For every way in which a call of Do can end, Replay returns what happened, and Check accepts the
// log.
func TestReplayWhatDoDid(t *testing.T) {
	withTimeout := func(after time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, after)
		}
	}
	canceled := func(after time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(after, cancel)
			synctest.Wait()
			return ctx, cancel
		}
	}
	waiting := func(wait func(context.Context, time.Duration) (time.Duration, error)) func(*retry.Policy) {
		return func(p *retry.Policy) { p.Wait, p.MaxElapsed = wait, time.Minute }
	}
	invalid := func(p *retry.Policy) { p.MaxAttempts = -2 }
	const fault = "invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited"
	for _, row := range []struct {
		name     string
		ctx      func(context.Context) (context.Context, context.CancelFunc)
		change   func(*retry.Policy)
		late     time.Duration // how long OnEvent takes for a RetryScheduled
		errs     []error
		reason   retry.Reason
		cause    string
		attempts string
	}{
		{"success at once", nil, nil, 0, nil, retry.ReasonSuccess, "", "1+"},
		{"success after retries", nil, nil, 0, []error{errRefused, errRefused}, retry.ReasonSuccess, "", "1+> 2+> 3+"},
		{"exhausted", nil, nil, 0, []error{errRefused, errRefused, errRefused}, retry.ReasonExhausted, "", "1+> 2+> 3+"},
		{"an error without a text", nil, nil, 0, []error{errors.New("")}, retry.ReasonSuccess, "", "1+> 2+"},
		{"permanent", nil, nil, 0, []error{errRefused, retry.Permanent(errRefused)}, retry.ReasonPermanent, "", "1+> 2+"},
		{"elapsed", nil, func(p *retry.Policy) { p.MaxElapsed = 400 * time.Millisecond }, 0, []error{errRefused, errRefused}, retry.ReasonElapsed, "", "1+> 2+"},
		{"an invalid policy, failed", nil, invalid, 0, []error{errRefused}, retry.ReasonInvalid, fault, "1+"},
		{"an invalid policy, succeeded", nil, invalid, 0, nil, retry.ReasonSuccess, fault, "1+"},
		{"canceled before the call", canceled(0), nil, 0, nil, retry.ReasonCanceled, "context canceled", ""},
		{"expired before the call", withTimeout(0), nil, 0, nil, retry.ReasonDeadline, "context deadline exceeded", ""},
		{"an invalid policy, canceled before the call", canceled(0), invalid, 0, nil, retry.ReasonInvalid, fault + "; context canceled", ""},
		{"a Retry-After, no jitter", nil, func(p *retry.Policy) { p.Jitter = nil }, 0, []error{retry.After(time.Second, errRefused)}, retry.ReasonSuccess, "", "1+> 2+"},

		{"a deadline before the end of the wait", withTimeout(100 * time.Millisecond), nil, 0, []error{errRefused}, retry.ReasonDeadline, "the context's deadline is too close: 70ms are left", "1+"},
		{"canceled in the wait", canceled(100 * time.Millisecond), nil, 0, []error{errRefused}, retry.ReasonCanceled, "context canceled", "1+>"},
		{"a deadline that passes in OnEvent", withTimeout(time.Second), nil, time.Second, []error{errRefused}, retry.ReasonDeadline, "context deadline exceeded", "1+>"},
		{"a Wait that returns after MaxElapsed", nil, waiting(func(context.Context, time.Duration) (time.Duration, error) { time.Sleep(time.Hour); return 0, nil }), 0,
			[]error{errRefused}, retry.ReasonElapsed, "", "1+>"},
		{"a Wait that fails", nil, waiting(func(context.Context, time.Duration) (time.Duration, error) { return 0, errors.New("no link") }), 0,
			[]error{errRefused}, retry.ReasonWait, "no link", "1+>"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := policy
			if row.change != nil {
				row.change(&p)
			}
			var lines bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if row.ctx != nil {
					var cancel context.CancelFunc
					ctx, cancel = row.ctx(ctx)
					defer cancel()
				}
				p, w := p, retrylog.NewWriter(&lines)
				p.OnEvent = func(ctx context.Context, e retry.Event) {
					if w.OnEvent(ctx, e); e.Kind == retry.RetryScheduled {
						time.Sleep(row.late)
					}
				}
				_ = retry.Do(ctx, p, failing(row.errs...))
			})
			c := only(t, lines.String())
			assert.Equal(t, row.reason, c.Reason)
			assert.Equal(t, row.attempts, attemptsOf(c))
			assert.Equal(t, p.EffectiveMax(), c.Max)
			if row.cause == "" {
				assert.NoError(t, c.Cause)
			} else {
				assert.EqualError(t, c.Cause, row.cause)
			}
			assert.NoError(t, c.Check(p))
			for i, a := range c.Attempts {
				assert.Equal(t, 30*time.Millisecond, a.Took)
				if i < len(row.errs) {
					assert.EqualError(t, a.Err, row.errs[i].Error())
				}
				if i > 0 {
					before := c.Attempts[i-1]
					if p.Wait == nil {
						assert.Equal(t, a.Started, before.Due, "an attempt starts when it is due")
					}
					next := p.Next(retry.Attempt{Number: i, Err: retry.After(before.RetryAfter, before.Err), Seed: max(1, before.Seed)})
					assert.Equal(t, retry.Draw(before.Seed, i, before.Lo, before.Hi), before.Delay, "the delay is drawn from the fields of its line")
					assert.Equal(t, next.Delay, before.Delay, "the policy draws the same delay with the seed and the Retry-After of the log")
				}
			}
		})
	}
}

// The log in the documentation, with its broken lines joined, can be replayed.
func TestTheLogOfTheDocumentation(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var log strings.Builder
	for line := range strings.Lines(string(source)) {
		if rest, ok := strings.CutPrefix(line, "//\t{"); ok {
			log.WriteString("\n{" + strings.TrimSpace(rest))
		} else if rest, ok := strings.CutPrefix(line, "//\t \""); ok {
			log.WriteString("\"" + strings.TrimSpace(rest))
		}
	}
	calls := replay(t, log.String())
	require.Len(t, calls, 1)
	assert.Len(t, calls[0].Records, 4)
	p := policy
	p.MaxAttempts = 4
	assert.NoError(t, calls[0].Check(p))
}

// An attempt that ran past HealthyAfter restarts the count of attempts. The RetryScheduled or
// CallFinished event after this attempt has Number 1, and Elapsed is then measured from the end of
// the attempt.
func TestReplayLongLife(t *testing.T) {
	const quick, minute = time.Second, time.Minute
	for _, row := range []struct {
		takes   []time.Duration // how long each attempt takes; all attempts fail
		cancel  time.Duration   // when the call is canceled
		max     int
		replays string
		reason  retry.Reason
		elapsed time.Duration // the Elapsed of the last event
	}{
		{[]time.Duration{minute, quick}, time.Hour, 2, "1+!> 2+", retry.ReasonExhausted, 2 * time.Second},
		{[]time.Duration{quick, minute, quick}, time.Hour, 2, "1+> 2+!> 3+", retry.ReasonExhausted, 2 * time.Second},
		{[]time.Duration{minute, minute, quick}, time.Hour, 2, "1+!> 2+!> 3+", retry.ReasonExhausted, 2 * time.Second},
		{[]time.Duration{minute}, time.Hour, 1, "1+!", retry.ReasonExhausted, 0},
		{[]time.Duration{minute}, time.Minute + 1, 2, "1+!>", retry.ReasonCanceled, 1}, // canceled in the wait after the attempt
	} {
		p := retry.Policy{MaxAttempts: row.max, Backoff: retry.Fixed(time.Second), HealthyAfter: time.Minute}
		n := 0
		log := ""
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(row.cancel, cancel)
			log = logged(ctx, p, func(context.Context) error {
				n++
				time.Sleep(row.takes[n-1])
				return errRefused
			})
		})
		c := only(t, log)
		assert.NoError(t, c.Check(p))
		assert.Equal(t, row.replays, attemptsOf(c))
		assert.Equal(t, row.reason, c.Reason, row.replays)
		assert.Equal(t, row.elapsed, c.Records[len(c.Records)-1].Event.Elapsed, row.replays)
		for i, a := range c.Attempts {
			assert.Equal(t, row.takes[i], a.Took, row.replays)
		}
	}
}

// A log of a newer version has kinds, reasons and keys that this version does not know.
func TestReplayANewerVersion(t *testing.T) {
	const log = `{"key":"k","kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3,"zone":{"kind":"x","attempt":7}}
{"key":"k","kind":"attempt_paused","time":"2000-01-01T00:00:00Z","attempt":1,"max":3,"pause":["1s"]}
{"key":"k","kind":"attempt_finished","time":"2000-01-01T00:00:00Z","attempt":1,"max":3,"err":"refused"}
{"key":"k","kind":"retry_scheduled","time":"2000-01-01T00:00:00Z","attempt":1,"max":3,"err":"refused","delay":"1s","due":"2000-01-01T00:00:01Z","lo":"1s","hi":"1s","curve":"cubic"}
{"key":"k","kind":"call_finished","time":"2000-01-01T00:00:01Z","attempt":1,"max":3,"elapsed":"1s","err":"refused","cause":"no coin","reason":"bored"}
{"key":"k","kind":"refused","time":"2000-01-01T00:00:01Z","attempt":1,"max":3}
{"key":"k","kind":"call_finished","time":"2000-01-01T00:00:01Z","attempt":0,"max":3,"reason":"tired"}
`
	records, err := retrylog.Read(strings.NewReader(log))
	require.NoError(t, err)
	require.Len(t, records, 7)
	assert.Equal(t, `2000-01-01 00:00:00.000Z +0s k: attempt 1 of 3 started
2000-01-01 00:00:00.000Z +0s k: attempt_paused, attempt 1
2000-01-01 00:00:00.000Z +0s k: attempt 1 failed after 0s: refused
2000-01-01 00:00:00.000Z +0s k: attempt 1 is retried in 1s, at 00:00:01.000Z (by the curve)
2000-01-01 00:00:01.000Z +1s k: stopped after 1 attempt: bored (no coin)
2000-01-01 00:00:01.000Z +0s k: refused, attempt 1
2000-01-01 00:00:01.000Z +0s k: stopped after 0 attempts: tired
`, retrylog.Explain(records))
	calls := replay(t, log)
	require.Len(t, calls, 2)
	assert.Equal(t, []retry.Reason{"bored", "tired"}, []retry.Reason{calls[0].Reason, calls[1].Reason})
	assert.EqualError(t, calls[0].Cause, "no coin")
	assert.Len(t, calls[0].Records, 4, "an event of an unknown kind is in no call")
	assert.NoError(t, calls[0].Check(retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}))
	assert.ErrorContains(t, calls[0].Check(retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(2 * time.Second)}), "line 4")

	data, err := json.Marshal(records[1])
	require.NoError(t, err)
	assert.Equal(t, `{"key":"k","kind":"attempt_paused","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}`, string(data))
	job := strings.NewReplacer(`"err":"refused","cause":"no coin",`, "").Replace(strings.Join(strings.SplitAfter(log, "\n")[4:5], ""))
	assert.Equal(t, retry.Reason("bored"), replay(t, job)[0].Reason, "a queue refuses a job")
}

// A Writer can write the events of any number of calls that are made at the same time.
func TestReplayInterleavedCalls(t *testing.T) {
	var log bytes.Buffer
	p := with(func(p *retry.Policy) { p.Source = nil })
	synctest.Test(t, func(t *testing.T) {
		p := p
		p.OnEvent = retrylog.NewWriter(&log).OnEvent
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				ctx := retrylog.WithKey(context.Background(), fmt.Sprint(i))
				_ = retry.Do(ctx, p, failing(errRefused, errRefused, errRefused))
			})
		}
		all.Wait()
	})
	calls := replay(t, log.String())
	require.Len(t, calls, 50)
	for _, c := range calls {
		assert.Equal(t, retry.ReasonExhausted, c.Reason)
		assert.Len(t, c.Records, 9)
		assert.NoError(t, c.Check(p))
	}
}

// A process that crashes leaves a call without a reason, and the next call may
// have the same key.
func TestReplayGoesOnAfterACrash(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing(errRefused, errRefused, errRefused))
	lines := strings.SplitAfter(log, "\n")
	for crash := 1; crash < len(lines)-1; crash++ {
		calls := replay(t, strings.Join(lines[:crash], "")+log)
		require.Len(t, calls, 2)
		assert.Zero(t, calls[0].Reason)
		assert.Equal(t, crash > 1, calls[0].Attempts[0].Finished)
		assert.NoError(t, calls[0].Check(policy))
		assert.Equal(t, retry.ReasonExhausted, calls[1].Reason)
	}
}

// In the log of a queue, a job is one call, which may run for days in several processes.
func TestReplayQueues(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "k"), policy, failing(errRefused, errRefused, errRefused))
	lines := strings.SplitAfter(log, "\n")
	last, refused := lines[6], strings.Replace(lines[8], `"err":"connection refused",`, "", 1)
	join := func(lines ...string) string { return strings.Join(lines, "") }
	for _, row := range []struct {
		name, log string
		calls     int
		attempts  string // the attempts of the last call
		reason    retry.Reason
	}{
		{"the worker died in an attempt", join(lines[0], join(lines[3:]...)), 1, "1- 2+> 3+", retry.ReasonExhausted},
		{"the worker died in two attempts", join(lines[0], lines[3], join(lines[6:]...)), 1, "1- 2- 3+", retry.ReasonExhausted},
		{"the retry was not written", join(lines[0], lines[1], join(lines[3:]...)), 1, "1+ 2+> 3+", retry.ReasonExhausted},
		{"neither retry was written", join(lines[0], lines[1], lines[3], lines[4], join(lines[6:]...)), 1, "1+ 2+ 3+", retry.ReasonExhausted},
		{"a job that came back", log + join(lines[3:]...), 2, "2+> 3+", retry.ReasonExhausted},
		{"a log without its beginning", join(lines[3:]...), 1, "2+> 3+", retry.ReasonExhausted},
		{"a claim up to a microsecond before the delay is over", strings.ReplaceAll(log, `"249.325191ms"`, `"249.324192ms"`), 1, "1+> 2+> 3+", retry.ReasonExhausted},
		{"times of several zones", strings.ReplaceAll(log, `"due":"2000-01-01T00:00:00.249325191Z"`, `"due":"2000-01-01T01:00:00.249325191+01:00"`), 1, "1+> 2+> 3+", retry.ReasonExhausted},

		// A queue refuses a job whose worker crashed in its last attempt. The other events
		// of the job may be in another log.
		{"refused", last + refused, 1, "3-", retry.ReasonExhausted},
		{"refused, in another log", refused, 1, "", retry.ReasonExhausted},
		{"refused twice, because the queue missed the stop and handed the job out again", last + refused + refused, 2, "", retry.ReasonExhausted},
		{"refused by a worker that stops", last + strings.Replace(refused, "attempts_exhausted", "canceled", 1), 1, "3-", retry.ReasonCanceled},
	} {
		t.Run(row.name, func(t *testing.T) {
			calls := replay(t, row.log)
			require.Len(t, calls, row.calls)
			call := calls[row.calls-1]
			assert.Equal(t, row.attempts, attemptsOf(call))
			assert.Equal(t, row.reason, call.Reason)
			assert.NoError(t, call.Check(policy))
		})
	}
	invalid := replay(t, join(lines[0], lines[1], strings.ReplaceAll(lines[3], `"max":3`, `"max":2`)))
	assert.Equal(t, 2, invalid[0].Max, "the policy is invalid from the second attempt on")
}

// The workers of a job measure Elapsed with their own clocks, which may differ.
func TestReplayOfWorkersWithSeveralClocks(t *testing.T) {
	const behind = time.Second
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(2 * time.Second)}
	started := func(elapsed time.Duration) []retry.Event {
		return []retry.Event{{Kind: retry.AttemptStarted, Attempt: 2, Elapsed: elapsed}}
	}
	for _, row := range []struct {
		name    string
		next    []retry.Event // the events of the second worker; the attempt of the first worker ended at 5s
		replays bool
		checks  bool
	}{
		{"the retry starts when it is due", started(7 * time.Second), true, true},
		{"the second clock is a second behind", started(7*time.Second - behind), true, true},
		{"the second clock is more than a second behind", started(7*time.Second - behind - 1), true, false},
		{"the time goes back by a second", started(5*time.Second - behind), true, false},
		{"the time goes back by more than a second", started(5*time.Second - behind - 1), false, false},
		{"the time goes back within an attempt", []retry.Event{{Kind: retry.AttemptStarted, Attempt: 2, Elapsed: 7 * time.Second}, {Kind: retry.AttemptFinished, Attempt: 2, Elapsed: 7*time.Second - 1}}, false, false},
		{"the time goes back by a second after a worker died", []retry.Event{{Kind: retry.AttemptStarted, Attempt: 2, Elapsed: 7 * time.Second}, {Kind: retry.AttemptStarted, Attempt: 3, Elapsed: 7*time.Second - behind}}, true, true},
		{"the time goes back by a second when the job is canceled", []retry.Event{{Kind: retry.CallFinished, Attempt: 1, Elapsed: 5*time.Second - behind, Decision: retry.Decision{Reason: retry.ReasonCanceled}}}, true, true},
		{"the time goes back by more than a second when the job is canceled", []retry.Event{{Kind: retry.CallFinished, Attempt: 1, Elapsed: 5*time.Second - behind - 1, Decision: retry.Decision{Reason: retry.ReasonCanceled}}}, false, false},
		{"the time goes back by a second when the job is refused", []retry.Event{{Kind: retry.AttemptStarted, Attempt: 2, Elapsed: 7 * time.Second}, {Kind: retry.AttemptStarted, Attempt: 3, Elapsed: 9 * time.Second}, {Kind: retry.CallFinished, Attempt: 3, Elapsed: 9*time.Second - behind, Decision: retry.Decision{Reason: retry.ReasonExhausted}}}, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			records := recordsOf(3, append([]retry.Event{
				{Kind: retry.AttemptStarted, Attempt: 1},
				{Kind: retry.AttemptFinished, Attempt: 1, Elapsed: 5 * time.Second, Err: errRefused},
				{Kind: retry.RetryScheduled, Attempt: 1, Err: errRefused, Decision: retry.Decision{Delay: 2 * time.Second, Lo: 2 * time.Second, Hi: 2 * time.Second}},
			}, row.next...)...)
			calls, err := retrylog.Replay(records)
			require.Equal(t, row.replays, err == nil, "%v", err)
			if row.replays {
				err := calls[0].Check(p)
				assert.Equal(t, row.checks, err == nil, "%v", err)
			}
		})
	}
}

// Replay rejects the log of a call that cannot have happened. Most rows change one line in the log
// of a call with three attempts.
func TestReplayRejects(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "k"), policy, failing(errRefused, errRefused, errRefused))
	lines := strings.Split(strings.TrimSpace(log), "\n")
	without := func(n int) string {
		return strings.Join(append(append([]string{}, lines[:n-1]...), lines[n:]...), "\n")
	}
	replaced := func(lines []string, n int, old, new string) string {
		require.Contains(t, lines[n-1], old)
		changed := append([]string{}, lines...)
		changed[n-1] = strings.Replace(changed[n-1], old, new, 1)
		return strings.Join(changed, "\n")
	}
	edit := func(n int, old, new string) string { return replaced(lines, n, old, new) }
	refused := func(reason string) string {
		return strings.NewReplacer(`"err":"connection refused",`, "", "attempts_exhausted", reason).Replace(lines[8])
	}
	attempts := 0
	living := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second), HealthyAfter: time.Minute}
	healthy := strings.Split(logOf(t, context.Background(), living, func(context.Context) error { // the second attempt runs past HealthyAfter
		if attempts++; attempts == 2 {
			time.Sleep(time.Minute)
		}
		return errRefused
	}), "\n")
	require.Contains(t, healthy[5], `"kind":"retry_scheduled","time":"2000-01-01T00:01:01Z","attempt":2,"max":5,"number":1,"reset":true`)
	life := func(n int, old, new string) string { return replaced(healthy, n, old, new) }
	four := logOf(t, context.Background(), with(func(p *retry.Policy) { p.MaxAttempts = 4 }), failing(errRefused, errRefused, errRefused, errRefused))
	for _, row := range []struct {
		name, log string
		line      int
		says      string
	}{
		{"no start of the first attempt", without(1), 1, "no call with this key has begun"},
		{"no end of the first attempt", without(2), 2, "it follows attempt 1 of 3 started"},
		{"a start after a success", strings.Replace(without(3), `"err":"connection refused",`, "", 1), 3, "it follows attempt 1 succeeded"},
		{"a start after a failure, and an attempt left out", lines[0] + "\n" + lines[1] + "\n" + lines[6], 3, "attempt is 3, but attempt 2 comes next"},
		{"no start of the second attempt", without(4), 4, "it follows attempt 1 is retried"},
		{"an event after the stop", log + lines[8], 10, "no call with this key has begun"},
		{"another max", edit(5, `"max":3`, `"max":4`), 5, "max is 4, but 3 in the event before"},
		{"another attempt", edit(5, `"attempt":2`, `"attempt":3`), 5, "attempt is 3, but attempt 2 comes next"},
		{"an attempt left out", edit(4, `"attempt":2`, `"attempt":3`), 4, "attempt is 3, but attempt 2 comes next"},
		{"time runs backwards, a little", edit(3, `"elapsed":"30ms"`, `"elapsed":"29.999999ms"`), 3, "elapsed goes back from 30ms to 29.999999ms"},
		{"another max at a start", edit(4, `"max":3`, `"max":4`), 4, "max is 4, but 3 in the event before"},
		{"another max because the policy is invalid, but a retry follows", edit(4, `"max":3`, `"max":2`), 5, "max is 3, but 2 in the event before"},
		{"no time", edit(1, `2000-01-01T00:00:00Z`, `0001-01-01T00:00:00Z`), 1, "the event has no time"},
		{"an elapsed below 0", edit(1, `"max":3`, `"max":3,"elapsed":"-5h"`), 1, "elapsed is -5h0m0s"},
		{"attempt 0", edit(1, `"attempt":1`, `"attempt":0`), 1, "attempt is 0, but the attempts of a call are numbered from 1"},
		{"an attempt beyond max", edit(1, `"attempt":1`, `"attempt":4`), 1, "number is 4, and max is 3: max must be 1 or more and not below number (-1 means unlimited)"},
		{"a max below -1", edit(1, `"max":3`, `"max":-2`), 1, "number is 1, and max is -2"},
		{"attempts left out after a worker died", lines[0] + "\n" + lines[6], 2, "attempt is 3, but attempt 2 comes next"},
		{"a stop before the attempt has ended", lines[0] + "\n" + strings.Replace(lines[8], `"attempt":3`, `"attempt":1`, 1), 2, "it follows attempt 1 of 3 started"},
		{"a negative Retry-After", edit(3, `"seed":"42"`, `"retry_after":"-1s","seed":"42"`), 3, "retry_after is -1s"},
		{"another seed", edit(3, `"seed":"42"`, `"seed":"43"`), 3, "delay is 219.325191ms, but the seed, number, lo and hi of the event give 218.254302ms"},
		{"another hi", edit(3, `"hi":"240ms"`, `"hi":"200ms"`), 3, "the seed, number, lo and hi of the event give 189"},
		{"a lo below 0", edit(3, `"lo":"160ms"`, `"lo":"-160ms"`), 3, "lo is -160ms, and hi is 240ms"},
		{"a lo above hi", edit(3, `"lo":"160ms"`, `"lo":"250ms"`), 3, "lo is 250ms, and hi is 240ms: lo must not be negative, and hi must not be less than lo"},
		{"a Wait that fails, but no retry was scheduled", edit(9, `"attempts_exhausted"`, `"wait_failed","cause":"no link"`), 9, "a wait failed, but no retry was scheduled"},
		{"a Wait that fails without an error", strings.Join(lines[:3], "\n") + "\n" + strings.NewReplacer(`"attempt":3`, `"attempt":1`, "attempts_exhausted", "wait_failed").Replace(lines[8]), 4, "reason is wait_failed, but the event has no cause"},
		{"a schedule with another error", edit(3, `"err":"connection refused"`, `"err":"fault"`), 3, `err is "fault", but "connection refused" in the event before`},
		{"a retry of a success", edit(2, `"err":"connection refused",`, ``), 3, "the last attempt succeeded, so the call must end with the reason success"},
		{"a negative delay", edit(3, `"delay":"`, `"delay":"-`), 3, "delay is -219"},
		{"a delay shorter than the Retry-After", edit(3, `"seed":"42"`, `"retry_after":"1s","seed":"42"`), 3, "retry_after is 1s: neither may be negative, and delay must not be less than retry_after"},
		{"the reason success after a failure", strings.Join(lines[:8], "\n") + "\n" + strings.Replace(strings.Replace(lines[8], "attempts_exhausted", "success", 1), `"err":"connection refused",`, "", 1), 9, `reason is success, but the last attempt failed: "connection refused"`},
		{"the reason success with an error", edit(9, "attempts_exhausted", "success"), 9, `reason is success, but err is "connection refused"`},
		{"the reason attempts_exhausted after a success", edit(8, `"err":"connection refused",`, ``), 9, "the last attempt succeeded, so the call must end with the reason success"},
		{"no reason", edit(9, `,"reason":"attempts_exhausted"`, ``), 9, `reason is "", which is not a reason to stop`},
		{"the reason retry, which does not stop a call", edit(9, "attempts_exhausted", "retry"), 9, `reason is "retry", which is not a reason to stop`},
		{"exhausted in a wait", strings.Join(append(lines[:6:6], edit(9, `"attempt":3`, `"attempt":2`)[strings.LastIndex(log[:len(log)-1], "\n")+1:]), "\n"), 7, "reason is attempts_exhausted, but a call can end between two attempts only if the caller cancels it, a time limit is reached, or the wait fails"},
		{"exhausted before the call began", `{"key":"k","kind":"call_finished","time":"2000-01-01T00:00:00Z","attempt":0,"max":3,"reason":"attempts_exhausted"}`, 1, "attempt is 0, but the reason attempts_exhausted can end a call only after an attempt"},
		{"a retry beyond max", edit(3, `"max":3`, `"max":1`), 3, "max is 1, but 3 in the event before"},
		{"no max", `{"key":"k","kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":0}`, 1, "number is 1, and max is 0"},
		{"a negative duration", edit(2, `"took":"30ms"`, `"took":"-30ms"`), 2, "took is -30ms, and elapsed is 30ms: neither may be negative"},
		{"a due that is not the end of the delay", edit(3, `"due":"2000`, `"due":"2001`), 3, "due is 2001-01-01T00:00:00.249325191Z, but the delay ends at 2000-01-01T00:00:00.249325191Z"},
		{"the reason invalid without a cause", strings.Join(lines[:8], "\n") + "\n" + strings.Replace(strings.Replace(lines[8], "attempts_exhausted", "invalid", 1), `"err":"connection refused",`, "", 1), 9, "reason is invalid, but the event has no cause"},
		{"a cause, but the policy is valid", edit(9, `"elapsed"`, `"cause":"fault","elapsed"`), 9, `cause is "fault", but the reason attempts_exhausted never has a cause`},
		{"a stop with another error", edit(9, `"err":"connection refused"`, `"err":"fault"`), 9, `err is "fault", but "connection refused" in the event before`},
		{"an error, but no attempt has begun", `{"key":"k","kind":"call_finished","time":"2000-01-01T00:00:00Z","attempt":0,"max":3,"reason":"canceled","err":"fault"}`, 1, `err is "fault", but no attempt has begun`},
		{"an error, but no attempt has begun, and the policy is invalid", `{"key":"k","kind":"call_finished","time":"2000-01-01T00:00:00Z","attempt":0,"max":3,"reason":"invalid","err":"refused","cause":"fault"}`, 1, `err is "refused", but no attempt has begun`},
		{"a clock that goes back 30 years", edit(4, "2000-01-01T00:00:00.249325191Z", "1970-01-01T00:00:00.249325191Z"), 4,
			"time goes back from 2000-01-01T00:00:00.03Z to 1970-01-01T00:00:00.249325191Z, while elapsed goes on from 30ms to 249.325191ms"},
		// A wall clock can be adjusted, and the elapsed time stops while a machine sleeps.
		{"a clock that goes back three seconds", edit(4, "2000-01-01T00:00:00.249325191Z", "1999-12-31T23:59:57.249325191Z"), 0, ""},
		{"a clock that goes back a day", edit(4, "2000-01-01T00:00:00.249325191Z", "1999-12-31T00:00:00.249325191Z"), 0, ""},
		{"a clock that goes on by a month while the machine sleeps", strings.ReplaceAll(log, `"time":"2000-01-01T00:00:00.6`, `"time":"2000-02-01T00:00:00.6`), 0, ""},
		{"a clock at the latest time", edit(9, "2000-01-01T00:00:00.654910854Z", "9999-12-31T23:59:59Z"), 0, ""},
		{"a clock that goes back a little over a day", edit(4, "2000-01-01T00:00:00.249325191Z", "1999-12-31T00:00:00.249325190Z"), 4, "time goes back"},
		{"four attempts, but max is 3", strings.ReplaceAll(four, `"max":4`, `"max":3`), 9, "attempt 3 is retried in"},
		{"a retry of the last attempt", strings.ReplaceAll(strings.Join(lines[:3], "\n"), `"max":3`, `"max":1`), 3, "max is 1, so no retry can follow the attempt with number 1"},
		{"two calls at once without keys", strings.Join([]string{lines[0], lines[0], lines[1], lines[1]}, "\n"), 4, "it follows attempt 1 failed"},
		{"a reset without number 1", life(6, `"number":1,`, ``), 6, "attempt is 2, number is 2, and reset is true: number must be from 0 to attempt, and 1 if reset is true"},
		{"number 1 without a reset", life(6, `,"reset":true`, ``), 6, "number is 1, but number 2 comes next"},
		{"a reset in the end of an attempt", life(5, `"max":5`, `"max":5,"reset":true`), 5, `reset is set, but an event of the kind "attempt_finished" has no reset`},
		{"a number left out", life(7, `"number":2,`, ``), 7, "number is 3, but number 2 comes next"},
		{"a number that does not grow", life(7, `"number":2`, `"number":1`), 7, "number is 1, but number 2 comes next"},
		{"a number below 0", life(7, `"number":2`, `"number":-2`), 7, "attempt is 3, number is -2, and reset is false"},
		{"a number above the attempt", life(1, `"max":5`, `"max":5,"number":2`), 1, "attempt is 1, number is 2, and reset is false"},
		{"a reset with the number of an earlier attempt", life(6, `"attempt":2`, `"attempt":1`), 6, "attempt is 1, but attempt 2 comes next"},
		{"a reset after a success", life(5, `"err":"connection refused",`, ``), 6, "number is 1, but number 2 comes next"},
		{"a reset, and a clock that goes back", life(6, "2000-01-01T00:01:01Z", "1999-12-30T00:01:01Z"), 6, "due is"},
		{"a refusal with the reason success", lines[6] + "\n" + refused("success"), 2, "it follows attempt 3 of 3 started"},
		{"a refusal with the reason permanent_error", lines[6] + "\n" + refused("permanent_error"), 2, "it follows attempt 3 of 3 started"},
		{"a refusal with an error", lines[6] + "\n" + lines[8], 2, "it follows attempt 3 of 3 started"},
		{"a refusal with the reason budget_exhausted, alone", refused("budget_exhausted"), 1, "no call with this key has begun"},
		{"a refusal with an error, alone", lines[8], 1, "no call with this key has begun"},
		{"a fault after empty lines", "\n\n" + lines[0] + "\n\n" + lines[2], 5, "it follows attempt 1 of 3 started"},
	} {
		t.Run(row.name, func(t *testing.T) {
			records, err := retrylog.Read(strings.NewReader(row.log))
			require.NoError(t, err)
			calls, err := retrylog.Replay(records)
			if row.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, fmt.Sprintf("retrylog: line %d: ", row.line))
			require.ErrorContains(t, err, row.says)
			disorder := strings.HasPrefix(row.says, "no call") || strings.HasPrefix(row.says, "it follows") || strings.HasPrefix(row.says, "attempt is") && strings.HasSuffix(row.says, "comes next")
			assert.Equal(t, disorder, strings.Contains(err.Error(), "need different keys"))
			for _, c := range calls {
				require.NotEmpty(t, c.Records, "the event that is rejected begins no call")
				assert.Less(t, c.Records[len(c.Records)-1].Line, row.line)
			}
		})
	}
	t.Run("a call within another needs a key of its own", func(t *testing.T) {
		var log bytes.Buffer
		p := retry.Policy{MaxAttempts: 2, OnEvent: retrylog.NewWriter(&log).OnEvent}
		_ = retry.Do(retrylog.WithKey(context.Background(), "k"), p, func(ctx context.Context) error {
			return retry.Do(ctx, p, func(context.Context) error { return nil }) //retry:vet-ignore nested two calls with one key are what this tests
		})
		records, err := retrylog.Read(&log)
		require.NoError(t, err)
		_, err = retrylog.Replay(records)
		require.ErrorContains(t, err, "inside another call, need different keys")
	})
	for field, lines := range map[string][]int{ // the lines whose event cannot have the field
		`took:"1s"`: {1, 3, 9}, `hedged:true`: {1, 3, 9}, `delay:"1s"`: {1, 2, 9}, `due:"2000-01-01T00:00:00Z"`: {1, 2, 9}, `lo:"1s"`: {1, 2, 9},
		`hi:"1s"`: {1, 2, 9}, `retry_after:"1s"`: {1, 2, 9}, `seed:"42"`: {1, 2, 9}, `class:"busy"`: {1, 2}, `reason:"canceled"`: {1, 2, 3}, `err:"fault"`: {1}, `cause:"fault"`: {1, 2, 3},
	} {
		for _, n := range lines {
			key, value, _ := strings.Cut(field, ":")
			records, err := retrylog.Read(strings.NewReader(edit(n, `"max":3`, `"max":3,"`+key+`":`+value)))
			require.NoError(t, err)
			_, err = retrylog.Replay(records)
			require.ErrorContains(t, err, fmt.Sprintf("retrylog: line %d: ", n))
			require.ErrorContains(t, err, "has no "+key)
		}
	}
	now := time.Unix(0, 0)
	for says, e := range map[string]retry.Event{ // these records have no Line, so the error names their position
		"line 1: an event without a kind":            {Time: now, Attempt: 1, Max: 1},
		`line 1: stopped after 0 attempts`:           {Kind: retry.CallFinished, Time: now, Max: 1, Decision: retry.Decision{Reason: retry.ReasonExhausted}},
		`err is "several", but no attempt has begun`: {Kind: retry.CallFinished, Time: now, Max: 1, Decision: retry.Decision{Reason: retry.ReasonCanceled}, Err: list{errRefused}},
	} {
		_, err := retrylog.Replay([]retrylog.Record{{Event: e}})
		assert.ErrorContains(t, err, says)
	}
}

// The type `list` is an error type whose values cannot be compared with ==.
type list []error

func (list) Error() string { return "several" }

// Replay and Check accept every correct log. This test makes calls with random policies and random
// failures, and logs them with a Writer and with slog. The tests of the queues replay and check the
// logs of jobs whose workers are killed.
func TestReplayEveryCall(t *testing.T) {
	seen, resets, early, cut := map[retry.Reason]int{}, 0, 0, 0
	for i := range 2000 {
		synctest.Test(t, func(t *testing.T) {
			source := rand.New(rand.NewPCG(uint64(i), 17))
			p := anyPolicy(source)
			ctx := retrylog.WithKey(t.Context(), "k")
			if after := time.Duration(source.IntN(40)) * time.Second / 4; source.IntN(3) == 0 {
				var cancel func()
				if ctx, cancel = context.WithCancel(ctx); source.IntN(2) == 0 {
					time.AfterFunc(after, cancel)
				} else {
					ctx, cancel = context.WithTimeout(ctx, after)
				}
				defer cancel()
			}
			if source.IntN(6) == 0 {
				ctx = retry.WithBudget(ctx, &retry.Budget{Size: source.IntN(3), Borrowed: i%2 == 0})
			}
			var lines, logged bytes.Buffer
			w := retrylog.NewWriter(&lines)
			onEvent := retrylog.Slog(slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true})).With("app", "shop"))
			watched := p
			watched.OnEvent = func(ctx context.Context, e retry.Event) {
				w.OnEvent(ctx, e)
				onEvent(ctx, e)
			}
			fn := anyAttempt(source)
			if source.IntN(50) == 0 {
				fn = nil
			}
			_ = retry.Do(ctx, watched, fn)
			calls := replay(t, lines.String())
			assert.Equal(t, inUTC(calls), inUTC(replay(t, logged.String())))
			for _, c := range calls {
				require.NoError(t, c.Check(p), "%d: %v\n%s", i, p, retrylog.Explain(c.Records))
				seen[c.Reason]++
				for n, a := range c.Attempts {
					if a.Reset {
						resets++
					}
					if n > 0 && c.Attempts[n-1].Due.After(a.Started) {
						early++
					}
					if a.RetryAfter > 0 && a.Lo == a.RetryAfter && p.Jitter == retry.FullJitter && a.Hi < 2*a.Lo {
						cut++
					}
				}
			}
		})
	}
	for _, reason := range reasons {
		assert.Positive(t, seen[reason], reason)
	}
	assert.Positive(t, resets)
	assert.Positive(t, early)
	assert.Positive(t, cut)
}

// anyPolicy returns a random policy.
func anyPolicy(source *rand.Rand) retry.Policy {
	one := func(in int) bool { return source.IntN(in) == 0 }
	p := retry.Policy{
		MaxAttempts: 1 + source.IntN(6),
		Backoff:     []retry.Backoff{nil, retry.Fixed(time.Second), retry.Exponential{Base: 50 * time.Millisecond}, retry.Linear(1234567), retry.Schedule{1, 99*time.Hour + 1}}[source.IntN(5)],
		Jitter:      []retry.Jitter{nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(0.3)}[source.IntN(4)],
		Source:      source.Uint64,

		MaxRetryAfter: 9 * time.Second,
		RetryAfter:    []retry.RetryAfterMode{"", "", retry.RetryAfterAtLeast, retry.RetryAfterExact}[source.IntN(4)],
		NonRetryable:  one(20),
	}
	for _, c := range []struct {
		in     int
		change func()
	}{
		{5, func() {
			p.MaxAttempts, p.MaxElapsed, p.Backoff = 0, time.Duration(source.IntN(10_000))*time.Millisecond, retry.Fixed(time.Second)
		}},
		{4, func() { p.MaxElapsed = time.Duration(1+source.IntN(15_000)) * time.Millisecond }},
		{4, func() { p.MaxDelay = time.Duration(source.IntN(3)) * time.Second }},
		{3, func() { p.HealthyAfter = 300 * time.Millisecond }},
		{6, func() { p.AttemptTimeout = 400 * time.Millisecond }},
		{6, func() { p.Budget = &retry.Budget{Size: 1 + source.IntN(3)} }},
		{12, func() { p.MaxDelay = -1 }},
		{6, func() {
			p.RetryIf = func(error) bool { time.Sleep(time.Duration(source.IntN(50)) * time.Millisecond); return !one(3) }
		}},
		{3, func() { p.Classify = anyClass(source) }},
	} {
		if one(c.in) {
			c.change()
		}
	}
	switch source.IntN(4) {
	case 0:
		p.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) { return d, nil }
	case 1: // the Wait returns early or late, skips part of the delay, or fails
		p.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) {
			time.Sleep(time.Duration(source.IntN(1500)) * time.Millisecond)
			if one(8) {
				return 0, errors.New("no link")
			}
			return time.Duration(source.Int64N(int64(d) + 1)), nil
		}
	}
	return p
}

func anyClass(source *rand.Rand) func(error) *retry.Class {
	return func(error) *retry.Class {
		return []*retry.Class{
			nil, nil, nil,
			{Name: "busy", MaxAttempts: 2, Backoff: retry.Fixed(time.Minute), Jitter: retry.FullJitter},
			{Backoff: retry.Fixed(7), Jitter: retry.Proportional(0)},
			{Name: "counted"},
			{Name: "never", NonRetryable: true, Cause: errors.New("it may have been processed")},
			{MaxAttempts: -2},
		}[source.IntN(8)]
	}
}

// anyAttempt returns a function that takes up to half a second for each attempt. Four attempts in
// five fail.
func anyAttempt(source *rand.Rand) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(time.Duration(source.IntN(500)) * time.Millisecond)
		switch source.IntN(10) {
		case 0, 1:
			return nil
		case 2:
			return retry.After(time.Duration(source.IntN(11_000))*time.Millisecond, errRefused)
		case 3:
			return retry.After(time.Duration(source.IntN(20_000_000)), errRefused)
		case 4:
			if source.IntN(3) == 0 {
				return retry.Permanent(errRefused)
			}
		case 5:
			return errors.New("")
		}
		return fmt.Errorf("failure %d", source.IntN(3))
	}
}

// inUTC returns calls with all times in UTC.
func inUTC(calls []retrylog.Call) []retrylog.Call {
	for i := range calls {
		for j := range calls[i].Attempts {
			a := &calls[i].Attempts[j]
			a.Started, a.Due = a.Started.UTC(), a.Due.UTC()
		}
		for j, r := range calls[i].Records {
			r = retrylog.Record{Key: r.Key, Event: r.Event, Hedged: r.Hedged, Line: r.Line} // without the fields that differ between a Writer and slog
			r.Event.Time, r.Event.Due = r.Event.Time.UTC(), r.Event.Due.UTC()
			calls[i].Records[j] = r
		}
	}
	return calls
}

// CanAdd reports whether an event can be the next event of a call, or its first event. It looks
// only at the kind and the numbers of the event.
func TestCanAdd(t *testing.T) {
	at := time.Unix(0, 0)
	started := func(n int) retry.Event { return retry.Event{Kind: retry.AttemptStarted, Time: at, Attempt: n, Max: 3} }
	failed := func(n int) retry.Event {
		return retry.Event{Kind: retry.AttemptFinished, Time: at, Attempt: n, Max: 3, Err: errRefused}
	}
	scheduled := func(n int, elapsed time.Duration) retry.Event {
		return retry.Event{Kind: retry.RetryScheduled, Time: at, Attempt: n, Max: 3, Elapsed: elapsed}
	}
	stopped := func(n int) retry.Event {
		return retry.Event{Kind: retry.CallFinished, Time: at, Attempt: n, Max: 3, Decision: retry.Decision{Reason: retry.ReasonCanceled}, Err: errRefused}
	}
	for _, row := range []struct {
		name   string
		before []retry.Event
		next   retry.Event
		logged bool // the events were logged by a logger whose level is above slog.LevelDebug
		want   bool
	}{
		{"the first attempt begins a call", nil, started(1), false, true},
		{"a later attempt begins a call, because the log may be rotated", nil, started(2), false, true},
		{"the end of an attempt does not begin a call", nil, failed(1), false, false},
		{"a retry does not begin a call", nil, scheduled(1, 0), false, false},
		{"a retry begins a call, without Debug lines", nil, scheduled(1, 0), true, true},
		{"an event of an unknown kind does not begin a call", nil, retry.Event{Kind: "attempt_paused", Attempt: 1}, true, false},
		{"the end of the attempt", []retry.Event{started(1)}, failed(1), false, true},
		{"the end of another attempt", []retry.Event{started(1)}, failed(2), false, false},
		{"another number", []retry.Event{started(1)}, numbered(failed(1), 7), false, false},
		{"a retry without the end of its attempt", []retry.Event{started(1)}, scheduled(1, 0), false, false},
		{"the next attempt", []retry.Event{started(1), failed(1), scheduled(1, 0)}, started(2), false, true},
		{"the next retry, without Debug lines", []retry.Event{scheduled(1, 0)}, scheduled(2, 0), true, true},
		{"a retry after the next one, without Debug lines", []retry.Event{scheduled(1, 0)}, scheduled(3, 0), true, false},
		{"the next retry, but of a call that began later, without Debug lines", []retry.Event{scheduled(1, time.Second)}, scheduled(2, 0), true, false},
		{"the end of the call, without Debug lines", []retry.Event{scheduled(1, 0)}, stopped(2), true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c retrylog.Call
			for _, e := range row.before {
				c.Add(retrylog.Record{Event: e, Logged: row.logged})
			}
			assert.Equal(t, row.want, c.CanAdd(retrylog.Record{Event: row.next, Logged: row.logged}))
			assert.Len(t, c.Records, len(row.before), "CanAdd adds nothing")
		})
	}
}

func numbered(e retry.Event, number int) retry.Event {
	e.Number = number
	return e
}
