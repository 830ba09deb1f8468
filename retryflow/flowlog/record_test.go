package flowlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/flowlog"
	"github.com/goretry/retry/retrylog"
	"github.com/goretry/retry/retrytest"
)

var errRefused = errors.New("connection refused")

// errNoKey is that of a rule that does not match.
var errNoKey = noKey{}

type noKey struct{}

func (noKey) Error() string        { return "no such key" }
func (noKey) Is(target error) bool { return target == retryflow.ErrNoMatch }

var policy = retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: 200 * time.Millisecond}}

func replay(t *testing.T, log string) []retrylog.Call {
	records, err := flowlog.Read(strings.NewReader(log))
	require.NoError(t, err)
	calls, err := retrylog.Replay(records)
	require.NoError(t, err)
	return calls
}

func always(retryflow.Outcome) (bool, error) { return true, nil }

func waiting(d time.Duration) func(retryflow.Outcome) (time.Duration, error) {
	return func(retryflow.Outcome) (time.Duration, error) { return d, nil }
}

// copying is a pipeline that fetches pages and stores them. Page 2 is the last
// one. The first fetch and the second store fail.
func copying() retryflow.Pipeline {
	count := func(s retryflow.State, name string) int {
		n, _ := s[name].(int)
		s[name] = n + 1
		return n + 1
	}
	return retryflow.Pipeline{
		Tasks: []retryflow.Task{
			{Label: "fetch", Run: func(_ context.Context, s retryflow.State) (o retryflow.Outcome) {
				time.Sleep(30 * time.Millisecond)
				if count(s, "fetches") == 1 {
					o.Err = errRefused
				}
				return o
			}, Rules: retryflow.Rules{
				{When: func(retryflow.Outcome) (bool, error) { return false, errNoKey }, Do: retryflow.Break},
				{When: retryflow.IfErr(func(error) bool { return true }), Do: retryflow.Retry, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{}}, Delay: waiting(time.Second)},
			}},
			{Label: "store", Run: func(_ context.Context, s retryflow.State) (o retryflow.Outcome) {
				if o.Result = count(s, "stores"); o.Result == 2 {
					o.Err = errors.New("disk full")
				}
				return o
			}, Rules: retryflow.Rules{
				{When: func(o retryflow.Outcome) (bool, error) { return o.Result == 1, nil }, Do: retryflow.Jump, To: "fetch", Delay: waiting(time.Minute)},
				{Do: retryflow.Continue},
			}},
			{Label: "report", Run: func(context.Context, retryflow.State) retryflow.Outcome { return retryflow.Outcome{} }},
		},
	}
}

// logOfPipeline returns the log of a run in virtual time.
func logOfPipeline(t *testing.T, p retryflow.Pipeline) string {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		w := flowlog.NewWriter(&log)
		p.OnEvent = w.OnPipelineEvent
		_ = p.Run(retrylog.WithKey(context.Background(), "7"), nil)
		assert.NoError(t, w.Err())
	})
	return log.String()
}

func TestReplayAPipeline(t *testing.T) {
	log := logOfPipeline(t, copying())
	records, err := flowlog.Read(strings.NewReader(log))
	require.NoError(t, err)
	assert.Equal(t, `2000-01-01 00:00:00.000Z +0s 7: task fetch: attempt 1 started
2000-01-01 00:00:00.030Z +30ms 7: task fetch: attempt 1 failed after 30ms, rule 1 says retry (rule 0: when: no such key): connection refused
2000-01-01 00:00:00.030Z +30ms 7: task fetch: attempt 1 is retried in 1s, at 00:00:01.030Z (by the curve)
2000-01-01 00:00:01.030Z +1.03s 7: task fetch: attempt 2 started
2000-01-01 00:00:01.060Z +1.06s 7: task fetch: attempt 2 succeeded after 30ms, no rule matches: continue (rule 0: when: no such key)
2000-01-01 00:00:01.060Z +1.06s 7: task fetch: stopped after 2 attempts: continue
2000-01-01 00:00:01.060Z +0s 7: task store: attempt 1 started
2000-01-01 00:00:01.060Z +0s 7: task store: attempt 1 succeeded after 0s, rule 0 says jump to fetch
2000-01-01 00:00:01.060Z +0s 7: task store: jumps to fetch in 1m0s, at 00:01:01.060Z
2000-01-01 00:01:01.060Z +1m0s 7: task store: stopped after 1 attempt: jump to fetch
2000-01-01 00:01:01.060Z +0s 7: task fetch: attempt 1 started
2000-01-01 00:01:01.090Z +30ms 7: task fetch: attempt 1 succeeded after 30ms, no rule matches: continue (rule 0: when: no such key)
2000-01-01 00:01:01.090Z +30ms 7: task fetch: stopped after 1 attempt: continue
2000-01-01 00:01:01.090Z +0s 7: task store: attempt 1 started
2000-01-01 00:01:01.090Z +0s 7: task store: attempt 1 failed after 0s, rule 1 says continue: disk full
2000-01-01 00:01:01.090Z +0s 7: task store: stopped after 1 attempt: continue
2000-01-01 00:01:01.090Z +0s 7: task report: attempt 1 started
2000-01-01 00:01:01.090Z +0s 7: task report: attempt 1 succeeded after 0s, no rule matches: continue
2000-01-01 00:01:01.090Z +0s 7: task report: stopped after 1 attempt: continue
`, retrylog.Explain(records))
	calls := replay(t, log)
	require.Len(t, calls, 5)
	for i, task := range []string{"fetch", "store", "fetch", "store", "report"} {
		assert.Equal(t, "7", calls[i].Key)
		assert.Equal(t, task, calls[i].Task)
		assert.Equal(t, retry.ReasonSuccess, calls[i].Reason)
	}
	assert.True(t, calls[1].Attempts[0].Scheduled)
	assert.Equal(t, time.Minute, calls[1].Attempts[0].Delay)
	assert.EqualError(t, calls[3].Attempts[0].Err, "disk full")
	assert.EqualError(t, calls[0].Check(policy), "retrylog: line 1: task fetch: attempt 1 started, and it is of a pipeline: use flowlog.CheckPipeline")

	var line bytes.Buffer
	flowlog.NewWriter(&line).OnPipelineEvent(t.Context(), retryflow.Event{Event: retry.Event{Kind: retry.CallFinished, Attempt: 2, Decision: retry.Decision{Reason: retry.ReasonNonRetryable}, Err: errRefused}, Task: "a\nb", Rule: 1, Directive: retryflow.Fail})
	written, err := flowlog.Read(&line)
	require.NoError(t, err)
	assert.Equal(t, "+0s task a; b: stopped after 2 attempts: the rules do not retry it: connection refused",
		written[0].String())
}

// A log may also have the calls of policies, and retrylog reads the events of
// pipelines as events.
func TestALogOfPipelinesAndPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := flowlog.NewWriter(&log)
		inner := policy
		inner.OnEvent = w.OnEvent
		ctx := retrylog.WithKey(t.Context(), "7")
		p := retryflow.Pipeline{Tasks: []retryflow.Task{{Label: "call", Run: func(ctx context.Context, _ retryflow.State) retryflow.Outcome {
			return retryflow.Outcome{Err: retry.Do(retrylog.WithKey(ctx, "inner"), inner, func(context.Context) error { return errRefused })}
		}}}}
		p.OnEvent = w.OnPipelineEvent
		require.Error(t, p.Run(ctx, nil))
		require.NoError(t, w.Err())

		records, err := flowlog.Read(bytes.NewReader(log.Bytes()))
		require.NoError(t, err)
		var again bytes.Buffer
		for _, r := range records {
			require.NoError(t, json.NewEncoder(&again).Encode(r))
		}
		assert.Equal(t, log.String(), again.String())
		events := flowlog.PipelineEvents(records, "7")
		require.Len(t, events, 3)
		assert.Equal(t, []string{"call", "call", "call"}, []string{events[0].Task, events[1].Task, events[2].Task})
		assert.Equal(t, records[0].Event, events[0].Event)
		assert.Empty(t, flowlog.PipelineEvents(records, ""))
		calls := replay(t, log.String())
		require.Len(t, calls, 2)
		assert.Equal(t, []string{"call", ""}, []string{calls[0].Task, calls[1].Task})
		assert.NoError(t, flowlog.CheckPipeline(calls[0], p))
		assert.NoError(t, calls[1].Check(policy))
		assert.ErrorContains(t, flowlog.CheckPipeline(calls[1], p), "it is of no pipeline: use Check")
		assert.Len(t, calls[1].Records, 9)
		assert.Len(t, calls[1].Attempts, 3)

		plain, err := retrylog.Read(&log)
		require.NoError(t, err)
		require.Len(t, plain, len(records))
		for i, r := range records {
			r.Flow = nil
			assert.Equal(t, r, plain[i])
		}
	})
}

func TestRead(t *testing.T) {
	const line = `{"kind":"attempt_finished","time":"2000-01-01T00:00:00Z","attempt":1,"max":3,"task":"a","rule":0,"directive":"jump","to":"b","computed":"1s"}`
	for _, row := range []struct{ name, old, new, says string }{
		{"of the event", `"max":3`, `"max":"x"`, "retrylog: line 1: max is"},
		{"of the pipeline", `"1s"`, `"1"`, `retrylog: line 1: retryflow: event: computed is "1": write a duration`},
		{"no kind", `"kind":"attempt_finished",`, ``, "retrylog: line 1: the event has no kind, attempt or max"},
	} {
		_, err := flowlog.Read(strings.NewReader(strings.Replace(line, row.old, row.new, 1)))
		assert.ErrorContains(t, err, row.says, row.name)
	}
	records, err := flowlog.Read(strings.NewReader(line + "\n" + strings.Replace(line, `"rule":0,`, "", 1)))
	require.NoError(t, err)
	assert.NotNil(t, records[0].Flow)
	assert.Nil(t, records[1].Flow, "a record may have keys that are not from an event: a task without a rule is of no pipeline")
}

// A log of a newer version has kinds, reasons, directives and keys that this one does
// not know.
func TestALogOfANewerVersion(t *testing.T) {
	const log = `{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":-1,"task":"a","rule":-1,"zone":{"task":"x"}}
{"kind":"attempt_paused","time":"2000-01-01T00:00:00Z","attempt":1,"max":-1,"task":"a","rule":-1,"pause":"1s"}
{"kind":"attempt_finished","time":"2000-01-01T00:00:00Z","attempt":1,"max":-1,"err":"refused","task":"a","rule":0,"directive":"fork","to":"b"}
{"kind":"retry_scheduled","time":"2000-01-01T00:00:00Z","attempt":1,"max":-1,"err":"refused","delay":"1s","due":"2000-01-01T00:00:01Z","task":"a","rule":0,"directive":"fork","to":"b"}
{"kind":"call_finished","time":"2000-01-01T00:00:01Z","attempt":1,"max":-1,"elapsed":"1s","err":"refused","cause":"no fork","reason":"bored","task":"a","rule":0,"directive":"fork","to":"b"}
`
	calls := replay(t, log)
	require.Len(t, calls, 1)
	assert.Equal(t, retry.Reason("bored"), calls[0].Reason)
	assert.Equal(t, `2000-01-01 00:00:00.000Z +0s task a: attempt 1 started
2000-01-01 00:00:00.000Z +0s task a: attempt 1 failed after 0s, rule 0 says fork: refused
2000-01-01 00:00:00.000Z +0s task a: attempt 1 is retried in 1s, at 00:00:01.000Z (by the curve)
2000-01-01 00:00:01.000Z +1s task a: stopped after 1 attempt: bored (no fork)
`, retrylog.Explain(calls[0].Records), "without the event of a kind that is not known")

	success := strings.NewReplacer(`"err":"refused",`, "", `"cause":"no fork",`, "", "bored", "success").Replace(log)
	assert.Equal(t, retry.ReasonSuccess, replay(t, success)[0].Reason)
}

func TestReplayFindsWhatCannotHappenInAPipeline(t *testing.T) {
	log := logOfPipeline(t, copying())
	lines := strings.SplitAfter(log, "\n")
	faultOf := func(log string) error {
		records, err := flowlog.Read(strings.NewReader(log))
		require.NoError(t, err)
		_, err = retrylog.Replay(records)
		return err
	}
	for _, row := range []struct {
		name     string
		line     int
		old, new string
		says     string
	}{
		{"another task", 2, `"task":"fetch"`, `"task":"store"`, `its task is "store", but "fetch" in the event before`},
		{"a task without a label", 1, `"task":"fetch"`, `"task":""`, "its task has no label"},
		{"no task in the middle", 2, `"task":"fetch",`, "", `its task is "", but "fetch"`},
		{"a decision before the attempt", 4, `"rule":-1`, `"rule":1`, "attempt_started comes before a decision"},
		{"no decision after it", 2, `,"directive":"retry"`, "", "it has no directive"},
		{"a retry by another rule", 3, `"rule":1`, `"rule":0`, "its rule, directive, to, limit or computed differs from the event before"},
		{"a retry of a task that continues", 3, `"directive":"retry"`, `"directive":"continue"`, `directive is "continue", which waits for nothing`},
		{"a jump without a target", 9, `,"to":"fetch"`, "", `directive is "jump", and to is ""`},
		{"a retry with a target", 3, `"directive":"retry"`, `"directive":"retry","to":"x"`, `directive is "retry", and to is "x"`},
		{"a jump after another wait", 9, `"computed":"1m0s"`, `"computed":"2m0s"`, "delay is 1m0s, but the rule computed 2m0s"},
		{"a jump to another task", 10, `"to":"fetch"`, `"to":"store"`, "differs from the event before"},
		{"a jump that is exhausted", 10, `"success"`, `"attempts_exhausted"`, "reason is attempts_exhausted, but the rules say that the task is done"},
		{"a task that continues after a success, canceled", 6, `"success"`, `"canceled"`, "the attempt did not fail"},
		{"a task that continues after a failure, exhausted", 16, `"success"`, `"attempts_exhausted"`, "reason is attempts_exhausted, but the rules say that the task is done"},
		{"a wait for a jump, and a rule that fails", 10, `"success"`, `"not_retryable"`, "only the caller, a limit of time or the wait can end a call between two attempts"},
		{"a jump of a failure with the error of another", 9, `"task"`, `"err":"x","task"`, `its error is "x", but "<nil>" in the event before`},
	} {
		t.Run(row.name, func(t *testing.T) {
			changed := append([]string{}, lines...)
			require.Contains(t, changed[row.line-1], row.old)
			changed[row.line-1] = strings.Replace(changed[row.line-1], row.old, row.new, 1)
			err := faultOf(strings.Join(changed, ""))
			require.ErrorContains(t, err, row.says)
			assert.ErrorContains(t, err, fmt.Sprintf("retrylog: line %d: ", row.line))
		})
	}
	t.Run("a task that jumps and is retried", func(t *testing.T) {
		next := strings.NewReplacer(`"attempt":1`, `"attempt":2`, "attempt_finished", "attempt_started", `"rule":0,"directive":"jump","to":"fetch","computed":"1m0s"`, `"rule":-1`).Replace(lines[7])
		assert.ErrorContains(t, faultOf(strings.Join(lines[6:9], "")+next), "the rules say jump to fetch, and not to retry")
	})
	t.Run("a retry that was not written", func(t *testing.T) {
		next := strings.NewReplacer(`"attempt":2`, `"attempt":3`, `"elapsed":"1.03s"`, `"elapsed":"1h0m0s"`).Replace(lines[3])
		require.Contains(t, next, `"elapsed":"1h0m0s"`)
		failed := strings.Replace(lines[4], `"task"`, `"err":"x","task"`, 1)
		require.Contains(t, failed, `"directive":"continue"`)
		for directive, says := range map[string]string{"continue": "the rules say continue, and not to retry", "fail": "the rules say fail, and not to retry", "retry": "", "pause": ""} {
			if err := faultOf(lines[3] + strings.Replace(failed, "continue", directive, 1) + next); says == "" {
				assert.NoError(t, err, directive)
			} else {
				assert.ErrorContains(t, err, says)
			}
		}
		assert.NoError(t, faultOf(lines[3]+next), "a log does not say that it is of no queue")
	})
}

func TestCheckPipeline(t *testing.T) {
	none := func(*retryflow.Pipeline) {}
	failing := func(p *retryflow.Pipeline) {
		p.Tasks[0].Run = func(context.Context, retryflow.State) retryflow.Outcome { return retryflow.Outcome{Err: errRefused} }
	}
	early := func(p *retryflow.Pipeline) {
		p.Policy.Wait = func(context.Context, time.Duration) (time.Duration, error) {
			time.Sleep(time.Millisecond)
			return 0, nil
		}
	}
	broken := func(p *retryflow.Pipeline) {
		p.Policy.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, errors.New("no link") }
		p.Tasks = p.Tasks[1:]
		p.Tasks[0].Rules[0].To = "store"
	}
	noWait := func(p *retryflow.Pipeline) { p.Policy.Wait = nil }
	for _, row := range []struct {
		name     string
		made     func(*retryflow.Pipeline)
		old, new string                    // in the log
		checked  func(*retryflow.Pipeline) // changes the pipeline before Check
		call     int
		says     string
	}{
		{"another limit", none, "", "", func(p *retryflow.Pipeline) { p.Policy.MaxAttempts = 9 }, 0, "line 1: max is -1, and the pipeline says 9"},
		{"another task", none, "", "", func(p *retryflow.Pipeline) { p.Tasks[2].Label = "print" }, 4,
			"line 17: task report: attempt 1 started, and the pipeline does not have that task"},
		{"no rules", none, "", "", func(p *retryflow.Pipeline) { p.Tasks[0].Rules = nil }, 0,
			"line 2: task fetch: attempt 1 failed after 30ms, rule 1 says retry (rule 0: when: no such key), and the task has 0 rules"},
		{"another directive", none, "", "", func(p *retryflow.Pipeline) {
			p.Tasks[0].Rules[1] = retryflow.Rule{When: always, Do: retryflow.Break}
		}, 0, "rule 1 says break"},
		{"another target", none, "", "", func(p *retryflow.Pipeline) { p.Tasks[1].Rules[0].To = "report" }, 1, "rule 0 says jump to report"},
		{"another delay", none, "", "", func(p *retryflow.Pipeline) {
			p.Tasks[0].Rules[1].Policy.Backoff, p.Tasks[0].Rules[1].Delay = retry.Fixed(2*time.Second), nil
		}, 0, "line 3: task fetch: attempt 1 is retried in 1s, at 00:00:01.030Z (by the curve), and the policy says in 2s"},
		{"fewer attempts", none, "", "", func(p *retryflow.Pipeline) { p.Tasks[0].Rules[1].Policy.MaxAttempts = 1 }, 0, "the policy says to stop (attempts_exhausted)"},
		{"another bound on time", none, "", "", func(p *retryflow.Pipeline) { p.Policy.MaxElapsed = time.Second }, 0,
			"line 3: task fetch: attempt 1 is retried in 1s, at 00:00:01.030Z (by the curve), and the policy says to stop (elapsed)"},
		{"an invalid one", none, "", "", func(p *retryflow.Pipeline) { p.MaxJumps = -1 }, 0, "retrylog: retryflow: invalid pipeline"},
		{"a stop that the rules do not allow", failing, "attempts_exhausted", "budget_exhausted", none, 0, "and the policy says attempts_exhausted"},
		{"another one, by code that a pipeline has not", failing, "attempts_exhausted", "rejected", none, 0, "and the policy says attempts_exhausted"},
		{"no Wait, before a jump", early, "", "", noWait, 1,
			"line 10: task store: stopped after 1 attempt: jump to fetch, and that is 59.999s before it was due, but the policy has no Wait"},
		{"no Wait that could fail", broken, "", "", noWait, 0, "stopped after 1 attempt: the wait failed (no link), and the policy says"},
		{"a rule that cannot fail", none, `"success","task":"store","rule":1`, `"not_retryable","task":"store","rule":1`, none, 3,
			"line 16: task store: stopped after 1 attempt: the rules do not retry it, and rule 1 has no function that can fail"},
		{"a task without a rule", none, `"rule":1,"directive":"retry"`, `"rule":-1,"directive":"retry"`, none, 0, "without a rule a task cannot retry"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := copying()
			row.made(&p)
			log := logOfPipeline(t, p)
			require.NoError(t, flowlog.CheckPipeline(replay(t, log)[row.call], p))
			require.Contains(t, log, row.old)
			if row.old != "" {
				log = strings.ReplaceAll(log, row.old, row.new)
			}
			p = copying()
			row.made(&p)
			row.checked(&p)
			assert.ErrorContains(t, flowlog.CheckPipeline(replay(t, log)[row.call], p), row.says)
		})
	}
}

// After a crash at any line, including the middle of the wait before a jump, a
// new process resumes from the log. The log continues and can still be
// replayed.
func TestResumeFromALog(t *testing.T) {
	for n := range 19 {
		synctest.Test(t, func(t *testing.T) {
			ctx := retrylog.WithKey(t.Context(), "7")
			var log bytes.Buffer
			w, p, state := flowlog.NewWriter(&log), copying(), retryflow.State{}
			p.OnEvent = func(ctx context.Context, e retryflow.Event) {
				if w.OnPipelineEvent(ctx, e); strings.Count(log.String(), "\n") == n {
					panic("crash")
				}
			}
			if n > 0 {
				require.PanicsWithValue(t, "crash", func() { _ = p.Run(ctx, state) })
			}
			records, err := flowlog.Read(bytes.NewReader(log.Bytes()))
			require.NoError(t, err)
			p.OnEvent = w.OnPipelineEvent
			require.NoError(t, p.Resume(ctx, state, flowlog.PipelineEvents(records, "7")), "after line %d", n)
			calls := replay(t, log.String())
			for _, c := range calls {
				assert.NoError(t, flowlog.CheckPipeline(c, copying()))
			}
			last := calls[len(calls)-1]
			assert.Equal(t, "report", last.Task)
			if n < 18 { // after that the run has ended, and nothing is left to do
				assert.Equal(t, retry.ReasonSuccess, last.Reason, "after line %d", n)
			}
		})
	}
}

// The log of every pipeline can be replayed and checked.
func TestReplayEveryPipeline(t *testing.T) {
	reasons := map[retry.Reason]int{}
	for i := range 1000 {
		synctest.Test(t, func(t *testing.T) {
			source := rand.New(rand.NewPCG(uint64(i), 16))
			p := anyPipeline(source)
			require.NoError(t, p.Validate())
			ctx := t.Context()
			if source.IntN(3) == 0 {
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, time.Duration(source.IntN(20))*time.Second)
				defer cancel()
			}
			if source.IntN(4) == 0 {
				ctx = retry.WithBudget(ctx, &retry.Budget{Size: source.IntN(3)})
			}
			var log bytes.Buffer
			p.OnEvent = flowlog.NewWriter(&log).OnPipelineEvent
			_ = p.Run(ctx, nil)
			records, err := flowlog.Read(&log)
			require.NoError(t, err)
			calls, err := retrylog.Replay(records)
			require.NoError(t, err, "%d:\n%s", i, retrylog.Explain(records))
			for _, c := range calls {
				require.NoError(t, flowlog.CheckPipeline(c, p), "%d:\n%s", i, retrylog.Explain(records))
				reasons[c.Reason]++
			}
		})
	}
	for _, reason := range []retry.Reason{
		retry.ReasonSuccess, retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonPermanent, retry.ReasonRetryAfter,
		retry.ReasonElapsed, retry.ReasonDeadline, retry.ReasonBudget, retry.ReasonWait,
	} {
		assert.Positive(t, reasons[reason], reason)
	}
}

// anyPipeline returns a pipeline of two or three tasks with rules of every kind.
func anyPipeline(source *rand.Rand) retryflow.Pipeline {
	p := retryflow.Pipeline{MaxJumps: 1 + source.IntN(4)}
	p.Policy.MaxRetryAfter = 3 * time.Second
	p.Policy.RetryAfter = []retry.RetryAfterMode{retry.RetryAfterSpread, retry.RetryAfterAtLeast, retry.RetryAfterExact}[source.IntN(3)]
	p.Policy.Source = source.Uint64
	if source.IntN(4) == 0 {
		p.Policy.MaxElapsed = time.Duration(1+source.IntN(9)) * time.Second
	}
	if source.IntN(4) == 0 {
		p.Policy.MaxAttempts = 1 + source.IntN(4)
	}
	switch source.IntN(4) {
	case 0:
		p.Policy.Wait = retrytest.NoWait(p.Policy).Wait
	case 1: // returns early, skips, is late, or fails
		p.Policy.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) {
			time.Sleep(time.Duration(source.IntN(1500)) * time.Millisecond)
			if source.IntN(8) == 0 {
				return 0, errors.New("no link")
			}
			return time.Duration(source.Int64N(int64(d) + 1)), nil
		}
	}
	labels := []string{"a", "b", "c"}[:2+source.IntN(2)]
	for _, label := range labels {
		var rules retryflow.Rules
		for range source.IntN(4) {
			rules = append(rules, anyRule(source, labels))
		}
		p.Tasks = append(p.Tasks, retryflow.Task{Label: label, Rules: rules, Run: func(context.Context, retryflow.State) (o retryflow.Outcome) {
			time.Sleep(time.Duration(source.IntN(500)) * time.Millisecond)
			switch source.IntN(9) {
			case 0, 1, 2, 3:
				o.Err = errRefused
			case 5:
				o.Err = retry.After(time.Duration(source.IntN(5))*time.Second, errRefused)
			case 6:
				o.Err = retry.Permanent(errRefused)
			}
			return o
		}})
	}
	return p
}

func anyRule(source *rand.Rand, labels []string) retryflow.Rule {
	r := retryflow.Rule{When: func(retryflow.Outcome) (bool, error) {
		if source.IntN(10) == 0 {
			return false, []error{errNoKey, errNoKey, errRefused}[source.IntN(3)]
		}
		return source.IntN(2) == 0, nil
	}}
	failingSometimes := func() (err error) {
		if source.IntN(6) == 0 {
			err = errors.New("a function of the rule fails")
		}
		return err
	}
	if source.IntN(4) == 0 {
		r.Set = func(retryflow.State, retryflow.Outcome) error { return failingSometimes() }
	}
	switch source.IntN(6) {
	case 0, 1:
		r.Do, r.Policy = retryflow.Retry, retry.Policy{MaxAttempts: 1 + source.IntN(4), Backoff: retry.Linear(time.Second)}
		if source.IntN(2) == 0 {
			r.Policy.Jitter = retry.FullJitter
		}
		if source.IntN(3) == 0 {
			r.Attempts = func(retryflow.Outcome) (int, error) { return 1 + source.IntN(4), failingSometimes() }
		}
	case 2, 3:
		r.Do, r.To = retryflow.Jump, labels[source.IntN(len(labels))]
	default:
		r.Do = []retryflow.Directive{retryflow.Continue, retryflow.Break, retryflow.Fail}[source.IntN(3)]
		return r
	}
	if source.IntN(2) == 0 {
		r.Delay = func(retryflow.Outcome) (time.Duration, error) {
			return time.Duration(source.IntN(4)) * time.Second, failingSometimes()
		}
	}
	return r
}
