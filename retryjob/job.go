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
	// Key identifies the job in logs. Run adds the Key to the context that OnEvent gets, as
	// retrylog.WithKey does. Key is also the seed of the random delays, so every worker computes the
	// same delays: see [retry.SeedOf]. If Key is empty, the Source of the policy draws the delays.
	Key string

	// Attempt is the number of this attempt. The first attempt has number 1. Pass how often the
	// queue has handed out the job, because this count includes attempts whose worker died. If the
	// queue counts only earlier attempts, add 1. Without the addition, each job runs once too
	// often. retrytest.JobCount finds this mistake in a test. An Attempt below 1 is treated as 1,
	// and Run reports it with package log.
	Attempt int

	// MaxAttempts is the job's own limit on attempts. It can lower the limit of the policy, but
	// never raise it: see [retry.Policy.ForJob]. If MaxAttempts is 0 or below, the job has no
	// limit of its own.
	MaxAttempts int

	// Began is when the first attempt began, by the clock of this machine. MaxElapsed counts from
	// Began. If the times in the queue come from another clock, pass time.Now().Add(-elapsed), where
	// elapsed is the time since the first attempt began. The zero time and times in the future are
	// treated as now. So Began may be zero in the first attempt. If Began is zero in a later attempt,
	// MaxElapsed counts from that attempt and may never end the job. Run reports this mistake with
	// package log.
	Began time.Time

	// Classes counts the earlier failures of each class, by the name of the class. In the first
	// attempt, pass an empty map that is not nil. In later attempts, pass the Classes of the last
	// Outcome. If Classes is nil, the counts are unknown. Each class then counts all earlier
	// failures of the job, whatever their class was.
	//
	// Run corrects impossible counts. It lowers a count that is above the number of earlier
	// attempts. It ignores all counts if there are more classes than earlier attempts.
	Classes map[string]int
}

// An Outcome says what happens to a job after an attempt, or why no attempt was made. Note that
// Retry and Interrupted are methods, not fields:
//
//	switch {
//	case o.Err == nil: // the job is done
//	case o.Retry(): // hand the job out again after o.Delay
//	case o.Interrupted(): // give the job back, and store job.Attempt-1; it has not failed
//	default: // move the job to the dead letters, with o.Reason and o.Err
//	}
type Outcome struct {
	// Reason is the decision of the policy. It is ReasonSuccess if the job is done, and
	// ReasonRetry if the job runs again after Delay.
	Reason retry.Reason

	// Delay is how long the job waits if Retry returns true. Delay is also set if an attempt
	// failed and no retry follows, as in a [retry.Decision]. It is 0 if Reason is ReasonInvalid.
	// An interrupted job may run again at once, whatever Delay is.
	Delay time.Duration

	Class string // the name of the failure's class; empty if the failure has no class

	// Classes is a copy of the Job's Classes that also counts this failure. Store it for the next
	// attempt. The failure of an interrupted attempt is not counted. Classes is nil if the Job's
	// Classes is nil.
	Classes map[string]int

	// Err is nil if the job is done. Otherwise Err is a [*retry.Error] with the Reason of this
	// Outcome. If the queue keeps the error of each attempt, store the text of Err. To get the
	// error that the attempt returned, call [retry.Unwrap].
	Err error

	// Attempts is how many attempts were made, including this one. If Run made no attempt because the
	// limit was already used up, Attempts is the limit.
	Attempts int

	// Ran is false if Run made no attempt. The reason is that the context was done before the attempt,
	// or that the limit was already used up because a worker had died in the last attempt.
	Ran bool
}

// Retry reports whether the job runs again after Delay. For the zero Outcome, Retry returns
// false.
func (o Outcome) Retry() bool { return o.Reason == retry.ReasonRetry }

// Interrupted reports whether the context was canceled, or was done before the attempt began.
// The reason is usually that the worker stops, or that the queue has taken the job back. An
// interrupted job has not failed. So give the job back to the queue, and do not move it to the
// dead letters.
//
// A deadline of the context works like an AttemptTimeout: if it ends a running attempt, the
// attempt has failed, and Interrupted returns false.
//
// If the worker stops, the attempt should not count: store job.Attempt-1 with the job, so that
// the next attempt has the same number. If the attempt counts, a job whose worker stops during
// the last allowed attempt becomes a dead letter. If ctx was canceled for another reason, such
// as a lost lease, let the attempt count. Otherwise a job that always loses its lease would run
// for ever.
//
// The ctx that was passed to Run may be canceled when settle runs. To write to the database of
// the queue, use [context.WithoutCancel].
func (o Outcome) Interrupted() bool {
	return o.Reason == retry.ReasonCanceled || o.Reason == retry.ReasonDeadline
}

// ErrPanicked is the error of an attempt that panicked or called runtime.Goexit.
var ErrPanicked = errors.New("the attempt panicked")

// Run makes one attempt of a job and calls `settle` with the Outcome. Run calls `settle` exactly
// once, in the goroutine of its caller, after all events were reported. This is also true if fn
// or a callback of the policy panics or calls runtime.Goexit. Run does not recover a panic: the
// panic goes on when `settle` has returned. If a callback panics, the result of the attempt is
// unchanged, and Run calls no callback again.
//
// Run makes the attempt with [retry.Once], so Run never waits. A deadline of ctx ends the
// attempt and not the job. If the limit on attempts is already used up, Run does not call fn.
// If a job has waited longer than MaxElapsed before a worker takes it, Run still calls fn.
//
// If p is invalid, Run still calls fn, whatever job.Attempt is. So a bad configuration does not
// end jobs without an attempt. If fn fails, the job becomes a dead letter with ReasonInvalid.
func Run(
	ctx context.Context, p retry.Policy, job Job,
	fn func(context.Context) error, settle func(Outcome),
) {
	if job.Attempt < 1 {
		log.Printf("retryjob: job %.100q: Attempt is %d, but the first attempt has number 1: "+
			"add 1 to the count of the queue, or the job runs more often than the policy allows",
			job.Key, job.Attempt)
	}
	if p.MaxElapsed > 0 && job.Attempt > 1 && job.Began.IsZero() {
		log.Printf("retryjob: job %.100q: Began is not set in attempt %d, "+
			"so MaxElapsed counts from this attempt: "+
			"store when the first attempt began, and set Began to it", job.Key, job.Attempt)
	}
	p = p.ForJob(job.MaxAttempts)
	job.Began, job.Classes = monotonic(job.Began), believed(job.Classes, job.Attempt)
	r := run{job: job, result: ErrPanicked}

	// The four deferred functions run in reverse order. If fn panics, the fourth function makes the
	// decision. If a callback panics, the third function makes the decision without callbacks. If
	// Backoff, Jitter or Source panics, the second function makes the decision with the delays of
	// retry.Default. The first function calls `settle`. One deferred function for all these steps
	// would not be enough, because a callback can call runtime.Goexit, which ends the function that
	// called the callback.
	defer func() { settle(r.outcome) }()
	defer r.again(ctx, p, withDelaysOfDefault)
	defer r.again(ctx, p, withoutCallbacks)
	defer func() {
		if r.inside { // fn panicked, so the callbacks have not learned the result of this attempt
			r.again(ctx, p, r.startedBefore)
		}
	}()
	r.attempt(ctx, p, r.watch(fn))
}

// Decide does what [Run] does, for an attempt that was made elsewhere and returned err. Decide
// reports the events of the attempt, and takes a retry from the Budgets if a retry follows. Then it
// returns the Outcome. Decide makes the same decision whether or not ctx is done.
func Decide(ctx context.Context, p retry.Policy, job Job, err error) (o Outcome) {
	failed := func(context.Context) error { return err }
	Run(context.WithoutCancel(ctx), p, job, failed, func(decided Outcome) { o = decided })
	return o
}

// The function `monotonic` returns the time `began` with a reading of the monotonic clock. If
// `began` is zero or in the future, the function returns the current time.
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
	began   time.Time // when fn was called; the zero time until then
	inside  bool      // true: fn was called, and has not returned
	result  error     // the result of fn; ErrPanicked until fn returns
	decided bool
	outcome Outcome
}

// watch returns a function that calls fn and stores the result of fn in r.
func (r *run) watch(fn func(context.Context) error) func(context.Context) error {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context) error {
		r.began, r.inside = time.Now(), true
		result := fn(ctx)
		inspect := func(err error) { retry.IsPermanent(err) }
		if panicked := harmless.Ask("retryjob", result, inspect); panicked != nil {
			result = panicked // a method of the error panics, and retry.Once would call this method
		}
		r.result, r.inside = result, false
		return result
	}
}

// The method `attempt` calls fn, makes the decision, and stores the Outcome in r.
func (r *run) attempt(ctx context.Context, p retry.Policy, fn func(context.Context) error) {
	a := retry.Attempt{
		Number: r.job.Attempt, Classes: r.job.Classes, Elapsed: time.Since(r.job.Began),
	}
	if key, report := r.job.Key, p.OnEvent; key != "" {
		a.Seed = retry.SeedOf(key)
		if report != nil { // only the events get the key: a retry.Do inside fn needs its own key
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

// believed returns a copy of the counts that a queue has stored, and corrects impossible
// counts. A count above the number of earlier attempts is lowered to that number. If there are
// more classes than earlier attempts, the copy is empty.
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

// counted adds the failure of o to `counts`, and returns `counts`. It changes the map in place,
// because [believed] has already made a copy for this attempt.
func counted(counts map[string]int, o Outcome) map[string]int {
	if counts != nil && o.Class != "" && !o.Interrupted() {
		counts[o.Class]++
	}
	return counts
}

// byAll is for a queue that does not store the counts of classes. It returns a function to use as
// Classify in place of `classify`, and a map of counts. When the new function returns a class, the
// count of this class becomes the number of all earlier failures, whatever their class was. So a
// limit of a class ends a job in such a queue too, but perhaps earlier than exact counts would.
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

// If a panic has prevented the decision about the attempt, `again` makes this decision with the
// policy that the function `change` makes of p, for example a policy without callbacks. If making
// the decision panics once more, `again` recovers this second panic, because the first panic goes
// on anyway. An attempt that a done ctx has interrupted does not count as a failure. But if fn was
// called and panicked, the attempt has failed, so `again` ignores that ctx is done.
func (r *run) again(ctx context.Context, p retry.Policy, change func(retry.Policy) retry.Policy) {
	if r.decided {
		return
	}
	defer func() { _ = recover() }()
	if !r.began.IsZero() {
		ctx = context.WithoutCancel(ctx)
	}
	if r.result == nil {
		p.Budget = nil // the success may already have been counted in the Budget: do not count it twice
	}
	r.attempt(ctx, change(p), func(context.Context) error { return r.result })
}

// startedBefore returns a copy of p for the decision on an attempt that panicked. The OnEvent of
// the copy drops the event AttemptStarted, because this event was reported before the panic.
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

// withoutCallbacks returns p without OnEvent, RetryIf and Classify, because one of them may
// have panicked.
func withoutCallbacks(p retry.Policy) retry.Policy {
	p.OnEvent, p.RetryIf, p.Classify = nil, nil, nil
	return p
}

// withDelaysOfDefault returns p without callbacks and with the delays of [retry.Default]. It is
// for a policy whose Backoff, Jitter or Source panics.
func withDelaysOfDefault(p retry.Policy) retry.Policy {
	p, standard := withoutCallbacks(p), retry.Default()
	p.Backoff, p.MaxDelay = standard.Backoff, standard.MaxDelay
	p.Jitter, p.Source = standard.Jitter, nil
	return p
}
