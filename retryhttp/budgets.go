package retryhttp

import (
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/goretry/retry"
)

// The type `targets` keeps a Budget for each target. A target is a scheme, a host name and a port:
// see the type host. The type `targets` also keeps the key of the last target, so the key is
// computed only once if all requests go to one target.
type targets struct {
	retry.Budgets
	last atomic.Pointer[hostKey]
}

// A hostKey is a target, and the text that is its key in a retry.Budgets.
type hostKey struct {
	host
	key string
}

// budgetOf returns the Budget for the target of a URL. The caller must call `done` when it no
// longer uses the Budget.
func (t *targets) budgetOf(u *url.URL) (budget *retry.Budget, done func()) {
	if len(u.Host) > longestHost {
		return t.For(u.Host) // all names that are too long for a key share one Budget
	}
	h, last := hostOf(u), t.last.Load()
	if last == nil || last.host != h {
		last = &hostKey{h.clone(), h.String()}
		if !h.tooLong() {
			t.last.Store(last)
		}
	}
	return t.For(last.key)
}

// budgetOf returns the Budget for a request under the policy p, or nil if the request has no
// Budget. If neither p nor t sets a Budget, budgetOf returns the Budget of the request's target,
// and the caller must call `done` when it no longer uses this Budget. In all other cases, `done` is
// nil.
func (t *Transport) budgetOf(p *retry.Policy, req *http.Request) (b *retry.Budget, done func()) {
	switch {
	case p.Budget != nil:
		return p.Budget, nil
	case t.Budgets != nil:
		return t.Budgets(req), nil
	case req.URL == nil:
		return nil, nil // Base returns an error for a request without a URL
	default:
		return t.root().targets.budgetOf(req.URL)
	}
}

// NoBudgets is a value for the field Budgets of a [Transport]. Targets then have no Budget. A
// Budget in the policy of a request, or in its context, still limits retries.
func NoBudgets(*http.Request) *retry.Budget { return nil }
