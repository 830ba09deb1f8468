package retryflow

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
)

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
	skipped time.Duration // how far the clock of the run is ahead; see the method `wait`
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

// taskError adds the label of the task to err. If the When of a rule failed with ErrNoMatch,
// taskError also adds the text of this error. errors.Is does not find this error, because it is not
// the reason why the task failed.
func taskError(task Task, v verdict, err error) error {
	err = fmt.Errorf("retryflow: task %q: %w", task.Label, err)
	for _, fault := range v.faults {
		err = fmt.Errorf("%w; %s", err, strings.ReplaceAll(fault.Error(), "\n", "; "))
	}
	return err
}

// execute runs a task until its rules no longer say Retry. If the rules say Jump, `execute` also
// waits for the delay before the jump.
func (r *run) execute(ctx context.Context, task Task) (v verdict, err error) {
	var o Outcome
	v.index = -1            // no rule has matched before the first attempt ends
	var stopped retry.Event // the CallFinished of a task that jumps, which is sent after the wait
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

// jump waits for the delay of the rule, and then sends the CallFinished of the task. If the number
// of jumps exceeds MaxJumps, the method sends the CallFinished without a wait.
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
