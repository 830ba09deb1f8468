package retryhttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/goretry/retry/internal/eventstream"
)

// WholeBody returns a Check that also reads the body of a response which check
// accepts, if it is no longer than limit bytes: one that breaks off is a failed
// attempt. The caller then reads it from memory. A body that is longer reaches the
// caller as it comes; one that says so in its Content-Length is not read at all, and
// neither are a stream of events (text/event-stream) and a connection after 101. A limit
// of 0 or less reads nothing. A nil check is the function Check.
//
// The time for reading is part of the attempt, so AttemptTimeout limits it.
func WholeBody(check CheckFunc, limit int64) CheckFunc {
	return func(req *http.Request, resp *http.Response, err error) error {
		if failure := check.or()(req, resp, err); failure != nil || !hasText(resp) {
			return failure
		}
		if isEvents(resp) || resp.ContentLength > limit || limit <= 0 {
			return nil
		}
		if read := readHead(resp, min(limit, math.MaxInt64-1)+1); read.err != nil && read.err != io.EOF {
			return fmt.Errorf("retryhttp: the body of the response broke off: %w", checked(read.err))
		}
		return nil
	}
}

// readHead reads up to most bytes of a body, which reads the same afterwards.
func readHead(resp *http.Response, most int64) *readBody {
	head, err := io.ReadAll(io.LimitReader(someReader{resp.Body}, most))
	if err == nil && int64(len(head)) < most {
		err = io.EOF
	}
	read := &readBody{head: head, err: err, ReadCloser: resp.Body}
	resp.Body = read
	return read
}

// FirstEvent returns a Check that also reads the first event of a stream
// (text/event-stream, not compressed) whose response check accepts. judge gets the
// response, the name of the event, "" if it has none, and its data, which it may
// keep. An error of judge is what the attempt failed with; more says that this was
// an opening or a ping, and judge wants the next event too. Comments, and events
// without data, are left out. A nil judge accepts every event. A nil check is the
// function Check.
//
// A stream that ends or breaks before judge has accepted an event is a failed
// attempt. At most 64 KiB are read: the rest is accepted. The caller reads the
// whole stream, with what judge has seen, whatever it said.
//
// The time until that event is part of the attempt, so AttemptTimeout limits it,
// and the caller gets the headers no sooner.
func FirstEvent(
	check CheckFunc,
	judge func(resp *http.Response, event string, data []byte) (more bool, err error),
) CheckFunc {
	return func(req *http.Request, resp *http.Response, err error) error {
		failure := check.or()(req, resp, err)
		if failure != nil || !hasText(resp) && !isEmpty(req, resp) || !isEvents(resp) {
			return failure
		}
		encoding := resp.Header.Get("Content-Encoding")
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
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
				return fmt.Errorf("retryhttp: the stream ended before its first event: %w", io.ErrUnexpectedEOF)
			case err != nil:
				return fmt.Errorf("retryhttp: the stream broke off before its first event: %w", checked(err))
			case events.Data == nil: // an id alone
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

const firstEventBytes = 64 << 10

// hasText reports whether a response has a body, and not a connection.
func hasText(resp *http.Response) bool {
	return resp != nil && resp.StatusCode != http.StatusSwitchingProtocols &&
		resp.Body != nil && resp.Body != http.NoBody
}

// isEmpty reports whether a response has no body where there could be one.
func isEmpty(req *http.Request, resp *http.Response) bool {
	return resp != nil && resp.Body == http.NoBody &&
		resp.StatusCode == http.StatusOK && req.Method != http.MethodHead
}

func isEvents(resp *http.Response) bool { return isMedia(resp, "text/event-stream") }

// isMedia reports whether a response is of this type, whatever its parameters.
func isMedia(resp *http.Response, media string) bool {
	name, _, _ := strings.Cut(cut(resp.Header.Get("Content-Type")), ";")
	return strings.EqualFold(strings.TrimSpace(name), media)
}

// A readBody is a body of which a Check has read the head.
type readBody struct {
	head []byte
	err  error // what comes after the head; nil: the rest
	io.ReadCloser
}

func (b *readBody) Read(p []byte) (int, error) {
	switch {
	case len(b.head) > 0:
		n := copy(p, b.head)
		b.head = b.head[n:]
		return n, nil
	case b.err != nil:
		return 0, b.err
	default:
		return b.ReadCloser.Read(p)
	}
}

// A recorder reads a body, and keeps what it has read as the head of it.
type recorder struct{ *readBody }

func (r recorder) Read(p []byte) (n int, err error) {
	left := firstEventBytes - len(r.head)
	if left == 0 {
		return 0, errEnough
	}
	n, r.err = readSome(r.ReadCloser, p[:min(len(p), left)])
	r.head = append(r.head, p[:n]...)
	return n, r.err
}

// errEnough ends the reading of a stream that has no event for the judge in its first bytes.
var errEnough = errors.New("retryhttp: enough of the stream")

// readSome reads a byte or more, or returns why there is none.
func readSome(r io.Reader, p []byte) (n int, err error) {
	for range emptyReads {
		if n, err = r.Read(p); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// A someReader reads as readSome does.
type someReader struct{ io.Reader }

func (r someReader) Read(p []byte) (int, error) { return readSome(r.Reader, p) }
