package retryhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/gate"
	"github.com/goretry/retry/internal/printable"
)

// A Gate holds back requests if their target has asked another caller to wait. A 429 Too Many
// Requests or a 403 closes the gate for its target if it asks for a wait of 10 ms or more, in
// Retry-After or in another header that the Transport's Advise reads. Until the wait has passed,
// the Gate holds back all requests to this target. Then each request is sent at a random time
// within a quarter of the wait. Example: with a Retry-After of 8s, the requests are sent between 8
// and 10 seconds after the answer.
//
// A Gate cannot help requests that are already in flight when the first 429 arrives.
//
// The zero Gate is ready to use. Several Transports may share a Gate, and then wait together. A
// Gate is safe for concurrent use. Do not copy a Gate, and do not change its fields while it is in
// use. A Gate stores the pauses of 10,000 keys (see the field Key). If more keys have a pause at
// the same time, the requests of some keys are not held back.
//
// An attempt is held back before Prepare is called and before AttemptTimeout starts. This wait
// takes nothing from a Budget, does not call the Policy's Wait, and does not count as time of the
// attempt in an event. If MaxRetryAfter, MaxElapsed or the deadline of the request's context does
// not allow such a long wait, the call fails at once, and the attempt is not made. The random part
// of the wait takes at most half of the time between the pause and MaxElapsed or the deadline.
//
// An attempt is held back before the Policy's Enter is called. If another pause begins while Enter
// waits, the attempt is held back again, unless the limits do not allow such a long wait.
type Gate struct {
	// Key returns the key of a request. Requests with the same key wait together. A request with the
	// key "" is never held back, and its answer never closes the gate. Key is called once for each
	// request, before Prepare, so it does not see what Prepare sets.
	//
	// If Key is nil, the key consists of the scheme, the host, and a hash of the headers
	// Authorization, X-Api-Key, Api-Key, X-Goog-Api-Key (Google) and Ocp-Apim-Subscription-Key
	// (Azure). So a 429 for one tenant does not hold back the requests of other tenants. A secret
	// in the query is not part of the key. If `scheme` and `host` together have more than 1,024
	// bytes, the key is "".
	Key func(*http.Request) string

	// Max is the longest pause after one response; 0 or less means a minute. A request may be held
	// back for several pauses in a row.
	Max time.Duration

	// If Unavailable is true, a 503 with a Retry-After closes the gate too. Leave Unavailable false if
	// a host has several replicas. Otherwise the 503 of one replica that shuts down holds back the
	// requests to all other replicas. Example: while one of ten replicas shuts down, callers that all
	// wait for the Retry-After of this replica finish less than a tenth of their calls.
	Unavailable bool

	// OnClose is called once when a pause begins. It gets the length of the pause and the error of the
	// attempt that closed the gate. Several goroutines may call OnClose at the same time. OnClose may
	// be nil.
	OnClose func(key string, wait time.Duration, cause error)

	pauses gate.Pauses
}

// The method `key` returns the key of a request. It returns "" if the request must not be held
// back.
func (g *Gate) key(req *http.Request) string {
	switch {
	case g == nil || req.URL == nil:
		return "" // Base returns an error for a request without a URL
	case g.Key != nil:
		return g.Key(req)
	}
	name := cmp.Or(req.Host, req.URL.Host)
	if len(req.URL.Scheme)+len(name) > longestHost {
		// A redirect may lead to a name of any length. Up to 10,000 keys are stored, so long names would
		// take much memory.
		return ""
	}
	key := req.URL.Scheme + "://" + strings.ToLower(name)
	for _, name := range secretHeaders {
		if secrets := valuesOf(req.Header, name); len(secrets) > 0 {
			text := name + "\n" + strings.Join(secrets, "\n")
			key += " " + strconv.FormatUint(maphash.String(keySeed, text), 16)
		}
	}
	return key
}

// secretHeaders are the headers by which servers recognize their tenants.
var secretHeaders = []string{
	"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Ocp-Apim-Subscription-Key",
}

// valuesOf returns the values of a header in all its spellings. net/http sends the keys of the map
// Header unchanged, and some users write them as a vendor does (X-API-Key), or in lower case.
func valuesOf(h http.Header, name string) (values []string) {
	for key, some := range h {
		if strings.EqualFold(key, name) {
			values = append(values, some...)
		}
	}
	slices.Sort(values) // the order of a map is random
	return values
}

// keySeed is the seed of the hash of the secret headers in a key. It is random, so that nobody who
// reads a key in a log can find the password by hashing guesses.
var keySeed = maphash.MakeSeed()

// A passage holds back the attempts of one exchange at a Gate.
type passage struct {
	*Gate
	x     *exchange
	key   string
	drawn time.Time // the end of the last pause for which a random wait was drawn

	// told is the wait for which learnEarly has closed the gate in this attempt; 0: none.
	told atomic.Int64
}

// newPassage returns the passage of an exchange through the Gate. It returns nil if the attempts of
// the exchange must not be held back.
func (g *Gate) newPassage(x *exchange) *passage {
	key := g.key(x.req)
	if key == "" {
		return nil
	}
	return &passage{Gate: g, x: x, key: key}
}

// The method `hold` waits until the gate is open. `elapsed` is the time since the call began. If
// the limits of the call do not allow such a long wait, `hold` returns at once with the error of
// the call.
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
		if left > 0 { // otherwise the call itself has waited until the end of the pause
			switch limits.Next(a).Reason { // Next takes nothing from the Budgets of the context
			case retry.ReasonRetryAfter, retry.ReasonElapsed:
				_, err := retry.Once(ctx, limits, a, send)
				return 0, err
			}
		}
		if policy.MaxElapsed > 0 {
			spread = min(spread, (policy.MaxElapsed-a.Elapsed-left)/2) // see gate.Within
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

// The method `unsent` returns the error of an attempt that is not sent because the gate is closed
// for too long.
func (p *passage) unsent() error {
	req := p.x.req
	method := printable.Method(req.Method)
	host := printable.URL(&url.URL{Host: req.URL.Host})
	what := fmt.Sprintf("retryhttp: %s %s was not sent", method, strings.TrimPrefix(host, "//"))
	return p.x.unsent(what, errors.New("the server has asked all callers to wait"))
}

// learnEarly is called when the answer of a second request arrives and asks to wait. Like `learn`,
// it may close the gate. A Hedge may return this answer later. Then `exchange.check` calls `learn`
// only if Check has found a longer wait (see hasLearned).
func (p *passage) learnEarly(status int, failure error) {
	p.told.Store(int64(retry.RetryAfterOf(failure)))
	p.learn(status, failure)
}

// The method `learn` closes the gate if a response asks to wait. `failure` is the error of the
// attempt.
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

// The method `holds` reports whether the Gate holds back requests with the key of this exchange at
// present. If p is nil, `holds` reports false.
func (p *passage) holds() bool { return p != nil && !p.pauses.Last(p.key).Over(time.Now()) }
