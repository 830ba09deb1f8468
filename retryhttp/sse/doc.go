// Package sse reads event streams (text/event-stream), and goes on where a stream breaks off:
//
//	stream := &sse.Stream{Policy: retry.Default()}
//	for event, err := range stream.Events(req) {
//		if err != nil {
//			return err
//		}
//		handle(event.Data)
//	}
//
// When a connection breaks, a [Stream] sends the GET again with the header Last-Event-ID, after
// the wait that the server, or else the policy, asks for. So the server must give its events
// IDs and send what follows the last one. Half an event is dropped, and an event that the
// server repeats is skipped. A stream that cannot go on ends with a [*BrokenError] that says
// why. A POST goes on only if [Stream.Resume] returns the request for what follows.
//
// [Read] reads the events of a body that is already there.
package sse
