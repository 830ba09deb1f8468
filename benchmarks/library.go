package main

import (
	"context"
	"errors"
	"time"
)

// A library is this one, another one, or the loop written by hand.
type library struct {
	name   string
	module string // whose version is printed; empty for the loop written by hand

	duties  bool // its prepare supports the duties of a plan
	classes bool // and the classes of failures

	// prepare builds what the users of the library build once.
	prepare func(plan) calls

	// wait makes one call of the plan hourly in the way that holds the least
	// memory while it waits. nil: run, the fastest way, also holds the least.
	wait func(ctx context.Context, n int, op opFunc) error
}

// A plan is the same policy for every library, configured in the library's own
// way. A library that cannot express a part of it uses the nearest it can.
type plan struct {
	attempts int           // attempts in all
	base     time.Duration // the first delay; each later one is twice the one before; 0: no delay
	most     time.Duration // the longest delay, before jitter
	jitter   float64       // the share of a delay by which it varies

	// Duties, which only the loop written by hand and this library have.
	within  time.Duration // bound on the whole call, which needs to read the clock; 0: no bound
	timeout time.Duration // of each attempt, which needs a context of its own; 0: none
	watched bool          // a function is called for each step

	classes bool // each failure has a class with a name and a limit; only this library has them
}

// The plans of the benchmarks. The longest delay is never reached.
var (
	ordinary = plan{attempts: 5, base: 200 * time.Millisecond, most: 5 * time.Second, jitter: 0.2}
	noDelay  = plan{attempts: 10}
	classed  = plan{attempts: 10, classes: true}
	eventful = plan{attempts: 10, watched: true}
	bounded  = plan{attempts: 5, base: 200 * time.Millisecond, most: 5 * time.Second, jitter: 0.2, within: time.Minute}
	timed    = plan{attempts: 5, base: 200 * time.Millisecond, most: 5 * time.Second, jitter: 0.2, timeout: time.Minute}
	observed = plan{attempts: 5, base: 200 * time.Millisecond, most: 5 * time.Second, jitter: 0.2, watched: true}
	hourly   = plan{attempts: 5, base: time.Hour, most: 24 * time.Hour, jitter: 0.2}
)

// errFailed is the error of the operation in every benchmark.
var errFailed = errors.New("connection refused")

// The functions that a user's operation calls. The libraries repeat it until it
// succeeds.
type (
	opFunc    func(context.Context) error
	valueFunc func(context.Context) (int, error)
)

// calls is a library prepared for a plan. Each function has its own loop, so that
// the calls in it are written as in a user's program: calling through a func value
// would cost a fifth of the time of the bare loop.
type calls struct {
	// run makes n calls and returns the error of the last one. What a user must
	// build for each call, because it keeps state or holds the context, is built
	// for each of the n. For every library, and for the bare loop, the user's
	// operation is one closure with the signature that the library takes. It
	// calls op, and is built once, unless it keeps the value of a call.
	run func(ctx context.Context, n int, op opFunc) error

	// value is run for an operation that returns a value.
	value func(ctx context.Context, n int, op valueFunc) (int, error)

	// once makes one attempt of each of n operations that are counted elsewhere. nil:
	// the library has no such function.
	once func(ctx context.Context, n int, op opFunc) error

	// delay computes the delay after this attempt n times, without waiting, and
	// returns the last. It is called from many goroutines at once. nil: the
	// library does not show its delays.
	delay func(n, attempt int) time.Duration

	// decide is like delay, but makes the whole decision that a queue needs:
	// whether to retry, when, and why not, with the delay drawn from a seed. nil:
	// the library has no such function.
	decide func(n, attempt int) time.Duration

	// read reads a log of events and returns how many it has. nil: the library
	// has no such function.
	read func(log []byte) (events int, err error)
}

var libraries = []library{bareLoop, ours, cenkalti4, cenkalti5, cenkalti7, avast4, avast5, codegroove, sethvargo, failsafeGo, eapache, eapacheGuarded, k8s}
