package retryflow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// State holds the values that the tasks of a pipeline share, under names that you choose.
type State map[string]any

// A Task is one step of a [Pipeline].
type Task struct {
	Label string // the name for a Jump; must be unique in the pipeline and not empty
	Run   func(context.Context, State) Outcome
	Rules Rules
}

// A Pipeline is a list of tasks that run one after another, unless their rules say otherwise. You
// can run a Pipeline any number of times. You can run it concurrently if its functions are safe
// for concurrent use.
//
//   - If the pipeline is invalid, Run runs no task and returns every fault.
//   - Tasks run in order. Each task gets the state that the task before it left.
//   - The rules of a task share one count of attempts.
//   - After each attempt the rules are tried in order, and the first rule that matches decides.
//   - A rule without a When always matches, like an else.
//   - If a When returns an error, the task fails with this error and the error of the outcome. No
//     later rule is tried.
//   - If the error of a When is ErrNoMatch, the task does not fail: the rule just does not match.
//     The event contains this error. If the task fails for another reason, the text of its error
//     contains this error too.
//   - If no rule matches, the pipeline continues after a success and fails after an error.
//   - Delay computes the wait from the outcome.
//   - Set changes the state before the directive takes effect.
//   - Attempts computes the limit of a Retry from the outcome.
//   - If Attempts, Delay or Set returns an error, the task fails with this error and the error of
//     the outcome.
//   - Continue goes on to the next task, even after an error.
//   - Retry runs the task again according to the Policy of the rule, even after a success.
//   - If a rule has no attempts left, the task fails with the last error, and no later rule
//     is tried.
//   - No rule can retry a [retry.Permanent] error, retry earlier than a server asks for, or
//     exceed the limits of Pipeline.Policy.
//   - Jump goes on to the task with the label To. Each time a task is entered, its attempts are
//     counted from 1.
//   - A jump is not a retry and takes nothing from a Budget.
//   - If a jump exceeds MaxJumps, the task that jumps fails without a wait.
//   - Break ends the pipeline without an error and skips the remaining tasks.
//   - Fail ends the pipeline with the error of the outcome.
//   - A pipeline ends when its context is done, also during the wait for a retry or a jump.
//   - A panic in one of your functions is not recovered.
type Pipeline struct {
	Tasks    []Task
	MaxJumps int // the limit on jumps in one run; 0 means 10,000; a negative limit is invalid

	// The limits on attempts, AttemptTimeout, MaxElapsed and Budget of Policy apply to each task,
	// whatever the rules of the task say. If Policy sets no limit on attempts, only the rules limit
	// the attempts. RetryAfter and MaxRetryAfter decide about the wait that a server asks for.
	// Source provides all seeds. Wait is called to wait before retries and jumps.
	//
	// The other fields must be zero, because the rules set backoff and jitter and classify the
	// errors. A task cannot have a HealthyAfter: call [retry.Do] in Task.Run instead.
	Policy retry.Policy

	// OnEvent is called for each event, in order, in the goroutine of Run. It may be nil.
	OnEvent func(context.Context, Event)
}

// Run runs p with a state, which may be nil. It returns nil if the last task continues, or if a
// task ends the pipeline with Break. If a task fails, Run returns an error that names the task.
// errors.Is and errors.As find the error of the task, and [retry.ReasonOf] returns why the task
// was not retried. If a jump exceeds MaxJumps, the error has no Reason.
func (p Pipeline) Run(ctx context.Context, state State) error {
	if err := p.Validate(); err != nil {
		return err
	}
	return p.newRun(state).runFrom(ctx, 0)
}

// A run is one run of a pipeline.
type run struct {
	Pipeline
	state   State
	jumps   int           // how many jumps the run has made
	skipped time.Duration // how far the clock of the run is ahead, because Wait skipped time
}

func (p Pipeline) newRun(state State) *run {
	if state == nil {
		state = State{}
	}
	return &run{Pipeline: p, state: state}
}

// runFrom runs the task with this index and the tasks after it.
func (r *run) runFrom(ctx context.Context, at int) error {
	for at < len(r.Tasks) {
		task := r.Tasks[at]
		v, err := r.execute(ctx, task)
		if err != nil {
			return taskError(task, v, err)
		}
		switch v.Do {
		case Continue:
			at++
		case Jump:
			at = r.index(v.To)
		case Break:
			return nil
		}
	}
	return nil
}

// execute runs a task until its rules no longer say Retry. If the rules say Jump, execute also
// waits for the delay before the jump.
func (r *run) execute(ctx context.Context, task Task) (v verdict, err error) {
	var o Outcome
	v.index = -1            // no rule has matched before the first attempt ends
	var stopped retry.Event // the CallFinished of a task that jumps; it is sent after the wait
	policy := r.policy()
	policy.Classify = func(error) *retry.Class { return v.class() }
	if policy.Wait != nil {
		policy.Wait = r.wait
	}
	if r.OnEvent != nil {
		behind := r.skipped // how far the clock of retry.Do is behind the clock of r
		policy.OnEvent = func(_ context.Context, e retry.Event) {
			e.Time = e.Time.Add(behind)
			if e.Max == noLimit {
				e.Max = retry.Unlimited
			}
			if e.Kind == retry.RetryScheduled {
				e.Due = e.Due.Add(behind)
			}
			if e.Kind == retry.CallFinished && e.Reason == retry.ReasonSuccess && v.Do == Jump {
				stopped = e
				return
			}
			r.OnEvent(ctx, event(e, task, o, v))
		}
	}
	attempt := 0
	bounded, cancel := r.bounded(ctx)
	defer cancel()
	err = retry.Do(bounded, policy, func(ctx context.Context) error {
		attempt++
		began := time.Now()
		o = task.Run(ctx, r.state)
		o.Task, o.Attempt, o.Took, o.State = task.Label, attempt, time.Since(began), r.state
		v = task.Rules.decide(o)
		if v.Set != nil && (v.err == nil || v.Do == Fail) {
			if err := v.Set(r.state, o); err != nil {
				v.fail(v.index, "set", err, o)
			}
		}
		return v.failure(o)
	})
	if err == nil && v.Do == Jump {
		err = r.jump(ctx, task, o, v, stopped)
	}
	return v, err
}

// jump waits for the delay of the rule, and then sends the CallFinished of the task. If the jump
// exceeds MaxJumps, it sends the CallFinished without a wait.
func (r *run) jump(
	ctx context.Context, task Task, o Outcome, v verdict, stopped retry.Event,
) (err error) {
	tell := func(e retry.Event) {
		if r.OnEvent != nil {
			e.Elapsed = stopped.Elapsed + e.Time.Sub(stopped.Time)
			r.OnEvent(ctx, event(e, task, o, v))
		}
	}
	end := stopped
	if r.jumps++; r.jumps > r.maxJumps() {
		err = withOutcome(fmt.Errorf("the jump to %q exceeds MaxJumps (%d)", v.To, r.maxJumps()), o)
	} else {
		cut := r.pause(ctx, v.wait, func(now time.Time) {
			tell(retry.Event{
				Kind: retry.RetryScheduled, Time: now, Due: now.Add(v.wait),
				Attempt: o.Attempt, Max: stopped.Max, Err: o.Err,
				Decision: retry.Decision{
					Reason: retry.ReasonRetry, Delay: v.wait, Lo: v.wait, Hi: v.wait,
				},
			})
		})
		if cut != nil {
			cut.Attempts, cut.Err = o.Attempt, waitingFor(v.To, o)
			end.Reason, end.Err, end.Cause = cut.Reason, o.Err, cut.Cause
			err = cut
		}
	}
	end.Time = r.now()
	tell(end)
	return err
}

func waitingFor(label string, o Outcome) error {
	return withOutcome(fmt.Errorf("waiting for task %q", label), o)
}

// pause waits for d, if d is above 0. It calls scheduled when the wait begins. It returns nil
// after the whole wait. Otherwise the error says why the wait did not begin or why it ended
// early.
func (r *run) pause(
	ctx context.Context, d time.Duration, scheduled func(now time.Time),
) *retry.Error {
	if d <= 0 {
		return nil
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	began := time.Now()
	deadline, bounded := ctx.Deadline()
	switch left := deadline.Sub(began); {
	case ctx.Err() != nil:
		return contextError(ctx, d)
	case bounded && left <= d:
		cause := &tooCloseError{max(0, left)}
		return &retry.Error{Reason: retry.ReasonDeadline, Delay: d, Cause: cause}
	}
	scheduled(began.Add(r.skipped))
	var err error
	if ctx.Err() == nil {
		_, err = r.wait(ctx, max(0, d-time.Since(began)))
	}
	switch {
	case ctx.Err() != nil:
		return contextError(ctx, d)
	case err != nil:
		return &retry.Error{Reason: retry.ReasonWait, Delay: d, Cause: err}
	default:
		return nil
	}
}

// contextError returns the error of a task whose context was done before its jump. d is the delay
// before the jump.
func contextError(ctx context.Context, d time.Duration) *retry.Error {
	e := &retry.Error{Reason: retry.ReasonCanceled, Delay: d, Cause: ctx.Err()}
	if errors.Is(e.Cause, context.DeadlineExceeded) {
		e.Reason = retry.ReasonDeadline
	}
	if cause := context.Cause(ctx); !errors.Is(e.Cause, cause) {
		e.Cause = fmt.Errorf("%w: %w", e.Cause, cause)
	}
	return e
}

// A tooCloseError is the Cause of an error if the wait before a jump would go past the deadline
// of the context.
type tooCloseError struct{ left time.Duration }

func (e *tooCloseError) Error() string {
	left := e.left.Round(time.Millisecond)
	return fmt.Sprintf("the context's deadline is too close: %v are left", left)
}

func (*tooCloseError) Unwrap() error { return context.DeadlineExceeded }

// wait waits for d, with the Wait of the policy if there is one. If Wait skips time, wait sets
// the clock of r ahead by this time.
func (r *run) wait(ctx context.Context, d time.Duration) (skipped time.Duration, err error) {
	if r.Policy.Wait == nil {
		return 0, sleep(ctx, d)
	}
	skipped, err = r.Policy.Wait(ctx, d)
	r.skipped += min(max(0, skipped), d, math.MaxInt64-r.skipped)
	return skipped, err
}

// sleep waits for d or until ctx is done. It returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}

// now returns the time on the clock of r. This clock is ahead by the time that Wait skipped.
func (r *run) now() time.Time { return time.Now().Add(r.skipped) }

// bounded returns ctx with an earlier deadline. The difference is the time that Wait skipped.
func (r *run) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.skipped > 0 {
		if deadline, ok := ctx.Deadline(); ok {
			return context.WithDeadline(ctx, deadline.Add(-r.skipped))
		}
	}
	return ctx, func() {}
}

// taskError adds the label of the task to err. It also adds the texts of the When errors that
// were ErrNoMatch. errors.Is does not find the When errors, because they are not the reason why
// the task failed.
func taskError(task Task, v verdict, err error) error {
	err = fmt.Errorf("retryflow: task %q: %w", task.Label, err)
	for _, fault := range v.faults {
		err = fmt.Errorf("%w; %s", err, strings.ReplaceAll(fault.Error(), "\n", "; "))
	}
	return err
}

// noLimit is the MaxAttempts of a pipeline that sets no limit. With Unlimited, each wait would be
// at least 10ms. A pipeline does not need this, because each rule has a limit or a delay.
const noLimit = math.MaxInt

// policy returns p.Policy. If it sets no limit on attempts, its MaxAttempts becomes noLimit.
func (p Pipeline) policy() retry.Policy {
	policy := p.Policy
	if policy.MaxAttempts == 0 && policy.MaxRetries == 0 {
		policy.MaxAttempts = noLimit
	}
	return policy
}

func (p Pipeline) maxJumps() int {
	if p.MaxJumps == 0 {
		return 10_000
	}
	return p.MaxJumps
}

// index returns the index of the task with a label, or -1 if no task has this label.
func (p Pipeline) index(label string) int {
	return slices.IndexFunc(p.Tasks, func(t Task) bool { return t.Label == label })
}
