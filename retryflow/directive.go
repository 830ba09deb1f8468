package retryflow

// A Directive says what to do after an attempt. The zero Directive is invalid in a [Rule]. In an
// [Event], the zero Directive means that nothing has been decided yet. A later version may add
// directives, so a switch needs a default.
type Directive string

const (
	Continue Directive = "continue" // go on to the next task
	Retry    Directive = "retry"    // run the task again, according to the Policy of the rule
	Jump     Directive = "jump"     // go on to the task whose label is To
	Break    Directive = "break"    // end the pipeline without an error and skip the other tasks
	Fail     Directive = "fail"     // end the pipeline with the error of the outcome
)
