package retryflow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// State is what a pipeline carries from task to task, by names of its own.
type State map[string]any

// A Task is one step of a [Pipeline].
type Task struct {
	Label string // what a Jump names; not empty, and no other task's
	Run   func(context.Context, State) Outcome
	Rules Rules
}

// A Pipeline is tasks that run one after another, as far as their rules do not
// say otherwise. It may be run any number of times, and at once where its
// functions may be called so.
type Pipeline struct {
	Tasks    []Task
	MaxJumps int // jumps in one run; 0: 10,000

	// Policy bounds every task, whatever its rules say, by its limits,
	// AttemptTimeout, MaxElapsed, RetryIf and Budget; Source draws for all
	// rules. A limit that is not set is none. The other fields are those of
	// the rules, and must be zero here.
	Policy retry.Policy

	OnEvent func(context.Context, Event) // is told of each event, in order, in the goroutine of Run; nil: nobody
}

// Run runs p with a state, which may be nil. It returns nil when the last task
// has continued or one has broken. A task that fails ends the run with an error
// that names it; errors.Is and errors.As find what it failed with, and
// [retry.ReasonOf] why it was not executed again.
func (p Pipeline) Run(ctx context.Context, state State) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if state == nil {
		state = State{}
	}
	jumps := 0
	for at := 0; at < len(p.Tasks); {
		task := p.Tasks[at]
		v, err := p.execute(ctx, task, state)
		if err == nil && v.Do == Jump {
			jumps++
			err = p.jump(ctx, jumps, v)
		}
		if err != nil {
			return taskError(task, v, err)
		}
		switch v.Do {
		case Continue:
			at++
		case Jump:
			at = p.index(v.To)
		case Break:
			return nil
		}
	}
	return nil
}

// execute executes a task until its rules say something else than to retry.
func (p Pipeline) execute(ctx context.Context, task Task, state State) (v verdict, err error) {
	var o Outcome
	policy := p.policy()
	policy.Select = func(error) *retry.Policy { return v.policy() }
	if p.OnEvent != nil {
		policy.OnEvent = func(ctx context.Context, e retry.Event) { p.OnEvent(ctx, event(e, task, o, v)) }
	}
	for attempt, ctx := range retry.Loop(ctx, policy, &err) {
		began := time.Now()
		o = task.Run(ctx, state)
		o.Attempt, o.Took, o.State = attempt, time.Since(began), state
		v = task.Rules.decide(o)
		if v.err == nil && v.Set != nil {
			if err := v.Set(state, o); err != nil {
				v.fail("set", err, o)
			}
		}
		err = v.failure(o)
	}
	return v, err
}

// jump waits as the rule of the n-th jump says, unless that is one too many.
func (p Pipeline) jump(ctx context.Context, n int, v verdict) error {
	if n > p.maxJumps() {
		return fmt.Errorf("the jump to %q is one more than MaxJumps, which is %d", v.To, p.maxJumps())
	}
	waited := false // one retry after the wait: that is how this package sleeps
	return retry.Do(ctx, retry.Policy{MaxRetries: 1, Backoff: retry.Fixed(v.wait)}, func(context.Context) error {
		if waited {
			return nil
		}
		waited = true
		return fmt.Errorf("waiting to jump to %q", v.To)
	})
}

// taskError names the task that fails, and the rules that could not be asked,
// by their text alone: they are not what it failed with.
func taskError(task Task, v verdict, err error) error {
	err = fmt.Errorf("retryflow: task %q: %w", task.Label, err)
	for _, fault := range v.faults {
		err = fmt.Errorf("%w; %v", err, fault)
	}
	return err
}

// policy returns Policy with no limit where it sets none, and a curve that is
// never waited for: each retry has that of its rule.
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

// index returns where the task with a label is, -1 if it is nowhere.
func (p Pipeline) index(label string) int {
	return slices.IndexFunc(p.Tasks, func(t Task) bool { return t.Label == label })
}
