package retryhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/goretry/retry/internal/eventstream"
)

// WholeBody returns a function for the field Check that also reads the body of a response. This
// function first calls the parameter `check`. If `check` accepts the response, the function reads
// up to `limit` bytes of the body. If the body breaks off within these bytes, the attempt has
// failed. If the body does not break off, the caller reads these bytes from memory. The caller
// reads the rest of a longer body as it arrives.
//
// WholeBody does not read a body whose Content-Length is above `limit`, a stream of events
// (text/event-stream), or the connection after a 101 or a CONNECT. If `limit` is 0 or less, no body
// is read. If `check` is nil, the function Check is used.
//
// Reading the body is part of the attempt, so AttemptTimeout limits its time. But over HTTP/2, a
// Read can hang longer than AttemptTimeout: see "A server that stops reading" in the documentation
// of [Transport]. A body of unknown length that ends with its connection, as in HTTP/1.0, looks
// complete even if it was cut off.
func WholeBody(check CheckFunc, limit int64) CheckFunc {
	return func(req *http.Request, resp *http.Response, err error) error {
		if failure := check.orDefault()(req, resp, err); failure != nil || !hasText(resp) {
			return failure
		}
		if isEvents(resp) || resp.ContentLength > limit || limit <= 0 {
			return nil
		}
		read := readBeginning(resp, min(limit, math.MaxInt64-1)+1)
		broke := read.err
		if broke == io.EOF && resp.ContentLength < 0 && req != nil && req.Context().Err() != nil {
			broke = context.Cause(req.Context()) // the EOF proves nothing: see watchedBody.Read
		}
		if broke != nil && broke != io.EOF {
			return fmt.Errorf("retryhttp: the body of the response broke off: %w", checked(broke))
		}
		return nil
	}
}

// readBeginning reads the first bytes of the body of a response, at most limit bytes. Afterwards
// the body can still be read from its first byte.
func readBeginning(resp *http.Response, limit int64) *readBody {
	beginning, err := io.ReadAll(io.LimitReader(someReader{resp.Body}, limit))
	if err == nil && int64(len(beginning)) < limit {
		err = io.EOF
	}
	read := &readBody{beginning: beginning, err: err, ReadCloser: resp.Body}
	resp.Body = read
	return read
}

// FirstEvent returns a function for the field Check that also reads the first event of a stream
// (text/event-stream, not compressed). This function first calls the parameter `check`. If `check`
// accepts the response, the function reads the event, and the parameter `judge` decides about the
// event. If `judge` returns an error, the attempt has failed with this error. If `judge` returns no
// error, its result `more` decides: if `more` is false, the stream is accepted, and if `more` is
// true, `judge` also gets the next event. In `judge`, return true as `more` for an event that comes
// before the answer, such as a ping.
//
// `judge` gets the response, the name of the event and its data. The name is "" if the event has no
// name. `judge` may keep the data. It gets neither comments nor events without data. If `judge` is
// nil, every event is accepted. If `check` is nil, the function Check is used.
//
// If the stream ends or breaks off before `judge` has accepted an event, the attempt has failed. If
// the method is HEAD, or the status is 204, 205 or 3xx, there is no stream, and the response is
// accepted without an event. If `judge` has not decided after the first 1 MiB of the stream, the
// stream is accepted. The caller reads the whole stream, including the events that `judge` got.
//
// The caller gets the response after the stream is accepted. Until then AttemptTimeout limits the
// time. But over HTTP/2, a Read can hang longer than AttemptTimeout: see "A server that stops
// reading" in the documentation of [Transport].
func FirstEvent(
	check CheckFunc,
	judge func(resp *http.Response, event string, data []byte) (more bool, err error),
) CheckFunc {
	return func(req *http.Request, resp *http.Response, err error) error {
		failure := check.orDefault()(req, resp, err)
		if failure != nil || resp == nil || !hasContent(req, resp) || !isEvents(resp) {
			return failure
		}
		if isEncoded(resp) {
			return nil
		}
		read := &readBody{ReadCloser: resp.Body}
		resp.Body = read
		events := eventstream.New(recorder{read}, "", firstEventBytes)
		for {
			switch err := events.Next(); {
			case err == errEnough:
				return nil
			case err == io.EOF:
				const text = "retryhttp: the stream ended before an event was accepted: %w"
				return fmt.Errorf(text, io.ErrUnexpectedEOF)
			case err != nil:
				const text = "retryhttp: the stream broke off before an event was accepted: %w"
				return fmt.Errorf(text, checked(err))
			case events.Data == nil: // the event is an ID without data
				continue
			case judge == nil:
				return nil
			}
			if more, err := judge(resp, events.Name, bytes.Clone(events.Data)); err != nil || !more {
				return err
			}
		}
	}
}

// firstEventBytes is enough for two events of the Responses API of OpenAI that both repeat the
// instructions and the tools of a long request, before the first piece of the answer.
const firstEventBytes = 1 << 20

// hasText reports whether a response has a body that ends. The body of a 101 Switching Protocols,
// or of a success of CONNECT, is the connection itself. A 204 and a 304 have no body (RFC 9110
// section 6.4.1), but they may have a Content-Length. In this case net/http gives them over HTTP/2
// a body that breaks off.
func hasText(resp *http.Response) bool {
	if resp == nil || resp.Body == nil || resp.Body == http.NoBody {
		return false
	}
	switch resp.StatusCode {
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusNotModified:
		return false
	}
	return resp.Request == nil || resp.Request.Method != http.MethodConnect ||
		resp.StatusCode/100 != 2
}

// hasContent reports whether a response has content, which may be empty. It looks at the method and
// the status (RFC 9110 section 6.4.1), because net/http does not use http.NoBody for all responses
// without content. A caller of a Check may pass no request: then the method is not HEAD.
func hasContent(req *http.Request, resp *http.Response) bool {
	return (req == nil || req.Method != http.MethodHead) && resp.Body != nil &&
		resp.StatusCode >= 200 && resp.StatusCode != http.StatusNoContent &&
		resp.StatusCode != http.StatusResetContent && resp.StatusCode/100 != 3
}

// isEncoded reports whether a response has a Content-Encoding other than "identity" or "none". Many
// servers of event streams send "none" so that no proxy compresses the stream.
func isEncoded(resp *http.Response) bool {
	return slices.ContainsFunc(resp.Header["Content-Encoding"], func(encoding string) bool {
		switch strings.ToLower(encoding) {
		case "", "identity", "none":
			return false
		default:
			return true
		}
	})
}

// isEvents reports whether a response is a stream of events.
func isEvents(resp *http.Response) bool { return isMedia(resp, "text/event-stream") }

// isMedia reports whether the Content-Type of a response is the given media type, with any
// parameters.
func isMedia(resp *http.Response, media string) bool {
	name, _, _ := strings.Cut(cut(resp.Header.Get("Content-Type")), ";")
	return strings.EqualFold(strings.TrimSpace(name), media)
}

// A readBody is a body whose beginning was already read by a Check. Read returns these bytes first.
type readBody struct {
	beginning     []byte
	err           error // the error that Read returns after the beginning; nil: see ReadCloser
	io.ReadCloser       // if err is nil, Read returns the rest of the body from here
}

func (b *readBody) Read(p []byte) (int, error) {
	switch {
	case len(b.beginning) > 0:
		n := copy(p, b.beginning)
		if b.beginning = b.beginning[n:]; len(b.beginning) == 0 {
			b.beginning = nil // up to 8 MiB, which must not live as long as a stream
		}
		return n, nil
	case b.err != nil:
		return 0, b.err
	default:
		return b.ReadCloser.Read(p)
	}
}

// A recorder reads from the ReadCloser of a readBody, and appends the bytes to the field
// `beginning` of the readBody. So the caller can read these bytes again.
type recorder struct{ *readBody }

func (r recorder) Read(p []byte) (n int, err error) {
	left := firstEventBytes - len(r.beginning)
	if left == 0 {
		return 0, errEnough
	}
	n, r.err = readSome(r.ReadCloser, p[:min(len(p), left)])
	r.beginning = append(r.beginning, p[:n]...)
	return n, r.err
}

// The Read of a recorder returns errEnough after the first 1 MiB of a stream. FirstEvent reads so
// far only if its parameter `judge` has accepted no event, and then accepts the stream.
var errEnough = errors.New("retryhttp: no event was accepted in the first 1 MiB")

// emptyReads is how many calls of Read may return neither a byte nor an error. Package bufio has
// the same limit.
const emptyReads = 100

// readSome calls Read until it gets a byte or an error, at most emptyReads times.
func readSome(r io.Reader, p []byte) (n int, err error) {
	for range emptyReads {
		if n, err = r.Read(p); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// A someReader is a Reader whose Read calls readSome. So io.ReadAll cannot loop forever over a
// Reader that returns neither a byte nor an error.
type someReader struct{ io.Reader }

func (r someReader) Read(p []byte) (int, error) { return readSome(r.Reader, p) }
