package retryhttp

import (
	"net/http"

	"github.com/goretry/retry"
)

// TargetBudget returns the Budget of a request where the user has set none.
func (t *Transport) TargetBudget(req *http.Request) *retry.Budget {
	b, done := t.budgetOf(&retry.Policy{}, req)
	done()
	return b
}

// TargetBudget returns the Budget of a request where the user has set none.
func (h *Hedge) TargetBudget(req *http.Request) *retry.Budget {
	b, done := h.budgetOf(req)
	done()
	return b
}
