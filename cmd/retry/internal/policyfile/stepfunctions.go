package policyfile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// These are the limits of the Amazon States Language.
const (
	stepMostAttempts = 99_999_999
	stepMostDelay    = 31_622_400
)

// readStepFunctions reads a retrier of a state.
func readStepFunctions(f *form) {
	const write = `names of errors as a list, such as ["States.ALL"]`
	f.needed = true
	isName := func(name string) bool { return name != "" }
	failures(f, "ErrorEquals", write, list[string](f, "ErrorEquals", write), isName)
	f.needed = false
	if f.isRetried("States.ALL") && strings.Contains(f.retryOn, ",") {
		f.fault("ErrorEquals", f.retryOn, "States.ALL alone")
	}
	f.attempts = 1 + f.whole("MaxAttempts", 0, stepMostAttempts, 3)
	f.base = time.Duration(f.whole("IntervalSeconds", 1, stepMostAttempts, 1)) * time.Second
	f.factor = f.number("BackoffRate", "1 or more", 2, fromOne)
	f.cap = time.Duration(f.whole("MaxDelaySeconds", 1, stepMostDelay, 0)) * time.Second
	if f.cap > 0 && f.cap <= f.base {
		f.fault("MaxDelaySeconds", int(f.cap.Seconds()),
			fmt.Sprintf("more than the IntervalSeconds, %d", int(f.base.Seconds())))
	}
	isStrategy := func(j string) bool { return j == "FULL" || j == "NONE" }
	if take(f, "JitterStrategy", `"FULL" or "NONE"`, "", isStrategy) == "FULL" {
		f.jitter = retry.FullJitter
	}
	f.skip("", "Comment")
	f.retriers()
	f.layers()
}

// retriers adds notes and warnings about the other retriers of the same state, because they affect
// this retrier.
func (f *form) retriers() {
	if f.b.beside == nil {
		return
	}
	if limit, ok := f.b.beside.get(exactly, "TimeoutSeconds"); ok && f.attempts != 1 &&
		!f.isRetried("States.ALL") && !f.isRetried("States.Timeout") {
		f.b.note("ErrorEquals",
			fmt.Sprintf("this retrier does not retry an attempt that TimeoutSeconds (%s) ends: add "+
				"States.Timeout", limit.value.Value))
	}
	list := f.places(f.b.beside, "Retry.*")
	if len(list) < 2 {
		return
	}
	attempts, before, first := 1, true, map[string]bool{}
	for i, r := range list {
		names := f.textsAt(r, "ErrorEquals.*")
		attempts = min(math.MaxInt32, attempts+f.retriesOf(r))
		if own := r.node == f.b.original; own && slices.Contains(names, "States.ALL") && i < len(list)-1 {
			f.fault("ErrorEquals", "States.ALL", "it in the last retrier")
		} else if own {
			before = false
		}
		for _, name := range names {
			first[name] = first[name] || before
		}
	}
	for name := range strings.SplitSeq(f.retryOn, ",") {
		if first[name] {
			f.b.warn(noEffect, "ErrorEquals",
				fmt.Sprintf("ErrorEquals: %s has no effect here: an earlier retrier of the state lists it, "+
					"and no later retrier is tried", name))
		}
	}
	f.b.note("MaxAttempts",
		fmt.Sprintf("each retrier counts its own retries: with the other retriers, the state makes up "+
			"to %d attempts", attempts))
}

// retriesOf returns how many retries a retrier of a state allows.
func (f *form) retriesOf(retrier *place) int {
	return int(min(stepMostAttempts, f.amount(retrier, "MaxAttempts", 3)))
}

// layers warns if another state contains this state and is retried as a whole.
func (f *form) layers() {
	for p := f.b.beside; p != nil && p.up != nil; p = p.up {
		more := 0
		for _, outer := range f.places(p.up, "Retry.*") {
			more = min(math.MaxInt32, more+f.retriesOf(outer))
		}
		if more > 0 && f.attempts != 1 {
			f.b.warn(multiply, "MaxAttempts",
				fmt.Sprintf("attempts multiply: the state around this state is retried as a whole, up to %d "+
					"times, so up to %d attempts of this state run",
					more, f.attempts*(more+1)))
		}
	}
}
