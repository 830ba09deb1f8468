package logs

import (
	"cmp"
	"errors"
	"slices"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// A Trace is a call as the files describe it, which may be only a part of the call. Its Attempts
// contain what the events say, even if the events contradict each other.
type Trace struct {
	retrylog.Call
	Cut string // why the files do not contain the whole call; "" if they contain it

	origins []origin // the origin of each event in Records
	turn    int      // how many events had been read when the last event of the call was added
}

// headless is the value of Cut for a call whose start is missing. Such a call is not compared with
// a policy.
const headless = "the log lacks its start"

// Last returns the last event of t.
func (t *Trace) Last() *retry.Event { return &t.Records[len(t.Records)-1].Event }

// lastOrigin returns the source and the origin of the last event of t. The source is the pod,
// service or process that the line of the event names. The origin says which file contains the
// line.
func (t *Trace) lastOrigin() (source string, from origin) {
	n := len(t.Records) - 1
	return t.Records[n].Source, t.origins[n]
}

// Stopped reports whether the last event of t ends the call.
func (t *Trace) Stopped() bool { return t.Last().Kind == retry.CallFinished }

// From returns the source of the first event of t. If this event has no source, From returns the
// name of the file that contains it.
func (t *Trace) From() string { return cmp.Or(t.Records[0].Source, t.File()) }

// File returns the name of the file that contains the first event of t.
func (t *Trace) File() string { return t.origins[0].file.name }

// Foreign reports whether t is from Envoy's access log.
func (t *Trace) Foreign() bool { return t.origins[0].foreign }

// Compare compares t with a policy. byCode is the result of [retrylog.Call.ByCode]. `cut` says why
// t was not compared at all, or why the log lacks the end of t. If the whole call was compared,
// `cut` is "". `fault` is the first event of t that differs from the policy or contradicts the
// event before it. `fault` is nil if there is no such event.
func (t *Trace) Compare(p retry.Policy) (byCode []retrylog.Record, cut string, fault *Fault) {
	first := &t.Records[0]
	switch {
	case t.Foreign():
		return nil, "an access log has no decisions", nil
	case first.Task != "":
		return nil, "a pipeline decided its retries", nil
	case t.Cut == headless:
		return nil, t.Cut, nil
	case first.Logged && first.Event.Time.IsZero():
		return nil, "its lines have no time", nil
	}
	_, last := t.lastOrigin()
	calls, err := retrylog.Replay(t.Records)
	switch {
	case err == nil:
		byCode, err = calls[0].ByCode(p), calls[0].Check(p)
	case last.torn > t.origins[0].torn: // a line among the lines of t was cut off or unreadable
		return nil, "one of its lines is cut off or cannot be read", nil
	}
	return byCode, t.Cut, t.fault(err)
}

// fault converts the error of a comparison to a Fault. If err is about an event of t, the Fault has
// the file, the source and the line of this event. For any other err, or if err is nil, `fault`
// returns nil.
func (t *Trace) fault(err error) *Fault {
	var wrong *retrylog.LineError
	if !errors.As(err, &wrong) {
		return nil
	}
	at := slices.IndexFunc(t.Records, func(r retrylog.Record) bool {
		return r.Line == wrong.Record.Line && r.Event.Time.Equal(wrong.Record.Event.Time)
	})
	return &Fault{t.origins[at].file.name, wrong.Record.Source, wrong.Record.Line, wrong.Err}
}
