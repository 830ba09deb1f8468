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

// A Gate holds requests whose target has asked another caller to wait. A 429 Too
// Many Requests with a Retry-After of 10 ms or more closes the gate for its target, and so
// does a 403 with one. No request to it is sent before the wait has passed. The callers
// then leave spread over a quarter of the wait, each at a time drawn for it.
//
// It gains nothing for requests that are all under way before the first 429.
//
// The zero Gate is ready to use. Set it as the Gate of one [Transport] or of
// several, which then wait together. It is safe for concurrent use. Do not copy it,
// nor change its fields while it is in use. It remembers the pauses of 10,000
// keys; if more wait at a time, some are not held.
//
// An attempt is held before Prepare is called and before AttemptTimeout starts.
// Holding takes nothing from a Budget, does not call the Policy's Wait, and is not
// part of the attempt in an event. A request that cannot wait that long is not sent:
// the call fails at once, without that attempt, by MaxRetryAfter, MaxElapsed or the
// deadline of the request's context. The spread alone never makes a request fail.
type Gate struct {
	// Key returns what a pause is for: requests with the same key wait together. A
	// request with the key "" is never held, and makes no other wait. Key is called
	// once for each request, before Prepare, and does not see what that sets. nil: the scheme,
	// the host, and a hash of the headers Authorization, X-Api-Key and Api-Key, so that one
	// tenant's 429 does not stop all others; "" if scheme and host have more than 1,024 bytes.
	Key func(*http.Request) string

	// Max is the longest pause; 0 or below: a minute. A request may be held for several.
	Max time.Duration

	// Unavailable says that a 503 with a Retry-After closes the gate too. Leave it
	// false where several replicas answer for a host: while one of ten drains,
	// callers that all wait for it get less than a tenth of their calls done.
	Unavailable bool

	// OnClose is called when a pause begins, once for all requests that it holds, with how
	// long it will be and what began it, by several goroutines at a time. nil: not called.
	OnClose func(key string, wait time.Duration, cause error)

	pauses gate.Pauses
}

// key returns the key of a request, "" if it has none.
func (g *Gate) key(req *http.Request) string {
	switch {
	case g == nil || req.URL == nil:
		return "" // Base says what is wrong with it
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

// keySeed is random, so that a key in a log is of no use to guess a password.
var keySeed = maphash.MakeSeed()

// A passage is the way of one exchange through the Gate of its Transport.
type passage struct {
	*Gate
	x     *exchange
	key   string
	drawn time.Time // the end of the pause for which the time to leave was drawn
}

// through returns the passage of an exchange, nil if it needs none.
func (g *Gate) through(x *exchange) *passage {
	key := g.key(x.req)
	if key == "" {
		return nil
	}
	return &passage{Gate: g, x: x, key: key}
}

// enter is the Enter of the loop, if there is a Gate or the policy has an Enter. The attempt of a
// download that broke has been made: it is not held, and the policy's Enter is not called.
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

// hold waits until the gate lets an attempt through, which begins elapsed after its
// call. It returns why the attempt is not sent if it cannot wait that long.
func (p *passage) hold(elapsed time.Duration) *retry.Error {
	began := time.Now()
	ctx, policy := p.x.req.Context(), p.x.policy
	limits := retry.Policy{
		MaxAttempts: 2, MaxDelay: policy.MaxDelay,
		MaxRetryAfter: policy.MaxRetryAfter, MaxElapsed: policy.MaxElapsed,
	}
	var unsent error
	send := func(context.Context) error { return unsent }
	err := p.pauses.Hold(ctx, p.key, &p.drawn, func(left, spread time.Duration) (time.Duration, error) {
		unsent = gate.Held{Err: retry.After(left, p.unsent())}
		a := retry.Attempt{Number: 1, Err: unsent, Elapsed: elapsed + time.Since(began)}
		switch limits.Next(a).Reason { // which takes nothing from the Budgets of the context
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
	})
	if err == nil {
		return nil
	}
	refused, is := err.(*retry.Error)
	if !is { // the context is done, so this makes no attempt
		errors.As(retry.Do(ctx, limits, send), &refused)
	}
	if refused.Err == nil {
		refused.Err = p.x.failure
	}
	return refused
}

// unsent returns what an attempt fails with that is not sent.
func (p *passage) unsent() error {
	what := fmt.Sprintf("retryhttp: %s %s was not sent", cmp.Or(p.x.req.Method, http.MethodGet), p.x.req.URL.Host)
	return p.x.unsent(what, errors.New("the server has asked all callers to wait"))
}

// learn closes the gate if the last response asks for it.
func (p *passage) learn(status int, failure error) {
	if status != http.StatusTooManyRequests && status != http.StatusForbidden && (status != http.StatusServiceUnavailable || !p.Unavailable) {
		return
	}
	d := min(retry.RetryAfterOf(failure), cmp.Or(max(0, p.Max), time.Minute))
	if d >= 10*time.Millisecond && p.pauses.Begin(p.key, d) && p.OnClose != nil {
		p.OnClose(p.key, d, failure)
	}
}

// holds reports whether the gate holds other attempts.
func (p *passage) holds() bool { return p != nil && !p.pauses.Last(p.key).Over(time.Now()) }
