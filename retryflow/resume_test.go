package retryflow_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	. "github.com/goretry/retry/retryflow"
)

// A journal keeps the events of a run as lines of JSON, as a log file does.
type journal struct{ lines [][]byte }

func (j *journal) onEvent(_ context.Context, e Event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	j.lines = append(j.lines, line)
}

// upTo returns the first n events, read back from JSON.
func (j *journal) upTo(t *testing.T, n int) []Event {
	events := make([]Event, n)
	for i := range events {
		require.NoError(t, json.Unmarshal(j.lines[i], &events[i]))
	}
	return events
}

// After a crash at any event, the resumed run ends in the same way and at the same time. So
// Resume neither starts a wait again nor shortens it.
func TestResumeAfterEachEvent(t *testing.T) {
	for n := range 18 {
		synctest.Test(t, func(t *testing.T) {
			var log journal
			var last Event
			poll, store := newScript(failure, Outcome{Result: true}, Outcome{Result: true}, success), newScript(success)
			p := Pipeline{MaxJumps: 2, Tasks: []Task{
				{Label: "poll", Run: poll.run, Rules: Rules{
					retrying(5, retry.Fixed(time.Minute)), {When: when(true), Do: Jump, To: "poll", Delay: waits(10 * time.Second)},
				}},
				{Label: "store", Run: store.run},
			}}
			p.OnEvent = func(ctx context.Context, e Event) {
				log.onEvent(ctx, e)
				if last = e; len(log.lines) == n {
					panic("crash")
				}
			}
			if n > 0 {
				require.PanicsWithValue(t, "crash", func() { _ = p.Run(t.Context(), nil) })
			}
			p.OnEvent = nil
			require.NoError(t, p.Resume(t.Context(), nil, log.upTo(t, n)))
			want := []time.Duration{0, time.Minute, 70 * time.Second, 80 * time.Second, 80 * time.Second}
			if last.Kind == retry.AttemptFinished && last.Directive == Retry {
				for i := range want { // the wait was not scheduled before the crash, so the task starts again at once
					want[i] = max(0, want[i]-time.Minute)
				}
			}
			assert.Equal(t, want, append(poll.began, store.began...), "after event %d", n)
			assert.Len(t, store.began, 1)
		})
	}
}

func TestResumeInTheWaitBeforeAJump(t *testing.T) {
	for name, row := range map[string]struct {
		events      int
		sleep, want time.Duration
	}{
		"the process crashed":                    {3, 10 * time.Minute, time.Hour},
		"the context was canceled":               {4, 10 * time.Minute, time.Hour},
		"the wait is over by then":               {3, time.Hour, 80 * time.Minute},
		"canceled, and the wait is over by then": {4, time.Hour, 80 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log journal
			fetch := newScript(success)
			p := Pipeline{OnEvent: log.onEvent, Tasks: []Task{
				{Label: "ask", Run: newScript(failure).run, Rules: Rules{{Do: Jump, To: "fetch", Delay: waits(time.Hour)}}},
				{Label: "skipped", Run: func(context.Context, State) Outcome { panic("skipped") }},
				{Label: "fetch", Run: fetch.run},
			}}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Minute, cancel)
			require.ErrorIs(t, p.Run(ctx, nil), context.Canceled)
			require.Len(t, log.lines, 4)
			time.Sleep(row.sleep)
			require.NoError(t, p.Resume(t.Context(), nil, log.upTo(t, row.events)), name)
			assert.Equal(t, []time.Duration{row.want}, fetch.began, name)
		})
	}
}

func TestResumeOfARunThatHasEnded(t *testing.T) {
	for name, row := range map[string]struct {
		rule Rule
		o    Outcome
		want string
	}{
		"continued to the end": {Rule{Do: Continue}, failure, ""},
		"break":                {Rule{Do: Break}, success, ""},
		"fail":                 {Rule{Do: Fail}, failure, `retryflow: task "t": boom`},
		"exhausted":            {retrying(1, nil), failure, `retryflow: task "t": boom`},
	} {
		var log journal
		task := newScript(row.o)
		p := Pipeline{Tasks: []Task{{Label: "t", Run: task.run, Rules: Rules{row.rule}}}, OnEvent: log.onEvent}
		_ = p.Run(t.Context(), nil)
		err := p.Resume(t.Context(), nil, log.upTo(t, len(log.lines)))
		if row.want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.EqualError(t, err, row.want, name)
		}
		assert.Len(t, task.began, 1, name)
	}
}

func TestResumeFails(t *testing.T) {
	p := Pipeline{Tasks: []Task{{Label: "t", Run: newScript(success).run}}}
	at := func(e Event) []Event { return []Event{e} }
	assert.EqualError(t, p.Resume(t.Context(), nil, at(Event{Task: "gone"})), `retryflow: cannot resume: the log ends in task "gone", which the pipeline does not have: use the pipeline that wrote the log`)
	assert.EqualError(t, p.Resume(t.Context(), nil, at(Event{Task: "t", Directive: Jump, To: "gone"})), `retryflow: cannot resume: the log jumps to "gone", which the pipeline does not have: use the pipeline that wrote the log`)
	p.MaxJumps = -1
	assert.ErrorContains(t, p.Resume(t.Context(), nil, nil), "MaxJumps is -1")
}

// Jumps in the log count toward MaxJumps, so MaxJumps also ends a task that jumps to itself
// and crashes again and again.
func TestResumeCountsJumps(t *testing.T) {
	var log journal
	task := newScript(Outcome{Result: "pending"})
	p := Pipeline{Tasks: []Task{{Label: "t", Run: task.run, Rules: Rules{{Do: Jump, To: "t"}}}}, MaxJumps: 5, OnEvent: log.onEvent}
	require.ErrorContains(t, p.Run(t.Context(), nil), "exceeds MaxJumps (5)")
	require.Len(t, task.began, 6)
	err := p.Resume(t.Context(), nil, log.upTo(t, 9)) // after three jumps
	require.ErrorContains(t, err, "exceeds MaxJumps (5)")
	assert.Len(t, task.began, 6+3)
}
