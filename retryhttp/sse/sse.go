// Package sse reads streams of server-sent events (text/event-stream). If a connection breaks off,
// the package connects again and asks for the next event:
//
//	stream := &sse.Stream{Client: client, Policy: policy}
//	for event, err := range stream.Events(req) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(event.ID, event.Name, string(event.Data))
//	}
//
// If the server follows the HTML standard, you get each event once, and never a part of an event.
// An event that was cut off is dropped together with its ID. After a reconnection, the server may
// repeat events. Repeated events are skipped, up to the first new event. An event counts as
// repeated if it equals one of the last 1,000 events. Two events are equal if their ID, name and
// data are equal. An event without an ID has the ID of the event before it. If no event has set an
// ID, no event is skipped. docs/events.md has more rules.
package sse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventstream"
)

// An Event is one event of a stream.
type Event struct {
	Name string // the field "event"; "": no field, which means "message" in a browser
	Data []byte // the lines of the field "data", joined by LF; the caller may keep Data

	// ID is the last ID of the stream so far. This event or an earlier event has set it. Store the ID
	// if another process should go on after this event. ID is "" if the stream has set no ID or an
	// empty ID. It is also "" if the ID cannot be sent, because it has a control character or more
	// than 8 KiB.
	ID string
}

// A Stream contains the settings for reading a stream of events, and for continuing the stream
// after its connection is lost. The zero Stream does not reconnect. A Stream is safe for concurrent
// use if its fields do not change.
type Stream struct {
	// Client sends the requests. If Client is nil, http.DefaultClient is used. If the Client's
	// Transport, or else http.DefaultTransport, is a *retryhttp.Transport, all fields of this
	// Transport apply, except Policy and Resume. A *retryhttp.Transport inside another RoundTripper
	// makes one attempt for each attempt of the Stream, and the Stream judges its responses only by
	// their status and Retry-After. So write Transport{Base: otelhttp.NewTransport(nil)}, for
	// example, and not otelhttp.NewTransport(&Transport{}).
	//
	// An error of the Transport's Prepare ends the stream, so call retry.Do in a Prepare that
	// fetches a token. The Stream puts a RoundTripper between the Transport and its Base. So if
	// net/http gets no connection for a repeat of a POST, the POST counts as sent, whatever the
	// Base is. A Timeout of the Client ends each connection after this time. If the connection had
	// neither an event nor an ID, the Timeout also ends the stream.
	Client *http.Client

	// Policy limits the attempts in a row that make no progress. The zero Policy allows one
	// attempt. An attempt makes progress if it gets an event or a new ID, or if its connection
	// lasts for HealthyAfter (0 means 10s). The time before the headers of the response does not
	// count. AttemptTimeout limits it from the end of Prepare on. After progress, the attempts are
	// counted from 1 again. The first reconnection after progress takes nothing from the Budget of
	// the Policy or of the Transport. The first reconnection after an event or a new ID differs
	// from the other attempts in two ways. The wait before this reconnection may be shorter than
	// 10ms: HealthyAfter raises other short waits (see retry.Policy), but not this wait. For this
	// wait, OnEvent gets the retry events of a separate call, for which retryhttp.RequestOf returns
	// nil and Enter is not called.
	Policy retry.Policy

	// Resume returns the request for the events after the event `last`. The ID of `last` is the
	// newest ID of the stream. The Name and the Data of `last` come from the last event of the
	// stream. If Resume is nil, a GET is sent again with a Last-Event-ID, and a stream of any other
	// method ends when its connection is lost. If Resume is nil, a request with a body needs a
	// GetBody. The request is sent with ctx, which is the context of the first request, and not
	// with its own context. If it is a GET, its Last-Event-ID is set to the newest ID of the stream.
	// If there is no ID, the GET keeps its own Last-Event-ID, unless the first request has the same.
	Resume func(ctx context.Context, last Event) (*http.Request, error)

	// Last reports whether an event is the last event of the stream. If a connection ends before Last
	// has returned true, the connection counts as lost. If Last is nil, a stream that can be continued
	// ends with a 204. Any other stream, such as a stream that has not had an ID, ends when its
	// connection ends without an error.
	Last func(Event) bool

	// If Lossy is true, a GET whose events have no ID is sent again, both after its connection is lost
	// and after the response has ended regularly. Then events may be missing or arrive twice.
	Lossy bool

	// Limit is the largest number of bytes of the data of an event, and also of its name. If Limit is
	// above 8 KiB, it also limits the length of an ID. 0 or less means 16 MiB. A Limit above 1 GiB
	// means 1 GiB.
	Limit int
}

// ErrTooLong is the error of a stream if an event is longer than the Limit.
var ErrTooLong error = eventstream.ErrTooLong

// A BrokenError is the error of a stream that broke off and cannot be continued.
type BrokenError struct {
	Why string // why the stream cannot go on, such as "its events have no ID"
	Err error  // the error that ended the connection, or the error of Resume
}

// Error returns one line with Why and the text of Err.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("sse: the stream broke off and cannot go on, because %s: %v", e.Why, e.Err)
}

// Unwrap returns Err.
func (e *BrokenError) Unwrap() error { return e.Err }

// Events sends req and returns the events of its stream, including the events after reconnections.
// It returns pairs of an [Event] and an error. In the pair of an event, the error is nil.
// It reads in the goroutine of the caller. When the loop over the events ends, all connections are
// closed. To start after an Event that another process has handled, set the header Last-Event-ID of
// req to the ID of this Event.
//
// If the stream fails, the last pair has an error and an empty Event. The error is one of these:
//
//   - A [*BrokenError] says that the stream broke off and cannot be continued.
//   - [ErrTooLong] says that an event is longer than the Limit.
//   - If the context of req is done, the error is the cause of this context.
//   - If no connection can be opened, errors.As finds a [*retry.Error] in the error. It also finds
//     a *retryhttp.StatusError if the server refused the request. If an earlier connection had
//     an event or an ID, the field Before says why the last such connection ended, unless the
//     Transport has set Before.
//   - If a response is not a stream of events, the error says why.
//
// Range over the result only once, because a second loop would send req again.
func (s *Stream) Events(req *http.Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := newConnections(s, req).run(yield); err != nil {
			yield(Event{}, err)
		}
	}
}

// Read returns the events of a body as pairs of an [Event] and an error. The parameter `limit` has
// the meaning of the field Limit of a Stream. In the pair of an event, the error is nil. If the
// body breaks off, or if an event is too long, the last pair has an error and an empty Event. An
// event that was cut off at the end is dropped. The caller must close the body.
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

// ResumeByGET returns a Resume for a stream that starts with a POST and goes on with a GET of the
// same URL. The Model Context Protocol up to version 2025-11-25 has such streams. req is the POST.
// The GET has the headers of req, but no idempotency key and no headers about a body. It also has a
// Last-Event-ID.
func ResumeByGET(req *http.Request) func(context.Context, Event) (*http.Request, error) {
	return func(ctx context.Context, last Event) (*http.Request, error) {
		if last.ID == "" {
			return nil, errors.New("the events of the stream have no ID")
		}
		get := req.Clone(ctx)
		get.Method, get.Body, get.GetBody = http.MethodGet, nil, nil
		get.ContentLength, get.TransferEncoding, get.Trailer = 0, nil, nil
		maps.DeleteFunc(get.Header, func(key string, _ []string) bool {
			key = strings.ToLower(key)
			return strings.HasPrefix(key, "content-") || slices.Contains(notOfAGET, key)
		})
		return get, nil
	}
}

// notOfAGET contains headers of a POST that must not be sent with the GET of ResumeByGET, besides
// the headers that begin with Content-.
var notOfAGET = []string{
	"expect", "idempotency-key", "x-idempotency-key", "trailer", "transfer-encoding",
	"digest", "repr-digest",
}

// eventOf returns a copy of the last event of a parser.
func eventOf(p *eventstream.Parser) Event {
	return Event{Name: p.Name, Data: bytes.Clone(p.Data), ID: p.ID}
}
