package retryhttp

import (
	"context"
	"io"
	"net/http"
)

// ErrorOf returns the *retry.Error that says why a [Transport] made no further attempt after resp.
// RoundTrip itself cannot return this error together with a response. ErrorOf returns nil if the
// attempt succeeded, and if resp does not come from a Transport. If a Transport is the Base of
// another Transport, ErrorOf returns the error of the outer Transport.
//
// ErrorOf finds the error in the context of resp.Request. So you may read or replace the body of
// resp before you call ErrorOf. Do not change resp.StatusCode. To send resp.Request again, send
// resp.Request.Clone(ctx). If a client without a Transport sends resp.Request itself, the new
// response has the same Request. If the new response also has the same status, ErrorOf and [Result]
// mistake the new response for resp.
func ErrorOf(resp *http.Response) error {
	if s := stopInfoOf(resp); s != nil {
		return s.err
	}
	return nil
}

// Result turns a failed response into an error. A response has failed if its [Transport] has given
// up, whatever the status is. Any other response has failed if its status is 400 or above, whether
// it comes from a Transport or not:
//
//	resp, err := retryhttp.Result(client.Do(req))
//
// If the Transport has given up, Result returns the error of [ErrorOf]. Otherwise it returns the
// error of the function [Check], in which errors.As finds a [*StatusError]. The error of a 404, for
// example, is permanent.
//
// Result reads and closes the body of a failed response, so that its connection can be used again.
// It reads at most 64 KiB, for at most 100 ms, with the exceptions that [Transport.RoundTrip]
// names. The Body of the StatusError gets the first KiB. If err is not nil, or if resp has not
// failed, Result returns resp and err unchanged.
//
// If the Transport has given up, Result ends a Read of the body that takes longer than 90 ms. If
// not, Result ends such a Read only if http.Transport has made the body, and only if the Read does
// not wait for the header of a gzip. Any other body is not closed during a Read, because this is
// not safe for every body. Then the Read goes on in a goroutine and holds its connection, so set
// the Timeout of the http.Client. If you close such a body yourself, you close it during this Read:
// your Close may end the Read, wait for the Read, or break a decoder that bodies share.
func Result(resp *http.Response, err error) (*http.Response, error) {
	if err != nil || resp == nil {
		return resp, err
	}
	var a *attempt
	requests := []*http.Request{resp.Request}
	switch s := stopInfoOf(resp); {
	case s != nil && s.err != nil:
		a, err = s.attempt, s.err
		requests = []*http.Request{s.original, a.given}
	case resp.StatusCode >= 400:
		err = Check(resp.Request, resp, nil)
	default:
		return resp, nil
	}
	switch {
	case a == nil || a.Err() != nil:
		// The response has no attempt, or its attempt has ended. An attempt that has ended cannot end a
		// Read of a body that was set later.
		a = attemptFor(resp)
	case resp.Body != io.ReadCloser(&a.body):
		// The caller, or a RoundTripper around the Transport, has replaced the body. The new body may
		// ignore the context of the attempt. Copies of the response may share the attempt, so it must
		// not end before this body has been read.
		shared := a
		a = attemptFor(resp)
		context.AfterFunc(a, shared.end)
	}
	text := a.discard(resp, keptBytes)
	if e := statusErrorIn(err); e != nil {
		e.keep(text, requests...)
	}
	return nil, err
}

// A stopInfo says why no further attempt was made after a failed attempt that got a response, or
// that an answer was lost before a redirect. The context of the response's Request contains the
// stopInfo.
type stopInfo struct {
	req      *http.Request   // the Request of the response
	ctx      context.Context // the context of `req`, which contains the stopInfo
	original *http.Request   // the Request of the response before `addTo` added the stopInfo
	status   int             // the status of the response
	attempt  *attempt        // the last attempt
	err      error           // why no other attempt was made; nil: the attempt succeeded
	lost     *attempt        // its answer was lost before a redirect; nil: none
}

type stopInfoKey struct{}

// addTo returns a copy of req. Its context contains a copy of s, whose `req` is the result.
func (s stopInfo) addTo(req *http.Request) *http.Request {
	s.ctx = context.WithValue(req.Context(), stopInfoKey{}, &s)
	s.original, s.req = req, req.WithContext(s.ctx)
	return s.req
}

// withoutStopInfo returns a request for a new call. If the context of req is the one that the
// Request of an earlier response has got from `addTo`, the result is a copy of req without the
// stopInfo. Otherwise the result is req. Without this, the context would grow with each call if a
// caller makes each request from the Request of the last response.
func withoutStopInfo(req *http.Request) *http.Request {
	ctx := req.Context()
	if s, ok := ctx.Value(stopInfoKey{}).(*stopInfo); ok && ctx == s.ctx {
		return req.WithContext(s.original.Context())
	}
	return req
}

// stopInfoOf returns the stopInfo of resp, or nil. If a caller sends the Request of an earlier
// response again without a Transport, the new response has the same Request. So stopInfoOf also
// compares the status.
func stopInfoOf(resp *http.Response) *stopInfo {
	if resp == nil {
		return nil
	}
	if s := stopInfoIn(resp.Request); s != nil && s.status == resp.StatusCode {
		return s
	}
	return nil
}

// stopInfoIn returns the stopInfo that `addTo` has added to req, or nil. If a caller makes a
// request with the context of an earlier response's Request, this context contains the stopInfo of
// the earlier response. stopInfoIn ignores such a stopInfo.
func stopInfoIn(req *http.Request) *stopInfo {
	if req == nil {
		return nil
	}
	if s, ok := req.Context().Value(stopInfoKey{}).(*stopInfo); ok && req == s.req {
		return s
	}
	return nil
}
