package retryhttp

import (
	"errors"
	"net/http"
)

// ErrorOf returns why the last response of a [Transport] was the last: the
// *retry.Error that RoundTrip did not return because there is a response. It returns
// nil if the attempt succeeded, and if resp does not come from a Transport. If one Transport
// is on top of another, the outer one's error is returned.
//
// It is found by resp.Request, whatever became of the body.
func ErrorOf(resp *http.Response) error {
	if s := stoppedBy(resp); s != nil {
		return s.err
	}
	return nil
}

// Result turns a response with a status from 400 on into an error, whoever got it, and a
// response that a [Transport] gave up on, whatever its status:
//
//	resp, err := retryhttp.Result(client.Do(req))
//
// The error is the one that [ErrorOf] has. If it has none, because the response does not come
// from a Transport, or because the Check of that accepts the status, the error is what the
// function [Check] returns: errors.As finds a [*StatusError], and the error of a 404 is permanent.
//
// The response is read, up to 64 KiB and for at most 100 ms, and closed, so that its
// connection can be used again. The StatusError in the error keeps the first KiB as its Body.
// Any other response, and any err, is returned as it is.
func Result(resp *http.Response, err error) (*http.Response, error) {
	if err != nil || resp == nil {
		return resp, err
	}
	var a *attempt
	switch s := stoppedBy(resp); {
	case s != nil:
		a, err = s.attempt, s.err
	case resp.StatusCode >= 400:
		err = Check(resp.Request, resp, nil)
	default:
		return resp, nil
	}
	if a == nil || a.Err() != nil { // the body was read, and there may be another
		a = attemptFor(resp)
	}
	text := a.discard(resp, keptBytes)
	if e := (*StatusError)(nil); errors.As(err, &e) {
		e.keep(text)
	}
	return nil, err
}

// A stopped is what the context of the Request of a last response has, if that failed.
type stopped struct {
	req     *http.Request
	of      *http.Request // that the response would have had
	attempt *attempt      // the last
	err     error         // why there was no other
}

type stoppedKey struct{}

// stoppedBy returns what the Request of resp has. One that was made with the context of
// such a Request is another.
func stoppedBy(resp *http.Response) *stopped {
	if resp == nil || resp.Request == nil {
		return nil
	}
	if s, ok := resp.Request.Context().Value(stoppedKey{}).(*stopped); ok && resp.Request == s.req {
		return s
	}
	return nil
}
