package retrynats

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/goretry/retry/retryjob"
)

// MaxAttemptsHeader is the header that contains a message's own limit on attempts. The limit is
// a whole number of at least 1. It can lower the policy's limit, but never raise it.
const MaxAttemptsHeader = "Retry-Max-Attempts"

// SubjectHeader is the header of a dead letter that contains the subject of the failed message.
const SubjectHeader = "Retry-Subject"

const (
	// A dead letter has these two headers. The first header contains the retryjob.DeadLetter as JSON.
	// The second header says which part of the message the dead letter lacks.
	deadHeader    = "Retry-Dead-Letter"
	leftOutHeader = "Retry-Left-Out"

	// dueHeader is a header of a message that was a dead letter. It contains the time at which the
	// message is due, in the format time.RFC3339Nano.
	dueHeader = "Retry-Due"
)

// DeadLetterOf returns the dead letter from the headers of a message on the subject for dead
// letters. It returns an error if the header with the dead letter is missing or cannot be
// parsed.
func DeadLetterOf(header nats.Header) (retryjob.DeadLetter, error) {
	text := header.Get(deadHeader)
	if text == "" {
		return retryjob.DeadLetter{}, fmt.Errorf(
			"retrynats: the message is not a dead letter: the header %s is missing", deadHeader)
	}
	var d retryjob.DeadLetter
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return retryjob.DeadLetter{}, fmt.Errorf("retrynats: header %s: %w", deadHeader, err)
	}
	return d, nil
}

// AttemptOf returns the number of the attempt that the delivery msg starts. The first attempt
// has number 1. If Redrive has moved a dead letter back, the first delivery of its message is
// not an attempt: the worker only asks the server to deliver the message again when the message is
// due. For such a delivery, AttemptOf returns 0. It also returns 0 for a message that does not come
// from JetStream.
func AttemptOf(msg jetstream.Msg) int {
	meta, err := msg.Metadata()
	if err != nil {
		return 0
	}
	delivered := int(min(meta.NumDelivered, math.MaxInt))
	if _, redriven := msg.Headers()[dueHeader]; redriven {
		return max(0, delivered-1)
	}
	return delivered
}

// `read` returns the job of a delivery, and the time at which its message is due. A zero time
// means that the message is due now. A producer may have written the headers. If a header is
// malformed, `read` returns an error, and the message becomes a dead letter.
func read(
	msg jetstream.Msg, meta *jetstream.MsgMetadata,
) (job retryjob.Job, due time.Time, malformed error) {
	job = retryjob.Job{
		Key:     fmt.Sprintf("%s/%s/%d", meta.Stream, meta.Consumer, meta.Sequence.Stream),
		Attempt: AttemptOf(msg),
		Began:   meta.Timestamp,
	}
	if text := msg.Headers().Get(MaxAttemptsHeader); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 {
			return job, due, fmt.Errorf("header %s is %.100q: "+
				"write a whole number of at least 1, or leave the header out", MaxAttemptsHeader, text)
		}
		job.MaxAttempts = limit
	}
	if text := msg.Headers().Get(dueHeader); text != "" {
		if due, malformed = time.Parse(time.RFC3339Nano, text); malformed == nil {
			malformed = checkDue(due)
		}
		if malformed != nil {
			return job, due, fmt.Errorf("header %s: %w", dueHeader, malformed)
		}
	}
	// MaxElapsed counts from `due`. A `due` that is up to a minute in the future is accepted, because
	// the clock of this machine may be slow. If the time in the header were in the far future and
	// MaxElapsed counted from it, the message would never reach MaxElapsed.
	if due.After(job.Began) && time.Until(due) < time.Minute {
		job.Began = due
	}
	return job, due, nil
}

// checkDue returns an error if `due`, the time in the header dueHeader, is more than a year from
// now. The Window of a redrive is at most a year. One more day is allowed, because another machine
// has written the time, and its clock may be ahead.
func checkDue(due time.Time) error {
	if time.Until(due) > (365+1)*24*time.Hour {
		return fmt.Errorf("the time %s is more than a year from now", due.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// copyHeaders copies the headers of the producer. It leaves out the headers of this package. It
// also leaves out headers that begin with Nats-, because they are instructions to the server
// about the old stream.
func copyHeaders(to, from nats.Header) {
	own := []string{deadHeader, SubjectHeader, dueHeader, leftOutHeader}
	for name, values := range from {
		if !strings.HasPrefix(name, "Nats-") && !slices.Contains(own, name) {
			to[name] = values
		}
	}
}
