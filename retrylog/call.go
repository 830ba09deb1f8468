package retrylog

import (
	"cmp"
	"time"

	"github.com/goretry/retry"
)

// A Call is one call of retry.Do or DoValue, or a job of a queue that reports the same
// events, as [retry.Once] does. [Replay] makes calls of the records of a log.
type Call struct {
	Key      string // see WithKey; "": it has none
	Max      int    // EffectiveMax of its policy
	Attempts []Attempt
	Reason   retry.Reason // why it stopped; "": the log ends before the call does

	// Cause is what stopped the call besides the failure, or what is wrong with its policy, as
	// in its CallFinished; nil: nothing.
	Cause error

	Records []Record // of its events, in order
}

// An Attempt is one attempt of a [Call], and the retry that was scheduled after it.
type Attempt struct {
	Attempt  int           // 1 for the first attempt of the call
	Started  time.Time     // the zero time: the log lacks its start
	Finished bool          // false: the log ends, or the attempt did not return and a queue went on
	Err      error         // nil: it succeeded, or it has not Finished
	Took     time.Duration // 0: the log does not say it

	// Decision is the decision to try again after the attempt. Retry() is false if there is
	// none. Number and Reset are always set.
	retry.Decision

	Due time.Time // when the retry was due; the zero time: there is none
}

// Add adds r as the next event of c, even if it cannot be. It sets all fields but Key. Use it with
// a [Reader], one event at a time, where [Replay] would need the whole log in memory. Add does not
// check: Replay of c.Records does.
func (c *Call) Add(r Record) {
	e, n, first := r.Event, len(c.Attempts), len(c.Records) == 0
	begun := n > 0 && !c.Attempts[n-1].Finished
	switch {
	case e.Kind == retry.AttemptStarted:
		c.Attempts = append(c.Attempts, Attempt{Attempt: e.Attempt, Started: e.Time})
		c.Max = e.Max
	case e.Kind == retry.AttemptFinished && !begun, // its start is not in the log
		r.Logged && first && e.Attempt > 0 && !refusal(e),
		r.Logged && !first && unseen(c.last(), &r):
		c.Attempts = append(c.Attempts, Attempt{Attempt: e.Attempt, Finished: true, Err: e.Err})
	}
	if n = len(c.Attempts); n > 0 {
		a := &c.Attempts[n-1]
		reset := a.Reset || e.Reset
		switch e.Kind {
		case retry.AttemptFinished:
			a.Finished, a.Err, a.Took = true, e.Err, e.Took
		case retry.RetryScheduled:
			a.Decision, a.Due = e.Decision, e.Due
			a.Reason = retry.ReasonRetry
		}
		a.Number, a.Reset = number(e), reset
	}
	if e.Kind == retry.CallFinished {
		c.Reason, c.Cause = e.Reason, e.Cause
	}
	c.Max = cmp.Or(c.Max, e.Max)
	c.Records = append(c.Records, r)
}

// last returns the last event of c.
func (c *Call) last() *Record { return &c.Records[len(c.Records)-1] }

// CanAdd reports whether r can be the next event of c by its kind and numbers, or the first event
// if c has none. Use it to find the call of an event if several calls have its key, or no key. It
// does not compare keys, and Replay may still reject r for another reason.
func (c *Call) CanAdd(r Record) bool {
	if len(c.Records) == 0 {
		return r.starts() == nil
	}
	before := c.last()
	want, ok := next(before, &r)
	e := r.Event
	later := e.Elapsed >= want.Elapsed || !r.Logged || before.Event.Kind != retry.RetryScheduled
	return ok && later && e.Attempt == want.Attempt && number(e) == want.Number
}
