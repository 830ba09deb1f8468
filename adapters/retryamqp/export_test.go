package retryamqp

import "net"

// StepOf is exported for tests.
var StepOf = stepOf

// StepBelow is exported for tests.
var StepBelow = stepBelow

// LeftOut is exported for tests.
var LeftOut = leftOut

// NewSocket is exported for tests.
func NewSocket(conn net.Conn) net.Conn { return socket{conn} }

// Lasting is exported for tests.
var Lasting = lasting
