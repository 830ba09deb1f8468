package retryamqp

// StepOf is exported for tests.
var StepOf = stepOf

// StepBelow is exported for tests.
var StepBelow = stepBelow
