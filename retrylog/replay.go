package retrylog

import "github.com/goretry/retry/internal/eventlog"

// A Call is one call of retry.Do or DoValue, or a job of a queue that reports the same events,
// as [retry.Once] does. It has its Key, its Max, its Attempts, the Reason why it stopped, the Cause (what stopped it besides the failure, or what is wrong with its
// policy), and the Records of its events. Its method Check makes each decision again with a
// policy.
type Call = eventlog.Call

// An Attempt is one attempt of a [Call]: the Attempt that it is of all, when it Started, whether it Finished, its
// Err and how long it Took. If a retry was scheduled after it, its method Retry says so, and Due
// and the fields of its [retry.Decision] are as in the event.
type Attempt = eventlog.Attempt

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
// events out of order, a Number beyond Max, a delay that does not follow from the
// Seed, Number, Lo and Hi beside it, a Max that changes within a call, the error of
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
func Replay(records []Record) ([]Call, error) { return eventlog.Replay(records) }

// Explain returns readable text: a line for each event that says what happened,
// when and why, in UTC. It leaves out an error that is already in the line before. Line
// breaks become "; ". Other control characters, and those that change the
// direction of text, are escaped: "\x1b", "\u202e". A kind or a reason of a newer
// version is shown by its name.
func Explain(records []Record) string { return eventlog.Explain(records) }
