package sse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventstream"
	"github.com/goretry/retry/internal/harmless"
	"github.com/goretry/retry/internal/httpdefault"
	"github.com/goretry/retry/internal/mark"
	"github.com/goretry/retry/internal/printable"
	"github.com/goretry/retry/retryhttp"
)

const lastEventID = "Last-Event-ID"

// The constant `remembered` is the number of events whose hashes are stored, to recognize repeated
// events.
const remembered = 1000

// The type `connections` reads one stream over several connections, which are opened one after the
// other. Each connection is the result of a call of the Transport. An attempt of this call succeeds
// when its connection has made progress: see the method `check`.
type connections struct {
	*Stream
	first  *http.Request
	client http.Client
	base   http.RoundTripper
	checks retryhttp.CheckFunc // the Check of the Transport
	policy retry.Policy        // the policy without AttemptTimeout, which RoundTrip applies

	asked     *http.Request // the request of the last attempt
	connected time.Time     // when the headers of the last attempt arrived

	events *eventstream.Parser // the parser of the present connection
	err    error               // the error of the last call of events.Next
	last   Event               // the last event that the caller got, but with the newest ID
	began  bool                // the stream has made progress
	wait   time.Duration       // how long to wait before a reconnection: the last field "retry"

	again bool // the next events may be repeats of earlier events
	seed  maphash.Seed
	sums  []uint64 // hashes of the last events
}

func newConnections(s *Stream, req *http.Request) *connections {
	c := &connections{
		Stream: s, first: req, client: *cmp.Or(s.Client, http.DefaultClient),
		policy: s.Policy, seed: maphash.MakeSeed(),
	}
	c.last.ID = req.Header.Get(lastEventID)
	for key, values := range req.Header {
		if c.last.ID == "" && len(values) > 0 && strings.EqualFold(key, lastEventID) {
			c.last.ID = values[0]
		}
	}
	c.policy.AttemptTimeout = min(0, s.Policy.AttemptTimeout)
	if c.policy.HealthyAfter == 0 && c.policy.EffectiveMax() != 1 {
		c.policy.HealthyAfter = 10 * time.Second
	}
	c.base = cmp.Or(c.client.Transport, http.DefaultTransport)
	t := &retryhttp.Transport{Budgets: retryhttp.NoBudgets}
	if ours, ok := c.base.(*retryhttp.Transport); ok {
		t, c.base = ours.Clone(), cmp.Or(ours.Base, http.DefaultTransport)
		if c.base == http.RoundTripper(ours) { // ours is http.DefaultTransport
			c.base = httpdefault.Transport
		}
	}
	if c.checks = t.Check; c.checks == nil {
		c.checks = retryhttp.Check
	}
	t.Base, t.Check, t.Resume = c, c.check, false
	c.client.Transport = t
	return c
}

// The method `run` passes the events of all connections to `yield`, until the stream is over.
func (c *connections) run(yield func(Event, error) bool) error {
	var broke error // why the connection before ended; nil: there was none
	for {
		req, err := c.request()
		if err != nil {
			return err
		}
		resp, err := retryhttp.Result(c.client.Do(req))
		if e := (*retry.Error)(nil); errors.As(err, &e) && e != nil {
			e.Before = cmp.Or(e.Before, broke)
		}
		if err != nil {
			return err
		}
		if why := unfit(resp); why != "" {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusNoContent {
				return nil
			}
			return fmt.Errorf("sse: %s: %s", printable.URL(req.URL), why)
		}
		if c.read(resp.Body, yield) {
			return nil
		}
		if err := c.canceled(); err != nil {
			return err
		}
		over, err := c.end()
		if broke = err; !over {
			err = c.pause(broke)
		}
		if over || err != nil {
			return err
		}
	}
}

// The method `canceled` returns the error of a stream whose context is done. Otherwise it returns
// nil.
func (c *connections) canceled() error {
	if ctx := c.first.Context(); ctx.Err() != nil {
		return fmt.Errorf("sse: %w", context.Cause(ctx))
	}
	return nil
}

// The method `request` returns the request for the next connection.
func (c *connections) request() (*http.Request, error) {
	ctx, req := retryhttp.WithPolicy(c.first.Context(), c.policy), c.first
	resumes := c.began && c.Resume != nil
	if resumes {
		var err error
		if req, err = c.Resume(c.first.Context(), c.last); err == nil && req == nil {
			err = errors.New("neither a request nor an error was returned")
		}
		if err != nil {
			if ended := c.canceled(); ended != nil {
				return nil, fmt.Errorf("%w (Resume failed: %w)", ended, err)
			}
			return nil, &BrokenError{Why: "Resume failed", Err: err}
		}
	}
	req = req.Clone(ctx)
	if sent := req.Body; c.began && c.Resume == nil && sent != nil && sent != http.NoBody {
		// The body was already sent. If req.Body is nil, the Transport gets a new body from GetBody.
		if req.Body = nil; req.GetBody == nil {
			return nil, &BrokenError{Why: "the body of its request needs a GetBody", Err: c.err}
		}
	}
	header := http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
	maps.Copy(header, req.Header)
	if req.Header = header; isGET(req) {
		// HTTP/1 removes spaces at the ends of a value. In HTTP/2, a server may drop the header because
		// of them (RFC 9113 section 8.2.1), and net/http would send them.
		id := strings.Trim(c.last.ID, " \t")
		// Without an ID, Resume may know where to go on. But it may also have copied c.first.
		own := resumes && req.Header.Get(lastEventID) != c.first.Header.Get(lastEventID)
		if id != "" || !own {
			maps.DeleteFunc(header, func(key string, _ []string) bool {
				return strings.EqualFold(key, lastEventID) // an http.Header may have any spelling
			})
		}
		if id != "" {
			header.Set(lastEventID, id)
		}
	}
	return req, nil
}

func isGET(req *http.Request) bool { return req.Method == "" || req.Method == http.MethodGet }

// errLate is the error of an attempt that AttemptTimeout ended.
var errLate = fmt.Errorf("sse: no headers within AttemptTimeout: %w", context.DeadlineExceeded)

// The Transport of the client calls RoundTrip for each attempt, and RoundTrip sends the request
// through c.base. If c.base is a Transport too, that Transport makes only one attempt.
func (c *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := retryhttp.WithPolicy(req.Context(), retry.Policy{})
	ctx, cancel := context.WithCancelCause(ctx) // canceled when the attempt ends
	limit := cmp.Or(max(0, c.Policy.AttemptTimeout), math.MaxInt64)
	timer := time.AfterFunc(limit, func() { cancel(errLate) })
	defer timer.Stop() // also after a panic: otherwise the timer keeps the request in memory
	resp, err := c.base.RoundTrip(req.WithContext(ctx))
	if resp != nil && resp.Body == nil { // only net/http sets a Body in every response
		resp.Body = http.NoBody
	}
	if c.connected = time.Now(); timer.Stop() {
		return resp, err
	}
	if resp != nil { // drop the response: its context is canceled, so a Read of its body would fail
		_ = resp.Body.Close()
	}
	return nil, errLate
}

// The method `check` is the Check of the Transport. The error of an attempt is marked as unhealthy
// if its connection has not lasted for HealthyAfter. If the stream had a field "retry", which is
// the wait that the server asks for, the error is also marked with this wait.
func (c *connections) check(req *http.Request, resp *http.Response, err error) error {
	c.asked = req
	failure := c.progress(req, resp, err)
	if failure == nil {
		return nil
	}
	if c.wait > 0 {
		failure = mark.Wait{Err: failure, For: c.wait}
	}
	lasted := resp != nil && unfit(resp) == "" && time.Since(c.connected) >= c.policy.HealthyAfter
	if !lasted && c.policy.HealthyAfter > 0 { // otherwise the loop looks for no mark
		failure = mark.Unhealthy{Err: failure}
	}
	return failure
}

// The method `progress` returns the error of an attempt. An attempt fails if its connection ends
// without progress.
func (c *connections) progress(req *http.Request, resp *http.Response, err error) error {
	if err := c.judge(req, resp, err); err != nil || resp == nil || unfit(resp) != "" {
		return err
	}
	c.events = eventstream.New(resp.Body, c.last.ID, c.Limit)
	c.events.Retry, c.again = c.wait, c.began
	if c.advance(); c.err != nil {
		if over, broke := c.end(); !over {
			return c.judge(req, nil, broke)
		}
	}
	return nil
}

// The method `judge` returns the error of an attempt.
func (c *connections) judge(req *http.Request, resp *http.Response, err error) error {
	return cmp.Or(c.checks(req, resp, err), retry.Permanent(err))
}

// The function `unfit` returns why a response is not a stream of events. It returns "" if the
// response is a stream.
func unfit(resp *http.Response) string {
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	encoding := strings.ToLower(resp.Header.Get("Content-Encoding"))
	switch {
	case resp.StatusCode != http.StatusOK:
		return fmt.Sprintf("the status is %d, not 200", resp.StatusCode)
	case !strings.EqualFold(strings.TrimSpace(media), "text/event-stream"):
		return fmt.Sprintf("the Content-Type is %.60q, not text/event-stream", media)
	case !slices.Contains([]string{"", "identity", "none"}, encoding): // many servers send "none"
		return fmt.Sprintf("the Content-Encoding is %.30q, and nothing decodes it", encoding)
	}
	return ""
}

// The method `read` passes the events of a connection to `yield`, until the connection ends or the
// stream is over. It starts with the event that `check` has already read.
func (c *connections) read(body io.ReadCloser, yield func(Event, error) bool) (over bool) {
	defer func() { _ = body.Close() }()
	for ; c.err == nil; c.advance() {
		if c.began, c.last.ID = true, c.events.ID; c.events.Data == nil {
			continue
		}
		c.last = eventOf(c.events)
		if last := c.Last != nil && c.Last(c.last); !yield(c.last, nil) || last {
			return true
		}
	}
	return false
}

// The function `ask` calls the methods of an error that this package and package retry need.
func ask(err error) {
	_ = retry.IsPermanent(err)
	_ = retry.RetryAfterOf(err)
}

// The method `advance` reads the next event or ID. It skips repeated events.
func (c *connections) advance() {
	for {
		c.err = c.events.Next()
		if panicked := harmless.Ask("sse", c.err, ask); panicked != nil {
			c.err = retry.Permanent(panicked)
		}
		if c.wait = c.events.Retry; c.err != nil || c.events.ID == "" {
			return
		}
		sum := c.sum()
		if c.again && slices.Contains(c.sums, sum) {
			continue
		}
		c.again = false
		c.sums = append(c.sums[max(0, len(c.sums)-remembered+1):], sum)
		return
	}
}

// The method `sum` returns a hash of the last event. The hash includes the data, because a
// restarted server may use the same IDs for other events.
func (c *connections) sum() uint64 {
	sum := maphash.String(c.seed, c.events.ID) + 3*maphash.String(c.seed, c.events.Name)
	if c.events.Data != nil {
		sum += 5*maphash.Bytes(c.seed, c.events.Data) + 1
	}
	return sum
}

// The method `end` is called after a connection has ended. `over` says whether the stream is over.
// If `over` is true, err is the error of the stream, or nil after a regular end. If `over` is
// false, err is the error that ended the connection.
func (c *connections) end() (over bool, err error) {
	known, why := c.last.ID != "" || c.Lossy && isGET(c.first), ""
	switch {
	case !c.began || c.Resume != nil: // the Transport or Resume decides whether to go on
	case !isGET(c.first):
		why = "a " + printable.Method(c.first.Method) + " needs a Resume"
	case !known:
		why = "its events have no ID"
	}
	err = c.err
	if err == io.EOF {
		if c.Last == nil && (why != "" || !known) {
			return true, nil
		}
		err = io.ErrUnexpectedEOF
	}
	switch {
	case errors.Is(err, ErrTooLong):
		return true, fmt.Errorf("sse: %w", err)
	case why != "":
		return true, &BrokenError{Why: why, Err: err}
	}
	return false, err
}

// The method `pause` waits before the first reconnection after progress. The reconnection is the
// first attempt of a new call, so it takes nothing from a Budget.
func (c *connections) pause(broke error) error {
	p := c.policy
	if p.EffectiveMax() != 1 {
		p.MaxAttempts, p.MaxRetries, p.AttemptCap = 2, 0, 0
	}
	p.HealthyAfter, p.Budget, p.Enter = 0, nil, nil // no request is sent here

	// The context of the request itself is done.
	broke = c.judge(c.asked.WithContext(c.first.Context()), nil, broke)
	if c.wait > retry.RetryAfterOf(broke) {
		broke = retry.After(c.wait, broke)
	}
	return retry.Do(c.first.Context(), p, func(context.Context) error {
		defer func() { broke = nil }()
		return broke
	})
}
