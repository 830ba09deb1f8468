package retrylog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrylog"
)

// Every way in which a call can end is replayed as it happened, from a log and
// from memory, and Check finds that the policy agrees.
func TestReplayWhatDoDid(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	expired, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	cancel()
	with := func(change func(*retry.Policy)) retry.Policy {
		p := policy
		change(&p)
		return p
	}
	empty := &retry.Budget{Size: 1}
	empty.Take()
	invalid := func(p retry.Policy) bool { return p.Validate() != nil }
	for _, row := range []struct {
		name   string
		ctx    context.Context
		policy retry.Policy
		errs   []error
		reason retry.Reason
		runs   int
	}{
		{"success at once", nil, policy, nil, retry.ReasonSuccess, 1},
		{"success after retries", nil, policy, []error{errRefused, errRefused}, retry.ReasonSuccess, 3},
		{"exhausted", nil, policy, []error{errRefused, errRefused, errRefused}, retry.ReasonExhausted, 3},
		{"an error without a text", nil, policy, []error{errors.New("")}, retry.ReasonSuccess, 2},
		{"not retryable", nil, with(func(p *retry.Policy) { p.NonRetryable = true }), []error{errRefused}, retry.ReasonNonRetryable, 1},
		{"permanent", nil, policy, []error{errRefused, retry.Permanent(errRefused)}, retry.ReasonPermanent, 2},
		{"rejected", nil, with(func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }), []error{errRefused}, retry.ReasonRejected, 1},
		{"retry after too long", nil, policy, []error{retry.After(time.Hour, errRefused)}, retry.ReasonRetryAfter, 1},
		{"elapsed", nil, with(func(p *retry.Policy) { p.MaxElapsed = 400 * time.Millisecond }), []error{errRefused, errRefused}, retry.ReasonElapsed, 2},
		{"budget", nil, with(func(p *retry.Policy) { p.Budget = empty }), []error{errRefused}, retry.ReasonBudget, 1},
		{"invalid, failed", nil, with(func(p *retry.Policy) { p.MaxAttempts = -2 }), []error{errRefused}, retry.ReasonInvalid, 1},
		{"invalid, succeeded", nil, with(func(p *retry.Policy) { p.MaxAttempts = -2 }), nil, retry.ReasonSuccess, 1},
		{"canceled before", ended, policy, nil, retry.ReasonCanceled, 0},
		{"expired before", expired, policy, nil, retry.ReasonDeadline, 0},
		{"invalid, and canceled before", ended, with(func(p *retry.Policy) { p.MaxAttempts = -2 }), nil, retry.ReasonInvalid, 0},
		{"unlimited", nil, with(func(p *retry.Policy) { p.MaxAttempts = retry.Unlimited }), []error{errRefused, errRefused, errRefused}, retry.ReasonSuccess, 4},
		{"no jitter", nil, with(func(p *retry.Policy) { p.Jitter = nil }), []error{errRefused}, retry.ReasonSuccess, 2},
		{"a Retry-After, no jitter", nil, with(func(p *retry.Policy) { p.Jitter = nil }), []error{retry.After(time.Second, errRefused)}, retry.ReasonSuccess, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx := row.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			var recorder retrylog.Recorder
			synctest.Test(t, func(t *testing.T) {
				p := row.policy
				p.OnEvent = recorder.OnEvent
				_ = retry.Do(ctx, p, failing(row.errs...))
			})
			calls, err := retrylog.Replay(recorder.Records())
			require.NoError(t, err)
			require.Len(t, calls, 1)
			assert.Equal(t, row.reason, calls[0].Reason)
			assert.NoError(t, calls[0].Check(row.policy))

			calls = replay(t, logOf(t, ctx, row.policy, failing(row.errs...)))
			require.Len(t, calls, 1)
			c := calls[0]
			assert.Equal(t, row.reason, c.Reason)
			assert.Len(t, c.Attempts, row.runs)
			assert.Equal(t, row.policy.EffectiveMax(), c.Max)
			assert.Equal(t, invalid(row.policy), c.Fault != nil)
			assert.Equal(t, invalid(row.policy) || ctx.Err() != nil, c.Cause != nil)
			assert.NoError(t, c.Check(row.policy))
			for i, a := range c.Attempts {
				assert.Equal(t, i+1, a.Number)
				assert.True(t, a.Finished)
				assert.Equal(t, 30*time.Millisecond, a.Took)
				assert.Equal(t, i+1 < row.runs, a.Scheduled)
				if i < len(row.errs) {
					assert.EqualError(t, a.Err, row.errs[i].Error())
				}
				if i > 0 {
					before := c.Attempts[i-1]
					assert.Equal(t, a.Started, before.Due, "it starts when it was due")
					next := row.policy.Next(retry.Attempt{Number: i, Err: retry.After(before.RetryAfter, before.Err), Seed: max(1, before.Seed)})
					assert.Equal(t, retry.Draw(before.Seed, i, before.Lo, before.Hi), before.Delay, "its line gives the delay")
					assert.Equal(t, next.Delay, before.Delay, "its seed and Retry-After give the delay")
				}
			}
		})
	}
}

func TestReplayDeadlineAndCancelInTheSleep(t *testing.T) {
	for _, row := range []struct {
		name   string
		end    func(context.Context) (context.Context, context.CancelFunc)
		reason retry.Reason
	}{
		{"deadline ahead", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 100*time.Millisecond)
		}, retry.ReasonDeadline},
		{"canceled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(100*time.Millisecond, cancel)
			return ctx, cancel
		}, retry.ReasonCanceled},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := row.end(context.Background())
				defer cancel()
				var recorder retrylog.Recorder
				p := policy
				p.OnEvent = recorder.OnEvent
				require.Error(t, retry.Do(ctx, p, failing(errRefused, errRefused)))

				calls, err := retrylog.Replay(recorder.Records())
				require.NoError(t, err)
				assert.Equal(t, row.reason, calls[0].Reason)
				assert.Equal(t, row.reason == retry.ReasonCanceled, calls[0].Attempts[0].Scheduled)
				assert.Zero(t, calls[0].Waited(), "the sleep was not slept")
				assert.NoError(t, calls[0].Check(policy))
			})
		})
	}
}

// A deadline can also pass while OnEvent handles the RetryScheduled.
func TestReplayDeadlineWhileScheduled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var recorder retrylog.Recorder
		p := policy
		p.OnEvent = func(ctx context.Context, e retry.Event) {
			recorder.OnEvent(ctx, e)
			if e.Kind == retry.RetryScheduled {
				time.Sleep(time.Second)
			}
		}
		require.Error(t, retry.Do(ctx, p, failing(errRefused)))
		calls, err := retrylog.Replay(recorder.Records())
		require.NoError(t, err)
		assert.True(t, calls[0].Attempts[0].Scheduled)
		assert.Equal(t, retry.ReasonDeadline, calls[0].Reason)
		assert.NoError(t, calls[0].Check(policy))
	})
}

// The log in the documentation is a log.
func TestTheLogOfTheDocumentation(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var log strings.Builder
	for line := range strings.Lines(string(source)) {
		if rest, ok := strings.CutPrefix(line, "//\t{"); ok {
			log.WriteString("{" + rest)
		}
	}
	calls := replay(t, log.String())
	require.Len(t, calls, 1)
	assert.Len(t, calls[0].Records, 4)
	p := policy
	p.MaxAttempts = 4
	assert.NoError(t, calls[0].Check(p))
}

// A call begins anew with an attempt that was healthy: from its retry or its end on,
// that is attempt 1, and Elapsed counts from its end.
func TestReplayLongLife(t *testing.T) {
	p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), HealthyAfter: time.Minute}
	for _, row := range []struct {
		name     string
		takes    []time.Duration // of the attempts, which all fail
		max      int
		numbers  []int
		anew     []bool
		resets   int
		reason   retry.Reason
		attempts int // of the Stopped
		elapsed  time.Duration
	}{
		{"the first, then exhausted", []time.Duration{time.Minute, time.Second}, 2, []int{1, 2}, []bool{true, false}, 1, retry.ReasonExhausted, 2, 2 * time.Second},
		{"the second", []time.Duration{time.Second, time.Minute, time.Second}, 2, []int{1, 2, 2}, []bool{false, true, false}, 1, retry.ReasonExhausted, 2, 2 * time.Second},
		{"twice", []time.Duration{time.Minute, time.Minute, time.Second}, 2, []int{1, 2, 2}, []bool{true, true, false}, 2, retry.ReasonExhausted, 2, 2 * time.Second},
		{"the only one", []time.Duration{time.Minute}, 1, []int{1}, []bool{true}, 1, retry.ReasonExhausted, 1, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := p
			p.MaxAttempts = row.max
			n := 0
			log := logOf(t, context.Background(), p, func(context.Context) error {
				n++
				time.Sleep(row.takes[n-1])
				return errRefused
			})
			calls := replay(t, log)
			require.Len(t, calls, 1)
			c := calls[0]
			assert.NoError(t, c.Check(p))
			assert.Equal(t, row.resets, c.Resets)
			assert.Equal(t, row.reason, c.Reason)
			var numbers []int
			var anew []bool
			for i, a := range c.Attempts {
				numbers, anew = append(numbers, a.Number), append(anew, a.Reset)
				assert.Equal(t, row.takes[i], a.Took)
				assert.Equal(t, i < len(c.Attempts)-1, a.Scheduled)
			}
			assert.Equal(t, row.numbers, numbers)
			assert.Equal(t, row.anew, anew)
			last := c.Records[len(c.Records)-1].Event
			assert.Equal(t, row.attempts, last.Attempt)
			assert.Equal(t, row.elapsed, last.Elapsed)
		})
	}
	t.Run("canceled in the wait after it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Minute+time.Millisecond, cancel)
			var recorder retrylog.Recorder
			p := p
			p.OnEvent = recorder.OnEvent
			_ = retry.Do(ctx, p, func(context.Context) error { time.Sleep(time.Minute); return errRefused })
			calls, err := retrylog.Replay(recorder.Records())
			require.NoError(t, err)
			assert.Equal(t, retry.ReasonCanceled, calls[0].Reason)
			assert.Equal(t, 1, calls[0].Resets)
			assert.NoError(t, calls[0].Check(p))
		})
	})
}

func TestReplayRejectsLongLifeThatCannotBe(t *testing.T) {
	p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second), HealthyAfter: time.Minute}
	n := 0
	log := logOf(t, context.Background(), p, func(context.Context) error {
		if n++; n == 2 {
			time.Sleep(time.Minute)
		}
		return errRefused
	})
	lines := strings.Split(strings.TrimSpace(log), "\n")
	require.Contains(t, lines[5], `"kind":"retry_scheduled","time":"2000-01-01T00:01:01Z","attempt":1,"max":5,"resets":1`)
	for _, row := range []struct {
		name     string
		line     int
		old, new string
		says     string
	}{
		{"two at once", 6, `"resets":1`, `"resets":2`, "resets is 2, but 0 in the event before"},
		{"with its finish", 5, `"max":5`, `"max":5,"resets":1`, "resets is 1, but 0 in the event before"},
		{"with a start", 7, `"resets":1`, `"resets":2`, "resets is 2, but 1 in the event before"},
		{"fewer", 7, `"resets":1,`, ``, "resets is 0, but 1 in the event before"},
		{"less than none", 1, `"max":5`, `"max":5,"resets":-1`, "resets is -1"},
		{"before the first attempt", 1, `"max":5`, `"max":5,"resets":1`, "resets is 1, and attempt is 1"},
		{"with the old number", 6, `"attempt":1`, `"attempt":2`, "attempt is 2, but attempt 1 comes next"},
		{"goes on with the old number", 7, `"attempt":2`, `"attempt":3`, "attempt is 3, but attempt 2 comes next"},
		{"after a success", 5, `"err":"connection refused",`, ``, "resets is 1, but 0 in the event before"},
		{"a clock that goes back", 6, "2000-01-01T00:01:01Z", "1999-12-30T00:01:01Z", "due is"},
	} {
		t.Run(row.name, func(t *testing.T) {
			changed := append([]string{}, lines...)
			require.Contains(t, changed[row.line-1], row.old)
			changed[row.line-1] = strings.Replace(changed[row.line-1], row.old, row.new, 1)
			records, err := retrylog.Read(strings.NewReader(strings.Join(changed, "\n")))
			require.NoError(t, err)
			_, err = retrylog.Replay(records)
			require.ErrorContains(t, err, row.says)
		})
	}
}

// A Wait may return early, late, or with an error.
func TestReplayWaits(t *testing.T) {
	for _, row := range []struct {
		name   string
		wait   func(context.Context, time.Duration) (time.Duration, error)
		reason retry.Reason
		cause  string
	}{
		{"early", func(context.Context, time.Duration) (time.Duration, error) { return 0, nil }, retry.ReasonSuccess, ""},
		{"late", func(_ context.Context, d time.Duration) (time.Duration, error) { time.Sleep(2 * d); return 0, nil }, retry.ReasonSuccess, ""},
		{"too late", func(_ context.Context, d time.Duration) (time.Duration, error) { time.Sleep(time.Hour); return 0, nil }, retry.ReasonElapsed, ""},
		{"skipped", func(_ context.Context, d time.Duration) (time.Duration, error) { return d, nil }, retry.ReasonSuccess, ""},
		{"an error", func(context.Context, time.Duration) (time.Duration, error) { return 0, errors.New("no link") }, retry.ReasonWait, "no link"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := policy
			p.Wait, p.MaxElapsed = row.wait, time.Minute
			call := replay(t, logOf(t, context.Background(), p, failing(errRefused)))[0]
			assert.Equal(t, row.reason, call.Reason)
			assert.NoError(t, call.Check(p))
			assert.True(t, call.Attempts[0].Scheduled)
			if row.cause != "" {
				assert.EqualError(t, call.Cause, row.cause)
				assert.NoError(t, call.Fault)
			}
		})
	}
}

// A log of a newer version has kinds, reasons and keys that this one does not know.
func TestReplayANewerVersion(t *testing.T) {
	const log = `{"key":"k","kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3,"zone":{"kind":"x","attempt":7}}
{"key":"k","kind":"attempt_paused","time":"2000-01-01T00:00:00Z","attempt":1,"max":3,"pause":["1s"]}
{"key":"k","kind":"attempt_finished","time":"2000-01-01T00:00:00Z","attempt":1,"max":3,"err":"refused"}
{"key":"k","kind":"retry_scheduled","time":"2000-01-01T00:00:00Z","attempt":1,"max":3,"err":"refused","delay":"1s","due":"2000-01-01T00:00:01Z","lo":"1s","hi":"1s","curve":"cubic"}
{"key":"k","kind":"stopped","time":"2000-01-01T00:00:01Z","attempt":1,"max":3,"elapsed":"1s","err":"refused","cause":"no coin","reason":"bored"}
{"key":"k","kind":"refused","time":"2000-01-01T00:00:01Z","attempt":1,"max":3}
{"key":"k","kind":"stopped","time":"2000-01-01T00:00:01Z","attempt":0,"max":3,"reason":"tired"}
`
	records, err := retrylog.Read(strings.NewReader(log))
	require.NoError(t, err)
	require.Len(t, records, 7)
	assert.Equal(t, `2000-01-01 00:00:00.000 +0s k: attempt 1 of 3 started
2000-01-01 00:00:00.000 +0s k: attempt_paused, attempt 1
2000-01-01 00:00:00.000 +0s k: attempt 1 failed after 0s: refused
2000-01-01 00:00:00.000 +0s k: attempt 1 is retried in 1s, at 00:00:01.000 (by the curve)
2000-01-01 00:00:01.000 +1s k: stopped after 1 attempt: bored (no coin)
2000-01-01 00:00:01.000 +0s k: refused, attempt 1
2000-01-01 00:00:01.000 +0s k: stopped after 0 attempts: tired
`, retrylog.Explain(records))
	calls := replay(t, log)
	require.Len(t, calls, 2)
	assert.Equal(t, []retry.Reason{"bored", "tired"}, []retry.Reason{calls[0].Reason, calls[1].Reason})
	assert.EqualError(t, calls[0].Cause, "no coin")
	assert.Len(t, calls[0].Records, 4, "without the events of kinds that are not known")
	assert.NoError(t, calls[0].Check(retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}))
	assert.ErrorContains(t, calls[0].Check(retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(2 * time.Second)}), "line 4")

	data, err := json.Marshal(records[1])
	require.NoError(t, err)
	assert.Equal(t, `{"key":"k","kind":"attempt_paused","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}`, string(data))
	job := strings.NewReplacer("stopped", "stopped", `"err":"refused","cause":"no coin",`, "").Replace(strings.Join(strings.SplitAfter(log, "\n")[4:5], ""))
	assert.Equal(t, retry.Reason("bored"), replay(t, job)[0].Reason, "a refusal")
}

func TestReplayInterleavedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := retrylog.NewWriter(&log)
		p := policy
		p.Source = nil
		p.OnEvent = w.OnEvent
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				ctx := retrylog.WithKey(context.Background(), fmt.Sprint(i))
				_ = retry.Do(ctx, p, failing(errRefused, errRefused, errRefused))
			})
		}
		wg.Wait()
		calls := replay(t, log.String())
		require.Len(t, calls, 50)
		for _, c := range calls {
			assert.Equal(t, retry.ReasonExhausted, c.Reason)
			assert.Len(t, c.Records, 9)
			assert.NoError(t, c.Check(p))
			assert.Equal(t, c.Attempts[0].Delay+c.Attempts[1].Delay, c.Waited())
		}
	})
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
		assert.NoError(t, calls[0].Check(policy))
		assert.Equal(t, retry.ReasonExhausted, calls[1].Reason)
	}
}

func TestPanicLeavesACallWithoutAReason(t *testing.T) {
	var recorder retrylog.Recorder
	p := policy
	p.OnEvent = recorder.OnEvent
	assert.Panics(t, func() { _ = retry.Do(context.Background(), p, func(context.Context) error { panic("boom") }) })
	calls, err := retrylog.Replay(recorder.Records())
	require.NoError(t, err)
	require.Len(t, calls, 1)
	assert.Zero(t, calls[0].Reason)
	assert.False(t, calls[0].Attempts[0].Finished)
}

// This is the log of a queue, whose jobs are calls that span days and
// processes.
func TestReplayQueues(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "k"), policy, failing(errRefused, errRefused, errRefused))
	lines := strings.SplitAfter(log, "\n")
	join := func(lines ...string) string { return strings.Join(lines, "") }
	for _, row := range []struct {
		name, log string
		numbers   []int // the attempts of the last call
		calls     int
		finished  bool // the first attempt of the last call has finished
	}{
		{"the worker died in an attempt", join(lines[0], join(lines[3:]...)), []int{1, 2, 3}, 1, false},
		{"the worker died in two attempts", join(lines[0], lines[3], join(lines[6:]...)), []int{1, 2, 3}, 1, false},
		{"the retry was not written", join(lines[0], lines[1], join(lines[3:]...)), []int{1, 2, 3}, 1, true},
		{"neither retry was written", join(lines[0], lines[1], lines[3], lines[4], join(lines[6:]...)), []int{1, 2, 3}, 1, true},
		{"a job that came back", log + join(lines[3:]...), []int{2, 3}, 2, true},
		{"a log without its beginning", join(lines[3:]...), []int{2, 3}, 1, true},
		{"a claim up to a microsecond before the delay is over", strings.ReplaceAll(log, `"249.325191ms"`, `"249.324192ms"`), []int{1, 2, 3}, 1, true},
		{"times of several zones", strings.ReplaceAll(log, `"due":"2000-01-01T00:00:00.249325191Z"`, `"due":"2000-01-01T01:00:00.249325191+01:00"`), []int{1, 2, 3}, 1, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			calls := replay(t, row.log)
			require.Len(t, calls, row.calls)
			last := calls[row.calls-1]
			var numbers []int
			for _, a := range last.Attempts {
				numbers = append(numbers, a.Number)
			}
			assert.Equal(t, row.numbers, numbers)
			assert.Equal(t, row.finished, last.Attempts[0].Finished)
			assert.Equal(t, retry.ReasonExhausted, last.Reason)
			assert.NoError(t, last.Check(policy))
		})
	}
}

// A crash may cut off the line of a retry, and a panic of a callback keeps it from
// being written. The queue goes on with the next attempt.
func TestReplayOfAQueueWhoseRetryWasNotWritten(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "k"), policy, failing(errRefused))
	lines := strings.SplitAfter(log, "\n")
	t.Run("cut off", func(t *testing.T) {
		for cut := 1; cut < len(lines[2])-1; cut++ {
			for _, end := range []string{"", "\n"} {
				records, err := retrylog.Read(strings.NewReader(lines[0] + lines[1] + lines[2][:cut] + end + strings.Join(lines[3:], "")))
				require.ErrorIs(t, err, retrylog.ErrCutOff)
				require.Len(t, records, 5)
				calls, err := retrylog.Replay(records)
				require.NoError(t, err)
				require.Len(t, calls, 1)
				require.Len(t, calls[0].Attempts, 2)
				require.False(t, calls[0].Attempts[0].Scheduled)
				require.NoError(t, calls[0].Check(policy))
			}
		}
	})
	t.Run("under a policy that is invalid by then", func(t *testing.T) {
		next := strings.ReplaceAll(lines[3], `"max":3`, `"max":2`)
		assert.Equal(t, 2, replay(t, lines[0]+lines[1]+next)[0].Max)
	})
	t.Run("RetryIf panics", func(t *testing.T) {
		var recorder retrylog.Recorder
		p, panics := policy, 1
		p.OnEvent = recorder.OnEvent
		p.RetryIf = func(error) bool {
			if panics--; panics >= 0 {
				panic("nil map")
			}
			return true
		}
		synctest.Test(t, func(t *testing.T) {
			began, again := time.Now(), true
			for number := 1; again; number++ {
				func() {
					defer func() { _ = recover() }()
					retryjob.Run(context.Background(), p, retryjob.Job{Key: "k", Attempt: number, Began: began}, failing(errRefused), func(o retryjob.Outcome) {
						time.Sleep(o.Delay)
						again = o.Retry()
					})
				}()
			}
		})
		calls, err := retrylog.Replay(recorder.Records())
		require.NoError(t, err)
		require.Len(t, calls, 1)
		assert.Len(t, calls[0].Attempts, 3)
		assert.Equal(t, []bool{false, true, false}, []bool{calls[0].Attempts[0].Scheduled, calls[0].Attempts[1].Scheduled, calls[0].Attempts[2].Scheduled})
		assert.Equal(t, retry.ReasonExhausted, calls[0].Reason)
		assert.NoError(t, calls[0].Check(p))
	})
}

// The Elapsed of a job is by the clocks of its workers, which may differ.
func TestReplayOfWorkersWithSeveralClocks(t *testing.T) {
	const behind = time.Second
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(2 * time.Second)}
	started := func(elapsed time.Duration) []retry.Event {
		return []retry.Event{{Kind: retry.AttemptStarted, Attempt: 2, Elapsed: elapsed}}
	}
	for _, row := range []struct {
		name    string
		next    []retry.Event // of the second worker: the first one's attempt ended at 5s
		replays bool
		checks  bool
	}{
		{"in time", started(7 * time.Second), true, true},
		{"behind", started(7*time.Second - behind), true, true},
		{"early", started(7*time.Second - behind - 1), true, false},
		{"back", started(5*time.Second - behind), true, false},
		{"back by more", started(5*time.Second - behind - 1), false, false},
		{"back within an attempt", []retry.Event{{Kind: retry.AttemptStarted, Attempt: 2, Elapsed: 7 * time.Second}, {Kind: retry.AttemptFinished, Attempt: 2, Elapsed: 7*time.Second - 1}}, false, false},
		{"back where a worker died", []retry.Event{{Kind: retry.AttemptStarted, Attempt: 2, Elapsed: 7 * time.Second}, {Kind: retry.AttemptStarted, Attempt: 3, Elapsed: 7*time.Second - behind}}, true, true},
		{"back where the job is canceled", []retry.Event{{Kind: retry.Stopped, Attempt: 1, Elapsed: 5*time.Second - behind, Reason: retry.ReasonCanceled}}, true, true},
		{"back by more where the job is canceled", []retry.Event{{Kind: retry.Stopped, Attempt: 1, Elapsed: 5*time.Second - behind - 1, Reason: retry.ReasonCanceled}}, false, false},
		{"back where the job is refused", []retry.Event{{Kind: retry.AttemptStarted, Attempt: 2, Elapsed: 7 * time.Second}, {Kind: retry.AttemptStarted, Attempt: 3, Elapsed: 9 * time.Second}, {Kind: retry.Stopped, Attempt: 3, Elapsed: 9*time.Second - behind, Reason: retry.ReasonExhausted}}, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var records []retrylog.Record
			for _, e := range append([]retry.Event{
				{Kind: retry.AttemptStarted, Attempt: 1},
				{Kind: retry.AttemptFinished, Attempt: 1, Elapsed: 5 * time.Second, Err: errRefused},
				{Kind: retry.RetryScheduled, Attempt: 1, Elapsed: 5 * time.Second, Err: errRefused, Delay: 2 * time.Second, Lo: 2 * time.Second, Hi: 2 * time.Second},
			}, row.next...) {
				e.Time, e.Max = time.Unix(0, 0).Add(e.Elapsed), 3
				if e.Kind == retry.RetryScheduled {
					e.Due = e.Time.Add(e.Delay)
				}
				records = append(records, retrylog.Record{Event: e})
			}
			calls, err := retrylog.Replay(records)
			require.Equal(t, row.replays, err == nil, "%v", err)
			if row.replays {
				err := calls[0].Check(p)
				assert.Equal(t, row.checks, err == nil, "%v", err)
			}
		})
	}
}

// A queue refuses a job whose worker crashed in its last attempt. The other
// events of the job may be in another log.
func TestReplayOfAJobThatIsRefused(t *testing.T) {
	const started = `{"kind":"attempt_started","time":"2026-11-01T00:00:00Z","attempt":3,"max":3}` + "\n"
	stopped := func(more string) string {
		return `{"kind":"stopped","time":"2026-11-01T00:01:00Z","attempt":3,"max":3,"elapsed":"1m0s"` + more + "}\n"
	}
	exhausted := stopped(`,"reason":"attempts_exhausted"`)
	p := policy
	p.MaxAttempts = 3
	for log, attempts := range map[string]int{started + exhausted: 1, exhausted: 0, started + stopped(`,"reason":"canceled"`): 1} {
		calls := replay(t, log)
		require.Len(t, calls, 1)
		assert.Len(t, calls[0].Attempts, attempts)
		assert.NoError(t, calls[0].Check(p))
	}
	calls := replay(t, started+exhausted+exhausted)
	require.Len(t, calls, 2, "the queue missed the stop and handed the job out again")
	assert.Equal(t, retry.ReasonExhausted, calls[1].Reason)

	for _, log := range []string{
		started + stopped(`,"reason":"success"`),
		started + stopped(`,"reason":"permanent_error"`),
		started + stopped(`,"reason":"attempts_exhausted","err":"connection refused"`),
		stopped(`,"reason":"budget_exhausted"`),
		stopped(`,"reason":"attempts_exhausted","err":"connection refused"`),
	} {
		records, err := retrylog.Read(strings.NewReader(log))
		require.NoError(t, err)
		_, err = retrylog.Replay(records)
		assert.Error(t, err, log)
	}
}

// The log of a call with three attempts is changed so that it cannot have
// happened.
func TestReplayRejects(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "k"), policy, failing(errRefused, errRefused, errRefused))
	lines := strings.Split(strings.TrimSpace(log), "\n")
	without := func(n int) string {
		return strings.Join(append(append([]string{}, lines[:n-1]...), lines[n:]...), "\n")
	}
	edit := func(n int, old, new string) string {
		require.Contains(t, lines[n-1], old)
		changed := append([]string{}, lines...)
		changed[n-1] = strings.Replace(changed[n-1], old, new, 1)
		return strings.Join(changed, "\n")
	}
	for _, row := range []struct {
		name, log string
		line      int
		says      string
	}{
		{"no start", without(1), 1, "no call with this key has begun"},
		{"no finish", without(2), 2, "it follows attempt 1 of 3 started"},
		{"a start after a success", strings.Replace(without(3), `"err":"connection refused",`, "", 1), 3, "it follows attempt 1 succeeded"},
		{"a start after a failure, and an attempt left out", lines[0] + "\n" + lines[1] + "\n" + lines[6], 3, "attempt is 3, but attempt 2 comes next"},
		{"no second start", without(4), 4, "it follows attempt 1 is retried"},
		{"an event after the stop", log + lines[8], 10, "no call with this key has begun"},
		{"another max", edit(5, `"max":3`, `"max":4`), 5, "max is 4, but 3 when the call began"},
		{"another attempt", edit(5, `"attempt":2`, `"attempt":3`), 5, "attempt is 3, but attempt 2 comes next"},
		{"an attempt left out", edit(4, `"attempt":2`, `"attempt":3`), 4, "attempt is 3, but attempt 2 comes next"},
		{"time runs backwards", edit(3, `"elapsed":"30ms"`, `"elapsed":"29ms"`), 3, "elapsed is 29ms, but 30ms in the event before"},
		{"time runs backwards, a little", edit(3, `"elapsed":"30ms"`, `"elapsed":"29.999999ms"`), 3, "elapsed is 29.999999ms, but 30ms in the event before"},
		{"another max at a start", edit(4, `"max":3`, `"max":4`), 4, "max is 4, but 3 when the call began"},
		{"another max where the policy is invalid, and a retry", edit(4, `"max":3`, `"max":2`), 5, "max is 3, but 2 when the call began"},
		{"no time", edit(1, `2000-01-01T00:00:00Z`, `0001-01-01T00:00:00Z`), 1, "it has no time"},
		{"before the first attempt", edit(1, `"max":3`, `"max":3,"elapsed":"-5h"`), 1, "elapsed is -5h0m0s"},
		{"attempt 0", edit(1, `"attempt":1`, `"attempt":0`), 1, "attempt is 0, and max is 3"},
		{"an attempt beyond max", edit(1, `"attempt":1`, `"attempt":4`), 1, "attempt is 4, and max is 3"},
		{"less than unlimited", edit(1, `"max":3`, `"max":-2`), 1, "max is -2, and not at least 1, or -1 for unlimited"},
		{"attempts left out where a worker died", lines[0] + "\n" + lines[6], 2, "attempt is 3, but attempt 2 comes next"},
		{"it stopped within an attempt", lines[0] + "\n" + strings.Replace(lines[8], `"attempt":3`, `"attempt":1`, 1), 2, "it follows attempt 1 of 3 started"},
		{"a negative Retry-After", edit(3, `"seed":"42"`, `"retry_after":"-1s","seed":"42"`), 3, "retry_after is -1s"},
		{"another seed", edit(3, `"seed":"42"`, `"seed":"43"`), 3, "delay is 219.325191ms, but its seed, attempt, lo and hi make 218.254302ms"},
		{"another lo", edit(3, `"lo":"160ms"`, `"lo":"161ms"`), 3, "its seed, attempt, lo and hi make 219.5"},
		{"another hi", edit(3, `"hi":"240ms"`, `"hi":"200ms"`), 3, "its seed, attempt, lo and hi make 189"},
		{"no lo", edit(3, `"lo":"160ms",`, ``), 3, "its seed, attempt, lo and hi make"},
		{"a lo below 0", edit(3, `"lo":"160ms"`, `"lo":"-160ms"`), 3, "lo is -160ms, and hi is 240ms"},
		{"a lo above hi", edit(3, `"lo":"160ms"`, `"lo":"250ms"`), 3, "lo is 250ms, and hi is 240ms"},
		{"a finish with a class", edit(2, `"max":3`, `"max":3,"class":"busy"`), 2, "only retry_scheduled and stopped have a class"},
		{"a stop with a window", edit(9, `"max":3`, `"max":3,"hi":"1s"`), 9, "only retry_scheduled has a delay"},
		{"a Wait that fails where there is none", edit(9, `"attempts_exhausted"`, `"wait_failed","cause":"no link"`), 9, "it waits for nothing"},
		{"a Wait that fails without an error", strings.Join(lines[:3], "\n") + "\n" + strings.NewReplacer(`"attempt":3`, `"attempt":1`, "attempts_exhausted", "wait_failed").Replace(lines[8]), 4, "reason is wait_failed, but there is no cause"},
		{"a start with an error", edit(1, `"max":3`, `"max":3,"err":"fault"`), 1, `its error is "fault", but attempt_started has none`},
		{"a start with a duration", edit(1, `"max":3`, `"max":3,"took":"1s"`), 1, "took is 1s, but only attempt_finished has one"},
		{"a start with a delay", edit(1, `"max":3`, `"max":3,"delay":"1s"`), 1, "only retry_scheduled has a delay"},
		{"a start with a reason", edit(1, `"max":3`, `"max":3,"reason":"canceled"`), 1, "only stopped has a reason or a cause"},
		{"a start with a cause", edit(1, `"max":3`, `"max":3,"cause":"fault"`), 1, "only stopped has a reason or a cause"},
		{"a finish with a cause", edit(2, `"max":3`, `"max":3,"cause":"fault"`), 2, "only stopped has a reason or a cause"},
		{"a schedule with a cause", edit(3, `"max":3`, `"max":3,"cause":"fault"`), 3, "only stopped has a reason or a cause"},
		{"a finish with a reason", edit(2, `"max":3`, `"max":3,"reason":"permanent_error"`), 2, "only stopped has a reason or a cause"},
		{"a finish with a due", edit(2, `"max":3`, `"max":3,"due":"2000-01-01T00:00:00Z"`), 2, "only retry_scheduled has a delay"},
		{"a finish with a seed", edit(2, `"max":3`, `"max":3,"seed":"42"`), 2, "only retry_scheduled has a delay"},
		{"a schedule with a duration", edit(3, `"max":3`, `"max":3,"took":"1s"`), 3, "only attempt_finished has one"},
		{"a schedule with another error", edit(3, `"err":"connection refused"`, `"err":"fault"`), 3, `its error is "fault", but the attempt failed with "connection refused"`},
		{"a stop with a Retry-After", edit(9, `"max":3`, `"max":3,"retry_after":"1s"`), 9, "only retry_scheduled has a delay"},
		{"a stop with a duration", edit(9, `"max":3`, `"max":3,"took":"1s"`), 9, "only attempt_finished has one"},
		{"a retry of a success", edit(2, `"err":"connection refused",`, ``), 3, "the attempt did not fail"},
		{"a negative delay", edit(3, `"delay":"`, `"delay":"-`), 3, "delay is -219"},
		{"sooner than the server asked", edit(3, `"seed":"42"`, `"retry_after":"1s","seed":"42"`), 3, "retry_after is 1s"},
		{"success of a failure", strings.Join(lines[:8], "\n") + "\n" + strings.Replace(strings.Replace(lines[8], "attempts_exhausted", "success", 1), `"err":"connection refused",`, "", 1), 9, `the attempt failed: "connection refused"`},
		{"success with an error", edit(9, "attempts_exhausted", "success"), 9, `reason is success, but its error is "connection refused"`},
		{"failure of a success", edit(8, `"err":"connection refused",`, ``), 9, "the attempt did not fail"},
		{"no reason", edit(9, `,"reason":"attempts_exhausted"`, ``), 9, `"" is not a reason to stop`},
		{"retry is no reason", edit(9, "attempts_exhausted", "retry"), 9, `"retry" is not a reason to stop`},
		{"exhausted in a sleep", strings.Join(append(lines[:6:6], edit(9, `"attempt":3`, `"attempt":2`)[strings.LastIndex(log[:len(log)-1], "\n")+1:]), "\n"), 7, "only the context, MaxElapsed or Wait can end a call between two attempts"},
		{"exhausted before the call began", `{"key":"k","kind":"stopped","time":"2000-01-01T00:00:00Z","attempt":0,"max":3,"reason":"attempts_exhausted"}`, 1, "no attempt has begun"},
		{"a retry beyond max", edit(3, `"max":3`, `"max":1`), 3, "max is 1, but 3 when the call began"},
		{"no max", `{"key":"k","kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":0}`, 1, "max is 0, and not at least 1"},
		{"a negative duration", edit(2, `"took":"30ms"`, `"took":"-30ms"`), 2, "took is -30ms"},
		{"due at another time", edit(3, `"due":"2000`, `"due":"2001`), 3, "due is 2001-01-01T00:00:00.249325191Z, but its delay ends at 2000-01-01T00:00:00.249325191Z"},
		{"invalid without a fault", strings.Join(lines[:8], "\n") + "\n" + strings.Replace(strings.Replace(lines[8], "attempts_exhausted", "invalid", 1), `"err":"connection refused",`, "", 1), 9, "reason is invalid, but there is no cause"},
		{"a fault of a policy that is valid", edit(9, `"elapsed"`, `"cause":"fault","elapsed"`), 9, `cause is "fault", but attempts_exhausted has none`},
		{"a stop with another error", edit(9, `"err":"connection refused"`, `"err":"fault"`), 9, `its error is "fault", but the attempt failed with "connection refused"`},
		{"an error of no attempt", `{"key":"k","kind":"stopped","time":"2000-01-01T00:00:00Z","attempt":0,"max":3,"reason":"canceled","err":"fault"}`, 1, `its error is "fault", but no attempt has begun`},
		{"an error of no attempt under an invalid policy", `{"key":"k","kind":"stopped","time":"2000-01-01T00:00:00Z","attempt":0,"max":3,"reason":"invalid","err":"refused","cause":"fault"}`, 1, `its error is "refused", but no attempt has begun`},
		{"invalid after a success", strings.Replace(strings.Replace(edit(8, `"err":"connection refused",`, ``), `"err":"connection refused","elapsed":"654`, `"cause":"fault","elapsed":"654`, 1), "attempts_exhausted", "invalid", 1), 9, "the attempt did not fail"},
		{"a clock that goes back 30 years", edit(4, "2000-01-01T00:00:00.249325191Z", "1970-01-01T00:00:00.249325191Z"), 4,
			"time goes back from 2000-01-01T00:00:00.03Z to 1970-01-01T00:00:00.249325191Z, while elapsed goes on from 30ms to 249.325191ms"},
		{"a clock that goes back a little over a day", edit(4, "2000-01-01T00:00:00.249325191Z", "1999-12-31T00:00:00.249325190Z"), 4, "time goes back"},
		{"a clock that goes back to the earliest time", edit(4, "2000-01-01T00:00:00.249325191Z", "0000-01-01T00:00:00Z"), 4, "time goes back"},
		{"after empty lines", "\n\n" + lines[0] + "\n\n" + lines[2], 5, "it follows attempt 1 of 3 started"},
	} {
		t.Run(row.name, func(t *testing.T) {
			records, err := retrylog.Read(strings.NewReader(row.log))
			require.NoError(t, err)
			calls, err := retrylog.Replay(records)
			require.Error(t, err)
			assert.Contains(t, err.Error(), fmt.Sprintf("retrylog: line %d: ", row.line))
			assert.Contains(t, err.Error(), row.says)
			disorder := strings.HasPrefix(row.says, "no call") || strings.HasPrefix(row.says, "it follows") || strings.HasSuffix(row.says, "comes next")
			assert.Equal(t, disorder, strings.Contains(err.Error(), "WithKey"))
			for _, c := range calls {
				require.NotEmpty(t, c.Records, "the event at fault begins no call")
				assert.Less(t, c.Records[len(c.Records)-1].Line, row.line)
			}
		})
	}
	t.Run("beyond max", func(t *testing.T) {
		two := policy
		two.MaxAttempts = 4
		long := logOf(t, context.Background(), two, failing(errRefused, errRefused, errRefused, errRefused))
		records, err := retrylog.Read(strings.NewReader(strings.ReplaceAll(long, `"max":4`, `"max":3`)))
		require.NoError(t, err)
		_, err = retrylog.Replay(records)
		require.ErrorContains(t, err, "retrylog: line 9: attempt 3 is retried in")
	})
	t.Run("a retry of the last attempt", func(t *testing.T) {
		one := strings.Split(logOf(t, context.Background(), policy, failing(errRefused)), "\n")
		records, err := retrylog.Read(strings.NewReader(strings.ReplaceAll(strings.Join(one[:3], "\n"), `"max":3`, `"max":1`)))
		require.NoError(t, err)
		_, err = retrylog.Replay(records)
		require.ErrorContains(t, err, "line 3: attempt 1 is retried")
		require.ErrorContains(t, err, "attempt 1 is the last that max 1 allows")
	})
	t.Run("a call within another needs a key of its own", func(t *testing.T) {
		var recorder retrylog.Recorder
		p := retry.Policy{MaxAttempts: 2, OnEvent: recorder.OnEvent}
		_ = retry.Do(retrylog.WithKey(context.Background(), "k"), p, func(ctx context.Context) error {
			return retry.Do(ctx, p, func(context.Context) error { return nil })
		})
		_, err := retrylog.Replay(recorder.Records())
		require.ErrorContains(t, err, "one within another, need keys of their own: see WithKey")
	})
	t.Run("two calls at once without keys", func(t *testing.T) {
		one := strings.Split(logOf(t, context.Background(), policy, failing(errRefused)), "\n")
		mixed := []string{one[0], one[0], one[1], one[1]}
		records, err := retrylog.Read(strings.NewReader(strings.Join(mixed, "\n")))
		require.NoError(t, err)
		_, err = retrylog.Replay(records)
		require.ErrorContains(t, err, "line 4")
		require.ErrorContains(t, err, "see WithKey")
	})
	t.Run("no kind", func(t *testing.T) {
		_, err := retrylog.Replay([]retrylog.Record{{Event: retry.Event{Time: time.Unix(0, 0), Attempt: 1, Max: 1}}})
		require.ErrorContains(t, err, "an event without a kind")
	})
	t.Run("an error that cannot be compared", func(t *testing.T) {
		now := time.Unix(0, 0)
		err := list{errRefused}
		_, replayed := retrylog.Replay([]retrylog.Record{{Event: retry.Event{Kind: retry.Stopped, Time: now, Max: 1, Reason: retry.ReasonCanceled, Err: err}}})
		assert.ErrorContains(t, replayed, `its error is "several", but no attempt has begun`)
	})
	t.Run("records that were not read count from 1", func(t *testing.T) {
		_, err := retrylog.Replay([]retrylog.Record{{Event: retry.Event{Kind: retry.AttemptFinished, Attempt: 1}}})
		require.ErrorContains(t, err, "line 1")
	})
}

// A wall clock can be adjusted, and the elapsed time stops while a machine
// sleeps. Neither makes a log impossible.
func TestReplayAllowsClockSteps(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing(errRefused))
	for _, row := range []struct{ name, at string }{
		{"back three seconds", "1999-12-31T23:59:57.249325191Z"},
		{"back half a day, to another time zone", "1999-12-31T12:00:00.249325191Z"},
		{"back a day", "1999-12-31T00:00:00.249325191Z"},
		{"ahead a month, which the machine slept", "2000-02-01T00:00:00Z"},
		{"ahead 30 years, after a start with an empty battery", "2030-01-01T00:00:00Z"},
		{"ahead to the latest time", "9999-12-31T23:59:59Z"},
	} {
		t.Run(row.name, func(t *testing.T) {
			// From here on, all times of the log are shifted.
			lines := strings.Split(strings.TrimSpace(log), "\n")
			for i := 3; i < len(lines); i++ {
				before, rest, _ := strings.Cut(lines[i], `"time":"`)
				_, after, _ := strings.Cut(rest, `"`)
				lines[i] = before + `"time":"` + row.at + `"` + after
			}
			assert.Equal(t, retry.ReasonSuccess, replay(t, strings.Join(lines, "\n"))[0].Reason)
		})
	}
}

// A call may run out of time while OnEvent delays its retry.
func TestReplayOutOfTimeWhileScheduled(t *testing.T) {
	for _, row := range []struct {
		name   string
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		change func(*retry.Policy)
		reason retry.Reason
	}{
		{"MaxElapsed", context.WithCancel, func(p *retry.Policy) { p.MaxElapsed = 5 * time.Second }, retry.ReasonElapsed},
		{"a deadline that the context does not report itself", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return late{ctx, time.Now().Add(5 * time.Second)}, func() {}
		}, func(*retry.Policy) {}, retry.ReasonDeadline},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := row.ctx(context.Background())
				defer cancel()
				p := policy
				row.change(&p)
				checked := p
				var recorder retrylog.Recorder
				p.OnEvent = func(ctx context.Context, e retry.Event) {
					recorder.OnEvent(ctx, e)
					if e.Kind == retry.RetryScheduled {
						time.Sleep(10 * time.Second)
					}
				}
				require.Error(t, retry.Do(ctx, p, failing(errRefused)))
				calls, err := retrylog.Replay(recorder.Records())
				require.NoError(t, err)
				require.Len(t, calls, 1)
				assert.Equal(t, row.reason, calls[0].Reason)
				assert.True(t, calls[0].Attempts[0].Scheduled)
				assert.NoError(t, calls[0].Check(checked))
			})
		})
	}
}

// late has a deadline, but never ends.
type late struct {
	context.Context
	at time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.at, true }

// A list is an error whose values cannot be compared with ==.
type list []error

func (list) Error() string { return "several" }

func TestWaitedDoesNotOverflow(t *testing.T) {
	c := retrylog.Call{Attempts: []retrylog.Attempt{{Delay: math.MaxInt64}, {Delay: time.Hour}, {}}}
	assert.Equal(t, time.Duration(math.MaxInt64), c.Waited())
}
