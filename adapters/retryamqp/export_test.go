package retryamqp

// StepOf is exported for tests.
var StepOf = stepOf

// StepBelow is exported for tests.
var StepBelow = stepBelow

// LeftOut is exported for tests.
var LeftOut = leftOut

// Lasting is exported for tests.
var Lasting = lasting
