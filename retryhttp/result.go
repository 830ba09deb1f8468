package retryhttp

import (
	"errors"
	"io"
	"net/http"
)

// ErrorOf returns why the last response of a [Transport] was the last: the
// *retry.Error that RoundTrip did not return because it returned a response. ErrorOf returns
// nil if the attempt succeeded, and if resp does not come from a Transport. If one Transport
// is on top of another, ErrorOf returns the error of the outer one.
//
// ErrorOf finds the error by resp.Request, so the body of resp may have been read or replaced.
func ErrorOf(resp *http.Response) error {
	if s := stoppedBy(resp); s != nil {
		return s.err
	}
	return nil
}

// Result returns an error in place of a response that failed. A response fails if a [Transport]
// gave up on it, whatever its status, or if its status is 400 or above, whether it comes from a
// Transport or not:
//
//	resp, err := retryhttp.Result(client.Do(req))
//
// The error is the error of [ErrorOf]. ErrorOf has no error if the response does not come from a
// Transport, or if the Check of the Transport accepts the status. Then the error is the error of
// the function [Check]: errors.As finds a [*StatusError], and the error of a 404, for example, is
// permanent.
//
// Result reads a response that failed, up to 64 KiB and for at most 100 ms, and closes it, so that
// its connection can be used again. The StatusError in the error keeps the first KiB as its Body.
// Any other response, and an err that is not nil, are returned unchanged.
func Result(resp *http.Response, err error) (*http.Response, error) {
	if err != nil || resp == nil {
		return resp, err
	}
	var a *attempt
	of := resp.Request
	switch s := stoppedBy(resp); {
	case s != nil:
		a, of, err = s.attempt, s.of, s.err
	case resp.StatusCode >= 400:
		err = Check(resp.Request, resp, nil)
	default:
		return resp, nil
	}
	switch {
	case a == nil || a.Err() != nil: // its body has ended; the caller may have set another body
		a = attemptFor(resp)
	case resp.Body != io.ReadCloser(&a.body): // a body that is set above may heed nothing
		a.ends = false
	}
	text := a.discard(resp, keptBytes)
	if e := (*StatusError)(nil); errors.As(err, &e) {
		e.keep(of, text)
	}
	return nil, err
}

// A stopped is in the context of the Request of a last response, if the last attempt failed.
type stopped struct {
	req     *http.Request // the Request of the response, whose context has the stopped
	of      *http.Request // the Request that the response would have without the stopped
	attempt *attempt      // the last attempt
	err     error         // why no other attempt was made
}

type stoppedKey struct{}

// stoppedBy returns the stopped of resp, nil if it has none. Another request that was made with the
// context of resp.Request does not count: its response is not the last response of that call.
func stoppedBy(resp *http.Response) *stopped {
	if resp == nil || resp.Request == nil {
		return nil
	}
	if s, ok := resp.Request.Context().Value(stoppedKey{}).(*stopped); ok && resp.Request == s.req {
		return s
	}
	return nil
}
