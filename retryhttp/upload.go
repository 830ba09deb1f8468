package retryhttp

import "net/http/httptrace"

// A server may answer over HTTP/2 while net/http is still sending the body of the request. If the
// answer is a success without a body, net/http goes on sending, because the server may want all of
// the body. So the context of the attempt must not end before the upload. After any other status
// than a success, net/http itself ends the upload. Over HTTP/1, net/http waits a moment for the end
// of the upload, and then closes the connection.
//
// The hooks of net/http/httptrace say when an upload begins and ends. An alternative would be to
// wrap the body of the request, and to wait for its Close. But some RoundTrippers read a body and
// never close it. Besides, net/http sends a bytes.Reader together with the header over HTTP/1, and
// it does not do so with a body that is wrapped.

// The values of attempt.upload.
const (
	noUpload       int32 = iota // net/http is not sending the request
	uploading                   // net/http is sending the request
	uploadAnswered              // net/http is still sending the request, but the answer has ended
)

// watchUpload adds the hooks that set a.upload.
func (a *attempt) watchUpload(trace *httptrace.ClientTrace) {
	gotConn := trace.GotConn
	trace.GotConn = func(info httptrace.GotConnInfo) { // WroteHeaders may come after the answer
		gotConn(info)
		a.upload.Store(uploading)
	}
	trace.WroteRequest = func(httptrace.WroteRequestInfo) {
		if a.upload.Swap(noUpload) == uploadAnswered {
			a.end()
		}
	}
}

// endAfterUpload ends the context of the attempt. If the upload goes on, the context ends with it.
func (a *attempt) endAfterUpload(cause error) {
	a.upload.CompareAndSwap(uploading, uploadAnswered)
	if a.upload.Load() == noUpload {
		a.cancel(cause)
	}
}
