package main

import (
	"context"
	"errors"
	"time"
)

// A library is ours, a peer, or the loop written by hand.
type library struct {
	name   string
	module string // whose version is printed; empty for the loop written by hand

	// prepare builds what the users of the library build once.
	prepare func(plan) calls

	// wait makes one call of the plan hourly in the way that holds the least
	// while it waits, where the fastest way, run, holds more. nil: run does.
	wait func(ctx context.Context, n int, op opFunc) error
}

// A plan says the same to every library. Each is told it in its own words; a
// peer that cannot say a part of it says what comes nearest.
type plan struct {
	attempts int           // executions in all
	base     time.Duration // the first delay, each other is twice the one before; 0: no delay
	most     time.Duration // the longest delay, before jitter
	jitter   float64       // share of a delay by which it is moved
}

// The plans of the benchmarks. The longest delay is never reached.
var (
	ordinary = plan{attempts: 5, base: 200 * time.Millisecond, most: 5 * time.Second, jitter: 0.2}
	noDelay  = plan{attempts: 10}
	hourly   = plan{attempts: 5, base: time.Hour, most: 24 * time.Hour, jitter: 0.2}
)

// errFailed is what the operation of every benchmark fails with.
var errFailed = errors.New("connection refused")

// What a user's operation calls, and the libraries again until it succeeds.
type (
	opFunc    func(context.Context) error
	valueFunc func(context.Context) (int, error)
)

// calls is a library made ready for a plan. Each function loops itself, so
// that its calls are written as in a user's program: one through a func value
// takes a fifth of the time of the bare loop.
type calls struct {
	// run makes n calls and returns what the last one does. What a user must
	// build for each call, for it keeps state or holds the context, is built
	// for each of the n. The user's operation is with every library, the bare
	// loop too, one closure of the signature that it takes: it calls op, and is
	// built once, unless it keeps the value of a call.
	run func(ctx context.Context, n int, op opFunc) error

	// value is run for an operation that returns a value.
	value func(ctx context.Context, n int, op valueFunc) (int, error)

	// delay computes the delay after the attempt-th failure n times, without
	// waiting, and returns the last. It is called from many goroutines at
	// once. nil: the library offers nobody else its delays.
	delay func(n, attempt int) time.Duration

	// decide is delay with all that a queue asks: whether to retry, when, and
	// why not, the delay by a seed. nil: the library has no such thing.
	decide func(n, attempt int) time.Duration
}

var libraries = []library{bareLoop, ours, cenkalti4, cenkalti5, cenkalti7, avast4, avast5, codegroove, sethvargo, failsafeGo, eapache, eapacheGuarded, k8s}
