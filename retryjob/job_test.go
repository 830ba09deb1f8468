package retryjob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrylog"
)

var (
	errBoom    = errors.New("boom")
	errExpired = errors.New("token expired")
	backoff    = retry.Exponential{Base: 100 * time.Millisecond}
)

// expired is a Classify that allows one retry after errExpired.
func expired(err error) *retry.Class {
	if errors.Is(err, errExpired) {
		return &retry.Class{Name: "expired", MaxAttempts: 2}
	}
	return nil
}

// fixed returns a Source that always draws seed.
func fixed(seed uint64) func() uint64 { return func() uint64 { return seed } }

// `run` calls Run and returns the Outcome.
func run(ctx context.Context, p retry.Policy, job retryjob.Job, fn func(context.Context) error) (o retryjob.Outcome) {
	retryjob.Run(ctx, p, job, fn, func(settled retryjob.Outcome) { o = settled })
	return o
}

// runAlone calls Run in a new goroutine, which may panic or end. It also returns the value of the
// panic, and requires that settle is called once.
func runAlone(t *testing.T, ctx context.Context, p retry.Policy, job retryjob.Job, fn func(context.Context) error) (o retryjob.Outcome, passed any) {
	t.Helper()
	settled, ended := 0, make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { passed = recover() }()
		retryjob.Run(ctx, p, job, fn, func(outcome retryjob.Outcome) { o, settled = outcome, settled+1 })
	}()
	<-ended
	require.Equal(t, 1, settled)
	return o, passed
}

func succeeding(context.Context) error { return nil }

func failing(context.Context) error { return errBoom }

// queued makes all attempts of a job, as a queue does. This queue runs each attempt in time, and
// stores the counts of the classes.
func queued(ctx context.Context, p retry.Policy, job retryjob.Job, fn func(context.Context) error) error {
	job.Began, job.Classes = time.Now(), map[string]int{}
	for job.Attempt = 1; ; job.Attempt++ {
		o := run(ctx, p, job, fn)
		if !o.Retry() {
			return o.Err
		}
		job.Classes = o.Classes
		time.Sleep(o.Delay)
	}
}

// decision returns an Outcome with the fields that d has too.
func decision(d retry.Decision) retryjob.Outcome {
	return retryjob.Outcome{Reason: d.Reason, Delay: d.Delay, Class: d.Class}
}

// decided returns o with only the fields that a Decision has too.
func decided(o retryjob.Outcome) retryjob.Outcome {
	return retryjob.Outcome{Reason: o.Reason, Delay: o.Delay, Class: o.Class}
}

func TestRunDecidesLikeDo(t *testing.T) {
	slow := func(errs ...error) func(int) error {
		return func(attempt int) error {
			time.Sleep(30 * time.Millisecond)
			if attempt > len(errs) {
				return nil
			}
			return errs[attempt-1]
		}
	}
	always := func(err error) func(int) error { return slow(err, err, err, err, err, err, err) }
	full := retry.Policy{MaxAttempts: 4, Backoff: backoff, Jitter: retry.FullJitter}
	with := func(change func(p *retry.Policy)) func() retry.Policy {
		return func() retry.Policy {
			p := full
			change(&p)
			return p
		}
	}
	same := with(func(*retry.Policy) {})

	for name, row := range map[string]struct {
		policy func() retry.Policy
		limit  int
		do     func(attempt int) error
		want   retry.Reason
	}{
		"success after two": {same, 0, slow(errBoom, errBoom), retry.ReasonSuccess},
		"exhausted":         {same, 0, always(errBoom), retry.ReasonExhausted},
		"the job's limit":   {same, 2, always(errBoom), retry.ReasonExhausted},
		"unlimited":         {with(func(p *retry.Policy) { p.MaxAttempts = retry.Unlimited }), 0, slow(errBoom, errBoom), retry.ReasonSuccess},
		"not retryable":     {with(func(p *retry.Policy) { p.NonRetryable = true }), 0, always(errBoom), retry.ReasonNonRetryable},
		"permanent":         {same, 0, slow(errBoom, retry.Permanent(errBoom)), retry.ReasonPermanent},
		"rejected":          {with(func(p *retry.Policy) { p.RetryIf = func(err error) bool { return err != errBoom } }), 0, slow(context.Canceled, errBoom), retry.ReasonRejected},
		"a class": {with(func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class {
				return &retry.Class{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour)}
			}
		}), 0, always(errBoom), retry.ReasonExhausted},
		"a class by name": {with(func(p *retry.Policy) { p.Classify = expired }), 0,
			slow(errBoom, errExpired, errBoom, errExpired), retry.ReasonExhausted},
		"an invalid class": {with(func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class { return &retry.Class{MaxDelay: -1} }
		}), 0, always(errBoom), retry.ReasonInvalid},
		"Retry-After":            {same, 0, slow(retry.After(time.Second, errBoom)), retry.ReasonSuccess},
		"Retry-After too long":   {same, 0, slow(errBoom, retry.After(24*time.Hour+1, errBoom)), retry.ReasonRetryAfter},
		"a Retry-After of hours": {same, 0, slow(errBoom, retry.After(5*time.Hour, errBoom)), retry.ReasonSuccess},
		"elapsed":                {with(func(p *retry.Policy) { p.MaxElapsed, p.Jitter = 500*time.Millisecond, nil }), 0, always(errBoom), retry.ReasonElapsed},
		"budget":                 {with(func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1} }), 0, always(errBoom), retry.ReasonBudget},
		"timeout":                {with(func(p *retry.Policy) { p.AttemptTimeout = time.Millisecond }), 0, always(context.DeadlineExceeded), retry.ReasonExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			// `one` makes the attempts with the function way, and returns the log and the error.
			one := func(way func(context.Context, retry.Policy, func(context.Context) error) error) (string, error) {
				var log bytes.Buffer
				var err error
				synctest.Test(t, func(t *testing.T) {
					attempt := 0
					p := row.policy()
					p.OnEvent = retrylog.NewWriter(&log).OnEvent
					err = way(retrylog.WithKey(t.Context(), "job-1"), p, func(context.Context) error {
						attempt++
						return row.do(attempt)
					})
				})
				return log.String(), err
			}
			wantLog, want := one(func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error {
				p.Source = fixed(retry.SeedOf("job-1"))
				return retry.Do(ctx, p.ForJob(row.limit), fn)
			})
			log, err := one(func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error {
				return queued(ctx, p, retryjob.Job{Key: "job-1", MaxAttempts: row.limit}, fn)
			})

			require.Equal(t, row.want, retry.ReasonOf(err))
			assert.Equal(t, wantLog, log)
			if want != nil {
				want.(*retry.Error).Waited = 0 // the queue waits, so no attempt knows this time
				assert.EqualError(t, err, want.Error())
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

func TestTheZeroOutcomeDoesNotRetry(t *testing.T) {
	assert.False(t, retryjob.Outcome{}.Retry())
	assert.False(t, retryjob.Outcome{}.Interrupted())
}

// If the context is canceled, or is done before the attempt, the job has not failed. Queue
// libraries set a deadline for each attempt. If this deadline ends an attempt, the attempt has
// failed, as with AttemptTimeout.
func TestRunInterrupted(t *testing.T) {
	const delay = 100 * time.Millisecond
	canceled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	}
	timeout := func(after time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, after)
		}
	}
	permanent := retry.Permanent(errBoom)
	for name, row := range map[string]struct {
		ctx         func(context.Context) (context.Context, context.CancelFunc)
		attempt     int
		cancels     bool // true: the attempt cancels the context; false: it waits until the context ends
		err         error
		want        retryjob.Outcome
		interrupted bool
	}{
		"in an attempt": {context.WithCancel, 1, true, context.Canceled,
			retryjob.Outcome{Reason: retry.ReasonCanceled, Delay: delay, Attempts: 1, Ran: true}, true},
		"in the last attempt": {context.WithCancel, 3, true, errBoom,
			retryjob.Outcome{Reason: retry.ReasonCanceled, Delay: 4 * delay, Attempts: 3, Ran: true}, true},
		"in an attempt with a permanent error": {context.WithCancel, 1, true, permanent,
			retryjob.Outcome{Reason: retry.ReasonCanceled, Delay: delay, Attempts: 1, Ran: true}, true},
		"in an attempt that succeeds":   {context.WithCancel, 1, true, nil, retryjob.Outcome{Reason: retry.ReasonSuccess, Attempts: 1, Ran: true}, false},
		"before the attempt":            {canceled, 1, false, context.Canceled, retryjob.Outcome{Reason: retry.ReasonCanceled}, true},
		"before the last attempt":       {canceled, 3, false, context.Canceled, retryjob.Outcome{Reason: retry.ReasonCanceled, Attempts: 2}, true},
		"a deadline before the attempt": {timeout(0), 1, false, context.DeadlineExceeded, retryjob.Outcome{Reason: retry.ReasonDeadline}, true},
		"a deadline in an attempt": {timeout(time.Second), 2, false, context.DeadlineExceeded,
			retryjob.Outcome{Reason: retry.ReasonRetry, Delay: 2 * delay, Attempts: 2, Ran: true}, false},
		"a deadline in the last attempt": {timeout(time.Second), 3, false, context.DeadlineExceeded,
			retryjob.Outcome{Reason: retry.ReasonExhausted, Delay: 4 * delay, Attempts: 3, Ran: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := retry.Policy{MaxAttempts: 3, Backoff: backoff, Budget: &retry.Budget{Size: 1}}
				ctx, cancel := row.ctx(t.Context())
				defer cancel()
				o := run(ctx, p, retryjob.Job{Attempt: row.attempt}, func(ctx context.Context) error {
					if row.cancels {
						cancel()
					}
					<-ctx.Done()
					return row.err
				})
				assert.ErrorIs(t, o.Err, row.err)
				assert.Equal(t, row.interrupted, o.Interrupted())
				if o.Interrupted() {
					assert.Equal(t, 1, p.Budget.Left())
				}
				o.Err = nil
				assert.Equal(t, row.want, o)
			})
		})
	}
}

func TestAPanicIsSettledAndGoesOn(t *testing.T) {
	for name, row := range map[string]struct {
		attempt int
		end     func()
		passes  any
		want    retry.Reason
	}{
		"panic":                         {1, func() { panic("oh") }, "oh", retry.ReasonRetry},
		"in the last attempt":           {3, func() { panic("oh") }, "oh", retry.ReasonExhausted},
		"runtime.Goexit":                {1, runtime.Goexit, nil, retry.ReasonRetry},
		"Goexit in the last attempt":    {3, runtime.Goexit, nil, retry.ReasonExhausted},
		"while the context is canceled": {1, nil, "oh", retry.ReasonRetry},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				budget := &retry.Budget{Size: 1}
				p := retry.Policy{MaxAttempts: 3, Backoff: backoff, Jitter: retry.FullJitter, Budget: budget, OnEvent: retrylog.NewWriter(&log).OnEvent}
				job := retryjob.Job{Key: "a", Attempt: row.attempt, Began: time.Now().Add(-time.Minute)}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				o, passed := runAlone(t, ctx, p, job, func(context.Context) error {
					time.Sleep(time.Second)
					if row.end == nil {
						cancel()
						panic("oh")
					}
					row.end()
					return nil
				})
				assert.Equal(t, row.passes, passed)
				want := p.Next(retry.Attempt{Number: row.attempt, Err: retryjob.ErrPanicked, Seed: retry.SeedOf("a")})
				assert.Equal(t, decision(want), decided(o))
				assert.Equal(t, row.want, o.Reason)
				assert.ErrorIs(t, o.Err, retryjob.ErrPanicked)
				assert.True(t, o.Ran)
				assert.Equal(t, row.attempt, o.Attempts)
				assert.Equal(t, o.Retry(), budget.Left() == 0, "the retry is taken from the Budget once")

				records, err := retrylog.Read(&log)
				require.NoError(t, err)
				calls, err := retrylog.Replay(records)
				require.NoError(t, err)
				require.Len(t, calls, 1)
				require.Len(t, calls[0].Attempts, 1)
				assert.Equal(t, time.Second, calls[0].Attempts[0].Took)
				assert.EqualError(t, calls[0].Attempts[0].Err, retryjob.ErrPanicked.Error())
				assert.Equal(t, time.Minute+time.Second, calls[0].Records[1].Event.Elapsed)
				assert.NoError(t, calls[0].Check(p))
			})
		})
	}
}

// If a method of an attempt's error panics, the attempt has failed. Run makes a decision as after
// any other failure, and the error of the Outcome names the type.
func TestAnErrorThatPanicsIsSettled(t *testing.T) {
	for name, err := range map[string]error{
		"Error": (*textless)(nil),
		"As":    asless{},
	} {
		t.Run(name, func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 3, Backoff: backoff}
			o, passed := runAlone(t, t.Context(), p, retryjob.Job{Key: "a", Attempt: 1}, func(context.Context) error { return err })
			assert.Nil(t, passed)
			assert.Equal(t, retry.ReasonRetry, o.Reason)
			assert.True(t, o.Ran)
			assert.ErrorContains(t, o.Err, fmt.Sprintf("%T panicked", err))
		})
	}
}

type textless struct{ text string }

func (e *textless) Error() string { return e.text }

type asless struct{}

func (asless) Error() string { return "asless" }
func (asless) As(any) bool   { panic("no As") }

// If a callback of the policy panics, Run does not call it again, because it would panic again.
// Run still decides about the result of the attempt, and takes a retry from the Budget once.
func TestAPanicOfThePolicyIsSettled(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	exits := func(_ context.Context, e retry.Event) {
		if e.Kind == retry.AttemptFinished {
			runtime.Goexit()
		}
	}
	permanent := retry.Permanent(errBoom)
	bad := func(context.Context) error { panic("the attempt's") }
	standard := retry.Default().Next(retry.Attempt{Number: 2, Err: errBoom, Seed: 1})
	const delay = 200 * time.Millisecond
	for name, row := range map[string]struct {
		ctx    context.Context
		change func(p *retry.Policy)
		fn     func(context.Context) error
		passes any
		ran    bool
		want   retry.Reason
		err    error // errors.Is finds it in the Err of the Outcome
		lo, hi time.Duration
	}{
		"OnEvent, at the start": {t.Context(), func(p *retry.Policy) { p.OnEvent = panics(retry.AttemptStarted) }, failing, "oh", false, retry.ReasonRetry, retryjob.ErrPanicked, delay, delay},
		"OnEvent, at the end":   {t.Context(), func(p *retry.Policy) { p.OnEvent = panics(retry.AttemptFinished) }, failing, "oh", true, retry.ReasonRetry, errBoom, delay, delay},
		"OnEvent, a success":    {t.Context(), func(p *retry.Policy) { p.OnEvent = panics(retry.AttemptFinished) }, succeeding, "oh", true, retry.ReasonSuccess, nil, 0, 0},
		"OnEvent, permanent": {t.Context(), func(p *retry.Policy) { p.OnEvent = panics(retry.AttemptFinished) },
			func(context.Context) error { return permanent }, "oh", true, retry.ReasonPermanent, permanent, delay, delay},
		"OnEvent, canceled before": {ended, func(p *retry.Policy) { p.OnEvent = panics(retry.CallFinished) }, failing, "oh", false, retry.ReasonCanceled, context.Canceled, 0, 0},
		"RetryIf":                  {t.Context(), func(p *retry.Policy) { p.RetryIf = func(error) bool { panic("oh") } }, failing, "oh", true, retry.ReasonRetry, errBoom, delay, delay},
		"Classify": {t.Context(), func(p *retry.Policy) { p.Classify = func(error) *retry.Class { panic("oh") } }, failing, "oh", true,
			retry.ReasonRetry, errBoom, delay, delay},
		"Backoff": {t.Context(), func(p *retry.Policy) { p.Backoff = retry.BackoffFunc(func(int) time.Duration { panic("oh") }) }, failing, "oh", true,
			retry.ReasonRetry, errBoom, standard.Lo, standard.Hi},
		"OnEvent, after a panic of the attempt": {t.Context(), func(p *retry.Policy) { p.OnEvent = panics(retry.AttemptFinished) }, bad, "the attempt's", true,
			retry.ReasonRetry, retryjob.ErrPanicked, delay, delay},
		"OnEvent calls runtime.Goexit, after a panic of the attempt": {t.Context(), func(p *retry.Policy) { p.OnEvent = exits }, bad, nil, true,
			retry.ReasonRetry, retryjob.ErrPanicked, delay, delay},
	} {
		t.Run(name, func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 3, Backoff: backoff, Budget: &retry.Budget{Size: 5}}
			row.change(&p)
			o, passed := runAlone(t, row.ctx, p, retryjob.Job{Attempt: 2}, row.fn)
			assert.Equal(t, row.passes, passed)
			assert.Equal(t, row.ran, o.Ran)
			assert.Equal(t, row.want, o.Reason)
			assert.ErrorIs(t, o.Err, row.err)
			assert.GreaterOrEqual(t, o.Delay, row.lo)
			assert.LessOrEqual(t, o.Delay, row.hi)
			if row.want == retry.ReasonRetry {
				assert.Equal(t, 2, o.Attempts)
				assert.Equal(t, 4, p.Budget.Left())
			} else {
				assert.Equal(t, 5, p.Budget.Left())
			}
		})
	}
}

// If a queue counts only earlier attempts, each job runs once too often. Run logs this in the first
// attempt of a job, and still makes the attempt.
func TestAnAttemptBelowOne(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	for attempt, says := range map[int]string{
		-1: "retryjob: job \"mail-7\": Attempt is -1, but the first attempt has number 1: add 1 to the count of the queue, or the job runs more often than the policy allows\n",
		0:  "retryjob: job \"mail-7\": Attempt is 0, but the first attempt has number 1: add 1 to the count of the queue, or the job runs more often than the policy allows\n",
		1:  "",
	} {
		logged.Reset()
		o := run(t.Context(), retry.Policy{MaxAttempts: 3}, retryjob.Job{Key: "mail-7", Attempt: attempt}, failing)
		assert.Equal(t, [...]any{retry.ReasonRetry, 1}, [...]any{o.Reason, o.Attempts})
		assert.True(t, strings.HasSuffix(logged.String(), says), logged.String())
		assert.Equal(t, says == "", logged.Len() == 0)
	}
}

// If a queue does not store when the first attempt began, MaxElapsed may never end a job. Run logs
// this in the second attempt. In the first attempt, Began may be zero.
func TestMaxElapsedWithoutBegan(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	for name, row := range map[string]struct {
		limit   time.Duration
		attempt int
		began   time.Time
		says    string
	}{
		"a first attempt":  {time.Hour, 1, time.Time{}, ""},
		"a second attempt": {time.Hour, 2, time.Time{}, "retryjob: job \"mail-7\": Began is not set in attempt 2, so MaxElapsed counts from this attempt: store when the first attempt began, and set Began to it\n"},
		"Began is set":     {time.Hour, 2, time.Now(), ""},
		"no MaxElapsed":    {0, 2, time.Time{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			logged.Reset()
			p := retry.Policy{MaxAttempts: 3, MaxElapsed: row.limit}
			o := run(t.Context(), p, retryjob.Job{Key: "mail-7", Attempt: row.attempt, Began: row.began}, failing)
			assert.Equal(t, retry.ReasonRetry, o.Reason)
			assert.True(t, strings.HasSuffix(logged.String(), row.says), logged.String())
			assert.Equal(t, row.says == "", logged.Len() == 0)
		})
	}
}

func TestAPanicOfSettleGoesOn(t *testing.T) {
	settled := 0
	assert.PanicsWithValue(t, "oh", func() {
		retryjob.Run(t.Context(), retry.Policy{}, retryjob.Job{}, failing, func(retryjob.Outcome) { settled++; panic("oh") })
	})
	assert.Equal(t, 1, settled)
}

func panics(kind retry.EventKind) func(context.Context, retry.Event) {
	return func(_ context.Context, e retry.Event) {
		if e.Kind == kind {
			panic("oh")
		}
	}
}

// A success puts its share into the Budget once. A panic before a later attempt must not put a
// retry back that this process has not taken.
func TestAPanicOfOnEventPutsBackOnce(t *testing.T) {
	for _, row := range []struct {
		kind  retry.EventKind
		job   retryjob.Job
		fn    func(context.Context) error
		ratio float64
		left  int
	}{
		{retry.CallFinished, retryjob.Job{}, succeeding, 1, 3},
		{retry.AttemptStarted, retryjob.Job{Attempt: 4}, failing, 0, 1}, // the retry of the decision is taken
	} {
		p := retry.Policy{MaxAttempts: 9, Backoff: backoff, Budget: &retry.Budget{Size: 5, Ratio: row.ratio}, OnEvent: panics(row.kind)}
		for range 3 {
			p.Budget.Take()
		}
		_, passed := runAlone(t, t.Context(), p, row.job, row.fn)
		assert.Equal(t, "oh", passed)
		assert.Equal(t, row.left, p.Budget.Left())
	}
}

func TestTheKey(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: backoff, Jitter: retry.FullJitter, Source: fixed(42)}
	seeds := map[string]uint64{"a": retry.SeedOf("a"), "b": retry.SeedOf("b"), "": 42}
	for key, seed := range seeds {
		var keys, inner []string
		p.OnEvent = func(ctx context.Context, e retry.Event) { keys = append(keys, retrylog.Key(ctx)) }
		ctx := retrylog.WithKey(t.Context(), "outer")
		o := run(ctx, p, retryjob.Job{Key: key, Attempt: 2}, func(ctx context.Context) error {
			inner = append(inner, retrylog.Key(ctx))
			return errBoom
		})
		assert.Equal(t, decision(p.Next(retry.Attempt{Number: 2, Err: errBoom, Seed: seed})), decided(o))
		want := key
		if key == "" {
			want = "outer"
		}
		assert.Equal(t, []string{want, want, want}, keys)
		assert.Equal(t, []string{"outer"}, inner)
	}

	p.Source = nil
	drawn := map[time.Duration]bool{}
	for range 10 {
		drawn[run(t.Context(), p, retryjob.Job{Attempt: 2}, failing).Delay] = true
	}
	assert.Greater(t, len(drawn), 1, "without a Key and a Source, the delays are random")
}

func TestBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{MaxElapsed: 10 * time.Second, Backoff: retry.Fixed(4 * time.Second)}
		for _, row := range []struct {
			ago  time.Duration // 0: Began is zero
			want time.Duration // the Elapsed of the AttemptStarted
			then retry.Reason
		}{
			{0, 0, retry.ReasonRetry},
			{5 * time.Second, 5 * time.Second, retry.ReasonRetry},
			{5*time.Second + 1, 5*time.Second + 1, retry.ReasonElapsed},
			{time.Hour, time.Hour, retry.ReasonElapsed},
			{-time.Hour, 0, retry.ReasonRetry},
		} {
			var events []retry.Event
			p.OnEvent = func(_ context.Context, e retry.Event) { events = append(events, e) }
			job := retryjob.Job{Attempt: 2}
			if row.ago != 0 {
				job.Began = time.Now().Add(-row.ago)
			}
			now := time.Now()
			o := run(t.Context(), p, job, func(context.Context) error {
				time.Sleep(time.Second)
				return errBoom
			})
			assert.Equal(t, row.then, o.Reason)
			require.Len(t, events, 3)
			assert.Equal(t, now, events[0].Time)
			assert.Equal(t, row.want, events[0].Elapsed)
			assert.Equal(t, row.want+time.Second, events[1].Elapsed)
			assert.Equal(t, row.want+time.Second, events[2].Elapsed)
		}
	})
}

// Decide makes the same decision as Run, even if the context is done.
func TestDecide(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{errBoom, nil, retry.Permanent(errBoom)} {
		synctest.Test(t, func(t *testing.T) {
			var ran, decided bytes.Buffer
			job := retryjob.Job{Key: "a", Attempt: 2}
			p := retry.Policy{MaxAttempts: 3, Backoff: backoff, OnEvent: retrylog.NewWriter(&ran).OnEvent}
			want := run(t.Context(), p, job, func(context.Context) error { return err })
			p.OnEvent = retrylog.NewWriter(&decided).OnEvent
			assert.Equal(t, want, retryjob.Decide(ended, p, job, err))
			assert.ErrorIs(t, want.Err, err)
			assert.Equal(t, ran.String(), decided.String())
			assert.Equal(t, 3, strings.Count(decided.String(), "\n"))
		})
	}
}

func TestRunWithNilArguments(t *testing.T) {
	var none context.Context
	o := run(none, retry.Policy{MaxAttempts: 3, Backoff: backoff}, retryjob.Job{Attempt: 1}, failing)
	assert.Equal(t, retry.ReasonInvalid, o.Reason)
	assert.False(t, o.Ran)
	o = run(t.Context(), retry.Policy{MaxAttempts: 3, Backoff: backoff}, retryjob.Job{Attempt: 1}, nil)
	assert.Equal(t, retry.ReasonInvalid, o.Reason)
	assert.False(t, o.Ran)
	assert.ErrorContains(t, o.Err, "nil function")
}

// FuzzRun checks that Run makes the same decision as Next, and makes no attempt of a job that
// has no attempt left.
func FuzzRun(f *testing.F) {
	log.SetOutput(io.Discard) // Run logs an Attempt below 1
	f.Add(3, 0, 0, 1, 0, int64(time.Second), 0.2, uint8(0), int64(0))
	f.Add(-1, 5, 4, 2, 3, int64(0), 1.0, uint8(1), int64(time.Minute))
	f.Add(9, 0, 0, -7, 1, int64(time.Second), 0.2, uint8(0), int64(0))
	f.Add(-2, 0, 1, 0, 1, int64(time.Second), 0.2, uint8(0), int64(0)) // an invalid policy does not end a job before it has made an attempt
	f.Add(-2, 0, 1, 99, 1, int64(time.Second), 0.2, uint8(0), int64(0))
	f.Add(3, 0, 0, 4, 1, int64(time.Second), 0.2, uint8(0), int64(0)) // in these rows, one of the limits allows no further attempt
	f.Add(3, 0, 0, 99, 1, int64(time.Second), 0.2, uint8(0), int64(0))
	f.Add(3, 0, 1, 2, 1, int64(time.Second), 0.2, uint8(0), int64(0))
	f.Add(9, 2, 0, 3, 1, int64(time.Second), 0.2, uint8(0), int64(0))
	f.Add(3, 0, 2, 2, 1, int64(time.Second), 0.2, uint8(0), int64(0)) // here the limits allow one more attempt
	f.Add(-1, 0, 0, math.MaxInt, 1, int64(time.Second), 0.2, uint8(0), int64(0))
	f.Add(0, 0, 0, 9, 1, int64(1), 0.0, uint8(2), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, attempts, cap, own, number, base int, d int64, jitter float64, failure uint8, after int64) {
		p := retry.Policy{MaxAttempts: attempts, AttemptCap: cap, Backoff: retry.Exponential{Base: time.Duration(d)}, Jitter: retry.Proportional(jitter)}
		err := []error{errBoom, retry.Permanent(errBoom), retry.After(time.Duration(after), errBoom), fmt.Errorf("two: %w", retry.After(1, errBoom))}[failure%4]
		key := fmt.Sprint(base)
		job := retryjob.Job{Key: key, Attempt: number, MaxAttempts: own}
		calls := 0
		o := run(t.Context(), p, job, func(context.Context) error { calls++; return err })

		q := p.ForJob(own)
		eligible := q.Validate() != nil || q.Eligible(max(1, number)-1)
		require.Equal(t, eligible, o.Ran)
		require.Equal(t, eligible, calls == 1)
		require.Error(t, o.Err)
		if eligible {
			require.Equal(t, decision(q.Next(retry.Attempt{Number: number, Err: err, Seed: retry.SeedOf(key)})), decided(o))
			require.Equal(t, max(1, number), o.Attempts)
		} else {
			require.Equal(t, retryjob.Outcome{Reason: retry.ReasonExhausted}, decided(o))
			require.Equal(t, q.EffectiveMax(), o.Attempts)
			require.False(t, o.Retry() || o.Interrupted())
		}
	})
}

// If a queue does not count the failures of each class, a class counts all failures of the job.
func TestAClassThatTheQueueDoesNotCount(t *testing.T) {
	slow := retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(time.Second), Classify: func(error) *retry.Class {
		return &retry.Class{Name: "slow", MaxAttempts: 3, Backoff: retry.Linear(time.Minute)}
	}}
	for _, row := range []struct {
		name    string
		classes map[string]int
		attempt int
		want    retryjob.Outcome
	}{
		{"nil, the first", nil, 1, retryjob.Outcome{Reason: retry.ReasonRetry, Delay: time.Minute, Class: "slow"}},
		{"nil, the second", nil, 2, retryjob.Outcome{Reason: retry.ReasonRetry, Delay: 2 * time.Minute, Class: "slow"}},
		{"nil, the third and last", nil, 3, retryjob.Outcome{Reason: retry.ReasonExhausted, Delay: 3 * time.Minute, Class: "slow"}},
		{"no earlier failure of the class", map[string]int{}, 3, retryjob.Outcome{Reason: retry.ReasonRetry, Delay: time.Minute, Class: "slow"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			job := retryjob.Job{Attempt: row.attempt, Classes: row.classes}
			assert.Equal(t, row.want, decided(run(t.Context(), slow, job, failing)))
		})
	}
}

// A queue stores the Classes of an Outcome for the next attempt.
func TestClassesOfAnOutcome(t *testing.T) {
	slow := retry.Policy{MaxAttempts: 9, Classify: func(error) *retry.Class { return &retry.Class{Name: "slow"} }}
	plain := retry.Policy{MaxAttempts: 9}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	interrupted, stop := context.WithCancel(t.Context())
	interrupt := func(context.Context) error {
		stop()
		return errBoom
	}
	type counts = map[string]int
	for _, row := range []struct {
		name    string
		ctx     context.Context
		policy  retry.Policy
		fn      func(context.Context) error
		attempt int
		stored  counts
		want    counts
	}{
		{"the first failure", t.Context(), slow, failing, 1, counts{}, counts{"slow": 1}},
		{"a later failure", t.Context(), slow, failing, 4, counts{"slow": 2, "quota": 1}, counts{"slow": 3, "quota": 1}},
		{"the last failure", t.Context(), slow, failing, 9, counts{"slow": 8}, counts{"slow": 9}},
		{"not known", t.Context(), slow, failing, 3, nil, nil},
		{"a failure without a class", t.Context(), plain, failing, 3, counts{"slow": 1}, counts{"slow": 1}},
		{"a success", t.Context(), slow, succeeding, 3, counts{"slow": 1}, counts{"slow": 1}},
		{"interrupted", canceled, slow, failing, 3, counts{"slow": 1}, counts{"slow": 1}},
		{"interrupted in the attempt", interrupted, slow, interrupt, 3, counts{"slow": 1}, counts{"slow": 1}},
		{"more failures than attempts", t.Context(), slow, failing, 3, counts{"slow": math.MaxInt}, counts{"slow": 3}},
		{"a negative count", t.Context(), slow, failing, 3, counts{"slow": math.MinInt}, counts{"slow": 1}},
		{"as many classes as attempts", t.Context(), slow, failing, 3, counts{"a": 1, "b": 1, "c": 1}, counts{"slow": 1}},
		{"classes before the first attempt", t.Context(), slow, failing, 1, counts{"a": 1}, counts{"slow": 1}},
		{"an attempt below 1", t.Context(), slow, failing, math.MinInt, counts{"a": 1}, counts{"slow": 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			stored := maps.Clone(row.stored)
			o := run(row.ctx, row.policy, retryjob.Job{Attempt: row.attempt, Classes: row.stored}, row.fn)
			assert.Equal(t, row.want, o.Classes)
			assert.Equal(t, stored, row.stored, "the map in the Job is unchanged")
		})
	}
}
