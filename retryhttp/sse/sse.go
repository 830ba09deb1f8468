// Package sse reads streams of events (server-sent events, text/event-stream). If a connection
// breaks off, it connects again and goes on where the stream broke:
//
//	stream := &sse.Stream{Client: client, Policy: policy}
//	for event, err := range stream.Events(req) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(event.ID, event.Name, string(event.Data))
//	}
//
// If the server follows the HTML standard, each event is handed out once, and complete. An event
// that was cut off is dropped together with its ID. After a reconnection, events that equal one of
// the last 1,000 events are skipped, up to the first new event. Equal events have the same ID, name
// and data. An event without an ID has the ID of the event before it. If no event has set an ID, no
// event is skipped. docs/events.md has the other rules.
package sse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventstream"
)

// An Event is one event of a stream.
type Event struct {
	Name string // the field "event"; "": the event has none, and a browser would say "message"
	Data []byte // the lines of "data", unchanged, with LF between them; the caller may keep Data

	// ID is the last ID of the stream so far, which an earlier event may have set. Store the ID
	// to go on after this event in another process. "": the stream has set no ID, or an empty one,
	// or the ID cannot be sent, because it has a control character or more than 8 KiB.
	ID string
}

// A Stream says how to read a stream of events, and how to go on after a break. The zero Stream
// reads one connection. A Stream is safe for concurrent use if its fields do not change.
type Stream struct {
	// Client sends the requests; nil: http.DefaultClient. If its Transport is a
	// *retryhttp.Transport, each connection uses all of its fields but Policy and Resume. A
	// Timeout of the client cuts each connection, and ends a stream without progress.
	Client *http.Client

	// Policy limits the attempts to connect without progress. The zero Policy allows one attempt.
	// Progress is an event, an ID that moved, or a connection that lasted HealthyAfter (0 means
	// 10s). After progress, the attempts begin anew, and the first reconnection takes nothing
	// from a Budget of the Policy or the Transport. After an event or an ID, that reconnection
	// may wait less than 10ms, and OnEvent gets a short call for the wait, without a
	// retryhttp.RequestOf. AttemptTimeout limits the time until the headers.
	Policy retry.Policy

	// Resume returns the request for the events after its argument, which has the newest ID, and
	// the Name and Data of the event before. nil: a GET is sent again with Last-Event-ID, and a
	// stream of any other method does not go on. A body can be sent again only with a GetBody.
	Resume func(ctx context.Context, last Event) (*http.Request, error)

	// Last reports whether the stream ends with this event. If Last is set, the end of a
	// connection before that event is a break. nil: the server says when the stream ends.
	Last func(Event) bool

	// Lossy: a GET goes on even if its events have no ID, also after an end in good order. Events
	// may be missing or arrive twice.
	Lossy bool

	// Limit is how many bytes the data and the name of an event may have. A Limit above 8 KiB
	// also limits the length of an ID. 0 or below: 16 MiB; above 1 GiB: 1 GiB.
	Limit int
}

// ErrTooLong is the error of a stream that has an event longer than the Limit.
var ErrTooLong error = eventstream.ErrTooLong

// A BrokenError is the error of a stream that broke off and cannot go on.
type BrokenError struct {
	Why string // why the stream cannot go on, such as "its events have no ID"
	Err error  // what ended the connection, or the error of Resume
}

// Error returns one line with Why and the text of Err.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("sse: the stream broke off and cannot go on, because %s: %v", e.Why, e.Err)
}

// Unwrap returns Err.
func (e *BrokenError) Unwrap() error { return e.Err }

// Events returns the events of the stream that req asks for, and of its later connections. It
// reads in the goroutine of the caller, and leaves nothing open when the loop ends. To begin after
// the Event that another process has handled last, set the header Last-Event-ID of req to its ID.
//
// Unless the stream ended in good order, the last pair has no event but an error: a
// [*BrokenError] if the stream broke off and cannot go on, [ErrTooLong], the cause of the context
// of req, or an error of a connection. In the error of a connection, errors.As finds a
// [*retry.Error], and a *retryhttp.StatusError if the server refused.
//
// Range over the result once: a second loop would send req again.
func (s *Stream) Events(req *http.Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := newConnections(s, req).run(yield); err != nil {
			yield(Event{}, err)
		}
	}
}

// Read returns the events of a body that the caller has opened; limit is the Limit of a Stream.
// The last pair has an error and no event if the body broke off, or if an event was too long. An
// event that was cut off at the end is dropped. The caller closes the body.
func Read(body io.Reader, limit int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for events := eventstream.New(body, "", limit); ; {
			switch err := events.Next(); {
			case err == io.EOF:
				return
			case err != nil:
				yield(Event{}, fmt.Errorf("sse: %w", err))
				return
			case events.Data != nil && !yield(eventOf(events), nil):
				return
			}
		}
	}
}

// ResumeByGET returns the Resume of a stream that a POST began and a GET of the same URL
// continues, as in the Model Context Protocol up to version 2025-11-25. The GET has the header of
// req, without the fields about its body and without an Idempotency-Key, and a Last-Event-ID.
func ResumeByGET(req *http.Request) func(context.Context, Event) (*http.Request, error) {
	return func(ctx context.Context, last Event) (*http.Request, error) {
		if last.ID == "" {
			return nil, errors.New("the events of the stream have no ID")
		}
		get := req.Clone(ctx)
		get.Method, get.Body, get.GetBody = http.MethodGet, nil, nil
		get.ContentLength, get.TransferEncoding, get.Trailer = 0, nil, nil
		for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Length",
			"Expect", "Idempotency-Key", "X-Idempotency-Key"} {
			get.Header.Del(name)
		}
		return get, nil
	}
}

// eventOf returns a copy of the last event of a parser.
func eventOf(p *eventstream.Parser) Event {
	return Event{Name: p.Name, Data: bytes.Clone(p.Data), ID: p.ID}
}
