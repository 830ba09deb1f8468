package retrynats

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

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
	// A dead letter has these two headers. The first contains the retryjob.DeadLetter as JSON. The
	// second says which part of the message the dead letter lacks.
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
			"retrynats: not a dead letter: the header %s is missing", deadHeader)
	}
	var d retryjob.DeadLetter
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return retryjob.DeadLetter{}, fmt.Errorf("retrynats: header %s: %w", deadHeader, err)
	}
	return d, nil
}

// AttemptOf returns the number of the attempt that the delivery msg starts. The first attempt
// has number 1. If a dead letter was moved back, the first delivery of its message is not an
// attempt, because it only delays the message until the message is due. For such a delivery,
// AttemptOf returns 0. It also returns 0 for a message that does not come from JetStream.
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
