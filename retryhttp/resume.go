package retryhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goretry/retry"
)

// A BrokenError is the error of reading a body under Transport.Resume if the body
// broke and its rest could not be fetched, or if Resume did not apply to it, and then
// says why. What was read before is correct.
type BrokenError struct {
	Offset int64 // how many bytes were read
	Err    error // why the rest is missing; errors.As finds a *retry.Error in it
}

// Error returns "retryhttp: the body broke after 5 bytes: " and the text of Err.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("retryhttp: the body broke after %d bytes: %v", e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *BrokenError) Unwrap() error { return e.Err }

// ErrChanged is in the [BrokenError] of a body whose rest the server does not
// confirm: it answers with the whole body again, or with another ETag, or without
// one. Start again from the beginning.
var ErrChanged = errors.New("the server does not confirm that it still has the same body")

// whyNot returns why Transport.Resume does not apply to the response that the caller
// gets. "": it is a whole body, named by a strong ETag, and its request may be repeated.
func (x *exchange) whyNot(resp *http.Response) string {
	req := x.last.req
	_, ranged := req.Header["Range"]
	switch {
	case x.failure != nil:
		return "Check does not accept the response"
	case resp.StatusCode != http.StatusOK:
		return fmt.Sprintf("the status is %d", resp.StatusCode)
	case !isGet(req) || req.Body != nil && req.Body != http.NoBody:
		return "the request is no GET without a body"
	case x.once:
		return "the request may not be repeated"
	case ranged:
		return "the request has a Range"
	case !identical(resp):
		encoding := cmp.Or(resp.Header.Get("Content-Encoding"), "unpacked by Base")
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

func isGet(req *http.Request) bool { return req.Method == "" || req.Method == http.MethodGet }

// identical reports whether the body has no encoding.
func identical(resp *http.Response) bool {
	encoding := resp.Header.Get("Content-Encoding")
	return !resp.Uncompressed && (encoding == "" || strings.EqualFold(encoding, "identity"))
}

// strongETag returns the one ETag of a response if it is strong, and no longer than
// what else is read of a header, since each request for a part sends it. Otherwise "".
func strongETag(resp *http.Response) string {
	tags := resp.Header["Etag"]
	if len(tags) != 1 || len(tags[0]) < 2 || len(tags[0]) > headerBytes ||
		!strings.HasPrefix(tags[0], `"`) || !strings.HasSuffix(tags[0], `"`) {
		return ""
	}
	return tags[0]
}

// progressBytes is the progress for which a retry is free, about what a request costs.
const progressBytes = 1 << 10

// A download is the body of a response under Transport.Resume. The reader waits
// for the next part and reads its first bytes: there is no goroutine and no buffer.
type download struct {
	x     *exchange // that got the response
	why   string    // it is not resumed; "": it is
	etag  string
	total int64 // how long the whole body is; -1: not known
	off   int64 // how many bytes were read
	paid  int64 // how many were read when progress last made a retry free
	end   int64 // where the part ends that is being read; -1: it is the whole body
	broke error // what reading ended with, when bytes came together with that
	err   error // what every further Read returns

	mu     sync.Mutex
	body   io.ReadCloser // nil: there is none between two parts, nor after Close
	closed bool
	ctx    context.Context // of the calls for parts; nil before the first
	cancel context.CancelFunc
}

// resume returns the body of a response under Transport.Resume. Where it does not apply,
// the length counts nothing: a Base may have unpacked the body.
func (x *exchange) resume(resp *http.Response) io.ReadCloser {
	d := &download{x: x, why: x.whyNot(resp), etag: strongETag(resp), body: resp.Body}
	d.total, d.end = -1, -1
	if d.why == "" {
		d.total = resp.ContentLength
	}
	return d
}

// Close closes the body, and ends a Read that waits for its next part.
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
	switch {
	case err == io.EOF || err == http.ErrBodyReadAfterClose || d.x.req.Context().Err() != nil:
		d.err = err
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

// read reads from the body, if it is open.
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

// advance counts what a Read of the body returned. It cuts what is longer than its
// part, and returns io.EOF at the end of the whole body and nowhere else.
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

// between closes the body that broke, and reports whether the download goes on: not
// if it was closed. From now on Close cancels ctx.
func (d *download) between() bool {
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

// A part is what an attempt has got of the body.
type part struct {
	n          int   // the first bytes
	err        error // that came together with them
	end, total int64
	over       bool // there is no more
}

// fetch fetches the part at off under the policy, where the first attempt is what
// broke, and reads its first bytes: an attempt without any has failed.
func (d *download) fetch(p []byte, broke error) (int, error) {
	if !d.between() {
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
	defer x.end()
	if d.x.done != nil {
		x.budget, x.done = x.t.budgetOf(x.policy, req)
	}
	x.last = &attempt{number: 1, req: req}
	err := x.run(func(ctx context.Context) error {
		if broke == nil {
			return x.attempt(ctx)
		}
		x.failure, broke = x.check(checked(broke)), nil
		if x.done != nil && d.off-d.paid >= progressBytes {
			d.paid, x.skipBudget = d.off, true // a server that breaks after progress works
		}
		return x.failure
	})

	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return 0, http.ErrBodyReadAfterClose
	case err != nil:
		return 0, &BrokenError{d.off, asNetError(err)}
	case got.over:
		return 0, io.EOF
	}
	d.body, x.resp = x.resp.Body, nil
	d.end, d.total = got.end, got.total
	n, err := d.advance(got.n, got.err)
	d.broke = err
	return n, nil
}

// isEnd reports whether a response says that a body whose length is not known ends at
// off. Servers leave the ETag out of a 416; another one is of another body.
func (d *download) isEnd(resp *http.Response) bool {
	ranges := resp.Header["Content-Range"]
	if resp.StatusCode != http.StatusRequestedRangeNotSatisfiable || d.total >= 0 || len(ranges) != 1 {
		return false
	}
	_, named := resp.Header["Etag"]
	return ranges[0] == fmt.Sprintf("bytes */%d", d.off) && (!named || strongETag(resp) == d.etag)
}

// open returns the first bytes of a response that is the part at off, or what is
// wrong with it.
func (d *download) open(resp *http.Response, p []byte) (got part, err error) {
	ranges := resp.Header["Content-Range"]
	isPart := resp.StatusCode == http.StatusPartialContent
	if resp.StatusCode == http.StatusOK || isPart && strongETag(resp) != d.etag {
		return part{}, retry.Permanent(ErrChanged)
	}
	if !isPart || len(ranges) != 1 || !identical(resp) || resp.Body == nil {
		return part{}, retry.Permanent(fmt.Errorf("the answer to a request for the rest is %d %s, "+
			"with %d Content-Range and the encoding %.20q", resp.StatusCode,
			http.StatusText(resp.StatusCode), len(ranges), resp.Header.Get("Content-Encoding")))
	}
	if isByteRanges(resp) {
		const text = "the answer to a request for one range is a multipart/byteranges, " +
			"whose boundary lines are no part of the body"
		return part{}, retry.Permanent(errors.New(text))
	}
	if got.end, got.total, err = d.span(ranges[0]); err != nil {
		return part{}, err
	}
	switch got.n, got.err = readSome(resp.Body, p); {
	case got.n > 0:
		return got, nil
	case got.err == io.EOF:
		return got, io.ErrUnexpectedEOF
	default:
		return got, checked(got.err)
	}
}

// isByteRanges reports whether a body has several parts and lines between them, or says so. A
// server must not send it for one range, nor with a Content-Range (RFC 9110 section 15.3.7.2).
func isByteRanges(resp *http.Response) bool {
	return slices.ContainsFunc(resp.Header["Content-Type"], func(text string) bool {
		text = strings.ToLower(text) // there may be two types in it, and the first may be long
		return strings.Contains(text, "multipart/byteranges") ||
			strings.Contains(text, "multipart/x-byteranges")
	})
}

// span reads a Content-Range that begins at off. end is the byte after its last, and
// total is -1 if it is still not known.
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

// position reads the number of a byte. What has more than 62 bits is no body.
func position(value string) (int64, bool) {
	n, err := strconv.ParseUint(value, 10, 62)
	return int64(n), err == nil
}
