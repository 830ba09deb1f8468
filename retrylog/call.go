package retrylog

import (
	"cmp"
	"time"

	"github.com/goretry/retry"
)

// A Call is one call of retry.Do or DoValue, or one job of a queue whose attempts are made with
// [retry.Once]. [Replay] builds calls from the records of a log.
type Call struct {
	Key      string // the key of the call, see WithKey; "" if the call has no key
	Max      int    // the limit on attempts: the EffectiveMax of the policy
	Attempts []Attempt
	Reason   retry.Reason // why the call stopped; "" if the log ends before the call does

	// Cause is the Cause of the CallFinished event. It is nil if the event has no Cause. If the policy
	// is invalid, Cause says why. If something other than the last error stopped the call, such as a
	// canceled context, Cause says what stopped the call.
	Cause error

	Records []Record // the records of the events, in order
}

// An Attempt is one attempt of a [Call], and the retry that was scheduled after the attempt.
type Attempt struct {
	Attempt  int           // the number of the attempt in the call, from 1
	Started  time.Time     // when the attempt began; zero if the log lacks its start
	Finished bool          // whether the attempt returned, as far as the log shows
	Err      error         // the error of the attempt; nil if it succeeded or has not finished
	Took     time.Duration // how long the attempt ran; 0 if the log does not say

	// Decision is the decision to retry after the attempt. If no retry was scheduled, only its
	// Number and Reset are set, and its Retry method returns false.
	retry.Decision

	Due time.Time // when the retry was due; zero if no retry was scheduled
}

// Add adds r as the next event of c and sets all fields of c except Key. Use Add with a [Reader] if
// the log is too long for [Replay], which needs all records in memory. Add does not check whether r
// can follow the records that c already has. To check all records, pass c.Records to Replay.
func (c *Call) Add(r Record) {
	e, n, first := r.Event, len(c.Attempts), len(c.Records) == 0
	begun := n > 0 && !c.Attempts[n-1].Finished
	switch {
	case e.Kind == retry.AttemptStarted:
		c.Attempts = append(c.Attempts, Attempt{Attempt: e.Attempt, Started: e.Time})
		c.Max = e.Max
	case e.Kind == retry.AttemptFinished && !begun, // the log lacks the AttemptStarted
		r.Logged && first && e.Attempt > 0 && !refusal(e),
		r.Logged && !first && isUnseen(c.lastRecord(), &r):
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

// lastRecord returns the last record of c.
func (c *Call) lastRecord() *Record { return &c.Records[len(c.Records)-1] }

// CanAdd reports whether r can be the next event of c, judged only by the kind and the numbers of
// r. If c has no events, CanAdd reports whether r can be the first event. Use CanAdd to find the
// call of an event if several calls have the same key or no key. CanAdd does not compare keys.
// Replay may still reject r for another reason, for example its Time.
func (c *Call) CanAdd(r Record) bool {
	if len(c.Records) == 0 {
		return r.checkFirst() == nil
	}
	before := c.lastRecord()
	want, ok := expected(before, &r)
	e := r.Event
	later := e.Elapsed >= want.Elapsed || !r.Logged || before.Event.Kind != retry.RetryScheduled
	return ok && later && e.Attempt == want.Attempt && number(e) == want.Number
}
