package retryhttp

import (
	"fmt"
	"time"
)

// A StreamError is the error of an attempt of [LLM] whose stream began with an error event. Its
// fields are copied from the event, so they come from the server. If a StreamError is the error of
// the last attempt, the caller of the Transport can still read the whole stream.
type StreamError struct {
	Type    string // the type of the error, such as "overloaded_error"; "": no type
	Message string
	Data    []byte // the data of the event

	wait   time.Duration
	unpaid string // the code or words that say that the account cannot pay; "": none
}

// Error returns one line with the Type and the Message. Both are quoted. At most 128 characters of
// the Type and 512 characters of the Message are printed. If the account cannot pay, the line says
// so.
func (e *StreamError) Error() string {
	return fmt.Sprintf("retryhttp: the stream began with an error: %.128q: %.512q",
		e.Type, e.Message) + unpaidText(e.unpaid)
}

// RetryAfter returns the wait that the server asked for. It returns 0 if the server did not ask for
// a wait, and 1ns if it asked for a wait of 0.
func (e *StreamError) RetryAfter() time.Duration { return e.wait }
