package retryhttp_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

const (
	overloaded = `event: error
data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}

`
	ping    = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	opening = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[]}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

`
	delta = `event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}

`
	created = `event: response.created
data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress","error":null}}

`
)

// The first answer to a POST fails or not before the first piece of what was asked
// for, and comes byte by byte. The second one is good.
func TestLLM(t *testing.T) {
	json := func(body io.Reader) *http.Response { return typed("application/json", body) }
	status := func(code int, header ...string) *http.Response { return textResponse(code, "sorry", header...) }
	const good = opening + ping + delta
	for _, tt := range []struct {
		name   string
		first  any
		sent   int
		kind   string // of the StreamError; "": another error or none
		reason retry.Reason
	}{
		{"after the opening and a ping", streamOf(opening + ping + overloaded), 2, "overloaded_error", retry.ReasonSuccess},
		{"OpenAI, chat", streamOf(`data: {"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}` + "\n\n"),
			2, "server_error", retry.ReasonSuccess},
		{"OpenAI, chat, a code alone", streamOf(`data: {"error":{"message":"overloaded","code":503}}` + "\n\n"), 2, "503", retry.ReasonSuccess},
		{"an error that is a text", streamOf(`data: {"error":"overloaded"}` + "\n\n"), 2, "", retry.ReasonSuccess},
		{"no error: false", streamOf(`data: {"error":false}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"no error: an empty text", streamOf(`data: {"error":""}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"no error: a list", streamOf(`data: {"error":[],"response":{"error":[]}}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"a code of lists", streamOf(`data: {"error":{"code":[[]]}}` + "\n\n"), 2, "", retry.ReasonSuccess},
		{"OpenAI, responses", streamOf(created + "event: error\n" + `data: {"type":"error","code":"server_error","message":"again","param":null}` + "\n\n"),
			2, "server_error", retry.ReasonSuccess},
		{"OpenAI, responses, failed", streamOf(created + `data: {"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"slow"}}}` + "\n\n"),
			2, "rate_limit_exceeded", retry.ReasonSuccess},
		{"OpenAI, responses, failed without a word", streamOf(created + `data: {"type":"response.failed"}` + "\n\n"), 2, "", retry.ReasonSuccess},
		{"an error that is no JSON", streamOf("event: error\ndata: upstream connect error\n\n"), 2, "", retry.ReasonSuccess},
		{"it ends after the opening", streamOf(opening), 2, "", retry.ReasonSuccess},
		{"cut in the first event", typed("text/event-stream", breaks(delta[:30], errReset)), 2, "", retry.ReasonSuccess},
		{"it hangs", func(req *http.Request) (*http.Response, error) {
			return typed("text/event-stream", io.MultiReader(strings.NewReader(opening), stalled{req.Context()})), nil
		}, 2, "", retry.ReasonSuccess},

		{"a wrong request", streamOf(strings.ReplaceAll(overloaded, "overloaded_error", "invalid_request_error")), 1, "invalid_request_error", retry.ReasonPermanent},
		{"no money left", streamOf(`data: {"error":{"message":"quota","type":"tokens","code":"insufficient_quota"}}` + "\n\n"), 1, "tokens", retry.ReasonPermanent},
		{"OpenAI, chat, a piece", streamOf(`data: {"choices":[{"delta":{"content":"error"}}],"error":null}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"an error after the first piece", streamOf(good + overloaded), 1, "", retry.ReasonSuccess},

		{"JSON that breaks off", json(breaks(`{"content":`, errReset)), 2, "", retry.ReasonSuccess},
		{"JSON that breaks off at 8 MiB", json(breaks(strings.Repeat(" ", 8<<20), errReset)), 2, "", retry.ReasonSuccess},
		{"JSON that breaks off later", json(breaks(strings.Repeat(" ", 8<<20+1), errReset)), 1, "", retry.ReasonSuccess},
		{"another body that breaks off", typed("audio/mpeg", breaks("ID3", errReset)), 1, "", retry.ReasonSuccess},
		{"409", status(409), 2, "", retry.ReasonSuccess},
		{"409, and no more", status(409, "X-Should-Retry", "false"), 1, "", retry.ReasonPermanent},
		{"529", status(529), 2, "", retry.ReasonSuccess},
		{"400, and again", status(400, "X-Should-Retry", "true"), 2, "", retry.ReasonSuccess},
		{"429, too long", status(429, "Retry-After-Ms", "10001"), 1, "", retry.ReasonRetryAfter},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var seen events
			base := script(tt.first, streamOf(good))
			tr := retryhttp.LLM(retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Minute, MaxRetryAfter: 10 * time.Second, OnEvent: seen.add})
			tr.Base = base
			req := request(t, "POST")
			rewindable(req, "{}")
			text, _ := io.ReadAll(send(t, tr, req).Body)
			assert.Equal(t, []any{tt.sent, tt.reason}, []any{len(base.sent), seen.stop().Reason})
			assert.True(t, tt.sent == 1 || string(text) == good)
			assert.NotEmpty(t, text)
			stream := new(retryhttp.StreamError)
			if errors.As(seen.of(retry.AttemptFinished)[0].Err, &stream) {
				assert.NotEmpty(t, stream.Data)
			}
			assert.Equal(t, tt.kind, stream.Type)
		})
	}
}

// What a server writes does not break a line of a log, nor make it long.
func TestStreamErrorIsOneLine(t *testing.T) {
	e := &retryhttp.StreamError{Type: strings.Repeat("x", 1000), Message: "a\nb" + strings.Repeat("y", 1000)}
	assert.Equal(t, `retryhttp: the stream began with an error: "`+strings.Repeat("x", 128)+`": "a\nb`+strings.Repeat("y", 509)+`"`, e.Error())
}
