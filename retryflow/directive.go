package retryflow

// A Directive says what to do after an attempt. The zero Directive is none. More
// may be added: a switch needs a default.
type Directive string

const (
	Continue Directive = "continue" // go on to the next task
	Retry    Directive = "retry"    // run the task again, as the rule's Policy says
	Jump     Directive = "jump"     // go on to the task that To names
	Break    Directive = "break"    // end the pipeline without an error and skip the other tasks
	Fail     Directive = "fail"     // end the pipeline with the outcome's error
)
