package jobtest

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrylog"
)

// The test runs in virtual time, so no attempt is late by chance. Workers look for jobs every
// tick.
func TestEngine(t *testing.T) {
	for _, r := range table(engine(flaws{})) {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { assert.Empty(t, faultsOf(t, engine(flaws{}), r.name)) })
		})
	}
}

// Flaws are the faults that an engine has on purpose.
type flaws struct {
	shift                           time.Duration              // how much later than due the engine runs jobs
	forge                           func(*retryjob.DeadLetter) // changes the dead letters of the engine
	lost, uncounted, twice, dropped bool
	classless, ageless, limitless   bool
	silent, deaf                    bool
	buriesStops, forgetsStops       bool
}

// If Engine.Forgets is true, a test checks only that a job ends after its worker stopped or was
// killed.
func TestRunSeesFlaws(t *testing.T) {
	type faults map[string]string // the faults of each row; "" means no fault
	for name, tc := range map[string]struct {
		flaws            flaws
		judged, forgiven faults
	}{
		"it runs jobs early": {flaws{shift: -tick}, faults{"exhausted": "attempt 2 began 2ms too early", "After, within MaxRetryAfter": "attempt 2 began 2ms too early"}, nil},
		"it runs jobs late":  {flaws{shift: 2 * tick}, faults{"exhausted": "attempt 2 began 4ms after it was due, want at most 2ms"}, nil},
		"it never hands out again what a dead worker had": {flaws{lost: true}, faults{
			"killed in the middle":       "the queue says that 1 are open, and the last event is attempt_started of attempt 1",
			"killed in the only attempt": "the queue says that 1 are open, and the last event is attempt_started of attempt 1",
		}, faults{"killed in the middle": "the queue says that 1 are open"}},
		"it counts an attempt when it has ended": {flaws{uncounted: true},
			faults{"killed in the middle": "the attempts [1 1] ran, want [1 2]", "killed in the only attempt": "the attempts [1 1"},
			faults{"killed in the middle": "", "a panic": ""}},
		"it runs a job again that is done": {flaws{twice: true}, faults{"success": "the attempts [1 2"}, faults{"success": "the attempts [1 2"}},
		"it keeps no dead letters": {flaws{dropped: true},
			faults{"exhausted": "must be a dead letter", "Permanent": "must be a dead letter", "a class that is invalid": "must be a dead letter (invalid)"},
			faults{"killed in the only attempt": "the job has not ended"}},
		"its dead letters have no reason": {flaws{forge: func(l *retryjob.DeadLetter) { l.Reason = "unsaid" }},
			faults{"exhausted": `says "unsaid" after 3 attempts`, "killed in the only attempt": `says "unsaid" after 1 attempts`}, nil},
		"its dead letters have no error": {flaws{forge: func(l *retryjob.DeadLetter) { l.Err = "" }}, faults{"exhausted": `error is ""`}, nil},
		"its dead letters do not say when": {flaws{forge: func(l *retryjob.DeadLetter) { l.Began, l.Ended = time.Time{}, time.Time{} }},
			faults{"exhausted": "the job began at 0001", "NonRetryable": "the job ended at 0001"}, nil},
		"its dead letters say one attempt more": {flaws{forge: func(l *retryjob.DeadLetter) { l.Attempts++ }}, faults{"NonRetryable": "after 2 attempts, want"}, nil},
		"it counts no failures by class":        {flaws{classless: true}, faults{"a class with a count of its own": "the attempts [1 2 3 4 5] ran, want [1 2 3]"}, nil},
		"it forgets when a job began":           {flaws{ageless: true}, faults{"MaxElapsed": "the job has not ended", "MaxElapsed, and a kill on the way": "the job has not ended"}, nil},
		"it does not know a job's own limit":    {flaws{limitless: true}, faults{"the job's limit is below the policy's": "the attempts [1 2 3] ran, want [1 2]"}, nil},
		"it reports no events":                  {flaws{silent: true}, faults{"success": "the queue says that 0 are open, and there are no events"}, nil},
		"it has no worker that works":           {flaws{deaf: true}, faults{"success": "before its context was done"}, nil},
		"a worker that stops is a failure":      {flaws{buriesStops: true}, faults{"the worker stops": "the attempts [1] ran, want [1 2]"}, nil},
		"it forgets the attempt of a worker that stops": {flaws{forgetsStops: true}, faults{"the worker stops": "the attempts [1 1] ran, want [1 2]"},
			faults{"the worker stops": "", "the worker stops in the only attempt": ""}},
	} {
		for forgets, rows := range map[bool]faults{false: tc.judged, true: tc.forgiven} {
			for row, want := range rows {
				synctest.Test(t, func(t *testing.T) {
					e := engine(tc.flaws)
					e.Forgets = forgets
					faults := strings.Join(faultsOf(t, e, row), "\n")
					assert.Contains(t, faults, want, "%s: %s, forgets: %v", name, row, forgets)
					assert.Equal(t, want == "", faults == "", "%s: %s: %s", name, row, faults)
				})
			}
		}
	}
}

// faultsOf runs a row and returns its faults. Workers that are to be killed also run in this
// process.
func faultsOf(t *testing.T, e Engine, row string) []string {
	t.Helper()
	r, err := rowOf(e, row)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	return r.judge(e, r.observe(ctx, e, startHere(e), t.TempDir()))
}

// startHere returns a starter whose workers run in this process. Nothing that a worker does
// after it was killed has an effect.
func startHere(e Engine) starter {
	return func(ctx context.Context, o order) (*process, error) {
		opened, err := e.Open(ctx, o.Queue)
		if err != nil {
			return nil, err
		}
		p := &process{exited: make(chan struct{})}
		q := opened.(*memory)
		q.die = sync.OnceFunc(func() {
			q.died.Store(true)
			close(p.exited)
		})
		p.end = func() error {
			synctest.Wait() // otherwise the worker's goroutines would still run at this virtual time
			q.die()
			return nil
		}
		mortal := e
		mortal.Open = func(context.Context, string) (Queue, error) { return q, nil }
		go func() { _ = o.follow(ctx, mortal) }() // until the row has ended
		return p, nil
	}
}

func TestStopped(t *testing.T) {
	started, retried := retry.Event{Kind: retry.AttemptStarted}, retry.Event{Kind: retry.RetryScheduled}
	stop := func(reason retry.Reason) retry.Event {
		return retry.Event{Kind: retry.CallFinished, Decision: retry.Decision{Reason: reason}}
	}
	for name, row := range map[string]struct {
		events []retry.Event
		want   bool
	}{
		"no event":                      {nil, false},
		"begun":                         {[]retry.Event{started}, false},
		"waits":                         {[]retry.Event{started, retried}, false},
		"done":                          {[]retry.Event{started, stop(retry.ReasonSuccess)}, true},
		"dead":                          {[]retry.Event{started, stop(retry.ReasonExhausted)}, true},
		"interrupted":                   {[]retry.Event{started, stop(retry.ReasonCanceled)}, false},
		"a success whose job ran again": {[]retry.Event{started, stop(retry.ReasonSuccess), started, retried}, true},
		"dead, and begun again":         {[]retry.Event{started, stop(retry.ReasonExhausted), started}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log []retrylog.Record
			for _, e := range row.events {
				log = append(log, retrylog.Record{Key: "a", Event: e})
			}
			assert.Equal(t, row.want, stopped(log, 1))
		})
	}
}

func TestAuditSeesFaults(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	cut := func(n, from int) run { return run{attempt: n, began: at(from)} }
	whole := func(n, from, to int, ok bool) run { return run{attempt: n, began: at(from), ended: at(to), ok: ok} }
	again := []run{whole(2, 0, 5, false), whole(1, 4, 7, false), whole(1, 8, 9, true)} // no job is lost
	exhausted := retryjob.DeadLetter{Reason: retry.ReasonExhausted, Attempts: faultLimit}
	for name, row := range map[string]struct {
		runs     []run
		letter   retryjob.DeadLetter
		dead     bool
		repeated string
		want     []string
	}{
		"done":                     {[]run{whole(1, 0, 5, true)}, retryjob.DeadLetter{}, false, "", nil},
		"done after a kill":        {[]run{cut(1, 0), whole(2, 9, 10, true)}, retryjob.DeadLetter{}, false, "", nil},
		"its result was lost":      {[]run{whole(1, 0, 5, true), whole(2, 9, 10, true)}, retryjob.DeadLetter{}, false, "", nil},
		"dead":                     {[]run{whole(1, 0, 5, false), cut(2, 6), whole(3, 9, 10, false)}, exhausted, true, "", nil},
		"dead without a run":       {nil, exhausted, true, "", nil},
		"its last result was lost": {[]run{cut(1, 0), cut(2, 6), whole(3, 9, 10, true)}, exhausted, true, "", nil},
		"lost":                     {[]run{whole(1, 0, 5, false)}, retryjob.DeadLetter{}, false, "", []string{"it is lost"}},
		"lost before it ran":       {nil, retryjob.DeadLetter{}, false, "", []string{"it is lost"}},
		"twice":                    {[]run{cut(1, 0), whole(1, 6, 7, true)}, retryjob.DeadLetter{}, false, "attempt 1 ran after attempt 1", nil},
		"at once":                  {[]run{whole(1, 0, 8, false), whole(2, 6, 7, true)}, retryjob.DeadLetter{}, false, "attempts 1 and 2 ran at once", nil},
		"too often":                {[]run{whole(3, 0, 5, false), whole(4, 6, 7, true)}, retryjob.DeadLetter{}, false, "", []string{"attempt 4 ran, and the limit is 3"}},
		"another reason":           {nil, retryjob.DeadLetter{Reason: retry.ReasonPermanent, Attempts: 3}, true, "", []string{`the dead letter says "permanent_error"`}},
		"too soon":                 {nil, retryjob.DeadLetter{Reason: retry.ReasonExhausted, Attempts: 2}, true, "", []string{"the dead letter says 2 attempts"}},

		"again":       {again, retryjob.DeadLetter{}, false, "attempt 1 ran after attempt 2", nil},
		"again, lost": {again[:2], retryjob.DeadLetter{}, false, "attempt 1 ran after attempt 2", []string{"it is lost"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, auditJob(row.runs, row.letter, row.dead, false))
			assert.Equal(t, row.repeated, repeated(row.runs))
		})
	}
	assert.Empty(t, auditJob(nil, retryjob.DeadLetter{Reason: retry.ReasonPermanent, Attempts: 1}, true, true), "planted, and dead")
	assert.Equal(t, []string{"it is lost"}, auditJob(nil, retryjob.DeadLetter{}, false, true), "planted, and lost")
}

// readRuns ignores a last line that another process is still writing.
func TestReadingALineThatIsBeingWritten(t *testing.T) {
	j, err := openJournal(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, j.around("a", 1, func() error { return nil }))
	_, err = j.runs.WriteString("end a 1 1")
	require.NoError(t, err)
	runs, err := j.readRuns()
	require.NoError(t, err)
	assert.Len(t, runs["a"], 1)
	require.NoError(t, j.close())
}

func TestRedriveSeesFaults(t *testing.T) {
	start := time.Now()
	w := window{length: time.Minute, first: start, last: start.Add(time.Second)}
	picked := retryjob.DeadLetter{Key: "a", Reason: retry.ReasonPermanent}
	kept := retryjob.DeadLetter{Key: "a", Reason: retry.ReasonRejected}
	moment := retryjob.Spread("a", time.Minute)
	at := func(attempt int, d time.Duration) run { return run{attempt: attempt, began: start.Add(moment + d)} }
	for name, row := range map[string]struct {
		before retryjob.DeadLetter
		runs   []run
		dead   bool
		want   string
	}{
		"moved":                 {picked, []run{at(1, 0)}, false, ""},
		"moved by the last":     {picked, []run{at(1, time.Second+tick)}, false, ""},
		"kept":                  {kept, nil, true, ""},
		"lost":                  {picked, nil, false, "it is lost"},
		"not moved":             {picked, nil, true, "picked: true, a dead letter: true"},
		"moved, and dead still": {picked, []run{at(1, 0)}, true, "picked: true, a dead letter: true"},
		"gone":                  {kept, nil, false, "picked: false, a dead letter: false"},
		"kept, and ran":         {kept, []run{at(1, 0)}, true, "it ran, and was not picked"},
		"the old count":         {picked, []run{at(2, 0)}, false, "attempt 2 ran, want a new count"},
		"early":                 {picked, []run{at(1, -1)}, false, "it ran 1ns before its moment"},
		"late":                  {picked, []run{at(1, time.Second+tick+1)}, false, "it ran 2.000001ms after its moment"},
	} {
		faults := strings.Join(w.audit(engine(flaws{}), row.before, row.runs, row.dead), "\n")
		assert.Contains(t, faults, row.want, name)
		assert.Equal(t, row.want == "", faults == "", "%s: %s", name, faults)
	}
	aged := retrylog.Record{Key: "a", Event: retry.Event{Kind: retry.AttemptStarted, Time: start.Add(time.Second), Elapsed: time.Second}}
	assert.Empty(t, w.auditAges([]retrylog.Record{aged}))
	aged.Event.Elapsed += time.Minute
	assert.Equal(t, []string{"a: its time counts from 1m0s before the redrive"}, w.auditAges([]retrylog.Record{aged}))
}

// engine returns an engine that keeps its jobs in memory.
func engine(f flaws) Engine {
	stores := map[string]*store{}
	e := Engine{Unit: 30 * time.Millisecond, Late: tick, Classes: true}
	e.Open = func(_ context.Context, name string) (Queue, error) {
		if stores[name] == nil {
			stores[name] = &store{jobs: map[string]job{}, dead: map[string]retryjob.DeadLetter{}}
		}
		return &memory{store: stores[name], flaws: f}, nil
	}
	return e
}

// tick is how often a worker looks for jobs.
const tick = 2 * time.Millisecond

type store struct {
	mu   sync.Mutex
	jobs map[string]job
	dead map[string]retryjob.DeadLetter
}

type job struct {
	retryjob.Job
	due    time.Time
	worker *memory // the worker that runs the job
}

// A memory is one worker's view of a store.
type memory struct {
	*store
	flaws
	die  func() // kills the worker; nil if it cannot be killed
	died atomic.Bool
}

func (q *memory) Enqueue(_ context.Context, key string, maxAttempts int) error {
	if q.limitless {
		maxAttempts = 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs[key] = job{Job: retryjob.Job{Key: key, MaxAttempts: maxAttempts, Classes: map[string]int{}}}
	return nil
}

func (q *memory) Work(ctx context.Context, p retry.Policy, do func(context.Context, string, int) error) error {
	if q.deaf {
		return nil
	}
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil && !q.died.Load() {
		for _, j := range q.claim() {
			running.Go(func() { q.run(ctx, p, j, do) })
		}
		time.Sleep(tick)
	}
	return nil
}

// claim takes the jobs that are due, and the jobs of workers that have died.
func (q *memory) claim() (claimed []job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for key, j := range q.jobs {
		if j.due.After(now) || j.worker != nil && (q.lost || !j.worker.died.Load()) {
			continue
		}
		j.worker = q
		if j.Began.IsZero() {
			j.Began = now
		}
		j.Attempt++
		claimed = append(claimed, j)
		if q.uncounted {
			j.Attempt--
		}
		q.jobs[key] = j
	}
	return claimed
}

func (q *memory) run(ctx context.Context, p retry.Policy, j job, do func(context.Context, string, int) error) {
	if q.silent {
		p.OnEvent = nil
	}
	defer func() {
		if q.die != nil && recover() != nil { // a panic ends a process
			q.die()
		}
	}()
	attempt := func(ctx context.Context) error { return do(ctx, j.Key, j.Attempt) }
	retryjob.Run(ctx, p, j.Job, attempt, func(o retryjob.Outcome) { q.settle(j, o) })
}

func (q *memory) settle(j job, o retryjob.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.died.Load() {
		return
	}
	delete(q.jobs, j.Key)
	switch {
	case o.Err == nil && !q.twice:
	case q.buriesStops && o.Interrupted(), o.Err != nil && !o.Retry() && !o.Interrupted():
		if !q.dropped {
			letter := o.DeadLetter(j.Job)
			if q.forge != nil {
				q.forge(&letter)
			}
			q.dead[j.Key] = letter
		}
	default:
		if !q.classless {
			j.Classes = o.Classes
		}
		if q.ageless {
			j.Began = time.Time{}
		}
		if q.forgetsStops && o.Interrupted() {
			j.Attempt--
		}
		j.worker, j.due = nil, time.Now().Add(o.Delay+q.shift)
		q.jobs[j.Key] = j
	}
}

func (q *memory) Open(context.Context) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs), nil
}

func (q *memory) Dead(context.Context) (map[string]retryjob.DeadLetter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.dead), nil
}

func (q *memory) Close(context.Context, bool) error { return nil }

// If an Engine lacks a field, the test fails at once, and not after two minutes with other
// faults.
func TestTheEngineIsChecked(t *testing.T) {
	whole := engine(flaws{})
	whole.Lease = time.Second
	for name, row := range map[string]struct {
		change func(*Engine)
		kills  bool
		want   string
	}{
		"whole":                      {func(*Engine) {}, true, ""},
		"no Open":                    {func(e *Engine) { e.Open = nil }, false, "needs Engine.Open"},
		"no Unit":                    {func(e *Engine) { e.Unit = 0 }, false, "Unit and Late above 0"},
		"no Late":                    {func(e *Engine) { e.Late = 0 }, false, "Unit and Late above 0"},
		"no Lease":                   {func(e *Engine) { e.Lease = 0 }, true, "set Engine.Lease, or set Engine.InProcess"},
		"no Lease, nothing killed":   {func(e *Engine) { e.Lease = 0 }, false, ""},
		"in process":                 {func(e *Engine) { e.InProcess = true }, true, "lives in one process"},
		"in process, nothing killed": {func(e *Engine) { e.InProcess = true }, false, ""},
	} {
		e := whole
		row.change(&e)
		if err := e.check("Test", row.kills); row.want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, row.want, name)
		}
	}
}

// An adapter may refuse a policy without a limit, as retryjob.Policies does.
func TestNoPolicyOfTheTableIsRefused(t *testing.T) {
	for _, r := range table(engine(flaws{})) {
		_, err := retryjob.NewPolicies("adapter", r.policy)
		assert.NoError(t, err, r.name)
	}
}

func TestLoadSeesFaults(t *testing.T) {
	exhausted := retryjob.DeadLetter{Reason: retry.ReasonExhausted, Attempts: 3}
	for name, row := range map[string]struct {
		runs     []int
		last     int
		succeeds bool
		letter   retryjob.DeadLetter
		dead     bool
		want     []string
	}{
		"done":                                {[]int{1, 2}, 2, true, retryjob.DeadLetter{}, false, nil},
		"a dead letter":                       {[]int{1, 2, 3}, 3, false, exhausted, true, nil},
		"a wrong number":                      {[]int{1, 1}, 2, true, retryjob.DeadLetter{}, false, []string{"run 2 is attempt 1"}},
		"ran too often":                       {[]int{1, 2}, 1, true, retryjob.DeadLetter{}, false, []string{"it ran 2 times, want 1"}},
		"never ran":                           {nil, 1, true, retryjob.DeadLetter{}, false, []string{"it ran 0 times, want 1"}},
		"done and dead":                       {[]int{1, 2, 3}, 3, true, exhausted, true, []string{"the last attempt succeeds: true, dead letter: true"}},
		"lost":                                {[]int{1, 2, 3}, 3, false, retryjob.DeadLetter{}, false, []string{"the last attempt succeeds: false, dead letter: false"}},
		"another reason":                      {[]int{1, 2, 3}, 3, false, retryjob.DeadLetter{Reason: retry.ReasonPermanent, Attempts: 3}, true, []string{`the dead letter says "permanent_error" after 3 attempts, want "attempts_exhausted" after 3`}},
		"too few attempts in the dead letter": {[]int{1, 2, 3}, 3, false, retryjob.DeadLetter{Reason: retry.ReasonExhausted, Attempts: 2}, true, []string{`the dead letter says "attempts_exhausted" after 2 attempts, want "attempts_exhausted" after 3`}},
	} {
		assert.Equal(t, row.want, auditLoaded(row.runs, row.last, row.succeeds, row.letter, row.dead), name)
	}
}
