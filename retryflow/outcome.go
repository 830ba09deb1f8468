package retryflow

import (
	"fmt"
	"time"
)

// Outcome is the result of one attempt of a task. Task.Run sets Result, Err and Data. The
// pipeline overwrites Task, Attempt, Took and State.
type Outcome struct {
	Result any            // the value that the task returned
	Err    error          // the error of the attempt; nil if it succeeded
	Data   map[string]any // details of HTTP, SQL or a script, under keys that you choose

	Task    string        // the label of the task
	Attempt int           // 1 for the first attempt since the task was entered
	Took    time.Duration // how long the attempt ran
	State   State         // the State of the pipeline itself, for When and Delay to read
}

// Status returns "success" if Err is nil, and otherwise "error".
func (o Outcome) Status() string {
	if o.Err != nil {
		return "error"
	}
	return "success"
}

// withOutcome returns err. If the outcome o has an error, withOutcome joins this error to err.
func withOutcome(err error, o Outcome) error {
	if o.Err == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, o.Err)
}
