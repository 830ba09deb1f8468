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

// The method `has` reports whether a text in the body, at any depth, matches. Texts in lists are not
// searched.
func (e errorOfVendor) has(match func(value string) bool) (found bool) {
	var look func(any)
	look = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, v := range value {
				look(v)
			}
		case string:
			found = found || match(value)
		}
	}
	var body any
	_ = json.Unmarshal(e.Body, &body)
	look(body)
	return found
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

// Each code and each part of a message that LLM knows needs a row, so that nobody adds one without
// a source. Only a stream reads the final codes.
func TestErrorsOfVendorsHaveRows(t *testing.T) {
	type row = errorOfVendor
	table := errorsOfVendors(t)
	is := func(e row, name string) bool {
		return e.has(func(value string) bool { return value == name })
	}
	says := func(e row, part string) bool {
		return e.has(func(value string) bool { return strings.Contains(value, part) })
	}
	for list, tt := range map[string]struct {
		parts []string
		fits  func(e row, part string) bool
	}{
		"unpaidLLM":             {retryhttp.UnpaidLLM, func(e row, name string) bool { return e.Unpaid == name && is(e, name) }},
		"unpaidMessagesLLM":     {retryhttp.UnpaidMessagesLLM, func(e row, part string) bool { return e.Unpaid == part && says(e, part) }},
		"aboveLimitLLM":         {retryhttp.AboveLimitLLM, is},
		"aboveLimitMessagesLLM": {retryhttp.AboveLimitMessagesLLM, says},
		"finalLLM":              {retryhttp.FinalLLM, func(e row, name string) bool { return e.Event != nil && is(e, name) }},
	} {
		for _, part := range tt.parts {
			hasRow := slices.ContainsFunc(table, func(e row) bool { return !e.Retry && tt.fits(e, part) })
			assert.True(t, hasRow, "llm.json needs a row for %q of %s", part, list)
		}
	}
	for _, name := range retryhttp.LaterLLM {
		hasRow := slices.ContainsFunc(table, func(e row) bool { return e.Retry && is(e, name) })
		assert.True(t, hasRow, "llm.json needs a row for %q of laterLLM", name)
	}
}
