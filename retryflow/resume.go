package retryflow

import (
	"context"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// Resume continues a run that was cut off by a crash or by a canceled context. The parameter `log`
// contains the events of this run, in the order in which OnEvent got them. The parameter `state` is
// the State of the run at the time when the last event was recorded. If the run was cut off during
// a wait, Resume first waits until the time when this wait would have ended. A task that was
// interrupted starts again and counts its attempts from 1. Jumps in the log count toward MaxJumps.
//
// With an empty log, Resume does the same as Run. If the run has already ended, Resume runs
// nothing, and returns an error if the run failed.
func (p Pipeline) Resume(ctx context.Context, state State, log []Event) error {
	if err := p.Validate(); err != nil {
		return err
	}
	r := p.newRun(state)
	if len(log) == 0 {
		return r.runFrom(ctx, 0)
	}
	last := log[len(log)-1]
	at := p.index(last.Task)
	if at < 0 {
		return fmt.Errorf("retryflow: cannot resume: the log ends in task %q, "+
			"which the pipeline does not have: use the pipeline that wrote the log", last.Task)
	}
	task := p.Tasks[at]
	cut := last.Kind != retry.CallFinished ||
		last.Reason == retry.ReasonCanceled || last.Reason == retry.ReasonDeadline
	switch {
	case last.Directive == Fail && last.Kind == retry.AttemptFinished,
		!cut && last.Reason != retry.ReasonSuccess:
		err := last.Err
		if err == nil {
			err = fmt.Errorf("the task stopped: %s", last.Reason)
		}
		return taskError(task, verdict{}, err)
	case last.Directive == Continue:
		at++
	case last.Directive == Break:
		return nil
	case last.Directive == Jump:
		if at = p.index(last.To); at < 0 {
			return fmt.Errorf("retryflow: cannot resume: the log jumps to %q, "+
				"which the pipeline does not have: use the pipeline that wrote the log", last.To)
		}
	}
	r.jumps = jumpsIn(log)
	if cut && at < len(p.Tasks) {
		if err := r.pause(ctx, time.Until(due(log)), func(time.Time) {}); err != nil {
			err.Err = waitingFor(p.Tasks[at].Label, Outcome{})
			return taskError(task, verdict{}, err)
		}
	}
	return r.runFrom(ctx, at)
}

// due returns the time when the wait at the end of the log ends. It returns the zero time if the
// log does not end in a wait.
func due(log []Event) time.Time {
	for i := len(log) - 1; i >= 0; i-- {
		switch e := log[i]; {
		case e.Kind == retry.RetryScheduled:
			return e.Due
		case e.Kind == retry.AttemptFinished && e.Directive == Jump:
			return e.Time.Add(e.Computed)
		case e.Kind != retry.CallFinished:
			return time.Time{}
		}
	}
	return time.Time{}
}

// jumpsIn returns the number of jumps in a log.
func jumpsIn(log []Event) (n int) {
	for _, e := range log {
		if e.Kind == retry.AttemptFinished && e.Directive == Jump {
			n++
		}
	}
	return n
}
