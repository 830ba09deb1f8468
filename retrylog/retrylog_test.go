package retrylog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

var errRefused = errors.New("connection refused")

// seed is a Source that always draws the same.
type seed uint64

func (s seed) Uint64() uint64 { return uint64(s) }

var policy = retry.Policy{
	MaxAttempts: 3,
	Backoff:     retry.Exponential{Base: 200 * time.Millisecond},
	Jitter:      retry.Proportional(0.2),
	Source:      seed(42),
}

// failing returns a function that takes 30ms each time, fails with these
// errors, and then succeeds.
func failing(errs ...error) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(30 * time.Millisecond)
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}
}

// logOf returns the log of a call, in virtual time.
func logOf(t *testing.T, ctx context.Context, p retry.Policy, fn func(context.Context) error) string {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		w := retrylog.NewWriter(&log)
		p.OnEvent = w.OnEvent
		_ = retry.Do(ctx, p, fn)
		assert.NoError(t, w.Err())
	})
	return log.String()
}

func replay(t *testing.T, log string) []retrylog.Call {
	records, err := retrylog.Read(strings.NewReader(log))
	require.NoError(t, err)
	calls, err := retrylog.Replay(records)
	require.NoError(t, err)
	return calls
}

func TestWriterGolden(t *testing.T) {
	ctx := retrylog.WithKey(context.Background(), "17")
	log := logOf(t, ctx, policy, failing(errRefused, retry.After(time.Second, errRefused)))
	assert.Equal(t, `{"key":"17","kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}
{"key":"17","kind":"attempt_finished","time":"2000-01-01T00:00:00.03Z","attempt":1,"max":3,"err":"connection refused","took":"30ms","elapsed":"30ms"}
{"key":"17","kind":"retry_scheduled","time":"2000-01-01T00:00:00.03Z","attempt":1,"max":3,"elapsed":"30ms","delay":"219.325191ms","due":"2000-01-01T00:00:00.249325191Z","seed":"42"}
{"key":"17","kind":"attempt_started","time":"2000-01-01T00:00:00.249325191Z","attempt":2,"max":3,"elapsed":"249.325191ms"}
{"key":"17","kind":"attempt_finished","time":"2000-01-01T00:00:00.279325191Z","attempt":2,"max":3,"err":"connection refused","took":"30ms","elapsed":"279.325191ms"}
{"key":"17","kind":"retry_scheduled","time":"2000-01-01T00:00:00.279325191Z","attempt":2,"max":3,"elapsed":"279.325191ms","delay":"1.063964157s","due":"2000-01-01T00:00:01.343289348Z","hint":"1s","seed":"42"}
{"key":"17","kind":"attempt_started","time":"2000-01-01T00:00:01.343289348Z","attempt":3,"max":3,"elapsed":"1.343289348s"}
{"key":"17","kind":"attempt_finished","time":"2000-01-01T00:00:01.373289348Z","attempt":3,"max":3,"took":"30ms","elapsed":"1.373289348s"}
{"key":"17","kind":"stopped","time":"2000-01-01T00:00:01.373289348Z","attempt":3,"max":3,"elapsed":"1.373289348s","reason":"success"}
`, log)
}

func TestExplainGolden(t *testing.T) {
	ctx := retrylog.WithKey(context.Background(), "17")
	records, err := retrylog.Read(strings.NewReader(logOf(t, ctx, policy, failing(errors.New("two\nlines"), retry.After(time.Second, errRefused), errRefused))))
	require.NoError(t, err)
	assert.Equal(t, `2000-01-01 00:00:00.000 +0s 17: attempt 1 of 3 started
2000-01-01 00:00:00.030 +30ms 17: attempt 1 failed after 30ms: two; lines
2000-01-01 00:00:00.030 +30ms 17: attempt 1 is retried in 219.325191ms, at 00:00:00.249 (drawn with seed 42)
2000-01-01 00:00:00.249 +249ms 17: attempt 2 of 3 started
2000-01-01 00:00:00.279 +279ms 17: attempt 2 failed after 30ms: connection refused
2000-01-01 00:00:00.279 +279ms 17: attempt 2 is retried in 1.063964157s, at 00:00:01.343 (the server asks for 1s, drawn with seed 42)
2000-01-01 00:00:01.343 +1.343s 17: attempt 3 of 3 started
2000-01-01 00:00:01.373 +1.373s 17: attempt 3 failed after 30ms: connection refused
2000-01-01 00:00:01.373 +1.373s 17: stopped after 3 attempts: no attempt is left
`, retrylog.Explain(records))
}

func TestExplainEveryReason(t *testing.T) {
	for reason, want := range map[retry.Reason]string{
		retry.ReasonSuccess:      "it succeeded",
		retry.ReasonExhausted:    "no attempt is left",
		retry.ReasonNonRetryable: "the policy retries nothing",
		retry.ReasonPermanent:    "the error is permanent",
		retry.ReasonRejected:     "RetryIf says that the error is not worth a retry",
		retry.ReasonRetryAfter:   "the server asks for a longer wait than MaxRetryAfter",
		retry.ReasonElapsed:      "the retry would come later than MaxElapsed",
		retry.ReasonDeadline:     "the context's deadline has passed, or comes before the retry",
		retry.ReasonCanceled:     "the context was canceled",
		retry.ReasonBudget:       "the budget has no retry left",
		retry.ReasonInvalid:      "the policy, or the call, is not valid: fault",
		retry.ReasonLeft:         "the body of the loop was left",
		retry.ReasonRetry:        `for no reason that is known ("retry")`,
	} {
		e := retry.Event{Kind: retry.Stopped, Attempt: 1, Max: 4, Reason: reason}
		if reason == retry.ReasonInvalid {
			e.Err = errors.New("fault")
		}
		assert.Equal(t, "0001-01-01 00:00:00.000 +0s stopped after 1 attempt: "+want, retrylog.Record{Event: e}.String(), reason)
	}
}

// Each event is one line, in UTC, and says no more than the event does.
func TestExplainOneEvent(t *testing.T) {
	at := time.Date(2000, 1, 1, 1, 0, 0, 0, time.FixedZone("CET", 3600))
	scheduled := func(delay, hint time.Duration, seed uint64) retry.Event {
		return retry.Event{Kind: retry.RetryScheduled, Time: at, Attempt: 1, Delay: delay, Due: at.Add(delay), Hint: hint, Seed: seed}
	}
	for _, row := range []struct {
		name string
		key  string
		e    retry.Event
		want string
	}{
		{"without a limit", "", retry.Event{Kind: retry.AttemptStarted, Time: at, Attempt: 7, Max: retry.Unlimited}, "attempt 7 started"},
		{"success", "", retry.Event{Kind: retry.AttemptFinished, Time: at, Attempt: 7, Took: time.Second}, "attempt 7 succeeded after 1s"},
		{"failure of several lines", "", retry.Event{Kind: retry.AttemptFinished, Time: at, Attempt: 7, Err: errors.New("a\r\nb\nc\rd")}, "attempt 7 failed after 0s: a; b; c; d"},
		{"fault of several lines", "", retry.Event{Kind: retry.Stopped, Time: at, Reason: retry.ReasonInvalid, Err: errors.New("a\nb")}, "stopped after 0 attempts: the policy, or the call, is not valid: a; b"},
		{"key of several lines", "a\r\nb", retry.Event{Kind: retry.AttemptStarted, Time: at, Attempt: 1, Max: 2}, "a; b: attempt 1 of 2 started"},
		{"the curve", "", scheduled(time.Second, 0, 0), "attempt 1 is retried in 1s, at 00:00:01.000 (by the curve)"},
		{"the jitter", "", scheduled(time.Second, 0, 42), "attempt 1 is retried in 1s, at 00:00:01.000 (drawn with seed 42)"},
		{"the server", "", scheduled(time.Second, time.Second, 42), "attempt 1 is retried in 1s, at 00:00:01.000 (as the server asks)"},
		{"the curve beyond the server", "", scheduled(2*time.Second, time.Second, 0), "attempt 1 is retried in 2s, at 00:00:02.000 (the server asks for 1s, by the curve)"},
		{"nothing", "", scheduled(0, 0, 42), "attempt 1 is retried in 0s, at 00:00:00.000 (at once)"},
		{"no kind", "", retry.Event{Time: at}, `an event without a kind ("")`},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := retrylog.Record{Key: row.key, Event: row.e}
			assert.Equal(t, "2000-01-01 00:00:00.000 +0s "+row.want, r.String())
			assert.Equal(t, r.String()+"\n", retrylog.Explain([]retrylog.Record{r}))
		})
	}
}

// Every way in which a call can end is replayed as it was, from a log and from
// memory, and its policy agrees with it.
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
	empty := retry.NewBudget(1, 0)
	empty.Take()
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
		{"invalid, succeeded", nil, with(func(p *retry.Policy) { p.MaxAttempts = -2 }), nil, retry.ReasonInvalid, 1},
		{"canceled before", ended, policy, nil, retry.ReasonCanceled, 0},
		{"expired before", expired, policy, nil, retry.ReasonDeadline, 0},
		{"invalid, and canceled before", ended, with(func(p *retry.Policy) { p.MaxAttempts = -2 }), nil, retry.ReasonInvalid, 0},
		{"unlimited", nil, with(func(p *retry.Policy) { p.MaxAttempts = retry.Unlimited }), []error{errRefused, errRefused, errRefused}, retry.ReasonSuccess, 4},
		{"no jitter", nil, with(func(p *retry.Policy) { p.Jitter = nil }), []error{errRefused}, retry.ReasonSuccess, 2},
		{"a hint, no jitter", nil, with(func(p *retry.Policy) { p.Jitter = nil }), []error{retry.After(time.Second, errRefused)}, retry.ReasonSuccess, 2},
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
			assert.Equal(t, row.reason == retry.ReasonInvalid, c.Fault != nil)
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
					next := row.policy.Next(retry.Attempt{Number: i, Err: retry.After(before.Hint, before.Err), Seed: max(1, before.Seed)})
					assert.Equal(t, next.Delay, before.Delay, "its seed and hint give the delay")
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

// A deadline can also come while the retry is being told of.
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

func TestReplayALoopThatIsLeft(t *testing.T) {
	for _, row := range []struct {
		name   string
		assign error
		reason retry.Reason
	}{
		{"with an error", errRefused, retry.ReasonLeft},
		{"without", nil, retry.ReasonSuccess},
	} {
		t.Run(row.name, func(t *testing.T) {
			var recorder retrylog.Recorder
			p := policy
			p.OnEvent = recorder.OnEvent
			var err error
			for range retry.Loop(context.Background(), p, &err) {
				err = row.assign
				break
			}
			calls, replayed := retrylog.Replay(recorder.Records())
			require.NoError(t, replayed)
			assert.Equal(t, row.reason, calls[0].Reason)
			assert.NoError(t, calls[0].Check(policy))
		})
	}
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

// A log that is cut off anywhere is read up to there, and says so; what is
// there replays, and one call at most is without a reason.
func TestCutOffAnywhere(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing()) + logOf(t, context.Background(), policy, failing(errRefused))
	for cut := range len(log) {
		records, err := retrylog.Read(strings.NewReader(log[:cut]))
		lines := strings.Count(log[:cut], "\n")
		rest := log[strings.LastIndex(log[:cut], "\n")+1 : cut]
		whole := json.Valid([]byte(rest)) // but for its end of line
		if rest == "" || whole {
			require.NoError(t, err, "cut at %d", cut)
		} else {
			require.ErrorIs(t, err, retrylog.ErrCutOff)
			require.ErrorContains(t, err, fmt.Sprintf("line %d", lines+1))
		}
		if whole {
			lines++
		}
		require.Len(t, records, lines)
		calls, err := retrylog.Replay(records)
		require.NoError(t, err)
		for i, c := range calls {
			if c.Reason == 0 {
				require.Equal(t, len(calls)-1, i)
			}
		}
	}
}

// The next process goes on in the middle of the line that the crash cut off.
func TestReadGoesOnBehindACut(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "a{b"), policy, failing(errRefused))
	first, _, _ := strings.Cut(log, "\n")
	for cut := 1; cut < len(first); cut++ {
		records, err := retrylog.Read(strings.NewReader(first[:cut] + log))
		require.ErrorIs(t, err, retrylog.ErrCutOff)
		require.ErrorContains(t, err, "within line 1")
		calls, err := retrylog.Replay(records)
		require.NoError(t, err)
		require.Len(t, calls, 1)
		require.Equal(t, retry.ReasonSuccess, calls[0].Reason)
		require.Len(t, calls[0].Records, 6)
	}
}

// Only the end of the line is lost: both events are there.
func TestReadWithoutAnEndOfLine(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "a{b"), policy, failing())
	for _, row := range []struct{ name, log string }{
		{"as written", strings.ReplaceAll(log, "\n", "")},
		{"fields in another order", `{"time":"2000-01-01T00:00:00Z","kind":"attempt_started"}{"attempt":1,"kind":"attempt_finished"} {"max":3,"kind":"stopped"}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			records, err := retrylog.Read(strings.NewReader(row.log))
			require.NoError(t, err)
			require.Len(t, records, 3)
			for i, kind := range []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.Stopped} {
				assert.Equal(t, kind, records[i].Event.Kind)
				assert.Equal(t, 1, records[i].Line)
			}
		})
	}
}

func TestReadWithoutAnEndOfLineAndCutOff(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing())
	records, err := retrylog.Read(strings.NewReader(strings.TrimSuffix(log, "\n") + `{"ki`))
	require.ErrorIs(t, err, retrylog.ErrCutOff)
	require.Len(t, records, 3)
}

// A power cut may leave zero bytes where the file had grown already.
func TestReadZeroBytes(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing())
	lines := strings.SplitAfter(log, "\n")
	zeros := strings.Repeat("\x00", 4096)
	for _, row := range []struct {
		name, log string
		line, n   int
	}{
		{"after a line", log + zeros, 4, 3},
		{"after a part of one", log + lines[0][:20] + zeros, 4, 3},
		{"and the next process", lines[0] + zeros + log, 2, 4},
		{"within a line, and the next process", lines[0] + lines[1][:20] + zeros + log, 2, 4},
		{"where the end of the line was", strings.TrimSuffix(lines[0], "\n") + zeros + "\n" + log, 1, 4},
		{"in the middle of a line", lines[0][:20] + zeros + lines[0][20:] + log, 1, 3},
		{"from one line into another", lines[0] + lines[1][:20] + zeros + lines[2][20:] + log, 2, 4},
		{"and the end of the line behind them", strings.TrimSuffix(lines[0], "\n") + zeros + "\r\n" + log, 1, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			records, err := retrylog.Read(strings.NewReader(row.log))
			require.ErrorIs(t, err, retrylog.ErrCutOff)
			require.ErrorContains(t, err, fmt.Sprintf("within line %d", row.line))
			require.Len(t, records, row.n)
		})
	}
}

func TestReadNamesTheFirstCut(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing())
	records, err := retrylog.Read(strings.NewReader("\n" + log[:20] + "\n" + log + log[:20]))
	require.ErrorIs(t, err, retrylog.ErrCutOff)
	require.ErrorContains(t, err, "within line 2")
	require.Len(t, records, 3)
}

func TestReadCRLF(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing())
	records, err := retrylog.Read(strings.NewReader(strings.ReplaceAll(log+"\n", "\n", "\r\n")))
	require.NoError(t, err)
	require.Len(t, records, 3)
}

func TestALastLineThatIsWrongIsNotCutOff(t *testing.T) {
	_, err := retrylog.Read(strings.NewReader(`{"kind":"bogus"}`))
	require.ErrorContains(t, err, `"bogus" is no EventKind`)
	require.NotErrorIs(t, err, retrylog.ErrCutOff)
}

// A process that died leaves a call without a reason, and the next one may
// have its key.
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

// The log of a queue, whose jobs are calls over days and processes.
func TestReplayQueues(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "k"), policy, failing(errRefused, errRefused, errRefused))
	lines := strings.SplitAfter(log, "\n")
	join := func(lines ...string) string { return strings.Join(lines, "") }
	for _, row := range []struct {
		name, log string
		numbers   []int // of the attempts of the last call
		calls     int
		finished  bool // the first attempt of the last call
	}{
		{"the worker died in an attempt", join(lines[0], join(lines[3:]...)), []int{1, 2, 3}, 1, false},
		{"the worker died in two", join(lines[0], lines[3], join(lines[6:]...)), []int{1, 2, 3}, 1, false},
		{"a job that came back", log + join(lines[3:]...), []int{2, 3}, 2, true},
		{"a log without its beginning", join(lines[3:]...), []int{2, 3}, 1, true},
		{"a claim at what microseconds keep of a delay", strings.ReplaceAll(log, `"249.325191ms"`, `"249.324192ms"`), []int{1, 2, 3}, 1, true},
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

// The log of a call with three attempts, changed so that it cannot have
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
		{"no start", without(1), 1, "it belongs to no call that has begun"},
		{"no finish", without(2), 2, "it follows attempt 1 of 3 started"},
		{"no schedule", without(3), 3, "it follows attempt 1 failed"},
		{"no second start", without(4), 4, "it follows attempt 1 is retried"},
		{"an event after the stop", log + lines[8], 10, "it belongs to no call that has begun"},
		{"another max", edit(5, `"max":3`, `"max":4`), 5, "its max is 4, that of its call 3"},
		{"another attempt", edit(5, `"attempt":2`, `"attempt":3`), 5, "it is of attempt 3, and attempt 2 is next"},
		{"an attempt left out", edit(4, `"attempt":2`, `"attempt":3`), 4, "it is of attempt 3, and attempt 2 is next"},
		{"time runs backwards", edit(3, `"elapsed":"30ms"`, `"elapsed":"29ms"`), 3, "29ms have elapsed, and 30ms before"},
		{"time runs backwards, a little", edit(3, `"elapsed":"30ms"`, `"elapsed":"29.999999ms"`), 3, "29.999999ms have elapsed, and 30ms before"},
		{"it began too early", edit(4, `"elapsed":"249.325191`, `"elapsed":"249.324191`), 4, "it was due 1µs later"},
		{"no time", edit(1, `2000-01-01T00:00:00Z`, `0001-01-01T00:00:00Z`), 1, "it has no time"},
		{"before the first attempt", edit(1, `"max":3`, `"max":3,"elapsed":"-5h"`), 1, "-5h0m0s have elapsed"},
		{"attempt 0", edit(1, `"attempt":1`, `"attempt":0`), 1, "its attempt is 0, and its max 3"},
		{"an attempt beyond max", edit(1, `"attempt":1`, `"attempt":4`), 1, "its attempt is 4, and its max 3"},
		{"less than unlimited", edit(1, `"max":3`, `"max":-2`), 1, "its max is -2"},
		{"attempts left out where a worker died", lines[0] + "\n" + lines[6], 2, "it is of attempt 3, and attempt 2 is next"},
		{"it stopped within an attempt", lines[0] + "\n" + strings.Replace(lines[8], `"attempt":3`, `"attempt":1`, 1), 2, "it follows attempt 1 of 3 started"},
		{"a loop left without an error has succeeded", strings.Join(lines[:7], "\n") + "\n" + strings.Replace(lines[7], `"err":"connection refused",`, "", 1) + "\n" + strings.Replace(lines[8], "attempts_exhausted", "left", 1), 9, "the attempt did not fail"},
		{"a negative hint", edit(3, `"seed":"42"`, `"hint":"-1s","seed":"42"`), 3, "its hint -1s"},
		{"a start with an error", edit(1, `"max":3`, `"max":3,"err":"fault"`), 1, "its error fault"},
		{"a start with a duration", edit(1, `"max":3`, `"max":3,"took":"1s"`), 1, "it took 1s, and only attempt_finished does"},
		{"a start with a delay", edit(1, `"max":3`, `"max":3,"delay":"1s"`), 1, "only retry_scheduled has a delay"},
		{"a start with a reason", edit(1, `"max":3`, `"max":3,"reason":"canceled"`), 1, "its reason is canceled, and only stopped has one"},
		{"a start with a fault", edit(1, `"max":3`, `"max":3,"reason":"invalid","err":"fault"`), 1, "its reason is invalid, and only stopped has one"},
		{"a finish with a reason", edit(2, `"max":3`, `"max":3,"reason":"permanent_error"`), 2, "only stopped has one"},
		{"a finish with a due", edit(2, `"max":3`, `"max":3,"due":"2000-01-01T00:00:00Z"`), 2, "only retry_scheduled has a delay"},
		{"a finish with a seed", edit(2, `"max":3`, `"max":3,"seed":"42"`), 2, "only retry_scheduled has a delay"},
		{"a schedule with a duration", edit(3, `"max":3`, `"max":3,"took":"1s"`), 3, "only attempt_finished does"},
		{"a schedule with an error", edit(3, `"max":3`, `"max":3,"err":"fault"`), 3, "its error fault"},
		{"a stop with a hint", edit(9, `"max":3`, `"max":3,"hint":"1s"`), 9, "only retry_scheduled has a delay"},
		{"a stop with a duration", edit(9, `"max":3`, `"max":3,"took":"1s"`), 9, "only attempt_finished does"},
		{"a retry of a success", edit(2, `"err":"connection refused",`, ``), 3, "the attempt did not fail"},
		{"a negative delay", edit(3, `"delay":"`, `"delay":"-`), 3, "its delay is -219"},
		{"sooner than the server asked", edit(3, `"seed":"42"`, `"hint":"1s","seed":"42"`), 3, "its hint 1s"},
		{"success of a failure", edit(9, "attempts_exhausted", "success"), 9, "the attempt failed: connection refused"},
		{"failure of a success", edit(8, `"err":"connection refused",`, ``), 9, "the attempt did not fail"},
		{"no reason", edit(9, `,"reason":"attempts_exhausted"`, ``), 9, `"" is no reason to stop`},
		{"retry is no reason", edit(9, "attempts_exhausted", "retry"), 9, `"retry" is no reason to stop`},
		{"exhausted in a sleep", strings.Join(append(lines[:6:6], edit(9, `"attempt":3`, `"attempt":2`)[strings.LastIndex(log[:len(log)-1], "\n")+1:]), "\n"), 7, "only its context ends a call between two attempts"},
		{"exhausted before it began", `{"key":"k","kind":"stopped","time":"2000-01-01T00:00:00Z","attempt":0,"max":3,"reason":"attempts_exhausted"}`, 1, "no attempt has begun"},
		{"a retry beyond max", edit(3, `"max":3`, `"max":1`), 3, "its max is 1, that of its call 3"},
		{"no max", `{"key":"k","kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":0}`, 1, "its max is 0"},
		{"it took less than nothing", edit(2, `"took":"30ms"`, `"took":"-30ms"`), 2, "it took -30ms"},
		{"due at another time", edit(3, `"due":"2000`, `"due":"2001`), 3, "it is due 2001"},
		{"invalid without a fault", edit(9, "attempts_exhausted", "invalid"), 9, "its reason is invalid, and its error <nil>"},
		{"a fault of a policy that is valid", edit(9, `"elapsed"`, `"err":"fault","elapsed"`), 9, "its error fault"},
		{"after empty lines", "\n\n" + lines[0] + "\n\n" + lines[2], 5, "it follows attempt 1 of 3 started"},
	} {
		t.Run(row.name, func(t *testing.T) {
			records, err := retrylog.Read(strings.NewReader(row.log))
			require.NoError(t, err)
			calls, err := retrylog.Replay(records)
			require.Error(t, err)
			assert.Contains(t, err.Error(), fmt.Sprintf("retrylog: line %d: ", row.line))
			assert.Contains(t, err.Error(), row.says)
			disorder := strings.HasPrefix(row.says, "it belongs") || strings.HasPrefix(row.says, "it follows") || strings.HasPrefix(row.says, "it is of")
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
		require.ErrorContains(t, err, "its max is 1")
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
	t.Run("after the longest delay", func(t *testing.T) {
		var records []retrylog.Record
		for _, e := range []retry.Event{
			{Kind: retry.AttemptStarted, Attempt: 1},
			{Kind: retry.AttemptFinished, Attempt: 1, Err: errRefused, Elapsed: 1},
			{Kind: retry.RetryScheduled, Attempt: 1, Elapsed: 1, Delay: math.MaxInt64},
			{Kind: retry.AttemptStarted, Attempt: 2, Elapsed: time.Hour},
		} {
			e.Time, e.Max = time.Unix(0, 0).UTC(), retry.Unlimited
			if e.Kind == retry.RetryScheduled {
				e.Due = e.Time.Add(e.Delay)
			}
			records = append(records, retrylog.Record{Event: e})
		}
		_, err := retrylog.Replay(records)
		require.ErrorContains(t, err, "line 4: attempt 2 started cannot have happened: it was due 2562046h47m16.854775807s later")
	})
	t.Run("records that were not read count from 1", func(t *testing.T) {
		_, err := retrylog.Replay([]retrylog.Record{{Event: retry.Event{Kind: retry.AttemptFinished, Attempt: 1}}})
		require.ErrorContains(t, err, "line 1")
	})
}

func TestReadRejects(t *testing.T) {
	good := `{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}`
	for _, row := range []struct{ name, log, says string }{
		{"no JSON", "nonsense\n" + good, "line 1"},
		{"after an empty line", good + "\n\nnonsense\n" + good, "line 3"},
		{"unknown kind", good + "\n" + strings.Replace(good, "attempt_started", "begun", 1) + "\n", `"begun" is no EventKind`},
		{"unknown reason", `{"kind":"stopped","reason":"bored"}` + "\n", `"bored" is no Reason`},
		{"a bare number for a duration", strings.Replace(good, `"max":3`, `"max":3,"elapsed":5`, 1) + "\n", "line 1"},
		{"a key that is no text", `{"key":5}` + "\n", "line 1"},
		{"wrong within, and not cut off", strings.Replace(good, `3`, `3,,`, 1) + "\n" + good, "line 1: invalid character ','"},
		{"wrong within, and a record behind it", strings.Replace(good, `"max":3`, `"max":3,,`, 1) + good, "line 1: invalid character ','"},
		{"more than a record", good + "\n" + good + "}", "line 2: invalid character '}'"},
		{"an object without a kind", good + "\n{}", "line 2: the event has no kind: write one, such as \"attempt_started\""},
		{"null", "null", "line 1: the event has no kind"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := retrylog.Read(strings.NewReader(row.log))
			require.ErrorContains(t, err, "retrylog: line")
			require.ErrorContains(t, err, row.says)
			require.NotErrorIs(t, err, retrylog.ErrCutOff)
		})
	}
	t.Run("a reader that fails", func(t *testing.T) {
		records, err := retrylog.Read(io.MultiReader(strings.NewReader(good+"\n"), iotest.ErrReader(errRefused)))
		require.ErrorIs(t, err, errRefused)
		require.Len(t, records, 1)
	})
	t.Run("nothing", func(t *testing.T) {
		records, err := retrylog.Read(strings.NewReader(""))
		require.NoError(t, err)
		require.Empty(t, records)
	})
}

func TestCheckFindsAnotherPolicy(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing(errRefused, errRefused, errRefused))
	call := replay(t, log)[0]
	for _, row := range []struct {
		name   string
		change func(*retry.Policy)
		says   string
	}{
		{"another limit", func(p *retry.Policy) { p.MaxAttempts = 4 }, "line 1: max is 3, and the policy says 4"},
		{"another base", func(p *retry.Policy) { p.Backoff = retry.Exponential{Base: 100 * time.Millisecond} }, "line 3: attempt 1 is retried in 219.325191ms"},
		{"another jitter", func(p *retry.Policy) { p.Jitter = retry.Proportional(0.1) }, "line 3"},
		{"no jitter", func(p *retry.Policy) { p.Jitter = nil }, "and the policy says in 200ms"},
		{"a lower cap", func(p *retry.Policy) { p.MaxDelay = 300 * time.Millisecond }, "line 6"},
		{"a bound on time", func(p *retry.Policy) { p.MaxElapsed = 300 * time.Millisecond }, "line 6: attempt 2 is retried in"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := policy
			row.change(&p)
			assert.ErrorContains(t, call.Check(p), row.says)
		})
	}
	t.Run("another seed", func(t *testing.T) {
		records, err := retrylog.Read(strings.NewReader(strings.Replace(log, `"seed":"42"`, `"seed":"43"`, 1)))
		require.NoError(t, err)
		calls, err := retrylog.Replay(records)
		require.NoError(t, err)
		assert.ErrorContains(t, calls[0].Check(policy), "line 3")
	})
	t.Run("a stop that the policy does not say", func(t *testing.T) {
		for _, reason := range []string{"not_retryable", "elapsed", "budget_exhausted", "rejected"} {
			records, err := retrylog.Read(strings.NewReader(strings.Replace(log, "attempts_exhausted", reason, 1)))
			require.NoError(t, err)
			calls, err := retrylog.Replay(records)
			require.NoError(t, err)
			assert.ErrorContains(t, calls[0].Check(policy), "line 9", reason)
		}
	})
}

// What a log does not tell is not held against it.
func TestCheckAllows(t *testing.T) {
	for _, row := range []struct {
		name     string
		recorded func(*retry.Policy)
		checked  func(*retry.Policy) // beside that
	}{
		{"RetryIf that needs the error itself", func(*retry.Policy) {}, func(p *retry.Policy) {
			p.RetryIf = func(err error) bool { return errors.Is(err, errRefused) }
		}},
		{"a decision that took longer than MaxElapsed leaves", func(p *retry.Policy) {
			p.MaxElapsed = time.Second
			p.RetryIf = func(error) bool { time.Sleep(800 * time.Millisecond); return true }
			p.MaxAttempts = 2
		}, func(*retry.Policy) {}},
		{"it draws nothing from Source", func(*retry.Policy) {}, func(p *retry.Policy) { p.Source = panicking{} }},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := policy
			row.recorded(&p)
			call := replay(t, logOf(t, context.Background(), p, failing(errRefused, errRefused, errRefused)))[0]
			require.Equal(t, retry.ReasonExhausted, call.Reason)
			row.checked(&p)
			assert.NoError(t, call.Check(p))
		})
	}
}

type panicking struct{}

func (panicking) Uint64() uint64 { panic("Source is drawn from") }

// A reason that the order of reasons, or the policy, rules out.
func TestCheckFindsAStopForAnotherReason(t *testing.T) {
	all := policy // may stop for each of them
	all.MaxElapsed, all.Budget, all.RetryIf = time.Hour, retry.NewBudget(1, 0), func(error) bool { return false }
	invalid := retry.Policy{MaxAttempts: -2, RetryIf: all.RetryIf}
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
		{retry.ReasonBudget, policy, 1, false},
		{retry.ReasonRetryAfter, policy, 1, true},
		{retry.ReasonRetryAfter, policy, 3, false},
		{retry.ReasonRejected, all, 1, true},
		{retry.ReasonRejected, policy, 1, false},
		{retry.ReasonRejected, invalid, 1, false},
		{retry.ReasonExhausted, policy, 1, false},
		{retry.ReasonNonRetryable, policy, 1, false},
		{retry.ReasonInvalid, policy, 1, false},
		{retry.ReasonInvalid, invalid, 1, true},
		{retry.ReasonPermanent, policy, 1, true},
		{retry.ReasonPermanent, invalid, 1, false},
		{retry.ReasonCanceled, invalid, 1, false},
		{retry.ReasonCanceled, invalid, 0, false},
		{retry.ReasonInvalid, invalid, 0, true},
		{retry.ReasonInvalid, policy, 0, true}, // its fn was nil
	} {
		t.Run(fmt.Sprintf("%v after %d attempts of %v", row.reason, row.attempts, row.policy), func(t *testing.T) {
			now := time.Unix(0, 0)
			limit := row.policy.EffectiveMax()
			var records []retrylog.Record
			add := func(e retry.Event) {
				e.Time, e.Max = now, limit
				e.Elapsed = e.Time.Sub(time.Unix(0, 0))
				if e.Kind == retry.RetryScheduled {
					e.Due = now.Add(e.Delay)
					now = e.Due
				}
				records = append(records, retrylog.Record{Event: e})
			}
			for n := 1; n <= row.attempts; n++ {
				add(retry.Event{Kind: retry.AttemptStarted, Attempt: n})
				add(retry.Event{Kind: retry.AttemptFinished, Attempt: n, Err: errRefused})
				if n < row.attempts {
					add(retry.Event{Kind: retry.RetryScheduled, Attempt: n, Seed: 42, Delay: row.policy.Next(retry.Attempt{Number: n, Seed: 42}).Delay})
				}
			}
			stopped := retry.Event{Kind: retry.Stopped, Attempt: row.attempts, Reason: row.reason}
			if row.reason == retry.ReasonInvalid {
				stopped.Err = errors.New("fault")
			}
			add(stopped)
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

// An invalid policy says so even where its one attempt succeeds.
func TestCheckOfAnInvalidPolicy(t *testing.T) {
	invalid := retry.Policy{MaxAttempts: -2}
	once := replay(t, logOf(t, context.Background(), retry.Policy{}, failing()))[0]
	assert.NoError(t, once.Check(retry.Policy{}))
	assert.ErrorContains(t, once.Check(invalid), "line 3: stopped after 1 attempt: it succeeded, and the policy says invalid")

	fault := replay(t, logOf(t, context.Background(), invalid, failing()))[0]
	assert.NoError(t, fault.Check(invalid))
	assert.ErrorContains(t, fault.Check(retry.Policy{}), "and the policy says attempts_exhausted")
}

// A call that is wrong itself ends as one whose policy is not valid.
func TestCheckOfAnInvalidCall(t *testing.T) {
	for name, call := range map[string]func(context.Context, retry.Policy){
		"nil function":              func(ctx context.Context, p retry.Policy) { _ = retry.Do(ctx, p, nil) },
		"nil function with a value": func(ctx context.Context, p retry.Policy) { _, _ = retry.DoValue[int](ctx, p, nil) },
		"a body that assigns nothing": func(ctx context.Context, p retry.Policy) {
			for range retry.Loop(ctx, p, new(error)) {
				continue
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var recorder retrylog.Recorder
			p := policy
			p.OnEvent = recorder.OnEvent
			call(context.Background(), p)
			calls, err := retrylog.Replay(recorder.Records())
			require.NoError(t, err)
			require.Len(t, calls, 1)
			assert.Equal(t, retry.ReasonInvalid, calls[0].Reason)
			assert.NoError(t, calls[0].Check(policy))
			assert.NotContains(t, retrylog.Explain(calls[0].Records), "succeeded")
		})
	}
}

func TestCheckOfNothing(t *testing.T) {
	assert.NoError(t, retrylog.Call{}.Check(policy))
}

// A Recorder takes events of any number of calls, and what it has handed out
// is the caller's.
func TestRecorderIsShared(t *testing.T) {
	var recorder retrylog.Recorder
	p := retry.Policy{MaxAttempts: 5, OnEvent: recorder.OnEvent}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			_ = retry.Do(retrylog.WithKey(context.Background(), fmt.Sprint(i)), p, func(context.Context) error {
				recorder.Records()
				return errRefused
			})
		})
	}
	wg.Wait()
	records := recorder.Records()
	require.Len(t, records, 50*15)
	calls, err := retrylog.Replay(records)
	require.NoError(t, err)
	require.Len(t, calls, 50)

	key := records[0].Key
	records[0].Key = "another"
	assert.Equal(t, key, recorder.Records()[0].Key)
}

type brokenWriter struct{ after int }

func (b *brokenWriter) Write(p []byte) (int, error) {
	if b.after--; b.after < 0 {
		return 0, errRefused
	}
	return len(p), nil
}

func TestWriterKeepsItsFirstError(t *testing.T) {
	broken := &brokenWriter{after: 2}
	w := retrylog.NewWriter(broken)
	p := policy
	p.Backoff, p.OnEvent = nil, w.OnEvent
	require.Error(t, retry.Do(context.Background(), p, func(context.Context) error { return errRefused }))
	assert.EqualError(t, w.Err(), "retrylog: connection refused")
	assert.Equal(t, -1, broken.after, "nothing is written after an error")
}

func TestRecordRoundTrip(t *testing.T) {
	for _, key := range []string{"", "17", `"{}`, "a\nb"} {
		record := retrylog.Record{Key: key, Event: retry.Event{Kind: retry.Stopped, Time: time.Unix(7, 0).UTC(), Attempt: 1, Max: 2, Reason: retry.ReasonLeft}}
		data, err := json.Marshal(record)
		require.NoError(t, err)
		back := retrylog.Record{Key: "before", Line: 9}
		require.NoError(t, json.Unmarshal(data, &back))
		assert.Equal(t, record, back)
		assert.Equal(t, key != "", bytes.HasPrefix(data, []byte(`{"key":`)))
	}
	_, err := json.Marshal(retrylog.Record{Event: retry.Event{Kind: 99}})
	assert.Error(t, err)
}

func FuzzReadAndReplay(f *testing.F) {
	f.Add([]byte(`{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}` + "\n" + `{"kind":"stopped"}`))
	f.Add([]byte(`{"key":"a","kind":"stopped","attempt":0,"max":-1,"reason":"canceled"}`))
	f.Add([]byte(strings.Repeat(`{"key":`, 100) + "{" + strings.Repeat("\x00", 100) + `{"kind":"stopped"}{}`))
	f.Fuzz(func(t *testing.T, log []byte) {
		records, _ := retrylog.Read(bytes.NewReader(log))
		calls, _ := retrylog.Replay(records)
		for _, c := range calls {
			_ = c.Check(policy)
			_ = c.Waited()
		}
		_ = retrylog.Explain(records)
	})
}

func TestSlogGolden(t *testing.T) {
	for _, row := range []struct {
		name string
		errs []error
		want string
	}{
		{"gives up", []error{errRefused, retry.After(time.Second, errRefused), errRefused}, `level=DEBUG msg="attempt started" key=17 attempt=1 max=3 elapsed_ms=0
level=WARN msg="attempt failed" key=17 attempt=1 max=3 elapsed_ms=30 took_ms=30 err="connection refused"
level=WARN msg="retry scheduled" key=17 attempt=1 max=3 elapsed_ms=30 delay_ms=219.325191 due=2000-01-01T00:00:00.249Z
level=DEBUG msg="attempt started" key=17 attempt=2 max=3 elapsed_ms=249.325191
level=WARN msg="attempt failed" key=17 attempt=2 max=3 elapsed_ms=279.325191 took_ms=30 err="connection refused"
level=WARN msg="retry scheduled" key=17 attempt=2 max=3 elapsed_ms=279.325191 delay_ms=1063.964157 due=2000-01-01T00:00:01.343Z hint_ms=1000
level=DEBUG msg="attempt started" key=17 attempt=3 max=3 elapsed_ms=1343.289348
level=WARN msg="attempt failed" key=17 attempt=3 max=3 elapsed_ms=1373.289348 took_ms=30 err="connection refused"
level=ERROR msg="gave up" key=17 attempt=3 max=3 elapsed_ms=1373.289348 reason=attempts_exhausted
`},
		{"succeeds after retries", []error{errRefused}, `level=DEBUG msg="attempt started" key=17 attempt=1 max=3 elapsed_ms=0
level=WARN msg="attempt failed" key=17 attempt=1 max=3 elapsed_ms=30 took_ms=30 err="connection refused"
level=WARN msg="retry scheduled" key=17 attempt=1 max=3 elapsed_ms=30 delay_ms=219.325191 due=2000-01-01T00:00:00.249Z
level=DEBUG msg="attempt started" key=17 attempt=2 max=3 elapsed_ms=249.325191
level=DEBUG msg="attempt succeeded" key=17 attempt=2 max=3 elapsed_ms=279.325191 took_ms=30
level=INFO msg="succeeded after retries" key=17 attempt=2 max=3 elapsed_ms=279.325191 reason=success
`},
		{"succeeds at once", nil, `level=DEBUG msg="attempt started" key=17 attempt=1 max=3 elapsed_ms=0
level=DEBUG msg="attempt succeeded" key=17 attempt=1 max=3 elapsed_ms=30 took_ms=30
level=DEBUG msg=succeeded key=17 attempt=1 max=3 elapsed_ms=30 reason=success
`},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
			synctest.Test(t, func(t *testing.T) {
				p := policy
				p.OnEvent = retrylog.Slog(logger)
				_ = retry.Do(retrylog.WithKey(context.Background(), "17"), p, failing(row.errs...))
			})
			assert.Equal(t, row.want, out.String())
		})
	}
}

func TestSlogLevelsOfOtherEnds(t *testing.T) {
	for reason, want := range map[retry.Reason]string{
		retry.ReasonLeft:      "level=INFO msg=left",
		retry.ReasonCanceled:  "level=WARN msg=canceled",
		retry.ReasonDeadline:  `level=ERROR msg="gave up"`,
		retry.ReasonInvalid:   `level=ERROR msg="not valid"`,
		retry.ReasonPermanent: `level=ERROR msg="gave up"`,
	} {
		var out bytes.Buffer
		retrylog.Slog(slog.New(slog.NewTextHandler(&out, nil)))(context.Background(), retry.Event{Kind: retry.Stopped, Reason: reason})
		assert.Contains(t, out.String(), want)
	}
}

func TestSlogInvalidPolicyAndNoKey(t *testing.T) {
	var out bytes.Buffer
	p := retry.Policy{MaxAttempts: -2, OnEvent: retrylog.Slog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))}
	require.NoError(t, retry.Do(context.Background(), p, failing()))
	assert.Contains(t, out.String(), `level=ERROR msg="not valid" attempt=1 max=1`)
	assert.Contains(t, out.String(), `reason=invalid err="invalid policy: MaxAttempts is -2`)
	assert.NotContains(t, out.String(), "key=")
}

// The error is logged as it is, for handlers that look into it.
func TestSlogKeepsTheError(t *testing.T) {
	var got any
	logger := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "err" {
			got = a.Value.Any()
		}
		return a
	}}))
	require.Error(t, retry.Do(context.Background(), retry.Policy{OnEvent: retrylog.Slog(logger)}, failing(errRefused)))
	assert.Equal(t, errRefused, got)
}

func TestSlogNilIsTheDefaultLogger(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	p := retry.Policy{OnEvent: retrylog.Slog(nil)}
	require.Error(t, retry.Do(context.Background(), p, failing(errRefused)))
	assert.Contains(t, out.String(), "gave up")
}
