// Package httpdefault remembers the http.DefaultTransport of the standard library.
package httpdefault

import "net/http"

// Transport is the value that http.DefaultTransport had when this package was initialized. A
// program that sets http.DefaultTransport to a RoundTripper of this library has imported this
// package before, so this value is not that RoundTripper.
var Transport = http.DefaultTransport
