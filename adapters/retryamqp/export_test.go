package retryamqp

// StepOf is exported for tests.
var StepOf = stepOf
