package retrylog

import (
	"cmp"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/internal/saturate"
)

// A Call is one call of retry.Do or DoValue, or a job of a queue that reports the
// same events, as [retry.Once] does.
type Call struct {
	Key      string
	Max      int // EffectiveMax of its policy
	Resets   int // how often it began anew, by HealthyAfter
	Attempts []Attempt
	Reason   retry.Reason // why it stopped; "": the log ends before the call does
	Cause    error        // what stopped it besides the failure, as in its event; nil: nothing
	Fault    error        // what is wrong with its policy, or the call itself; nil: nothing
	Records  []Record     // the events themselves
}

// An Attempt is one attempt of a [Call], and the retry scheduled after it.
type Attempt struct {
	Number     int // as it started: 1 for the first, 2 for the one after a Reset
	Started    time.Time
	Finished   bool // false: the log ends, or the attempt did not return and a queue went on
	Err        error
	Took       time.Duration
	Reset      bool          // it was healthy, and the call began anew with it, see [retry.Policy]
	Scheduled  bool          // a retry was scheduled; the fields below are of it
	Delay      time.Duration // is Draw(Seed, Number, Lo, Hi), with 1 for Number after a Reset
	Due        time.Time
	Lo, Hi     time.Duration
	RetryAfter time.Duration // what the server asked for; 0: nothing
	Seed       uint64        // 0: Delay is not random
	Class      string        // the class of the failure; "": none
}

// Waited returns the sum of the delays between the attempts of c, at most the
// longest duration.
func (c Call) Waited() time.Duration {
	var sum time.Duration
	for _, a := range c.Attempts[:max(0, len(c.Attempts)-1)] {
		sum = saturate.Add(sum, a.Delay)
	}
	return sum
}

// Replay rebuilds the calls of a log, in the order in which they began. Calls
// with different keys may be interleaved. A call whose last event is not
// [retry.CallFinished] was cut off by a crash, a panic, or the end of the log; it is
// returned without a Reason, and a later call may have its key. A call may begin
// with any attempt, because the log may have been rotated, or the job of a queue
// may have returned from the dead letters with the attempts that it has left.
//
// An attempt that did not succeed may be followed by the next one with nothing in
// between: it did not return, or a crash or a panic kept its retry out of the log, and
// a queue went on. If an attempt that did not return was the last one, the queue
// refuses the job: a CallFinished without an error follows, which may also stand alone.
//
// Replay skips events of a kind that it does not know, and takes a reason that it
// does not know for a stop: they are from a newer version.
//
// A log that cannot have happened is an error that names the line at fault:
// events out of order, an attempt beyond Max, a delay that does not follow from the
// Seed, Attempt, Lo and Hi beside it, a Max that changes within a call, the error of
// another attempt, or a field that its kind of event does not have. The calls up to
// the fault are returned.
//
// A wall clock that goes back is such a fault, too, if Time falls behind Elapsed by
// more than a day from one event to the next. A smaller step can happen when a clock
// is adjusted, or its time zone is corrected. Time may run ahead of Elapsed by any
// amount, because the clock that measures Elapsed can stop while a machine sleeps.
//
// The Elapsed of a job is measured by the clock of the worker that has it. The clock of
// the next worker may be up to a second behind, and a log does not say whether it is
// of a job: so Elapsed may go back by a second between two attempts.
func Replay(records []Record) ([]Call, error) {
	replayed, err := eventlog.Replay(len(records), func(i int) eventlog.Entry { return records[i].numbered(i).entry() })
	var calls []Call
	for _, r := range replayed {
		c := Call{Key: r.Key, Max: r.Max, Resets: r.Resets, Reason: r.Reason, Cause: r.Cause, Fault: r.Fault}
		for _, a := range r.Attempts {
			c.Attempts = append(c.Attempts, Attempt(a))
		}
		for _, i := range r.Entries {
			c.Records = append(c.Records, records[i].numbered(i))
		}
		calls = append(calls, c)
	}
	return calls, err
}

// numbered returns r with its line. If it was not read, that is the one that it would
// be written on, as the i-th of a log.
func (r Record) numbered(i int) Record {
	r.Line = cmp.Or(r.Line, i+1)
	return r
}
