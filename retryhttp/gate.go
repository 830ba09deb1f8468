package retryhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/gate"
)

// A Gate holds requests if their target has asked another caller to wait. A 429 Too
// Many Requests or a 403, with a Retry-After of 10 ms or more, closes the gate for its target. No
// request to that target is sent before the wait has passed. Then the requests are sent at random
// times within a quarter of the wait.
//
// A Gate cannot help requests that are already in flight when the first 429 arrives.
//
// The zero Gate is ready to use. Set it as the Gate of one [Transport], or of
// several Transports, which then wait together. A Gate is safe for concurrent use. Do not copy a
// Gate, and do not change its fields while it is in use. It remembers the pauses of 10,000
// keys. If more keys have a pause at a time, the requests of some keys are not held.
//
// An attempt is held before Prepare is called and before AttemptTimeout starts. The time for which
// it is held takes nothing from a Budget, does not call the Policy's Wait, and is not part of the
// attempt in an event. If MaxRetryAfter, MaxElapsed or the deadline of the request's context does
// not allow a wait that long, the call fails at once without that attempt. The random part of the
// wait alone never makes a request fail.
type Gate struct {
	// Key returns the key of a request. Requests with the same key wait together. A request with
	// the key "" is never held, and its answer closes no gate. Key is called once for each request,
	// before Prepare, so it does not see what Prepare sets.
	//
	// If Key is nil, the key is the scheme, the host, and a hash of the headers Authorization,
	// X-Api-Key and Api-Key, so that one tenant's 429 does not stop all other tenants. It is "" if
	// scheme and host have more than 1,024 bytes.
	Key func(*http.Request) string

	// Max is the longest pause; 0 or below: a minute. A request may be held for several pauses.
	Max time.Duration

	// Unavailable: a 503 with a Retry-After closes the gate too. Leave it
	// false if several replicas answer for a host. While one of ten replicas drains, callers
	// that all wait for it finish less than a tenth of their calls.
	Unavailable bool

	// OnClose is called when a pause begins, once for all requests that the pause holds. It gets
	// the length of the pause, and the error that began it. Several goroutines may call it at
	// a time. nil: nothing is called.
	OnClose func(key string, wait time.Duration, cause error)

	pauses gate.Pauses
}

// key returns the key of a request, "" if the request is not to be held.
func (g *Gate) key(req *http.Request) string {
	switch {
	case g == nil || req.URL == nil:
		return "" // Base returns an error for a request without a URL
	case g.Key != nil:
		return g.Key(req)
	}
	name := cmp.Or(req.Host, req.URL.Host)
	if len(req.URL.Scheme)+len(name) > longestHost {
		return "" // a redirect may lead to any name, and 10,000 keys are kept
	}
	key := req.URL.Scheme + "://" + strings.ToLower(name)
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key"} {
		if secrets := req.Header[name]; len(secrets) > 0 {
			key += " " + strconv.FormatUint(maphash.String(keySeed, strings.Join(secrets, "\n")), 16)
		}
	}
	return key
}

// keySeed is random, so that a key in a log does not help to guess a password.
var keySeed = maphash.MakeSeed()

// A passage takes the attempts of one exchange through the Gate of its Transport.
type passage struct {
	*Gate
	x     *exchange
	key   string
	drawn time.Time // the end of the last pause for which a random time was drawn
}

// through returns the passage of an exchange, nil if its attempts are not to be held.
func (g *Gate) through(x *exchange) *passage {
	key := g.key(x.req)
	if key == "" {
		return nil
	}
	return &passage{Gate: g, x: x, key: key}
}

// enter is the Enter of the loop, if there is a Gate or the policy has an Enter. The first attempt
// of an exchange for the rest of a download is the attempt that broke, which is not made again. So
// enter does nothing for it.
func (x *exchange) enter(ctx context.Context, e retry.Event) error {
	if e.Attempt == 1 && x.last != nil {
		return nil
	}
	if x.gate != nil {
		if refused := x.gate.hold(e.Elapsed); refused != nil {
			return refused
		}
	}
	if x.policy.Enter != nil {
		return x.policy.Enter(ctx, e)
	}
	return nil
}

// hold waits until the gate lets an attempt through. elapsed is the time since the call began. If
// the attempt cannot wait that long, hold returns why the attempt is not sent.
func (p *passage) hold(elapsed time.Duration) *retry.Error {
	began := time.Now()
	ctx, policy := p.x.req.Context(), p.x.policy
	limits := retry.Policy{
		MaxAttempts: 2, MaxDelay: policy.MaxDelay,
		MaxRetryAfter: policy.MaxRetryAfter, MaxElapsed: policy.MaxElapsed,
	}
	var unsent error
	send := func(context.Context) error { return unsent }
	within := func(left, spread time.Duration) (time.Duration, error) {
		unsent = gate.Held{Err: retry.After(left, p.unsent())}
		a := retry.Attempt{Number: 1, Err: unsent, Elapsed: elapsed + time.Since(began)}
		switch limits.Next(a).Reason { // Next takes nothing from the Budgets of the context
		case retry.ReasonRetryAfter, retry.ReasonElapsed:
			_, err := retry.Once(ctx, limits, a, send)
			return 0, err
		}
		if policy.MaxElapsed > 0 {
			spread = min(spread, policy.MaxElapsed-a.Elapsed-left)
		}
		spread, ok := gate.Within(ctx, left, spread)
		if !ok {
			return 0, retry.Do(ctx, limits, send)
		}
		return spread, nil
	}
	err := p.pauses.Hold(ctx, p.key, &p.drawn, within)
	if err == nil {
		return nil
	}
	refused, is := err.(*retry.Error)
	if !is { // the context is done, so Do makes no attempt
		errors.As(retry.Do(ctx, limits, send), &refused)
	}
	if refused.Err == nil {
		refused.Err = p.x.failure
	}
	return refused
}

// unsent returns the error of an attempt that is not sent because the gate is closed.
func (p *passage) unsent() error {
	req := p.x.req
	method := cmp.Or(req.Method, http.MethodGet)
	what := fmt.Sprintf("retryhttp: %s %s was not sent", method, req.URL.Host)
	return p.x.unsent(what, errors.New("the server has asked all callers to wait"))
}

// learn closes the gate if a response asks for it. failure is what the attempt failed with.
func (p *passage) learn(status int, failure error) {
	switch status {
	case http.StatusTooManyRequests, http.StatusForbidden:
	case http.StatusServiceUnavailable:
		if !p.Unavailable {
			return
		}
	default:
		return
	}
	d := min(retry.RetryAfterOf(failure), cmp.Or(max(0, p.Max), time.Minute))
	if d >= 10*time.Millisecond && p.pauses.Begin(p.key, d) && p.OnClose != nil {
		p.OnClose(p.key, d, failure)
	}
}

// holds reports whether the gate holds attempts with the key of this one.
func (p *passage) holds() bool { return p != nil && !p.pauses.Last(p.key).Over(time.Now()) }
