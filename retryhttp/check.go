package retryhttp

import (
	"cmp"
	"errors"
	"net"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynet"
)

// Check is the function that a [Transport] calls if its field Check is nil. It follows the table in
// the documentation of Transport. The Verdict in the [Advice] of a response overrules its status.
//
// http.Client follows a redirect even if a Check has rejected it. To get the redirect and its
// error, let the CheckRedirect of the http.Client return http.ErrUseLastResponse.
//
// If you set the field Check to a function of your own, and call the function Check in it, pass the
// request that your function gets. Check uses this request to find the Advise of the Transport. If
// you pass another request, or nil, Check uses [AdviceOf].
func Check(req *http.Request, resp *http.Response, err error) error {
	switch {
	case err != nil && retrynet.Permanent(err) && !noSuchHost(err):
		return retry.Permanent(err)
	case err != nil:
		return err
	case resp.StatusCode < 400:
		return nil
	}
	return statusErrorOf(req, resp).judged(cmp.Or(req, resp.Request))
}

// noSuchHost reports whether err says that a host name does not exist. In a cluster, the name of a
// service may not exist before the service has started.
func noSuchHost(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// A CheckFunc is a function for the field Check of a [Transport].
type CheckFunc func(req *http.Request, resp *http.Response, err error) error

// orDefault returns c. If c is nil, it returns the function Check.
func (c CheckFunc) orDefault() CheckFunc {
	if c == nil {
		return Check
	}
	return c
}
