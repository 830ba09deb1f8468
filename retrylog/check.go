package retrylog

import (
	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
)

// Check makes each decision of c again with p, and returns an error that names
// the first line that p would not have written. A retry with the same seed and
// Retry-After must be drawn from the same window, a call that stopped because of
// the count or the policy itself must stop for the same reason, and a wait may fail,
// or end more than a second early (see [Replay]), only if p has a Wait. Max must be
// p's too: for a job with a limit of its own, pass p.ForJob(limit).
//
// A log does not hold everything that a decision depends on. Its errors are only
// texts, so Check does not call RetryIf or Classify. Check accepts what they decided,
// and [Call.ByCode] returns it. The spread above a Retry-After may be smaller than
// p's, because it is cut to the time that was left. Check also accepts these stops if
// p can stop for that reason at all: the server asked for too long a wait, the retry
// would have been too late, a Budget was empty (perhaps one from the context), or the
// call itself was invalid (a nil context or function). An attempt that was healthy
// under p need not have begun the call anew, because the job of a queue does not.
//
// A [retry.Class] without a name is not in a log. If p has no Classify, Check judges
// its failures by p itself, and calls a correct log wrong where the class decided
// otherwise. So name your classes, or pass a p with a Classify: Check then accepts
// any delay and any limit that a class may have.
func (c Call) Check(p retry.Policy) error {
	return eventlog.Check(len(c.Records), func(i int) eventlog.Entry { return c.Records[i].entry() }, "policy",
		func(eventlog.Entry) (*eventlog.Judge, error) { return &eventlog.Judge{Policy: p}, nil })
}

// ByCode returns the records of c whose decision [Call.Check] accepts because code
// made it: the RetryIf or Classify of a policy, the Wait of p, or a mark such as
// [retry.Permanent]. These are stops for reasons that p alone cannot have, and retries
// whose class p does not know, because the class has a name, or p has a Classify.
func (c Call) ByCode(p retry.Policy) []Record {
	j := eventlog.Judge{Policy: p}
	var by []Record
	for _, r := range c.Records {
		if j.ByCode(r.Event) {
			by = append(by, r)
		}
	}
	return by
}
