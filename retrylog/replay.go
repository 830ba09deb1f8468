package retrylog

import (
	"cmp"
	"time"

	"github.com/goretry/retry"
)

// Replay rebuilds the calls of a log, in the order in which the calls began. Calls with
// different keys may be interleaved.
//
// If the last event of a call is not [retry.CallFinished], a crash, a panic or the end of the log
// has cut off the call. Replay returns such a call without a Reason. A later call may have the
// same key. A call may start with any attempt: the log may have been rotated, or a job may have
// come back from the dead letters with some attempts left.
//
// After a crash or a panic, a log may lack the end of an attempt, or the retry that was scheduled
// after the attempt. If a queue then delivers the job again, the next event is the AttemptStarted
// of the next attempt. If the limit allows no further attempt, the job is refused: the next event
// is a CallFinished without an error. This CallFinished may also be the only event of a call.
//
// Replay skips events of an unknown kind, and treats an unknown reason as a stop. Unknown kinds
// and reasons come from a newer version.
//
// If a log contains an event that cannot have happened, Replay returns a [LineError] for its
// line, and the calls so far. These events cannot have happened:
//
//   - an event out of order
//   - a Number above Max, or a Max that changes in a call
//   - a Delay that is not Draw(Seed, Number, Lo, Hi)
//   - an error that differs from the error in the event before, although both events are about the
//     same attempt
//   - a field that events of this kind do not have
//   - a Time that lags: since the event before, Elapsed has grown by over a day more than Time
//
// Between two events, the field Elapsed may grow by up to a day more than the field Time, because a
// clock may be adjusted or its time zone corrected. Time may grow by any amount more than Elapsed,
// because the clock that measures Elapsed can stop while a machine sleeps.
//
// The workers of a queue measure the Elapsed of a job with their own clocks. The clock of the
// next worker may be up to a second behind. So Elapsed may go back by up to a second between two
// attempts. Replay allows this in all calls, because a log does not say whether a call is a job.
func Replay(records []Record) (calls []Call, err error) {
	running := map[string]int{} // the index in `calls` of each running call, by the key of the call
	for i, r := range records {
		r.Line = cmp.Or(r.Line, i+1) // a record without a Line gets its position
		index, ok := running[r.Key]
		if e := r.Event; e.Kind != "" && !isKnown(e.Kind) {
			continue
		}
		var before *Record
		if ok && !isFirst(r.Event, true) {
			before = calls[index].lastRecord()
		}
		if err := r.checkNext(before); err != nil {
			return calls, &LineError{r, err}
		}
		if before == nil {
			index = len(calls)
			calls = append(calls, Call{Key: r.Key})
		}
		calls[index].Add(r)
		if running[r.Key] = index; r.Event.Kind == retry.CallFinished {
			delete(running, r.Key)
		}
	}
	return calls, nil
}

// clockSkew is how far the clocks of a queue's workers may differ. See Replay and Check.
const clockSkew = time.Second
