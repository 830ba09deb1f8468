// Package sse reads streams of events (server-sent events, text/event-stream) and goes on where
// a connection breaks off:
//
//	stream := &sse.Stream{Client: client, Policy: policy}
//	for event, err := range stream.Events(req) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(event.ID, event.Name, string(event.Data))
//	}
//
// If the server follows the HTML standard, each event is handed out once, and whole. Half an event
// is dropped with its ID. After a reconnection, events that equal one of the last 1,000 are skipped
// up to the first new event. Equal events have the same ID, name and data. An event without an ID
// has the ID before it, and is never skipped if there is none. docs/events.md has the other rules.
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
	Name string // the field "event"; "": the stream did not set it, and a browser says "message"
	Data []byte // the lines of "data" with LF between them, as they came; the caller may keep it

	// ID is the last ID of the stream so far, which an earlier event may have set. Store the ID
	// to go on after this event in another process. "": the stream has no ID, or took the ID
	// back, or the ID cannot be sent, because it has a control character or more than 8 KiB.
	ID string
}

// A Stream says how to read a stream of events, and how to go on where it breaks off. Its zero
// value reads one connection. It is safe for concurrent use while its fields do not change.
type Stream struct {
	// Client sends the requests; nil: http.DefaultClient. If its Transport is a
	// *retryhttp.Transport, each connection uses all of its fields but Policy and Resume. A
	// Timeout of the client cuts each connection, and ends a stream without progress.
	Client *http.Client

	// Policy limits the attempts to connect without progress; the zero Policy connects once.
	// Progress is an event, an ID that moved, or a connection that lasted HealthyAfter (0 means
	// 10s). After progress the attempts begin anew, and the first reconnection takes nothing
	// from a Budget of the Policy or the Transport. After an event or an ID, that reconnection
	// may wait less than 10ms, and OnEvent gets a short call for the wait, without a
	// retryhttp.RequestOf. AttemptTimeout limits the time until the headers.
	Policy retry.Policy

	// Resume returns the request for the events that follow last, which has the newest ID, and
	// the Name and Data of the last event. nil: a GET is sent again with Last-Event-ID, and no
	// other method goes on. A body can be sent again only with a GetBody.
	Resume func(ctx context.Context, last Event) (*http.Request, error)

	// Last reports whether the stream ends with this event. If Last is set, the end of a
	// connection before that event is a break. nil: the server says when the stream ends.
	Last func(Event) bool

	// Lossy: a GET goes on without an ID too, even after an end in good order. Events may be
	// missing or come twice.
	Lossy bool

	// Limit is the length of the longest data and of the longest name in bytes, and of a longer
	// ID than 8 KiB. 0 or below: 16 MiB; above 1 GiB: 1 GiB.
	Limit int
}

// ErrTooLong is the error of an event that exceeds the limit.
var ErrTooLong error = eventstream.ErrTooLong

// A BrokenError is the error of a stream that broke off and cannot go on.
type BrokenError struct {
	Why string // it cannot go on, such as "its events have no ID"
	Err error  // what ended the connection, or what Resume failed with
}

// Error says why the stream cannot go on, and has the text of Err.
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
// The last pair has an error and no event if the body broke off, or an event was too long. Half
// an event at the end is dropped. The caller closes the body.
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
// req, except what is about the body, and Last-Event-ID.
func ResumeByGET(req *http.Request) func(context.Context, Event) (*http.Request, error) {
	return func(ctx context.Context, last Event) (*http.Request, error) {
		if last.ID == "" {
			return nil, errors.New("its events have no ID")
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

// eventOf returns the last event of a parser, which may be kept.
func eventOf(p *eventstream.Parser) Event {
	return Event{Name: p.Name, Data: bytes.Clone(p.Data), ID: p.ID}
}
