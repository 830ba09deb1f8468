package retryjob

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
	"github.com/goretry/retry/internal/harmless"
)

// A Job describes a job that a queue hands to a worker.
type Job struct {
	// Key is the key of the job in a log, as with retrylog.WithKey. It also picks the delays
	// of the job, so that every worker computes the same delays, see [retry.SeedOf]. "": the
	// policy's Source picks the delays.
	Key string

	// Attempt is the number of this attempt, which is the count of all attempts with this
	// one. The first attempt has number 1. Use the number of times that the queue has handed
	// the job out, so that an attempt whose worker died is counted. If the queue counts only
	// earlier attempts, add 1. Otherwise each job runs once too often. Below 1 is treated as
	// 1, and reported to package log. retrytest.JobCount finds this mistake in a test.
	Attempt int

	// MaxAttempts is the job's own limit. Run applies it to the policy, with
	// [retry.Policy.ForJob]. 0 or below: the job has no limit of its own.
	MaxAttempts int

	// Began is when the first attempt began, by this machine's clock, for MaxElapsed and the
	// events. If the queue has a different clock, write time.Now().Add(-elapsed). Zero, or a
	// time in the future, is treated as now.
	Began time.Time

	// Classes has the number of earlier failures of each class, by the name of the class.
	// A queue that stores the counts begins a job with an empty map, which is not nil, and
	// then passes the Classes of the last Outcome. If Classes is nil, the counts are not
	// known, and the limit of every class counts all earlier failures. Run lowers a count
	// that is above the number of earlier attempts, and ignores the counts if there are more
	// classes than earlier attempts.
	Classes map[string]int
}

// An Outcome says what happens to a job after an attempt, or why no attempt was made. Retry
// and Interrupted are methods:
//
//	switch {
//	case o.Err == nil: // the job is done
//	case o.Retry(): // hand the job out again after o.Delay
//	case o.Interrupted(): // hand the job out again; it has not failed
//	default: // move the job to the dead letters, with o.Reason and o.Err
//	}
type Outcome struct {
	// Reason is the decision of the policy. It is ReasonSuccess if the job is done, and
	// ReasonRetry if the job runs again: see the method Retry.
	Reason retry.Reason

	// Delay is the wait after this attempt. As with [retry.Policy.Next], it is set
	// after each failed attempt, even if no retry follows, except for ReasonInvalid.
	// An interrupted job may run again at once. If its attempt failed, Delay is set too.
	Delay time.Duration

	Class string // the name of the failure's class; "": the failure has no class

	// Classes is a copy of Classes of the Job in which this failure is counted. Store it for
	// the next attempt. A failure that is Interrupted is not counted. nil: Classes of the Job
	// is nil.
	Classes map[string]int

	// Err is nil if the job is done. Otherwise it is a [*retry.Error]. If a retry follows, the
	// Reason of the Error is ReasonRetry. Store the text of Err if the queue keeps the error
	// of each attempt. [retry.Unwrap] returns the error of the attempt itself.
	Err error

	// Attempts is the count of attempts so far, with this attempt. If a worker died in the
	// last attempt, it is the limit.
	Attempts int

	// Ran is false if no attempt was made: the limit was already used up, for example because
	// a worker died in the last attempt, or the context was done.
	Ran bool
}

// Retry reports whether the job runs again after Delay. It is false for the zero Outcome.
func (o Outcome) Retry() bool { return o.Reason == retry.ReasonRetry }

// Interrupted reports whether the context was canceled, or was done before the
// attempt: the worker is stopping, or the queue has taken the job back. This says
// nothing about the job, so give it back instead of moving it to the dead
// letters. If a deadline of the context ends an attempt that is running, the
// attempt has failed, as with AttemptTimeout, and Interrupted returns false.
//
// The queue decides whether an interrupted attempt counts. If it counts, and the worker
// stops during the last attempt of the limit, the job becomes a dead letter. If it does
// not count, the next attempt has the same number.
func (o Outcome) Interrupted() bool {
	return o.Reason == retry.ReasonCanceled || o.Reason == retry.ReasonDeadline
}

// ErrPanicked is the error of an attempt that panicked or called runtime.Goexit.
var ErrPanicked = errors.New("the attempt panicked")

// Run makes one attempt of a job and calls settle with the Outcome. Run calls settle exactly
// once, after the events and in the same goroutine, even if fn or a callback of the policy
// panics or calls runtime.Goexit. Run does not recover the panic: settle tells the queue what
// to do, and then the panic goes on. If a callback panics, the result of the attempt stays
// the same, and the callbacks are not called again.
//
// Run makes the attempt with [retry.Once]. It never waits. A deadline of ctx ends the attempt
// and not the job. If the limit is already used up, fn is not called. A job that no worker
// took within MaxElapsed still runs once.
//
// If p is invalid, fn is called once, whatever job.Attempt is, and the Reason of a failure is
// ReasonInvalid. So a bad configuration does not end jobs without an attempt. Jobs that fail
// meanwhile become dead letters, which can be found by their Reason.
func Run(
	ctx context.Context, p retry.Policy, job Job,
	fn func(context.Context) error, settle func(Outcome),
) {
	if job.Attempt < 1 {
		log.Printf("retryjob: job %.100q: Attempt is %d, and the first is 1: "+
			"add 1 to what the queue counts, or the job runs more often than the policy says",
			job.Key, job.Attempt)
	}
	p = p.ForJob(job.MaxAttempts)
	job.Began, job.Classes = monotonic(job.Began), believed(job.Classes, job.Attempt)
	r := run{job: job, result: ErrPanicked}

	// If the attempt panics, the last deferred function runs first. If a callback panics in
	// that function too, the next function decides without callbacks. Each of these functions
	// has its own defer, because a callback that calls runtime.Goexit ends the function that
	// called it.
	defer func() { settle(r.outcome) }()
	defer r.again(ctx, p, withDelaysOfDefault)
	defer r.again(ctx, p, withoutCallbacks)
	defer func() {
		if r.inside { // fn panicked, so no callback has got the result of this attempt
			r.again(ctx, p, r.startedBefore)
		}
	}()
	r.attempt(ctx, p, r.watch(fn))
}

// Decide is [Run] for an attempt that was made elsewhere and returned err. It decides, takes a
// retry from the Budgets, reports the events of the attempt, and returns the Outcome, even if
// ctx is done.
func Decide(ctx context.Context, p retry.Policy, job Job, err error) (o Outcome) {
	failed := func(context.Context) error { return err }
	Run(context.WithoutCancel(ctx), p, job, failed, func(decided Outcome) { o = decided })
	return o
}

// monotonic returns began with a reading of the monotonic clock. It returns now if began is
// zero or in the future.
func monotonic(began time.Time) time.Time {
	now := time.Now()
	if began.IsZero() {
		return now
	}
	return now.Add(-max(0, now.Sub(began)))
}

// A run is the state of one call of Run.
type run struct {
	job     Job
	began   time.Time // when fn was called; zero: fn was not called
	inside  bool      // fn was called and has not returned
	result  error     // the result of fn; ErrPanicked until fn returns
	decided bool
	outcome Outcome
}

// watch returns a function that calls fn and stores its result.
func (r *run) watch(fn func(context.Context) error) func(context.Context) error {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context) error {
		r.began, r.inside = time.Now(), true
		result := fn(ctx)
		inspect := func(err error) { retry.IsPermanent(err) }
		if panicked := harmless.Ask("retryjob", result, inspect); panicked != nil {
			result = panicked // otherwise each decision on this job would panic
		}
		r.result, r.inside = result, false
		return result
	}
}

// attempt makes the attempt and the decision.
func (r *run) attempt(ctx context.Context, p retry.Policy, fn func(context.Context) error) {
	a := retry.Attempt{
		Number: r.job.Attempt, Classes: r.job.Classes, Elapsed: time.Since(r.job.Began),
	}
	if key, report := r.job.Key, p.OnEvent; key != "" {
		a.Seed = retry.SeedOf(key)
		if report != nil { // the context of fn has no key, because calls in fn need their own keys
			p.OnEvent = func(ctx context.Context, e retry.Event) {
				report(ctxvalue.WithLogKey(ctx, key), e)
			}
		}
	}
	if a.Classes == nil && p.Classify != nil {
		p.Classify, a.Classes = byAll(p.Classify, a.Number)
	}
	d, err := retry.Once(ctx, p, a, fn)
	r.decided = true
	r.outcome = Outcome{
		Reason: d.Reason, Delay: d.Delay, Class: d.Class, Err: err,
		Attempts: max(1, r.job.Attempt), Ran: !r.began.IsZero(),
	}
	if e, failed := err.(*retry.Error); failed {
		r.outcome.Attempts = e.Attempts
	}
	r.outcome.Classes = counted(r.job.Classes, r.outcome)
}

// believed returns a corrected copy of the counts of failures that a queue has stored. A count
// above the number of earlier attempts is lowered to that number. If there are more classes
// than earlier attempts, the copy is empty.
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

// counted adds the failure of o to counts, which [believed] has copied, and returns counts.
func counted(counts map[string]int, o Outcome) map[string]int {
	if counts != nil && o.Class != "" && !o.Interrupted() {
		counts[o.Class]++
	}
	return counts
}

// byAll returns a Classify and its counts for a queue that does not count classes. Each class
// gets the count of all earlier failures, so that the limit of a class always ends a job.
func byAll(
	classify func(error) *retry.Class, attempt int,
) (func(error) *retry.Class, map[string]int) {
	earlier := map[string]int{}
	return func(err error) *retry.Class {
		class := classify(err)
		if class != nil {
			earlier[class.Name] = attempt - 1
		}
		return class
	}, earlier
}

// again makes the decision with the policy change(p), if a panic has prevented the decision. It
// recovers a panic of its own, because the first panic goes on. If fn was called, again
// ignores the end of ctx: the attempt has failed.
func (r *run) again(ctx context.Context, p retry.Policy, change func(retry.Policy) retry.Policy) {
	if r.decided {
		return
	}
	defer func() { _ = recover() }()
	if !r.began.IsZero() {
		ctx = context.WithoutCancel(ctx)
	}
	if r.result == nil {
		p.Budget = nil // the share of the success may already have been put back
	}
	r.attempt(ctx, change(p), func(context.Context) error { return r.result })
}

// startedBefore returns p for an attempt that panicked after its AttemptStarted was reported.
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

// withDelaysOfDefault is withoutCallbacks with the delays of [retry.Default], for a policy whose
// Backoff, Jitter or Source panics.
func withDelaysOfDefault(p retry.Policy) retry.Policy {
	p, standard := withoutCallbacks(p), retry.Default()
	p.Backoff, p.MaxDelay = standard.Backoff, standard.MaxDelay
	p.Jitter, p.Source = standard.Jitter, nil
	return p
}
