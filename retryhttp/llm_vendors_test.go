package retryhttp_test

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// An errorOfVendor is a row of llm.json.
type errorOfVendor struct {
	Vendor, About, Source string
	Status                int
	Header                map[string]string
	Body                  json.RawMessage // the JSON of the error; {}: the source does not show it
	Event                 *string         // the name of the event, or ""; nil: the error is not in a stream
	Retry                 bool
	Wait, Unpaid          string // "": no wait; the account can pay
}

func (e errorOfVendor) response() *http.Response {
	text, kind := string(e.Body), "application/json"
	if e.Event != nil {
		text, kind = "event: "+*e.Event+"\ndata: "+text+"\n\n", "text/event-stream"
	}
	resp := textResponse(e.Status, text, "Content-Type", kind)
	for name, value := range e.Header {
		resp.Header.Set(name, value)
	}
	return resp
}

func errorsOfVendors(t *testing.T) (table []errorOfVendor) {
	readTestdata(t, "llm.json", &table)
	return table
}

// The table lists the errors that the vendors document, each with its source. It says whether LLM
// retries the error, after which wait, and whether the error says that the account cannot pay.
func TestErrorsOfVendors(t *testing.T) {
	table := errorsOfVendors(t)
	assert.True(t, slices.IsSortedFunc(table, func(a, b errorOfVendor) int {
		return cmp.Compare(strings.ToLower(a.Vendor), strings.ToLower(b.Vendor))
	}))
	for _, tt := range table {
		bubble(t, tt.Vendor+", "+tt.About, func(t *testing.T) {
			var seen events
			tr := retryhttp.LLM(retry.Policy{MaxAttempts: 2, MaxRetryAfter: math.MaxInt64, OnEvent: seen.add})
			base := script(tt.response(), 200)
			tr.Base = base
			send(t, tr, request(t, "POST"))
			err := seen.of(retry.AttemptFinished)[0].Err
			_, unpaid, _ := strings.Cut(err.Error(), " (the account cannot pay: ")
			assert.Equal(t, []any{tt.Retry, cmp.Or(tt.Wait, "0s"), tt.Unpaid},
				[]any{base.count() == 2, retry.RetryAfterOf(err).String(), strings.TrimSuffix(unpaid, ")")})
			assert.NotEmpty(t, tt.Source, "each row needs a public source")
		})
	}
}
