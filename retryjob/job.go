package retryjob

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/hook"
	"github.com/goretry/retry/retrylog"
)

// A Job describes a job as the queue hands it to a worker.
type Job struct {
	// Key names the job in a log, see [retrylog.Key], and picks its delays, see
	// [retry.SeedOf]: every worker computes the same ones. If it is empty, they
	// are drawn from the policy's Source.
	Key string

	// Attempt is the number of this attempt, 1 for the first. An attempt that a
	// worker did not survive counts: use the number of times that the queue has
	// handed the job out. Below 1 counts as 1.
	Attempt int

	// MaxAttempts is the job's own limit, see [retry.Policy.ForJob]. 0 or below
	// means none.
	MaxAttempts int

	// Began is when the first attempt began, by this machine's clock, for
	// MaxElapsed and the events. If the queue has a different clock, write
	// time.Now().Add(-elapsed). Zero, or a time in the future, counts as now.
	Began time.Time
}

// An Outcome is what follows an attempt of a job, or why it was not made.
//
//	switch {
//	case o.Err == nil: // the job is done
//	case o.Retry(): // hand it out again after o.Delay
//	case o.Interrupted(): // hand it out again, this was no failure of the job
//	default: // move it to the dead letters, with o.Reason and o.Err
//	}
type Outcome struct {
	// Decision is what the policy decides. Its Reason is ReasonSuccess if the job
	// is done. Like [retry.Policy.Next], it has a Delay after each failed attempt,
	// also if no retry follows.
	retry.Decision

	// Err is nil if the job is done. Otherwise it is a [*retry.Error], also if a
	// retry follows; its Reason is then ReasonRetry. Store it where the queue keeps
	// the error of each attempt. [retry.LastError] returns the error of the attempt
	// itself.
	Err error

	// Ran is false if no attempt was made, because the limit was used up already,
	// as when a worker died in the last attempt, or because the context had ended.
	Ran bool
}

// Interrupted reports whether the context ended the attempt, or ended before
// it: the worker is stopping, or the queue has taken the job back. This says
// nothing about the job, so give it back instead of moving it to the dead
// letters. An attempt that a deadline of the context cut short is not
// interrupted: it failed, as with AttemptTimeout.
func (o Outcome) Interrupted() bool {
	return o.Reason == retry.ReasonCanceled || o.Reason == retry.ReasonDeadline
}

// ErrPanicked is the error of an attempt that did not return, because it panicked
// or called runtime.Goexit.
var ErrPanicked = errors.New("the attempt panicked")

// Run makes one attempt of a job and calls settle with what follows. It calls
// settle exactly once, after the events and in the same goroutine, even if fn
// or a callback of the policy panics or calls runtime.Goexit. It does not recover
// the panic: settle tells the queue what follows before the panic goes on.
//
// Run does what [retry.Do] does in an attempt: it applies AttemptTimeout, decides
// as [retry.Policy.Next] does, takes a retry from the policy's Budget and those of
// ctx, puts back the share of a success, and reports events to OnEvent. Three
// things differ. It never waits. The limit counts the attempts of all workers, and
// if it is used up already, fn is not called. A deadline of ctx bounds the attempt,
// not the job.
//
// MaxElapsed is checked after an attempt that failed. A job that no worker took in
// time still runs.
func Run(ctx context.Context, p retry.Policy, job Job, fn func(context.Context) error, settle func(Outcome)) {
	job.Began = monotonic(job.Began)
	call := fn
	var began time.Time
	result := ErrPanicked // until fn returns
	inside, returned := false, false
	if fn != nil {
		call = func(ctx context.Context) error {
			began, inside = time.Now(), true
			result = fn(ctx)
			inside = false
			return result
		}
	}
	defer func() {
		if !returned {
			settle(panicked(ctx, p, job, inside, began, result))
		}
	}()
	o := attempt(ctx, p, job, call)
	o.Ran = !began.IsZero()
	returned = true
	settle(o)
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

// Decide is [Run] for an attempt that was made elsewhere and returned err: it
// decides, takes from the Budgets, reports the events of the attempt, and
// returns what follows. It does so even if ctx has ended.
func Decide(ctx context.Context, p retry.Policy, job Job, err error) (o Outcome) {
	Run(context.WithoutCancel(ctx), p, job, func(context.Context) error { return err }, func(decided Outcome) { o = decided })
	return o
}

// panicked decides on an attempt that did not return. Its start was reported
// before. If a callback of the policy panicked instead of the attempt, OnEvent,
// RetryIf and Select are not called again, and the result of the attempt counts: a
// job that is done must not run again because a callback panicked. If the delay
// cannot be computed either, it is that of [retry.Default].
func panicked(ctx context.Context, p retry.Policy, job Job, inside bool, began time.Time, result error) Outcome {
	took := time.Since(began)
	decide := func(p retry.Policy) (o Outcome, ok bool) {
		defer func() { ok = recover() == nil }()
		o = attempt(context.WithoutCancel(ctx), p, job, func(context.Context) error { return result })
		o.Ran = !began.IsZero()
		return o, true
	}
	if inside {
		reported := p
		reported.OnEvent = func(ctx context.Context, e retry.Event) {
			if e.Kind == retry.AttemptFinished {
				e.Took = took
			}
			if e.Kind != retry.AttemptStarted && p.OnEvent != nil {
				p.OnEvent(ctx, e)
			}
		}
		if o, ok := decide(reported); ok {
			return o
		}
	}
	p.OnEvent, p.RetryIf, p.Select = nil, nil, nil
	if result == nil {
		p.Budget = nil // its share of the success may have been put back already
	}
	if o, ok := decide(p); ok {
		return o
	}
	standard := retry.Default()
	p.Backoff, p.MaxDelay, p.Jitter, p.Source = standard.Backoff, standard.MaxDelay, standard.Jitter, nil
	o, _ := decide(p)
	return o
}

// attempt makes the attempt with retry.Do, which recognizes a job by its source.
func attempt(ctx context.Context, p retry.Policy, job Job, fn func(context.Context) error) Outcome {
	p = p.ForJob(job.MaxAttempts)
	s := &source{job: job, drawn: p.Source}
	p.Source = s
	report := p.OnEvent
	p.OnEvent = func(ctx context.Context, e retry.Event) {
		if report == nil {
			return
		}
		if job.Key != "" {
			ctx = retrylog.WithKey(ctx, job.Key) // fn does not see the key, because its calls need their own
		}
		report(ctx, e)
	}
	err := retry.Do(ctx, p, fn)
	o := Outcome{Decision: s.decision, Err: err}
	o.Reason = retry.ReasonOf(err)
	return o
}

// A source makes retry.Do stop after one attempt of a job, and draws the job's
// delays.
type source struct {
	job      Job
	drawn    retry.Source // for a job without a key; nil: math/rand/v2
	decision retry.Decision
}

func (s *source) Uint64() uint64 {
	switch {
	case s.job.Key != "":
		return retry.SeedOf(s.job.Key)
	case s.drawn != nil:
		return s.drawn.Uint64()
	default:
		return rand.Uint64()
	}
}

func (s *source) Begun(hook.Mark) (attempts int, first time.Time) {
	return max(1, s.job.Attempt) - 1, s.job.Began
}

func (s *source) Decided(_ hook.Mark, d retry.Decision) { s.decision = d }
