package retryflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/hook"
)

// State is what a pipeline carries from task to task, under names you choose.
type State map[string]any

// A Task is one step of a [Pipeline].
type Task struct {
	Label string // the name that a Jump uses; not empty, and unique in the pipeline
	Run   func(context.Context, State) Outcome
	Rules Rules
}

// A Pipeline is a list of tasks that run one after another unless their rules
// say otherwise. It can be run any number of times, and concurrently if its
// functions allow that.
type Pipeline struct {
	Tasks    []Task
	MaxJumps int // the limit on jumps in one run; 0 means 10,000

	// Policy bounds every task with its limits, AttemptTimeout, MaxElapsed and
	// Budget, whatever the task's rules say. Its Source is used for all rules.
	// If it sets no limit, only the rules limit the attempts. The other fields
	// must be zero here: they belong to the rules, which also classify the
	// errors.
	Policy retry.Policy

	// OnEvent is called for each event, in order, in the goroutine of Run; nil
	// means no callback.
	OnEvent func(context.Context, Event)
}

// Run runs p with a state, which may be nil. It returns nil when the last task
// has continued or a task has ended the pipeline with Break. If a task fails,
// Run returns an error that names the task. errors.Is and errors.As find the
// task's own error, and [retry.ReasonOf] returns why it was not retried. A jump
// beyond MaxJumps has no Reason.
func (p Pipeline) Run(ctx context.Context, state State) error {
	if err := p.Validate(); err != nil {
		return err
	}
	return p.run(ctx, state, 0, 0)
}

// run runs p from the task at an index, after a number of jumps.
func (p Pipeline) run(ctx context.Context, state State, at, jumps int) error {
	if state == nil {
		state = State{}
	}
	for at < len(p.Tasks) {
		task := p.Tasks[at]
		v, err := p.execute(ctx, task, state, jumps)
		if err != nil {
			return taskError(task, v, err)
		}
		switch v.Do {
		case Continue:
			at++
		case Jump:
			jumps++
			at = p.index(v.To)
		case Break:
			return nil
		}
	}
	return nil
}

// execute runs a task until its rules say something other than Retry, and
// waits if they say to jump.
func (p Pipeline) execute(ctx context.Context, task Task, state State, jumps int) (v verdict, err error) {
	var o Outcome
	v.index = -1            // until an attempt has ended
	var stopped retry.Event // of a task that jumps, held back until the wait is over
	policy := p.policy()
	policy.Select = func(error) *retry.Policy { return v.policy() }
	if p.OnEvent != nil {
		policy.OnEvent = func(ctx context.Context, e retry.Event) {
			if e.Kind == retry.Stopped && e.Reason == retry.ReasonSuccess && v.Do == Jump {
				stopped = e
				return
			}
			p.OnEvent(ctx, event(e, task, o, v))
		}
	}
	for attempt, ctx := range retry.Loop(ctx, policy, &err) {
		began := time.Now()
		o = task.Run(ctx, state)
		o.Task, o.Attempt, o.Took, o.State = task.Label, attempt, time.Since(began), state
		v = task.Rules.decide(o)
		if v.Set != nil && (v.err == nil || v.Do == Fail) {
			if err := v.Set(state, o); err != nil {
				v.fail("set", err, o)
			}
		}
		err = v.failure(o)
	}
	if err == nil && v.Do == Jump {
		err = p.jump(ctx, jumps+1, task, o, v, stopped)
	}
	return v, err
}

// jump waits as the rule says, unless the n-th jump exceeds MaxJumps, and
// reports that the task has stopped.
func (p Pipeline) jump(ctx context.Context, n int, task Task, o Outcome, v verdict, stopped retry.Event) error {
	var err error
	if n > p.maxJumps() {
		err = fmt.Errorf("the jump to %q exceeds MaxJumps (%d)", v.To, p.maxJumps())
	} else {
		err = wait(ctx, v.wait, v.To, func(e retry.Event) {
			if p.OnEvent != nil {
				e.Attempt, e.Max, e.Err, e.Elapsed = o.Attempt, stopped.Max, o.Err, stopped.Elapsed+e.Elapsed
				p.OnEvent(ctx, event(e, task, o, v))
			}
		})
	}
	if p.OnEvent != nil {
		waited := time.Since(stopped.Time)
		stopped.Time, stopped.Elapsed = stopped.Time.Add(waited), stopped.Elapsed+waited
		var cut *retry.Error
		if errors.As(err, &cut) {
			stopped.Reason, stopped.Err, stopped.Cause = cut.Reason, o.Err, cut.Cause
		}
		p.OnEvent(ctx, event(stopped, task, o, v))
	}
	if err != nil {
		return after(err, o)
	}
	return nil
}

// wait waits before a jump to a task. It calls scheduled with the
// RetryScheduled, unless the wait is 0.
func wait(ctx context.Context, d time.Duration, to string, scheduled func(retry.Event)) error {
	policy := retry.Policy{MaxRetries: 1, Backoff: retry.Fixed(d)}
	policy.OnEvent = func(_ context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled && e.Delay > 0 {
			scheduled(e)
		}
	}
	waited := false // one retry after the wait, so that package retry does the sleeping
	return retry.Do(unpaid{ctx}, policy, func(context.Context) error {
		if waited {
			return nil
		}
		waited = true
		return fmt.Errorf("waiting to jump to %q", to) // without the outcome's error, which may be Permanent or have a wait
	})
}

// unpaid is the context of a wait that is not a retry. It keeps the wait from
// taking anything from the Budgets of the context. No task sees it.
type unpaid struct{ context.Context }

func (unpaid) NoRetry(hook.Mark) {}

// after returns err together with the task's own error.
func after(err error, o Outcome) error {
	if o.Err == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, o.Err)
}

// taskError adds the task's label, and the errors of the rules whose When
// failed. Those are only text, because they are not why the task failed.
func taskError(task Task, v verdict, err error) error {
	err = fmt.Errorf("retryflow: task %q: %w", task.Label, err)
	for _, fault := range v.faults {
		err = fmt.Errorf("%w; %s", err, strings.ReplaceAll(fault.Error(), "\n", "; "))
	}
	return err
}

// policy returns Policy with unlimited attempts if it sets no limit. The curve
// only makes it valid: each retry uses the curve of its rule.
func (p Pipeline) policy() retry.Policy {
	policy := p.Policy
	if policy.MaxAttempts == 0 && policy.MaxRetries == 0 {
		policy.MaxAttempts = retry.Unlimited
	}
	policy.Backoff = retry.Fixed(time.Hour)
	return policy
}

func (p Pipeline) maxJumps() int {
	if p.MaxJumps == 0 {
		return 10_000
	}
	return p.MaxJumps
}

// index returns the index of the task with a label, or -1 if there is none.
func (p Pipeline) index(label string) int {
	return slices.IndexFunc(p.Tasks, func(t Task) bool { return t.Label == label })
}
