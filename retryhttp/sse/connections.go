package sse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventstream"
	"github.com/goretry/retry/retryhttp"
)

const remembered = 1000 // events, by which one that comes again is known

// connections are those of one stream, one after another. Each is opened by a call of the
// Transport, whose attempts succeed with progress: see check.
type connections struct {
	*Stream
	first  *http.Request
	yield  func(Event, error) bool
	client http.Client
	base   http.RoundTripper
	checks retryhttp.CheckFunc // of the Transport

	policy  retry.Policy  // without AttemptTimeout, which is headers
	headers time.Duration // the time until Check has returned; 0: no limit
	late    *time.Timer   // of headers; nil: none

	events *eventstream.Parser // of the present connection
	err    error               // what events returned last
	last   Event               // the last one that was handed out, with the newest ID
	began  bool                // there was progress
	over   bool                // the caller wants no more
	wait   time.Duration       // what the stream said in "retry"

	again bool // the events may be those of the connection before
	seed  maphash.Seed
	sums  [remembered]uint64 // of the last events, in a ring
	n     int                // how many there were
}

func newConnections(s *Stream, req *http.Request, yield func(Event, error) bool) *connections {
	c := &connections{
		Stream: s, first: req, yield: yield, policy: s.Policy,
		client: *cmp.Or(s.Client, http.DefaultClient), seed: maphash.MakeSeed(),
	}
	c.last.ID = cmp.Or(s.LastID, req.Header.Get("Last-Event-ID"))
	if c.policy.AttemptTimeout > 0 {
		c.headers, c.policy.AttemptTimeout = c.policy.AttemptTimeout, 0
	}
	if c.policy.HealthyAfter == 0 && c.policy.EffectiveMax() != 1 {
		c.policy.HealthyAfter = 10 * time.Second
	}
	t := &retryhttp.Transport{Base: c.client.Transport, Budgets: retryhttp.NoBudgets}
	if ours, ok := c.client.Transport.(*retryhttp.Transport); ok {
		t = ours.Clone()
	}
	if c.base, c.checks = t.Base, t.Check; c.base == nil {
		c.base = http.DefaultTransport
	}
	if c.checks == nil {
		c.checks = retryhttp.Check
	}
	t.Base, t.Check, t.Resume = c, c.check, false
	c.client.Transport = t
	return c
}

// run reads one connection after another, until the stream is over.
func (c *connections) run() error {
	for {
		body, err := c.connect()
		if body == nil {
			return err
		}
		if err = c.read(body); c.over {
			return nil
		}
		if ctx := c.first.Context(); ctx.Err() != nil {
			return fmt.Errorf("sse: %w", context.Cause(ctx))
		}
		if result, ends := c.end(err); ends {
			return result
		}
		if err := c.pause(err); err != nil {
			return err
		}
	}
}

// connect opens the next connection, and reads up to its first progress. Without a body the
// stream is over.
func (c *connections) connect() (io.ReadCloser, error) {
	req, err := c.request()
	if err != nil {
		return nil, err
	}
	resp, err := retryhttp.Result(c.client.Do(req))
	if err != nil {
		return nil, err
	}
	why := unfit(resp)
	if why == "" {
		return resp.Body, nil
	}
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return nil, nil
	}
	return nil, fmt.Errorf("sse: %s: %s", req.URL.Redacted(), why)
}

// request returns the request for the next connection.
func (c *connections) request() (*http.Request, error) {
	ctx, req := retryhttp.WithPolicy(c.first.Context(), c.policy), c.first
	if c.began && c.Resume != nil {
		var err error
		if req, err = c.Resume(c.first.Context(), c.last); err == nil && req == nil {
			err = errors.New("it returned neither a request nor an error")
		}
		if err != nil {
			return nil, &BrokenError{Why: "Resume failed", Err: err}
		}
	}
	req = req.Clone(ctx)
	if c.began && c.Resume == nil && req.GetBody != nil {
		req.Body = nil // it has been sent: the Transport gets another
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	setIfMissing := func(name, value string) {
		req.Header.Set(name, cmp.Or(req.Header.Get(name), value))
	}
	setIfMissing("Accept", "text/event-stream")
	setIfMissing("Cache-Control", "no-cache")
	if isGET(req) {
		req.Header.Del("Last-Event-ID")
		if c.last.ID != "" {
			req.Header.Set("Last-Event-ID", c.last.ID)
		}
	}
	return req, nil
}

func isGET(req *http.Request) bool { return req.Method == "" || req.Method == http.MethodGet }

// errLate is what an attempt fails with after AttemptTimeout.
var errLate = fmt.Errorf("sse: no headers within AttemptTimeout: %w", context.DeadlineExceeded)

// RoundTrip sends a request of the Transport. A Transport below makes one attempt.
func (c *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := retryhttp.WithPolicy(req.Context(), retry.Policy{})
	c.late = nil
	if c.headers > 0 {
		var cancel context.CancelCauseFunc // the end of the attempt frees this context too
		ctx, cancel = context.WithCancelCause(ctx)
		c.late = time.AfterFunc(c.headers, func() { cancel(errLate) })
	}
	resp, err := c.base.RoundTrip(req.WithContext(ctx))
	if err != nil && context.Cause(ctx) == errLate {
		err = errLate
	}
	return resp, err
}

// check is the Check of the Transport: an attempt fails if the connection ends without progress.
func (c *connections) check(req *http.Request, resp *http.Response, err error) error {
	failure := c.checks(req, resp, err)
	if c.late != nil && !c.late.Stop() && resp != nil {
		failure = c.judge(req, errLate)
	}
	if failure != nil || resp == nil || unfit(resp) != "" {
		return c.after(failure)
	}
	c.events = eventstream.New(resp.Body, c.last.ID, limitOf(c.Limit))
	c.again = c.began
	c.advance()
	if _, ends := c.end(c.err); ends || c.err == nil {
		return nil
	}
	return c.after(c.judge(req, c.err))
}

// judge returns what a connection failed with that ended with err.
func (c *connections) judge(req *http.Request, err error) error {
	return cmp.Or(c.checks(req, nil, err), retry.Permanent(err))
}

// after makes the next attempt wait as long as the stream has said.
func (c *connections) after(failure error) error {
	if failure == nil || c.wait <= retry.RetryAfterOf(failure) {
		return failure
	}
	return retry.After(c.wait, failure)
}

// unfit returns why a response is not a stream of events; "": it is one.
func unfit(resp *http.Response) string {
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	encoding := resp.Header.Get("Content-Encoding")
	switch {
	case resp.StatusCode != http.StatusOK:
		return fmt.Sprintf("the status is %d, not 200", resp.StatusCode)
	case !strings.EqualFold(strings.TrimSpace(media), "text/event-stream"):
		return fmt.Sprintf("the Content-Type is %.60q, not text/event-stream", media)
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return fmt.Sprintf("the Content-Encoding is %.30q, and nothing decodes it", encoding)
	default:
		return ""
	}
}

// read hands out the events of a connection, whose first progress is there, and returns what
// ended it.
func (c *connections) read(body io.ReadCloser) error {
	defer func() { _ = body.Close() }()
	for ; c.err == nil; c.advance() {
		if c.began, c.last.ID = true, c.events.ID; c.events.Data == nil {
			continue
		}
		c.last = eventOf(c.events)
		last := c.Last != nil && c.Last(c.last)
		if c.over = !c.yield(c.last, nil) || last; c.over {
			return nil
		}
	}
	return c.err
}

// advance reads to the next event, or ID, that is new. Its error is io.EOF only if the stream
// ended in good order.
func (c *connections) advance() {
	for {
		c.err = c.events.Next()
		if c.events.Retry >= 0 {
			c.wait = c.events.Retry
		}
		known := c.last.ID != "" || c.Lossy
		if c.err == io.EOF && (c.Last != nil || known && c.whyNot() == "") {
			c.err = io.ErrUnexpectedEOF
		}
		if c.err != nil || c.events.ID == "" {
			return
		}
		sum := c.sum()
		if c.again && slices.Contains(c.sums[:min(c.n, remembered)], sum) {
			continue
		}
		c.again, c.sums[c.n%remembered] = false, sum
		c.n++
		return
	}
}

// sum returns a hash of the last event. It includes the data, because a server that counts from 1
// again uses the same IDs.
func (c *connections) sum() uint64 {
	sum := maphash.String(c.seed, c.events.ID) + 3*maphash.String(c.seed, c.events.Name)
	if c.events.Data != nil {
		sum += 5*maphash.Bytes(c.seed, c.events.Data) + 1
	}
	return sum
}

// end returns what the stream ends with after what ended a connection, nil if it ended in good
// order, and whether it ends at all.
func (c *connections) end(err error) (result error, ends bool) {
	switch why := c.whyNot(); {
	case err == io.EOF:
		return nil, true
	case errors.Is(err, ErrTooLong):
		return fmt.Errorf("sse: %w", err), true
	default:
		return &BrokenError{Why: why, Err: err}, why != ""
	}
}

// whyNot returns why a stream that breaks off cannot go on; "": it can, or the Transport
// knows.
func (c *connections) whyNot() string {
	switch {
	case !c.began || c.Resume != nil:
		return ""
	case !isGET(c.first):
		return "a " + c.first.Method + " needs a Resume"
	case c.last.ID == "" && !c.Lossy:
		return "its events have no ID"
	default:
		return ""
	}
}

// pause waits before the reconnection after a break that followed progress. The reconnection is
// the first attempt of a call of its own, so it takes nothing from a Budget. This is the one
// place that says so.
func (c *connections) pause(broke error) error {
	p := c.policy
	if p.EffectiveMax() != 1 {
		p.MaxAttempts, p.MaxRetries, p.AttemptCap = 2, 0, 0
	}
	p.HealthyAfter, p.Budget = 0, nil
	broke = c.after(c.judge(c.first, broke))
	return retry.Do(c.first.Context(), p, func(context.Context) error {
		defer func() { broke = nil }()
		return broke
	})
}
