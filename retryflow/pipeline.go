package retryflow

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	// AttemptTimeout, MaxElapsed and Budget; Source draws for all rules. A
	// limit that is not set is none. The other fields are up to the rules,
	// which classify failures too, and must be zero here.
	Policy retry.Policy

	OnEvent func(context.Context, Event) // is told of each event, in order, in the goroutine of Run; nil: nobody
}

// Run runs p with a state, which may be nil. It returns nil when the last task
// has continued or one has broken. A task that fails ends the run with an error
// that names it; errors.Is and errors.As find what it failed with, and
// [retry.ReasonOf] why it was not executed again. A jump beyond MaxJumps has no
// Reason of its own.
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
		o, v, err := p.execute(ctx, task, state)
		if err == nil && v.Do == Jump {
			jumps++
			err = p.jump(ctx, jumps, task, o, v)
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
func (p Pipeline) execute(ctx context.Context, task Task, state State) (o Outcome, v verdict, err error) {
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
	return o, v, err
}

// jump waits as the rule of the n-th jump says, unless that is one too many.
func (p Pipeline) jump(ctx context.Context, n int, task Task, o Outcome, v verdict) error {
	if n > p.maxJumps() {
		return after(fmt.Errorf("the jump to %q is one more than MaxJumps, which is %d", v.To, p.maxJumps()), o)
	}
	policy := retry.Policy{MaxRetries: 1, Backoff: retry.Fixed(v.wait)}
	if p.OnEvent != nil {
		policy.OnEvent = func(ctx context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled && e.Delay > 0 {
				e.Attempt, e.Max = o.Attempt, p.policy().EffectiveMax()
				p.OnEvent(ctx, event(e, task, o, v))
			}
		}
	}
	waited := false // one retry after the wait: that is how this package sleeps
	err := retry.Do(ctx, policy, func(context.Context) error {
		if waited {
			return nil
		}
		waited = true
		return fmt.Errorf("waiting to jump to %q", v.To) // without the outcome's error, which may be Permanent or have a wait of its own
	})
	if err != nil {
		return after(err, o)
	}
	return nil
}

// after returns err with what the task itself failed with, which must not be
// lost over it.
func after(err error, o Outcome) error {
	if o.Err == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, o.Err)
}

// taskError names the task that fails, and the rules that could not be asked,
// by their text alone: they are not what it failed with.
func taskError(task Task, v verdict, err error) error {
	err = fmt.Errorf("retryflow: task %q: %w", task.Label, err)
	for _, fault := range v.faults {
		err = fmt.Errorf("%w; %s", err, strings.ReplaceAll(fault.Error(), "\n", "; "))
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
