// Package sse reads streams of events (server-sent events, text/event-stream) and goes on where
// a connection breaks off, with Last-Event-ID:
//
//	stream := &sse.Stream{Client: client, Policy: policy}
//	for event, err := range stream.Events(req) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(event.ID, event.Name, string(event.Data))
//	}
//
// If the server follows the HTML standard, each event is handed out once, and whole:
//
//	what happens                               what follows
//	a break of a GET, or a clean end where     a request with Last-Event-ID, after the longest of
//	  an ID is known                             "retry", Retry-After and the policy's delay
//	a break of a GET before the first event    the same request
//	a 204, a clean end without IDs, Last       the end
//	a break without IDs, after an event        a [*BrokenError]; with Lossy, a request
//	a break of a POST, after an event          Stream.Resume, or else a *BrokenError
//	half an event                              it is dropped, with its ID
//	an event that was one of the last 1,000    it is skipped, up to the first that is new
//	429, 5xx, no connection                    as the Check of the Transport says
//	another status, another type               an error
//	an event above the limit                   ErrTooLong
//
// An event is known by its ID, name and data. Without an ID it is never skipped. If it follows an
// ID of an earlier event, it counts as an event with that ID. [Read]
// reads a body that is already there.
package sse
