package retryamqp

// StepOf is for tests.
var StepOf = stepOf
