package retryflow

import (
	"context"
	"math"
	"slices"

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
//     The field Faults of the [Event] contains this error. If the task fails for another reason,
//     the text of the task's error also contains the text of this error.
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

	// These fields of Policy apply to each task, whatever the rules of the task say: MaxAttempts,
	// MaxRetries, AttemptTimeout, MaxElapsed and Budget. If Policy sets no limit on attempts, only the
	// rules limit the attempts. RetryAfter and MaxRetryAfter decide about the wait that a server asks
	// for. Source provides all seeds. Wait is called to wait before retries and jumps.
	//
	// The other fields must be zero, because the rules set backoff and jitter and classify the
	// errors. A task cannot have a HealthyAfter: call [retry.Do] in Task.Run instead.
	Policy retry.Policy

	// OnEvent is called for each event, in order, in the goroutine of Run. It may be nil.
	OnEvent func(context.Context, Event)
}

// noLimit is the MaxAttempts of a pipeline that sets no limit. With Unlimited, each wait would be
// at least 10ms. A pipeline does not need this minimum, because each rule has a limit or a delay.
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
