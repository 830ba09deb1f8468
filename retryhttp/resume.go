package retryhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goretry/retry"
)

// A BrokenError is the error of a Read if Transport.Resume is set and the body of the response has
// broken off. Either Resume did not apply to the response, or the missing bytes could not be
// fetched, or the context of the request is done. The bytes that were read before are correct.
type BrokenError struct {
	Offset int64 // how many bytes the caller has read
	Err    error // why bytes are missing; contains a *retry.Error if Resume asked for them
}

// Error returns a text such as "retryhttp: the body broke after 5 bytes: ", followed by the text of
// Err.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("retryhttp: the body broke after %d bytes: %v", e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *BrokenError) Unwrap() error { return e.Err }

// ErrChanged is wrapped in a [BrokenError] if a download breaks off, and the server does not
// confirm that the body is still the same. This means that the server has sent the whole body
// instead of the missing bytes, or bytes with another ETag or without an ETag. The whole body is no
// error if the caller has not read a byte yet, and the ETag is the same. After ErrChanged, start
// the download from its beginning. A BrokenError is not permanent, even if the error of Check is,
// so [retry.Do] around the request and the reading of its body does so.
var ErrChanged = errors.New("the server does not confirm that it still has the same body")

// whyNot returns why Transport.Resume does not apply to the response that the caller gets. It
// returns "" if Resume applies. Resume applies to a whole body with a strong ETag, if the request
// may be repeated.
func (x *exchange) whyNot(resp *http.Response) string {
	req := x.last.req
	_, ranged := req.Header["Range"]
	switch {
	case x.failure != nil:
		return "Check does not accept the response"
	case resp.StatusCode != http.StatusOK:
		return fmt.Sprintf("the status is %d", resp.StatusCode)
	case !isGet(req) || req.Body != nil && req.Body != http.NoBody:
		return "the request is not a GET without a body"
	case x.needsProof:
		return "the request may not be repeated"
	case ranged:
		return "the request has a Range"
	case !identical(resp):
		encoding := strings.Join(resp.Header["Content-Encoding"], ", ")
		encoding = cmp.Or(encoding, "unpacked by Base")
		return "Content-Encoding: " + strings.Trim(fmt.Sprintf("%.20q", encoding), `"`)
	case strongETag(resp) == "":
		return "no strong ETag"
	case resp.Header.Get("Accept-Ranges") == "none":
		return "Accept-Ranges: none"
	case x.policy.EffectiveMax() == 1:
		return "the policy does not retry"
	default:
		return ""
	}
}

// identical reports whether the body of a response has no Content-Encoding, and net/http has not
// decompressed the body.
func identical(resp *http.Response) bool {
	return !resp.Uncompressed && !isEncoded(resp)
}

// strongETag returns the ETag of a response, or "" if the response has no ETag, a weak ETag, or
// several ETags. It also returns "" for an ETag of more than headerBytes bytes, because each
// request for missing bytes sends the ETag.
func strongETag(resp *http.Response) string {
	tags := resp.Header["Etag"]
	if len(tags) != 1 || len(tags[0]) < 2 || len(tags[0]) > headerBytes ||
		!strings.HasPrefix(tags[0], `"`) || !strings.HasSuffix(tags[0], `"`) {
		return ""
	}
	return tags[0]
}

// If a download has read progressBytes bytes, the next retry takes nothing from the Budget. After
// this retry, the bytes are counted from 0 again. progressBytes is about the size of a request with
// its headers.
const progressBytes = 1 << 10

// A download is the body that the caller gets if Transport.Resume is set. A Read of the download
// also sends the requests for missing bytes, and reads the first of these bytes into its argument.
// So a download has no goroutine and no buffer.
type download struct {
	x     *exchange // the exchange that got the response
	why   string    // why Resume does not apply; "": it applies
	etag  string    // the ETag of the whole body
	total int64     // the length of the whole body; -1: unknown
	off   int64     // how many bytes the caller has read
	free  int64     // the value of `off` at the last retry that took nothing from the Budget; 0: none
	end   int64     // the offset at which the present part (a 206) ends; -1: no part yet
	broke error     // an error that came together with bytes; the next Read returns it
	err   error     // the error of every further Read

	mu     sync.Mutex      // guards the fields below, because Close may run during a Read
	body   io.ReadCloser   // the present body; nil between two responses and after Close
	closed bool            // Close was called
	ctx    context.Context // the context of the requests for missing bytes; nil: no such request yet
	cancel context.CancelFunc
}

// The method `resume` returns the body that the caller gets if Transport.Resume is set. This body
// is a download. If Resume does not apply to the response, the length of the body is not compared
// with the Content-Length, because a Base may have decoded the body.
func (x *exchange) resume(resp *http.Response) io.ReadCloser {
	d := &download{x: x, why: x.whyNot(resp), etag: strongETag(resp), body: resp.Body}
	d.total, d.end = -1, -1
	if d.why == "" {
		d.total = resp.ContentLength
	}
	return d
}

// Close closes the body, and ends a Read that waits for missing bytes.
func (d *download) Close() error {
	d.mu.Lock()
	body, cancel := d.body, d.cancel
	d.body, d.closed = nil, true
	d.mu.Unlock()
	if cancel != nil {
		defer cancel()
	}
	if body == nil {
		return nil
	}
	return body.Close()
}

// The method `stop` ends a Read of the present body.
func (d *download) stop() {
	d.mu.Lock()
	body := d.body
	d.mu.Unlock()
	if b, ok := body.(*responseBody); ok {
		b.cancel(nil)
	}
}

func (d *download) Read(p []byte) (int, error) {
	if d.err != nil || len(p) == 0 {
		return 0, d.err
	}
	n, err := 0, d.broke
	if err == nil {
		n, err = d.read(p)
	}
	if n > 0 || err == nil {
		d.broke = err
		return n, nil
	}
	ctx := d.x.req.Context()
	if err == io.EOF && d.why == "" && d.total < 0 && ctx.Err() != nil {
		err = context.Cause(ctx) // the EOF proves nothing: see watchedBody.Read
	}
	switch {
	case err == io.EOF || err == http.ErrBodyReadAfterClose:
		d.err = err
	case ctx.Err() != nil:
		d.err = &BrokenError{d.off, err}
	case d.why != "":
		d.err = &BrokenError{d.off, fmt.Errorf("%w (not resumed: %s)", err, d.why)}
	default:
		n, d.err = d.fetch(p, err)
	}
	if d.err != nil && d.cancel != nil {
		d.cancel()
	}
	return n, d.err
}

// The method `read` reads from the present body. It returns an error if the download is closed.
func (d *download) read(p []byte) (int, error) {
	d.mu.Lock()
	body := d.body
	d.mu.Unlock()
	if body == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := body.Read(p)
	return d.advance(n, err)
}

// The method `advance` adds n, the result of a Read of the body, to off. It returns a corrected n
// and err. Bytes after the end of the part do not count, and the error is io.EOF only at the end of
// the whole body.
func (d *download) advance(n int, err error) (int, error) {
	if left := d.end - d.off; d.end >= 0 && int64(n) >= left {
		n, err = int(left), io.EOF
	}
	d.off += int64(n)
	switch {
	case err != nil && d.off == d.total:
		err = io.EOF
	case err == io.EOF && (d.total >= 0 || d.end >= 0):
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// closeBroken closes the body that broke off. It returns false if the caller has closed the
// download. closeBroken also makes the context of the requests for the missing bytes, which Close
// cancels.
func (d *download) closeBroken() bool {
	d.mu.Lock()
	body, closed := d.body, d.closed
	d.body = nil
	if d.ctx == nil {
		d.ctx, d.cancel = context.WithCancel(d.x.req.Context())
	}
	d.mu.Unlock()
	if body != nil {
		_ = body.Close()
	}
	return !closed
}

// A part is the response to a request for the missing bytes.
type part struct {
	n          int   // how many bytes of the part were read into the slice of the Read
	err        error // the error that came together with the n bytes
	end, total int64 // the end of the part (-1: the whole body), and the length of the whole body
	over       bool  // the server says that the body has no more bytes
}

// The method `fetch` fetches the missing bytes, starting at the offset off. It makes a new
// exchange, whose attempts the policy limits, and reads the first of the missing bytes into the
// slice p. The attempt whose body broke off counts as the first attempt of the exchange. Its error
// is the parameter `broke`. A later attempt fails if it gets no byte.
func (d *download) fetch(p []byte, broke error) (int, error) {
	if !d.closeBroken() {
		return 0, http.ErrBodyReadAfterClose
	}
	req := d.x.req.WithContext(d.ctx)
	req.Header = cloneHeader(req.Header)
	req.Header["Range"] = []string{fmt.Sprintf("bytes=%d-", d.off)}
	req.Header["If-Range"] = []string{d.etag}

	var got part
	check := d.x.checks
	checks := func(req *http.Request, resp *http.Response, err error) error {
		if got = (part{over: resp != nil && d.isEnd(resp)}); got.over {
			return nil
		}
		failure := check(req, resp, err)
		if failure != nil || resp == nil {
			return failure
		}
		if got, err = d.open(resp, p); err == nil {
			return nil
		}
		return cmp.Or(check(req, nil, err), retry.Permanent(err))
	}
	x := &exchange{t: d.x.t, req: req, policy: d.x.policy, checks: checks, budget: d.x.budget}
	defer x.cleanUp()
	if d.x.done != nil {
		x.budget, x.done = x.t.budgetOf(x.policy, req)
	}
	// Check gets a copy of the request, as in every attempt. The context of the copy has no policy.
	made := req.WithContext(context.WithValue(d.ctx, policyKey{}, nil))
	x.last = &attempt{number: 1, made: *made}
	x.last.req = &x.last.made
	unshare(x.last.req, &x.last.url)
	x.last.to.known.Store(true) // the request of this attempt was sent
	err := x.run(func(ctx context.Context) error {
		if broke == nil {
			return x.attempt(ctx)
		}
		x.failure, broke = x.check(checked(broke)), nil
		x.last.before = x.failure // the error of a lost answer, if a 4xx ends the exchange
		if x.done != nil && d.off-d.free >= progressBytes {
			d.free, x.skipBudget = d.off, true // progress shows that the server works
		}
		return x.failure
	})
	x.keepBody(err)

	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return 0, http.ErrBodyReadAfterClose
	case err != nil:
		return 0, &BrokenError{d.off, asNetError(unmarked(err))}
	case got.over:
		return 0, io.EOF
	}
	d.body, x.resp = x.resp.Body, nil
	d.end, d.total = got.end, got.total
	n, err := d.advance(got.n, got.err)
	d.broke = err
	return n, nil
}

// The function `unmarked` removes the mark of retry.Permanent from the error of a call that has
// failed to fetch the missing bytes. A mark that a Check has wrapped is hidden. The mark has ended
// this call. But a loop or a job that makes the whole download may begin it anew.
func unmarked(err error) error {
	e, is := err.(*retry.Error)
	if !is {
		return err
	}
	if reflect.TypeOf(e.Err) == markType {
		e.Err = errors.Unwrap(e.Err)
	}
	if retry.IsPermanent(e.Err) {
		e.Err = pastError{e.Err, retry.RetryAfterOf(e.Err)}
	}
	return err
}

// isEnd reports whether resp is a 416 which says that a body of unknown length ends at off. Most
// servers send no ETag with a 416. If there is an ETag, it must be the ETag of this body.
func (d *download) isEnd(resp *http.Response) bool {
	unsatisfiable := resp.StatusCode == http.StatusRequestedRangeNotSatisfiable
	ranges := resp.Header["Content-Range"]
	if !unsatisfiable || d.total >= 0 || len(ranges) != 1 {
		return false
	}
	_, named := resp.Header["Etag"]
	return ranges[0] == fmt.Sprintf("bytes */%d", d.off) && (!named || strongETag(resp) == d.etag)
}

// The method `open` checks that a response is a part that starts at off, and reads its first bytes
// into p. If the response is something else, `open` returns an error that says what is wrong.
func (d *download) open(resp *http.Response, p []byte) (got part, err error) {
	if d.isWhole(resp) {
		got.end, got.total = -1, max(d.total, resp.ContentLength)
		err = got.read(resp.Body, p)
		return got, err
	}
	ranges := resp.Header["Content-Range"]
	isPart := resp.StatusCode == http.StatusPartialContent
	if resp.StatusCode == http.StatusOK || isPart && strongETag(resp) != d.etag {
		return part{}, retry.Permanent(ErrChanged)
	}
	if !isPart || len(ranges) != 1 || !identical(resp) || resp.Body == nil {
		return part{}, retry.Permanent(fmt.Errorf("the answer to the Range request is %d %s, "+
			"with %d Content-Range headers and the encoding %.20q", resp.StatusCode,
			http.StatusText(resp.StatusCode), len(ranges), list(resp, "Content-Encoding")))
	}
	if isByteRanges(resp) {
		const text = "the answer to the Range request is a multipart/byteranges, " +
			"whose boundary lines do not belong to the body"
		return part{}, retry.Permanent(errors.New(text))
	}
	if got.end, got.total, err = d.span(ranges[0]); err != nil {
		return part{}, err
	}
	err = got.read(resp.Body, p)
	return got, err
}

// isWhole reports whether a response has the whole body. This helps if the body broke off before
// its first byte. Servers that do not know the header Range send such a response.
func (d *download) isWhole(resp *http.Response) bool {
	sameLength := d.total < 0 || resp.ContentLength < 0 || resp.ContentLength == d.total
	return d.off == 0 && resp.StatusCode == http.StatusOK && sameLength && !isByteRanges(resp) &&
		strongETag(resp) == d.etag && identical(resp) && resp.Body != nil
}

// The method `read` reads the first bytes of the part into p. It returns an error if there is no
// byte, unless the whole body is empty.
func (got *part) read(body io.Reader, p []byte) error {
	switch got.n, got.err = readSome(body, p); {
	case got.n > 0:
		return nil
	case got.err == io.EOF && got.end < 0 && got.total <= 0:
		got.over = true
		return nil
	case got.err == io.EOF:
		return io.ErrUnexpectedEOF
	default:
		return checked(got.err)
	}
}

// isByteRanges reports whether a Content-Type of a response contains multipart/byteranges. Such a
// body has several parts, with boundary lines between them. A server must not send such a body if
// the request asks for one range, and must never send such a body together with a Content-Range
// (RFC 9110 section 15.3.7.2). isByteRanges searches the text, because mime.ParseMediaType fails if
// a Content-Type contains two media types.
func isByteRanges(resp *http.Response) bool {
	return slices.ContainsFunc(resp.Header["Content-Type"], func(text string) bool {
		text = strings.ToLower(text)
		return strings.Contains(text, "multipart/byteranges") ||
			strings.Contains(text, "multipart/x-byteranges")
	})
}

// The method `span` reads a Content-Range that starts at off. `end` is the offset after the last
// byte of the range. `total` is the length of the whole body, or -1 if it is still unknown.
func (d *download) span(value string) (end, total int64, err error) {
	rest, ok := strings.CutPrefix(strings.ToLower(value), fmt.Sprintf("bytes %d-", d.off))
	last, size, _ := strings.Cut(rest, "/")
	to, okTo := position(last)
	total, okTotal := d.total, size == "*"
	if !okTotal {
		total, okTotal = position(size)
	}
	if !ok || !okTo || !okTotal || to < d.off ||
		total >= 0 && to >= total || d.total >= 0 && total != d.total {
		const text = "the Content-Range %.60q is not what was asked for: the rest from byte %d"
		return 0, 0, retry.Permanent(fmt.Errorf(text, value, d.off))
	}
	return to + 1, total, nil
}

// The function `position` reads the offset of a byte. An offset of more than 62 bits is invalid.
func position(value string) (int64, bool) {
	n, err := strconv.ParseUint(value, 10, 62)
	return int64(n), err == nil
}
