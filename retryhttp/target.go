package retryhttp

import (
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/goretry/retry"
)

// targets keeps a Budget for each host. The key of the last one is kept too, because most
// clients call one host.
type targets struct {
	retry.Budgets
	last atomic.Pointer[hostKey]
}

type hostKey struct {
	host
	key string
}

// budgetOf returns the Budget of the host of a URL, and what to call when its use has ended.
func (t *targets) budgetOf(u *url.URL) (budget *retry.Budget, done func()) {
	h, last := hostOf(u), t.last.Load()
	if last == nil || last.host != h {
		last = &hostKey{h.clone(), h.String()}
		if !h.tooLong() {
			t.last.Store(last)
		}
	}
	return t.For(last.key)
}

// budgetOf returns the Budget of a request. If the user has set none, it is the Budget of
// the request's target, and done ends its use; otherwise done is nil.
func (t *Transport) budgetOf(p *retry.Policy, req *http.Request) (b *retry.Budget, done func()) {
	switch {
	case p.Budget != nil:
		return p.Budget, nil
	case t.Budgets != nil:
		return t.Budgets(req), nil
	case req.URL == nil:
		return nil, nil // Base says what is wrong with it
	default:
		of := &t.targets
		if t.origin != nil {
			of = &t.origin.targets
		}
		return of.budgetOf(req.URL)
	}
}
