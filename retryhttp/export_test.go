package retryhttp

import (
	"net/http"

	"github.com/goretry/retry"
)

// TargetBudget returns the Budget of a request whose user has set no Budget.
func (t *Transport) TargetBudget(req *http.Request) *retry.Budget {
	b, done := t.budgetOf(&retry.Policy{}, req)
	done()
	return b
}

// TargetBudget returns the Budget of a request whose user has set no Budget.
func (h *Hedge) TargetBudget(req *http.Request) *retry.Budget {
	b, done := h.budgetOf(req)
	done()
	return b
}

// The lists of errors that LLM knows.
var (
	UnpaidLLM, UnpaidMessagesLLM         = unpaidLLM, unpaidMessagesLLM
	AboveLimitLLM, AboveLimitMessagesLLM = aboveLimitLLM, aboveLimitMessagesLLM
	FinalLLM, LaterLLM                   = finalLLM, laterLLM
)
