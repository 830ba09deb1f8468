package retryjob

import (
	"context"
	"errors"
	"log"
	"maps"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
	"github.com/goretry/retry/internal/harmless"
)

// A Job describes a job as the queue hands it to a worker.
type Job struct {
	// Key names the job in a log, as retrylog.WithKey does, and picks its delays, see
	// [retry.SeedOf]: every worker computes the same ones. If it is empty, they are
	// drawn from the policy's Source.
	Key string

	// Attempt is the number of this attempt, 1 for the first. Use the number of
	// times that the queue has handed the job out, so that an attempt that a worker
	// did not survive is counted. Below 1 is treated as 1, and said to package log: where
	// the queue counts only earlier attempts, add 1, or each job runs once too often.
	// retrytest.JobCount finds that in a test.
	Attempt int

	// MaxAttempts is the job's own limit, see [retry.Policy.ForJob]. 0 or below
	// means none.
	MaxAttempts int

	// Began is when the first attempt began, by this machine's clock, for
	// MaxElapsed and the events. If the queue has a different clock, write
	// time.Now().Add(-elapsed). Zero, or a time in the future, is treated as now.
	Began time.Time

	// Classes has the number of earlier failures of each class, by the name of the class,
	// in a queue that stores the Classes of the last Outcome. Run lowers a count that is
	// above the number of earlier attempts, and uses none if there are more classes than
	// earlier attempts. If Classes is nil, the counts are not known, and the limit of every
	// class counts all earlier failures.
	Classes map[string]int
}

// An Outcome says what happens to a job after an attempt, or why none was made.
//
//	switch {
//	case o.Err == nil: // the job is done
//	case o.Retry(): // hand it out again after o.Delay
//	case o.Interrupted(): // hand it out again, this was no failure of the job
//	default: // move it to the dead letters, with o.Reason and o.Err
//	}
type Outcome struct {
	// Reason is what the policy decides: ReasonSuccess if the job is done,
	// ReasonRetry if it runs again.
	Reason retry.Reason

	// Delay is the wait after this attempt. As with [retry.Policy.Next], it is set
	// after each failed attempt, even if no retry follows, except for ReasonInvalid.
	Delay time.Duration

	Class string // the name of the failure's class; "": the failure has no class

	// Classes is Classes of the Job with this failure counted: store it for the next
	// attempt. An attempt that is Interrupted is not counted. Classes is nil if the Job's
	// is nil.
	Classes map[string]int

	// Err is nil if the job is done. Otherwise it is a [*retry.Error], even if a
	// retry follows: its Reason is then ReasonRetry. Store it where the queue keeps
	// the error of each attempt. [retry.Unwrap] returns the error of the attempt
	// itself.
	Err error

	// Attempts is how many attempts were made so far, with this one. If a worker died
	// in the last attempt, it is the limit.
	Attempts int

	// Ran is false if no attempt was made, because the limit was used up already,
	// as when a worker died in the last attempt, or because the context was done.
	Ran bool
}

// Retry reports whether the job runs again after Delay. It is false for the zero
// Outcome.
func (o Outcome) Retry() bool { return o.Reason == retry.ReasonRetry }

// Interrupted reports whether the context was canceled, or was done before the
// attempt: the worker is stopping, or the queue has taken the job back. This says
// nothing about the job, so give it back instead of moving it to the dead
// letters. An attempt that a deadline of the context cut short is not
// interrupted: it failed, as with AttemptTimeout.
func (o Outcome) Interrupted() bool {
	return o.Reason == retry.ReasonCanceled || o.Reason == retry.ReasonDeadline
}

// ErrPanicked is the error of an attempt that did not return, because it panicked
// or called runtime.Goexit.
var ErrPanicked = errors.New("the attempt panicked")

// Run makes one attempt of a job and calls settle with its Outcome. It calls
// settle exactly once, after the events and in the same goroutine, even if fn
// or a callback of the policy panics or calls runtime.Goexit. It does not recover
// the panic: settle tells the queue what to do before the panic goes on. A panic of
// a callback does not change what the attempt returned, and the callbacks are not
// called again.
//
// The attempt is one of [retry.Once]: it never waits, a deadline of ctx bounds the
// attempt and not the job, and if the limit is used up already, fn is not called.
// A job that no worker took within MaxElapsed still runs once.
//
// If p is invalid, fn is called once whatever job.Attempt is, and the Reason of a
// failure is ReasonInvalid. So a bad configuration does not bury the jobs in flight
// without a run. Those that fail meanwhile are dead letters, and can be found by
// their Reason.
func Run(ctx context.Context, p retry.Policy, job Job, fn func(context.Context) error, settle func(Outcome)) {
	if job.Attempt < 1 {
		log.Printf("retryjob: job %.100q: Attempt is %d, and the first is 1: add 1 to what the queue counts, "+
			"or the job runs more often than the policy says", job.Key, job.Attempt)
	}
	p = p.ForJob(job.MaxAttempts)
	job.Began, job.Classes = monotonic(job.Began), believed(job.Classes, job.Attempt)
	r := run{job: job, result: ErrPanicked}

	// Where the attempt ends by a panic, the lowest is called first, and the next one
	// if a callback panics there too. Each is deferred by itself, because a callback
	// that calls runtime.Goexit ends the one that it was called from.
	defer func() { settle(r.outcome) }()
	defer r.again(ctx, p, withDelaysOfDefault)
	defer r.again(ctx, p, withoutCallbacks)
	defer func() {
		if r.inside { // the callbacks were not called with the result of this attempt
			r.again(ctx, p, r.startedBefore)
		}
	}()
	r.attempt(ctx, p, r.watch(fn))
}

// Decide is [Run] for an attempt that was made elsewhere and returned err: it
// decides, takes from the Budgets, reports the events of the attempt, and
// returns the Outcome. It does so even if ctx is done.
func Decide(ctx context.Context, p retry.Policy, job Job, err error) (o Outcome) {
	Run(context.WithoutCancel(ctx), p, job, func(context.Context) error { return err }, func(decided Outcome) { o = decided })
	return o
}

// monotonic returns began with the reading of a clock that is never set back or
// ahead. It returns now if began is zero or in the future.
func monotonic(began time.Time) time.Time {
	now := time.Now()
	if began.IsZero() {
		return now
	}
	return now.Add(-max(0, now.Sub(began)))
}

// A run is what one call of Run knows.
type run struct {
	job     Job
	began   time.Time // when fn was called; zero if it was not
	inside  bool      // fn was called and has not returned
	result  error     // of fn; ErrPanicked until it returns
	decided bool
	outcome Outcome
}

// watch returns fn, and notes its result.
func (r *run) watch(fn func(context.Context) error) func(context.Context) error {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context) error {
		r.began, r.inside = time.Now(), true
		result := fn(ctx)
		if panicked := harmless.Ask("retryjob", result, func(err error) { retry.IsPermanent(err) }); panicked != nil {
			result = panicked // its methods would panic in the decision, and the job would never be decided on
		}
		r.result, r.inside = result, false
		return result
	}
}

// attempt makes the attempt, and decides on it.
func (r *run) attempt(ctx context.Context, p retry.Policy, fn func(context.Context) error) {
	a := retry.Attempt{Number: r.job.Attempt, Classes: r.job.Classes, Elapsed: time.Since(r.job.Began)}
	if key, report := r.job.Key, p.OnEvent; key != "" {
		a.Seed = retry.SeedOf(key)
		if report != nil { // fn does not see the key, because its calls need their own
			p.OnEvent = func(ctx context.Context, e retry.Event) { report(ctxvalue.WithLogKey(ctx, key), e) }
		}
	}
	if a.Classes == nil && p.Classify != nil {
		p.Classify, a.Classes = byAll(p.Classify, a.Number)
	}
	d, err := retry.Once(ctx, p, a, fn)
	r.decided = true
	r.outcome = Outcome{Reason: d.Reason, Delay: d.Delay, Class: d.Class, Err: err, Attempts: max(1, r.job.Attempt), Ran: !r.began.IsZero()}
	if e, failed := err.(*retry.Error); failed {
		r.outcome.Attempts = e.Attempts
	}
	r.outcome.Classes = counted(r.job.Classes, r.outcome)
}

// believed returns a copy of the counts of failures by class that a queue has stored. Before
// this attempt no class can have had more failures than there were attempts, and there cannot
// be more classes than attempts.
func believed(stored map[string]int, attempt int) map[string]int {
	if stored == nil {
		return nil
	}
	counts := map[string]int{}
	if len(stored) >= max(1, attempt) {
		return counts
	}
	for name, n := range stored {
		counts[name] = min(max(0, n), attempt-1)
	}
	return counts
}

// counted returns a copy of counts with the failure of o added.
func counted(counts map[string]int, o Outcome) map[string]int {
	counts = maps.Clone(counts)
	if counts != nil && o.Class != "" && !o.Interrupted() {
		counts[o.Class]++
	}
	return counts
}

// byAll returns a Classify, and the counts by which each of its classes has had all the
// failures before the attempt: a queue that does not count them must not try for ever.
func byAll(classify func(error) *retry.Class, attempt int) (func(error) *retry.Class, map[string]int) {
	earlier := map[string]int{}
	return func(err error) *retry.Class {
		class := classify(err)
		if class != nil {
			earlier[class.Name] = attempt - 1
		}
		return class
	}, earlier
}

// again decides on the attempt under the changed p, if a panic has kept it from
// being decided on. It recovers a panic of its own: the first one goes on. Where fn
// was called, ctx is not looked at: the attempt has failed.
func (r *run) again(ctx context.Context, p retry.Policy, change func(retry.Policy) retry.Policy) {
	if r.decided {
		return
	}
	defer func() { _ = recover() }()
	if !r.began.IsZero() {
		ctx = context.WithoutCancel(ctx)
	}
	if r.result == nil {
		p.Budget = nil // its share of the success may have been put back already
	}
	r.attempt(ctx, change(p), func(context.Context) error { return r.result })
}

// startedBefore returns p for an attempt that did not return. Its start was
// reported before.
func (r *run) startedBefore(p retry.Policy) retry.Policy {
	took, report := time.Since(r.began), p.OnEvent
	if report == nil {
		return p
	}
	p.OnEvent = func(ctx context.Context, e retry.Event) {
		if e.Kind == retry.AttemptFinished {
			e.Took = took
		}
		if e.Kind != retry.AttemptStarted {
			report(ctx, e)
		}
	}
	return p
}

// withoutCallbacks returns p without the functions that would panic again.
func withoutCallbacks(p retry.Policy) retry.Policy {
	p.OnEvent, p.RetryIf, p.Classify = nil, nil, nil
	return p
}

// withDelaysOfDefault is withoutCallbacks with the delays of [retry.Default], for a
// p whose delays cannot be computed.
func withDelaysOfDefault(p retry.Policy) retry.Policy {
	p, standard := withoutCallbacks(p), retry.Default()
	p.Backoff, p.MaxDelay, p.Jitter, p.Source = standard.Backoff, standard.MaxDelay, standard.Jitter, nil
	return p
}
