package retryhttp

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
)

// An upload is the body of a request over TLS. A server may answer over HTTP/2 while the upload
// goes on. If the answer is a success without a body, net/http goes on sending the upload, because
// the server may want all of it. So the context of the attempt must not end before the upload.
// After any other status than a success, net/http itself ends the upload, and closes it.
type upload struct {
	io.ReadCloser
	ends  context.CancelCauseFunc // ends the context of the attempt
	state atomic.Int32            // uploading, uploadAnswered or uploadClosed
}

const (
	uploading      int32 = iota
	uploadAnswered       // the answer has ended; Close ends the context of the attempt
	uploadClosed
)

// watchUpload wraps the body of the request that Base is about to get. A body without TLS is not
// wrapped: HTTP/2 without TLS is rare, and over HTTP/1 an *os.File is sent faster. A body of at
// most 64 KiB is not wrapped either. Over HTTP/1, net/http sends it together with the header only
// if it is not wrapped, and over HTTP/2 it has usually been sent before an answer arrives.
//
// If net/http itself repeats the request, it closes the body and calls GetBody, so this body is
// wrapped too. A RoundTripper that signs the request may call GetBody while the body is open, and
// need not close what it gets. Such a body is not wrapped.
func (a *attempt) watchUpload() {
	rc, u := a.req.Body, a.req.URL
	short := a.req.ContentLength > 0 && a.req.ContentLength <= shortUpload
	if rc == nil || rc == http.NoBody || short || u == nil || u.Scheme != "https" {
		return
	}
	a.req.Body = a.newUpload(rc)
	if getBody := a.req.GetBody; getBody != nil {
		a.req.GetBody = func() (io.ReadCloser, error) {
			rc, err := getBody()
			if err == nil && rc != nil && a.upload.Load().state.Load() == uploadClosed {
				rc = a.newUpload(rc)
			}
			return rc, err
		}
	}
}

// shortUpload is the length up to which a body is not wrapped. It is the number of bytes that
// HTTP/2 allows before the server has allowed more (RFC 9113 section 6.9.2), rounded up.
const shortUpload = 64 << 10

// newUpload wraps a body. From now on, the context of the attempt ends with this body.
func (a *attempt) newUpload(rc io.ReadCloser) *upload {
	u := &upload{ReadCloser: rc, ends: a.cancel}
	a.upload.Store(u)
	return u
}

// endAfterUpload ends the context of the attempt. If the upload goes on, the context ends with it.
func (a *attempt) endAfterUpload(cause error) {
	u := a.upload.Load()
	u.state.CompareAndSwap(uploading, uploadAnswered)
	if u.state.Load() == uploadClosed {
		a.cancel(cause)
	}
}

func (u *upload) Close() error {
	err := u.ReadCloser.Close()
	if u.state.Swap(uploadClosed) == uploadAnswered {
		u.ends(nil)
	}
	return err
}
