package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

const (
	overloaded = "event: error\ndata: " + `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}` + "\n\n"
	ping       = "event: ping\ndata: " + `{"type": "ping"}` + "\n\n"
	opening    = "event: message_start\ndata: " + `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[]}}` + "\n\n" +
		"event: content_block_start\ndata: " + `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n"
	delta   = "event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}` + "\n\n"
	created = "event: response.created\ndata: " + `{"type":"response.created","response":{"id":"resp_1","status":"in_progress","error":null}}` + "\n\n"
)

// The first answer to a POST arrives byte by byte, and may fail before the first piece of the
// answer. The second answer is good.
func TestLLM(t *testing.T) {
	json := func(body io.Reader) *http.Response { return typed("application/json", body) }
	status := func(code int, header ...string) *http.Response { return textResponse(code, "sorry", header...) }
	const good = opening + ping + delta
	json429 := func(body io.Reader) *http.Response {
		return responseWith(429, body, "Content-Type", "application/json")
	}
	failed := func(code int, text string, header ...string) *http.Response {
		return textResponse(code, text, append(header, "Content-Type", "application/json; charset=UTF-8")...)
	}
	const unpaid = `{"error":{"code":"insufficient_quota"}}`
	const tooLarge = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 30601. The input or output tokens must be reduced in order to run successfully."
	long := func(event string) string {
		return `data: {"type":"` + event + `","response":{"instructions":"` + strings.Repeat("x", 100<<10) + `"}}` + "\n\n"
	}
	errorStream := func(text string) *http.Response { return textResponse(429, text, "Content-Type", "text/event-stream") }
	for _, tt := range []struct {
		name   string
		first  any
		sent   int
		kind   string // the Type of the StreamError; "": there is no StreamError, or it has no Type
		reason retry.Reason
	}{
		{"after the opening and a ping", streamOf(opening + ping + overloaded), 2, "overloaded_error", retry.ReasonSuccess},
		{"OpenAI, chat", streamOf(`data: {"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}` + "\n\n"),
			2, "server_error", retry.ReasonSuccess},
		{"OpenAI, chat, a code alone", streamOf(`data: {"error":{"message":"overloaded","code":503}}` + "\n\n"), 2, "503", retry.ReasonSuccess},
		{"an error that is a text", streamOf(`data: {"error":"overloaded"}` + "\n\n"), 2, "", retry.ReasonSuccess},
		{"no error: false", streamOf(`data: {"error":false}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"no error: an empty text", streamOf(`data: {"error":""}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"no error: an empty object", streamOf(`data: {"choices":[{"delta":{"content":"a"}}],"error":{}}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"no error: an object with empty fields", streamOf(`data: {"choices":[{"delta":{"content":"a"}}],"error":{"message":"","type":"","param":null,"code":null,"details":[]}}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"an error with a field that nobody knows", streamOf(`data: {"error":{"detail":"down"}}` + "\n\n"), 2, "", retry.ReasonSuccess},
		{"an event with the name error and an empty object", streamOf("event: error\ndata: {\"error\":{}}\n\n"), 2, "", retry.ReasonSuccess},
		{"no error: a list", streamOf(`data: {"error":[],"response":{"error":[]}}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"an error whose code is a list", streamOf(`data: {"error":{"code":[[]]}}` + "\n\n"), 2, "", retry.ReasonSuccess},
		{"OpenAI, responses", streamOf(created + "event: error\n" + `data: {"type":"error","code":"server_error","message":"again","param":null}` + "\n\n"),
			2, "server_error", retry.ReasonSuccess},
		{"OpenAI, responses, failed", streamOf(created + `data: {"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"slow"}}}` + "\n\n"),
			2, "rate_limit_exceeded", retry.ReasonSuccess},
		{"OpenAI, responses, failed without an error", streamOf(created + `data: {"type":"response.failed"}` + "\n\n"), 2, "", retry.ReasonSuccess},
		{"an error that is not JSON", streamOf("event: error\ndata: upstream connect error\n\n"), 2, "", retry.ReasonSuccess},
		{"an error without an object error, invalid", streamOf("event: error\ndata: " + `{"object":"error","message":"bad","type":"invalid_request_error","param":null,"code":null}` + "\n\n"), 1, "invalid_request_error", retry.ReasonPermanent},
		{"an error without an object error, not paid for", streamOf("event: error\ndata: " + `{"type":"billing_error","message":"no money"}` + "\n\n"), 1, "billing_error", retry.ReasonPermanent},
		{"an error without an object error, overloaded", streamOf("event: error\ndata: " + `{"type":"overloaded_error"}` + "\n\n"), 2, "overloaded_error", retry.ReasonSuccess},
		{"Alibaba, a wrong request", streamOf("id:1\nevent:error\n:HTTP_STATUS/400\ndata:" + `{"code":"InvalidParameter","message":"no"}` + "\n\n"), 1, "InvalidParameter", retry.ReasonPermanent},
		{"Alibaba, not paid", streamOf("id:1\nevent:error\n:HTTP_STATUS/400\ndata:" + `{"code":"Arrearage","message":"no"}` + "\n\n"), 1, "Arrearage", retry.ReasonPermanent},
		{"an event that is named response.failed", streamOf(created + "event: response.failed\ndata: {}\n\n"), 2, "", retry.ReasonSuccess},
		{"it ends after the opening", streamOf(opening), 2, "", retry.ReasonSuccess},
		{"cut in the first event", typed("text/event-stream", breaks(delta[:30], errReset)), 2, "", retry.ReasonSuccess},
		{"it hangs", func(req *http.Request) (*http.Response, error) {
			return typed("text/event-stream", io.MultiReader(strings.NewReader(opening), stalled{req.Context()})), nil
		}, 2, "", retry.ReasonSuccess},

		{"OpenAI, responses, failed, a keepalive before it", streamOf(created + "event: keepalive\ndata: " + `{"type":"keepalive","sequence_number":3}` + "\n\n" +
			`data: {"type":"response.failed","response":{"error":{"code":"server_error"}}}` + "\n\n"), 2, "server_error", retry.ReasonSuccess},
		{"OpenAI, responses of Codex, failed, after the limits and the metadata", streamOf(`data: {"type":"codex.rate_limits","plan_type":"pro"}` + "\n\n" + created +
			`data: {"type":"response.metadata","headers":{}}` + "\n\n" + `data: {"type":"response.failed","response":{"error":{"code":"server_error"}}}` + "\n\n"), 2, "server_error", retry.ReasonSuccess},
		{"Anthropic, an empty delta of a tool call before an error", streamOf(opening + strings.Replace(delta, `"text_delta","text":"Hello"`, `"input_json_delta","partial_json":""`, 1) + overloaded), 1, "", retry.ReasonSuccess},
		{"OpenAI, responses, failed, after the progress of a compaction", streamOf(created + `data: {"type":"response.compaction.compacting","item_id":"cmp_1"}` + "\n\n" +
			`data: {"type":"error","code":"server_error"}` + "\n\n"), 2, "server_error", retry.ReasonSuccess},
		{"Gemini, interactions, an error after the progress", streamOf("event: interaction.in_progress\n" + `data: {"interaction_id":"i","event_type":"interaction.in_progress"}` + "\n\n" +
			"event: error\n" + `data: {"error":{"code":"service_unavailable"},"event_type":"error"}` + "\n\n"), 2, "service_unavailable", retry.ReasonSuccess},
		{"OpenAI, responses, a prompt that is too long", streamOf(created + `data: {"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}` + "\n\n"),
			1, "context_length_exceeded", retry.ReasonPermanent},
		{"OpenAI, responses, an image that is too large", streamOf(created + `data: {"type":"response.failed","response":{"error":{"code":"image_too_large"}}}` + "\n\n"), 1, "image_too_large", retry.ReasonPermanent},
		{"vLLM and SGLang, the code is a status, 400", streamOf(`data: {"error":{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}}` + "\n\ndata: [DONE]\n\n"), 1, "BadRequestError", retry.ReasonPermanent},
		{"OpenRouter, the code is a status, 402", streamOf(`data: {"error":{"code":402,"message":"Insufficient credits"}}` + "\n\n"), 1, "402", retry.ReasonPermanent},
		{"the code is a status, 498", streamOf(`data: {"error":{"code":498}}` + "\n\n"), 2, "498", retry.ReasonSuccess},
		{"Gemini, the code is a status, 501", streamOf(`data: {"error":{"code":501}}` + "\n\n"), 1, "501", retry.ReasonPermanent},
		{"a rate limit with a generic type", streamOf(`data: {"type":"response.failed","response":{"error":{"type":"invalid_request_error","code":"rate_limit_exceeded"}}}` + "\n\n"), 2, "invalid_request_error", retry.ReasonSuccess},
		{"the code is a status, 503, with a generic type", streamOf(`data: {"error":{"type":"invalid_request_error","code":503}}` + "\n\n"), 2, "invalid_request_error", retry.ReasonSuccess},
		{"the code is a status, 404, with a generic type", streamOf(`data: {"error":{"type":"invalid_request_error","code":404}}` + "\n\n"), 1, "invalid_request_error", retry.ReasonPermanent},
		{"a code above all statuses, with a generic type", streamOf(`data: {"error":{"type":"invalid_request_error","code":"1210"}}` + "\n\n"), 1, "invalid_request_error", retry.ReasonPermanent},
		{"the code is a status, 500, with an exact type", streamOf(`data: {"error":{"type":"context_length_exceeded","code":500}}` + "\n\n"), 1, "context_length_exceeded", retry.ReasonPermanent},
		{"OpenRouter, the code is a status, 402, with a wait", streamOf(`data: {"error":{"code":402,"metadata":{"headers":{"Retry-After":"5"}}}}` + "\n\n"), 2, "402", retry.ReasonSuccess},
		{"OpenRouter, the code is a status, 429, a quota with a wait that is too long", streamOf(`data: {"error":{"code":429,"metadata":{"headers":{"X-RateLimit-Reset":"11"}}}}` + "\n\n"), 1, "429", retry.ReasonRetryAfter},
		{"the code is a status, 402, with a wait, not paid", streamOf(`data: {"error":{"code":402,"type":"insufficient_quota","metadata":{"headers":{"Retry-After":"5"}}}}` + "\n\n"), 1, "insufficient_quota", retry.ReasonPermanent},
		{"the code is a status, 403, with a wait", streamOf("data: " + strings.Replace(gemini("1s"), "429", "403", 1) + "\n\n"), 2, "RESOURCE_EXHAUSTED", retry.ReasonSuccess},
		{"the code is a status, 404, with a wait", streamOf("data: " + strings.Replace(gemini("1s"), "429", "404", 1) + "\n\n"), 1, "RESOURCE_EXHAUSTED", retry.ReasonPermanent},
		{"OpenRouter, the code is a status, 408", streamOf(`data: {"error":{"code":408,"message":"late"}}` + "\n\n"), 2, "408", retry.ReasonSuccess},
		{"OpenRouter, the code is a status, 409", streamOf(`data: {"error":{"code":409,"message":"conflict"}}` + "\n\n"), 2, "409", retry.ReasonSuccess},
		{"OpenRouter, the code is a status, 429", streamOf(`data: {"error":{"code":429,"message":"slow"}}` + "\n\n"), 2, "429", retry.ReasonSuccess},
		{"Text Generation Inference, a wrong request", streamOf(`data:{"error":"Input validation error","error_type":"validation"}` + "\n\n"), 1, "validation", retry.ReasonPermanent},
		{"Azure, a chunk without choices before an error", streamOf(`data: {"choices":[],"created":0,"id":"","prompt_filter_results":[{"prompt_index":0}]}` + "\n\n" + `data: {"error":{"code":503}}` + "\n\n"), 2, "503", retry.ReasonSuccess},
		{"OpenAI, chat, a chunk with a role before an error", streamOf(`data: {"choices":[{"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null}` + "\n\n" + `data: {"error":{"code":503}}` + "\n\n"), 2, "503", retry.ReasonSuccess},
		{"OpenAI, chat, a chunk with a text before an error", streamOf(`data: {"choices":[{"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}` + "\n\n" + `data: {"error":{"code":503}}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"OpenAI, chat, a chunk with a call of a tool before an error", streamOf(`data: {"choices":[{"delta":{"content":null,"tool_calls":[{"index":0}]}}]}` + "\n\n" + `data: {"error":{"code":503}}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"OpenAI, chat, the last chunk before an error", streamOf(`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n" + `data: {"error":{"code":503}}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"OpenAI, chat, the usage before an error", streamOf(`data: {"choices":[],"usage":{"total_tokens":1}}` + "\n\n" + `data: {"error":{"code":503}}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"OpenAI, completions, a chunk before an error", streamOf(`data: {"choices":[{"text":"","finish_reason":null}]}` + "\n\n" + `data: {"error":{"code":503}}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"Gemini, interactions, an error after the opening", streamOf("event: interaction.created\ndata: " + `{"interaction":{},"event_type":"interaction.created"}` + "\n\n" + "event: error\ndata: " + `{"error":{"message":"busy","code":503},"event_type":"error"}` + "\n\n"), 2, "503", retry.ReasonSuccess},
		{"OpenAI, responses, no credits", streamOf(created + `data: {"type":"response.failed","response":{"error":{"code":"organization_spend_limit_exceeded"}}}` + "\n\n"), 1, "organization_spend_limit_exceeded", retry.ReasonPermanent},
		{"Anthropic, the limit of a month", streamOf("event: error\ndata: " + `{"type":"error","error":{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}}` + "\n\n"), 1, "rate_limit_error", retry.ReasonPermanent},
		{"Gemini, interactions, a wrong request", streamOf("event: error\ndata: " + `{"error":{"code":"parameter_unknown"},"event_type":"error"}` + "\n\n"), 1, "parameter_unknown", retry.ReasonPermanent},
		{"Gemini, interactions, no credits", streamOf("event: error\ndata: " + `{"error":{"code":"payment_required"},"event_type":"error"}` + "\n\n"), 1, "payment_required", retry.ReasonPermanent},
		{"a wrong request", streamOf(strings.ReplaceAll(overloaded, "overloaded_error", "invalid_request_error")), 1, "invalid_request_error", retry.ReasonPermanent},
		{"Gemini, no credits, bare", streamOf(": x\n\n" + `{` + "\n  " + `"error": {` + "\n\n    " + `"code": 429, "message": "Your prepayment credits are depleted.", "status": "RESOURCE_EXHAUSTED"}` + "\n}\n"), 1, "RESOURCE_EXHAUSTED", retry.ReasonPermanent},
		{"Gemini, a wrong request, bare, in a list", streamOf(`[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}` + "\n]"), 1, "INVALID_ARGUMENT", retry.ReasonPermanent},
		{"Gemini, overloaded, bare", streamOf(`{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}`), 2, "UNAVAILABLE", retry.ReasonSuccess},
		{"Gemini, a limit, bare", streamOf(gemini("10.1s")), 1, "RESOURCE_EXHAUSTED", retry.ReasonRetryAfter},
		{"bare JSON that is no error", streamOf(`{"x":1}` + "\n" + `{"error":{"code":400}}`), 2, "", retry.ReasonSuccess},
		{"bare JSON that breaks off", streamOf(`{"error":{"code":400`), 2, "", retry.ReasonSuccess},
		{"bare JSON after a piece", streamOf(good + `{"error":{"code":400}}`), 1, "", retry.ReasonSuccess},
		{"OpenAI, chat, the end without an answer", streamOf("data: [DONE]\n\n"), 1, "", retry.ReasonSuccess},
		{"OpenAI, chat, an empty answer", streamOf(`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"), 1, "", retry.ReasonSuccess},
		{"vLLM, chat, the usage with the role, and then an error", streamOf(`data: {"choices":[{"delta":{"role":"assistant","content":""}}],"usage":{"total_tokens":1}}` + "\n\n" + `data: {"error":{"code":503}}` + "\n\n"), 2, "503", retry.ReasonSuccess},
		{"no money left", streamOf(`data: {"error":{"message":"quota","type":"tokens","code":"insufficient_quota"}}` + "\n\n"), 1, "tokens", retry.ReasonPermanent},
		{"OpenAI, chat, a piece", streamOf(`data: {"choices":[{"delta":{"content":"error"}}],"error":null}` + "\n\n"), 1, "", retry.ReasonSuccess},
		{"an error after the first piece", streamOf(good + overloaded), 1, "", retry.ReasonSuccess},

		{"JSON that breaks off", json(breaks(`{"content":`, errReset)), 2, "", retry.ReasonSuccess},
		{"JSON that breaks off at 8 MiB", json(breaks(strings.Repeat(" ", 8<<20), errReset)), 2, "", retry.ReasonSuccess},
		{"JSON that breaks off later", json(breaks(strings.Repeat(" ", 8<<20+1), errReset)), 1, "", retry.ReasonSuccess},
		{"another body that breaks off", typed("audio/mpeg", breaks("ID3", errReset)), 1, "", retry.ReasonSuccess},
		{"409", status(409), 2, "", retry.ReasonSuccess},
		{"498 of Groq", status(498), 2, "", retry.ReasonSuccess},
		{"409 with X-Should-Retry: false", status(409, "X-Should-Retry", "false"), 1, "", retry.ReasonPermanent},
		{"529", status(529), 2, "", retry.ReasonSuccess},

		{"OpenAI, no money left", failed(429, `{"error":{"message":"You exceeded your quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`), 1, "", retry.ReasonPermanent},
		{"Alibaba, tokens of a minute", failed(429, `{"error":{"message":"Allocated quota exceeded, please increase your quota limit.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`), 2, "", retry.ReasonSuccess},
		{"Alibaba, tokens of a minute, in other words", failed(429, `{"error":{"message":"You exceeded your current quota. For details, see: https://example.com/model-studio/error-code#token-limit","code":"insufficient_quota"}}`), 2, "", retry.ReasonSuccess},
		{"Alibaba, no money left", failed(429, `{"error":{"code":"PostpaidBillOverdue","message":"The postpaid bill is overdue."}}`), 1, "", retry.ReasonPermanent},
		{"LiteLLM, the budget of a key", failed(429, `{"error":{"message":"Budget has been exceeded!","type":"budget_exceeded","param":null,"code":"429"}}`), 1, "", retry.ReasonPermanent},
		{"Anthropic, the limit of a month", failed(429, `{"type":"error","error":{"type":"rate_limit_error","message":"You have reached your API usage limits","details":{"error_code":"enforced_spend_limit_reached"}}}`), 1, "", retry.ReasonPermanent},
		{"Anthropic, other details", failed(429, `{"type":"error","error":{"type":"rate_limit_error","details":{"error_code":"other"}}}`), 2, "", retry.ReasonSuccess},
		{"OpenAI, no credits", failed(429, `{"error":{"message":"x","type":null,"code":"credit_balance_exhausted"}}`), 1, "", retry.ReasonPermanent},
		{"OpenAI, the limit of a project", failed(429, `{"error":{"message":"x","type":"rate_limit_error","code":"project_spend_limit_exceeded"}}`), 1, "", retry.ReasonPermanent},
		{"no money left, whatever the type", failed(429, `{"error":{"type":"tokens","code":"insufficient_quota"}}`), 1, "", retry.ReasonPermanent},
		{"no money left, without an object error", failed(429, `{"type":"insufficient_quota"}`), 1, "", retry.ReasonPermanent},
		{"no money left, in a 503", failed(503, `{"error":{"code":"billing_not_active"}}`), 1, "", retry.ReasonPermanent},
		{"no money left, in a 409", failed(409, `{"error":{"code":"billing_hard_limit_reached"}}`), 1, "", retry.ReasonPermanent},
		{"no money left, with X-Should-Retry: true", failed(429, `{"error":{"type":"billing_error"}}`, "X-Should-Retry", "true"), 1, "", retry.ReasonPermanent},
		{"OpenAI, more tokens than the limit of a minute", failed(429, `{"error":{"message":"`+tooLarge+`","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, "Retry-After", "1"), 1, "", retry.ReasonPermanent},
		{"OpenAI, more tokens than the limit of a minute, in a stream", streamOf(created + `data: {"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"` + tooLarge + `"}}}` + "\n\n"), 1, "rate_limit_exceeded", retry.ReasonPermanent},
		{"OpenAI, the tokens of a minute are used up", failed(429, `{"error":{"message":"Rate limit reached for gpt-4 on tokens per min (TPM): Limit 10000, Used 8554, Requested 3082. Please try again in 9.816s.","type":"tokens","code":"rate_limit_exceeded"}}`), 2, "", retry.ReasonSuccess},
		{"OpenAI, the wait in a message is too long", failed(429, `{"error":{"message":"Please try again in 1m2.5s. Visit us.","code":"rate_limit_exceeded"}}`), 1, "", retry.ReasonRetryAfter},
		{"OpenAI, the wait in a message is too long, in seconds", failed(429, `{"error":{"message":"please try again in 12.5 seconds.","code":"rate_limit_exceeded"}}`), 1, "", retry.ReasonRetryAfter},
		{"OpenAI, the wait in a message of a stream is too long", streamOf(created + `data: {"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Please try again in 11.054s. Visit us."}}}` + "\n\n"), 1, "rate_limit_exceeded", retry.ReasonRetryAfter},
		{"a wait in the message of another error", failed(429, `{"error":{"message":"Please try again in 1m.","code":"other"}}`), 2, "", retry.ReasonSuccess},
		{"Azure, the wait in the header of a stream", func() *http.Response {
			resp := streamOf(`data: {"type":"error","error":{"type":"too_many_requests","code":"rate_limit_exceeded"}}` + "\n\n")
			resp.Header.Set("Retry-After", "30")
			return resp
		}(), 1, "too_many_requests", retry.ReasonRetryAfter},
		{"OpenAI, a failure without words, and then the end", streamOf(`data: {"type":"response.failed","response":{"error":null}}` + "\n\ndata: [DONE]\n\n"), 2, "", retry.ReasonSuccess},
		{"no money left, with a 402 and a wait", failed(402, `{"error":{"code":"insufficient_quota"}}`, "Retry-After", "3"), 1, "", retry.ReasonPermanent},
		{"Azure, a failure without words", streamOf(`data: {"type":"response.failed","response":{"error":null}}` + "\n\n"), 2, "", retry.ReasonSuccess},
		{"Anthropic, the extra usage is used up", failed(429, `{"type":"error","error":{"type":"rate_limit_error","message":"You're out of extra usage. Add more."}}`), 1, "", retry.ReasonPermanent},
		{"OpenRouter, a reset by the server's clock, which is an hour ahead", failed(429, `{"error":{"code":429,"metadata":{"headers":{"X-RateLimit-Reset":"946688405000"}}}}`, "Date", "Sat, 01 Jan 2000 01:00:00 GMT"), 2, "", retry.ReasonSuccess},
		{"a wait after more details than are read", streamOf(`data: {"error":{"code":429,"details":[` + strings.Repeat(`{"@type":"google.rpc.Help"},`, 2600) + `{"@type":"google.rpc.RetryInfo","retryDelay":"11s"}]}}` + "\n\n"), 2, "429", retry.ReasonSuccess},
		{"Alibaba, the free quota", failed(429, `{"error":{"message":"Free allocated quota exceeded.","type":"insufficient_quota","code":"insufficient_quota"}}`), 1, "", retry.ReasonPermanent},
		{"Alibaba, the quota of a month", failed(429, `{"error":{"message":"month allocated quota exceeded","code":"insufficient_quota"}}`), 1, "", retry.ReasonPermanent},
		{"Alibaba, concurrency", failed(429, `{"error":{"message":"concurrency allocated quota exceeded","code":"insufficient_quota"}}`), 2, "", retry.ReasonSuccess},
		{"Z.ai, the limit of a week", failed(429, `{"error":{"code":"1310","message":"Weekly/Monthly Limit Exhausted."}}`), 1, "", retry.ReasonPermanent},
		{"Z.ai, too many requests", failed(429, `{"error":{"code":"1302","message":"High concurrency"}}`), 2, "", retry.ReasonSuccess},
		{"Mistral, a rate limit", failed(429, `{"object":"error","message":"Rate limit exceeded","type":"rate_limited","code":"1300"}`), 2, "", retry.ReasonSuccess},
		{"Volcengine, the free quota", failed(429, `{"error":{"code":"QuotaExceeded","message":"Your account [2100] has exhausted its free trial quota for the [m] model."}}`), 1, "", retry.ReasonPermanent},
		{"Volcengine, the quota of a week", failed(429, `{"error":{"code":"QuotaExceeded","message":"You have exceeded the weekly usage quota. It will reset at 2026-08-03 23:59:59 +0800 CST."}}`), 1, "", retry.ReasonPermanent},
		{"Volcengine, a full queue", failed(429, `{"error":{"code":"QuotaExceeded","message":"The request has exceeded the quota."}}`), 2, "", retry.ReasonSuccess},
		{"MiniMax, no money left, with a 500", failed(500, `{"type":"error","error":{"type":"api_error","message":"insufficient balance (1008)"}}`), 1, "", retry.ReasonPermanent},
		{"MiniMax, the limit of a plan", failed(429, `{"type":"error","error":{"type":"rate_limit_error","message":"usage limit exceeded, 5-hour usage limit reached for Token Plan Starter (0/0 used), resets at 2026-05-15T15:00:00Z (2056)"}}`), 1, "", retry.ReasonPermanent},
		{"Kimi, the limit of a period", failed(429, `{"error":{"message":"You've reached your usage limit for this period. Your quota will be refreshed in the next period.","type":"rate_limit_error"}}`), 1, "", retry.ReasonPermanent},
		{"Moonshot, the wait in a message is too long", failed(429, `{"error":{"message":"Your account org reached organization max RPM: 3, please try again after 11 seconds","type":"rate_limit_reached_error"}}`), 1, "", retry.ReasonRetryAfter},
		{"LiteLLM, the budget of the providers", failed(429, `{"error":{"message":"No deployments available - crossed budget: Exceeded budget","code":"429"}}`), 1, "", retry.ReasonPermanent},
		{"LiteLLM, a cooldown", failed(429, `{"error":{"message":"No deployments available for selected model","code":"429"}}`), 2, "", retry.ReasonSuccess},
		{"OpenRouter, responses, a policy", streamOf(`data: {"type":"response.failed","response":{"error":{"code":"server_error"},"error_type":"content_policy_violation"}}` + "\n\n"), 1, "content_policy_violation", retry.ReasonPermanent},
		{"Azure, a filter in a stream", streamOf(`data: {"error":{"message":"filtered","type":null,"code":"content_filter","status":400}}` + "\n\n"), 1, "content_filter", retry.ReasonPermanent},
		{"Gemini, the quota of a day", failed(429, `{"error":{"code":"quota_exceeded","message":"m"}}`), 1, "", retry.ReasonPermanent},
		{"Gemini, interactions, the quota of a day", streamOf("event: error\ndata: " + `{"error":{"code":"quota_exceeded"},"event_type":"error"}` + "\n\n"), 1, "quota_exceeded", retry.ReasonPermanent},
		{"Gemini, interactions, a prompt that is blocked", streamOf("event: error\ndata: " + `{"error":{"code":"prohibited_content"},"event_type":"error"}` + "\n\n"), 1, "prohibited_content", retry.ReasonPermanent},
		{"OpenRouter, responses, a wrong key", streamOf(`data: {"type":"response.failed","response":{"error":{"code":"server_error"},"error_type":"authentication"}}` + "\n\n"), 1, "authentication", retry.ReasonPermanent},
		{"OpenRouter, responses, a server error", streamOf(`data: {"type":"response.failed","response":{"error":{"code":"server_error"},"error_type":"server"}}` + "\n\n"), 2, "server", retry.ReasonSuccess},
		{"OpenRouter, 402 with a wait", failed(402, `{"error":{"code":402,"metadata":{"limit_source":"openrouter_in_flight_budget"}}}`, "Retry-After", "5"), 2, "", retry.ReasonSuccess},
		{"OpenRouter, 402 with a wait in the body", failed(402, `{"error":{"code":402,"metadata":{"headers":{"Retry-After":"5"}}}}`), 2, "", retry.ReasonSuccess},
		{"no compression, Content-Encoding: none", textResponse(200, overloaded, "Content-Type", "text/event-stream", "Content-Encoding", "None"), 2, "overloaded_error", retry.ReasonSuccess},
		{"OpenRouter, 402 without a wait", failed(402, `{"error":{"code":402}}`), 1, "", retry.ReasonPermanent},
		{"OpenAI, a message without a wait", failed(429, `{"error":{"message":"Please try again in a minute.","code":"rate_limit_exceeded"}}`), 2, "", retry.ReasonSuccess},
		{"OpenAI, a negative wait", failed(429, `{"error":{"message":"Please try again in -1m.","code":"rate_limit_exceeded"}}`), 2, "", retry.ReasonSuccess},
		{"OpenRouter, the limit of a day", failed(429, `{"error":{"message":"Rate limit exceeded: free-models-per-day","code":429,"metadata":{"headers":{"X-RateLimit-Limit":"50","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"946771200000"}}}}`), 1, "", retry.ReasonRetryAfter},
		{"OpenRouter, other metadata", failed(429, `{"error":{"message":"busy","code":429,"metadata":{"raw":"busy","headers":null}}}`), 2, "", retry.ReasonSuccess},
		{"OpenRouter, a number in the headers", failed(429, `{"error":{"message":"busy","code":429,"metadata":{"headers":{"X-RateLimit-Reset":5}}}}`), 2, "", retry.ReasonSuccess},
		{"Anthropic, no extra usage", failed(429, `{"type":"error","error":{"type":"rate_limit_error","message":"Extra usage is required for long context requests."}}`), 1, "", retry.ReasonPermanent},
		{"OpenAI, responses, an error after 100 KiB of instructions, twice", streamOf(long("response.created") + long("response.in_progress") + `data: {"type":"response.failed","response":{"error":{"code":"server_error"}}}` + "\n\n"), 2, "server_error", retry.ReasonSuccess},
		{"a limit", failed(429, `{"error":{"type":"tokens","code":"rate_limit_exceeded"}}`), 2, "", retry.ReasonSuccess},
		{"a rate limit that some servers call invalid_request_error", failed(429, `{"error":{"type":"invalid_request_error"}}`), 2, "", retry.ReasonSuccess},
		{"Anthropic, overloaded", failed(529, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`), 2, "", retry.ReasonSuccess},
		{"an error that is not JSON, in a body", failed(429, `insufficient_quota`), 2, "", retry.ReasonSuccess},
		{"JSON that breaks off in an error", json429(breaks(`{"error":{"code":"insufficient_quota"`, errReset)), 2, "", retry.ReasonSuccess},
		{"no money left, after 64 KiB", failed(429, strings.Repeat(" ", 64<<10)+`{"error":{"code":"insufficient_quota"}}`), 2, "", retry.ReasonSuccess},
		{"an error without an end", json429(endless{}), 2, "", retry.ReasonSuccess},
		{"an error that hangs", func(req *http.Request) (*http.Response, error) {
			return responseWith(429, stalled{req.Context()}, "Content-Type", "application/json"), nil
		}, 2, "", retry.ReasonSuccess},
		{"no money left, as a text", textResponse(429, `{"error":{"code":"insufficient_quota"}}`, "Content-Type", "text/plain"), 1, "", retry.ReasonPermanent},
		{"no money left, as a problem", textResponse(429, `{"error":{"code":"insufficient_quota"}}`, "Content-Type", "application/problem+json"), 1, "", retry.ReasonPermanent},
		{"no money left, after a byte order mark", failed(429, "\ufeff"+`{"error":{"code":"insufficient_quota"}}`), 1, "", retry.ReasonPermanent},
		{"no money left, and then something else", failed(429, `{"error":{"code":"insufficient_quota"}}`+"\n<!-- proxy -->"), 1, "", retry.ReasonPermanent},
		{"something else, and then no money left", failed(429, "<!-- proxy -->\n"+`{"error":{"code":"insufficient_quota"}}`), 2, "", retry.ReasonSuccess},
		{"no money left, without a type", textResponse(429, `{"error":{"code":"insufficient_quota"}}`), 1, "", retry.ReasonPermanent},
		{"no money left, in a stream", errorStream("data: " + unpaid + "\n\ndata: [DONE]\n\n"), 1, "", retry.ReasonPermanent},
		{"no money left, in a stream after an opening", errorStream(opening + ping + "data: " + unpaid + "\n\n"), 1, "", retry.ReasonPermanent},
		{"no money left, and JSON is called a stream", errorStream(unpaid), 1, "", retry.ReasonPermanent},
		{"no money left, in a stream after a piece", errorStream(delta + "data: " + unpaid + "\n\n"), 2, "", retry.ReasonSuccess},
		{"Alibaba, no money left, in a stream", errorStream("id:1\nevent:error\n:HTTP_STATUS/429\ndata:" + `{"code":"PrepaidBillOverdue","message":"overdue"}` + "\n\n"), 1, "", retry.ReasonPermanent},
		{"no money left, in a stream, the event is the error object", errorStream(`data: {"object":"error","message":"quota","type":"insufficient_quota","param":null,"code":429}` + "\n\n"), 1, "", retry.ReasonPermanent},
		{"Alibaba, no money left, in a stream that is called JSON", failed(429, "id:1\nevent:error\n:HTTP_STATUS/429\ndata:"+`{"code":"PrepaidBillOverdue","message":"overdue"}`+"\n\n"), 1, "", retry.ReasonPermanent},
		{"Alibaba, no money left, in a stream without a type", textResponse(429, "id:1\nevent:error\n:HTTP_STATUS/429\ndata:"+`{"code":"Arrearage","message":"overdue"}`+"\n\n"), 1, "", retry.ReasonPermanent},
		{"a page in HTML", failed(429, "<html>\n<body>data: no JSON</body>\n</html>\n\n"), 2, "", retry.ReasonSuccess},
		{"Alibaba, not bought, in a 429", failed(429, `{"code":"CommodityNotPurchased","message":"Commodity has not purchased yet."}`), 1, "", retry.ReasonPermanent},
		{"Volcengine, paused, in a 429", failed(429, `{"error":{"code":"SetLimitExceeded","message":"Your account has reached the set inference limit.","type":"TooManyRequests"}}`), 1, "", retry.ReasonPermanent},
		{"a wait without an object error, in a stream of a 403", textResponse(403, "event: error\ndata: "+`{"details":[{"@type":"google.rpc.RetryInfo","retryDelay":"1s"}]}`+"\n\n", "Content-Type", "text/event-stream"), 2, "", retry.ReasonSuccess},
		{"Gemini, a wait after many details", failed(403, `{"error":{"details":[`+strings.Repeat(`{"@type":"google.rpc.Help"},`, 99)+`{"@type":"google.rpc.RetryInfo","retryDelay":"1s"}]}}`), 2, "", retry.ReasonSuccess},
		{"a limit, in a stream", errorStream(`data: {"error":{"code":"429","type":"None"}}` + "\n\n"), 2, "", retry.ReasonSuccess},
		{"a wrong request, in a stream of a 429", errorStream(`data: {"error":{"type":"invalid_request_error"}}` + "\n\n"), 2, "", retry.ReasonSuccess},
		{"a stream of an error that is compressed", textResponse(429, "data: "+unpaid+"\n\n", "Content-Type", "text/event-stream", "Content-Encoding", "br"), 2, "", retry.ReasonSuccess},
		{"a stream without an event in an error", errorStream(""), 2, "", retry.ReasonSuccess},
		{"a stream without an end in an error", responseWith(429, endless{}, "Content-Type", "text/event-stream"), 2, "", retry.ReasonSuccess},
		{"Gemini, a wrong request in a stream", streamOf(`data: {"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}` + "\n\n"), 1, "INVALID_ARGUMENT", retry.ReasonPermanent},
		{"Gemini, too long", failed(429, gemini("10.1s")), 1, "", retry.ReasonRetryAfter},
		{"402 with a wait, not paid", failed(402, unpaid, "Retry-After", "1"), 1, "", retry.ReasonPermanent},
		{"above a limit, with X-Should-Retry: true", failed(429, `{"error":{"code":"quota_exceeded"}}`, "X-Should-Retry", "true"), 1, "", retry.ReasonPermanent},
		{"400 with X-Should-Retry: true", status(400, "X-Should-Retry", "true"), 2, "", retry.ReasonSuccess},
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

// If the account cannot pay, the text of the error says so. Without this text, a 429 would look
// like a rate limit. The text contains the code from the list of this package, and no other words
// of the server.
func TestLLMErrorSaysThatTheAccountCannotPay(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		says   string
	}{
		{"OpenAI", 429, `{"error":{"message":"the server's words","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
			"429 Too Many Requests (the account cannot pay: insufficient_quota)"},
		{"OpenAI, an account that is not active", 429, `{"error":{"message":"the server's words","type":"billing_not_active","param":null,"code":"billing_not_active"}}`,
			"429 Too Many Requests (the account cannot pay: billing_not_active)"},
		{"OpenAI, a limit of the account", 400, `{"error":{"message":"the server's words","type":"invalid_request_error","param":null,"code":"billing_hard_limit_reached"}}`,
			"400 Bad Request (the account cannot pay: billing_hard_limit_reached)"},
		{"Anthropic", 402, `{"type":"error","error":{"type":"billing_error","message":"the server's words"}}`,
			"402 Payment Required (the account cannot pay: billing_error)"},
		{"Gemini", 403, `{"error":{"code":403,"message":"the server's words","status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.Help"},` +
			`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"BILLING_DISABLED","domain":"googleapis.com"}]}}`,
			"403 Forbidden (the account cannot pay: BILLING_DISABLED)"},
		{"Moonshot", 429, `{"error":{"message":"the server's words","type":"exceeded_current_quota_error"}}`,
			"429 Too Many Requests (the account cannot pay: exceeded_current_quota_error)"},
		{"Zhipu and Z.ai", 429, `{"error":{"code":"1113","message":"the server's words"}}`, "429 Too Many Requests (the account cannot pay: 1113)"},
		{"Z.ai, in the form of Anthropic", 429, `{"type":"error","error":{"type":"rate_limit_error","code":"1113","message":"the server's words"}}`,
			"429 Too Many Requests (the account cannot pay: 1113)"},
		{"MiniMax", 429, `{"error":{"http_code":"429","message":"the server's words","type":"insufficient_balance_error"}}`,
			"429 Too Many Requests (the account cannot pay: insufficient_balance_error)"},
		{"Anthropic, no credits", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."},"request_id":"r"}`,
			"400 Bad Request (the account cannot pay: credit balance is too low)"},
		{"Anthropic, a limit", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}`,
			"400 Bad Request (the account cannot pay: reached your specified API usage limits)"},
		{"Anthropic, a limit of a workspace", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified workspace API usage limits. You will regain access on 2026-12-01."}}`,
			"400 Bad Request (the account cannot pay: reached your specified workspace API usage limits)"},
		{"Anthropic, a limit of a subscription", 429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's monthly spend limit. Please try again later."}}`,
			"429 Too Many Requests (the account cannot pay: exceed your account's monthly spend limit)"},
		{"Gemini, prepaid", 429, `{"error":{"code":429,"message":"Your prepayment credits are depleted. Please go to AI Studio.","status":"RESOURCE_EXHAUSTED"}}`,
			"429 Too Many Requests (the account cannot pay: prepayment credits are depleted)"},
		{"Gemini, a cap", 429, `{"error":{"code":429,"message":"Your billing account has exceeded its monthly spending cap. Please go to AI Studio.","status":"RESOURCE_EXHAUSTED"}}`,
			"429 Too Many Requests (the account cannot pay: exceeded its monthly spending cap)"},
		{"xAI", 429, `{"code":"Some resource has been exhausted","error":"Your team 16f has either used all available credits or reached its monthly spending limit. To continue, purchase more."}`,
			"429 Too Many Requests (the account cannot pay: used all available credits or reached its monthly spending limit)"},
		{"a code next to an error that is a text", 429, `{"code":"insufficient_quota","error":"the server's words"}`, "429 Too Many Requests (the account cannot pay: insufficient_quota)"},
		{"no account: another code of Zhipu", 400, `{"error":{"code":"1210","message":"the server's words"}}`, "400 Bad Request"},
		{"no account: another reason of Google", 403, `{"error":{"code":403,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"SERVICE_DISABLED"}]}}`, "403 Forbidden"},
		{"no account: a detail of another kind", 403, `{"error":{"code":403,"details":[{"@type":"type.googleapis.com/google.rpc.Help","reason":"BILLING_DISABLED"}]}}`, "403 Forbidden"},
		{"no account: a code of the server", 401, `{"error":{"code":"the server's words"}}`, "401 Unauthorized"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tr := retryhttp.LLM(retry.Policy{MaxAttempts: 3})
			tr.Base = script(textResponse(tt.status, tt.body, "Content-Type", "application/json"))
			req := request(t, "POST")
			_, err := retryhttp.Result(tr.RoundTrip(req))
			assert.EqualError(t, err, "retry: permanent error after 1 attempt: retryhttp: POST "+req.URL.String()+": "+tt.says)
		})
	}
}

// In a stream, the type of the error may say less than its code.
func TestStreamErrorSaysThatTheAccountCannotPay(t *testing.T) {
	for name, row := range map[string]struct{ event, says string }{
		"the code alone says it":  {`{"error":{"message":"quota","type":"tokens","code":"insufficient_quota"}}`, `: "tokens": "quota" (the account cannot pay: insufficient_quota)`},
		"the type":                {`{"type":"error","error":{"type":"billing_error","message":"quota"}}`, `: "billing_error": "quota" (the account cannot pay: billing_error)`},
		"an error that is a text": {`{"error":"Model is overloaded","error_type":"overloaded"}`, `: "overloaded": "Model is overloaded"`},
		"a code next to a text":   {`{"error":"quota","code":"insufficient_quota"}`, `: "insufficient_quota": "quota" (the account cannot pay: insufficient_quota)`},
		"a message next to it":    {`{"type":"error","error":"Service Unavailable","message":"quota"}`, `: "": "quota"`},
		"another error":           {`{"type":"error","error":{"type":"permission_error","message":"no"}}`, `: "permission_error": "no"`},
	} {
		bubble(t, name, func(t *testing.T) {
			var seen events
			tr := retryhttp.LLM(retry.Policy{MaxAttempts: 3, OnEvent: seen.add})
			tr.Base = script(streamOf("data: " + row.event + "\n\n"))
			_, _ = io.ReadAll(send(t, tr, request(t, "POST")).Body)
			assert.EqualError(t, seen.of(retry.AttemptFinished)[0].Err, "retryhttp: the stream began with an error"+row.says)
		})
	}
}

// gemini returns the error that Gemini sends if a quota is used up.
func gemini(delay string) string {
	return `{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"` + delay + `"}]}}`
}

// The wait of a RetryInfo in the body applies if no header has a wait. It also applies in a stream.
func TestLLMHeedsRetryInfo(t *testing.T) {
	body := func(text string, header ...string) *http.Response {
		return textResponse(429, text, append(header, "Content-Type", "application/json")...)
	}
	for _, tt := range []struct {
		name  string
		first *http.Response
		want  time.Duration
	}{
		{"seconds with a fraction", body(gemini("45.8s")), 45800 * ms},
		{"whole seconds", body(gemini("7s")), 7 * time.Second},
		{"nanoseconds", body(gemini("0.000000002s")), 2},
		{"in a list", body("\n[" + gemini("7s") + "]"), 7 * time.Second},
		{"in a stream", streamOf("data: " + gemini("7s") + "\n\n"), 7 * time.Second},
		{"in a stream of a 429", textResponse(429, "data: "+gemini("7s")+"\n\n", "Content-Type", "text/event-stream"), 7 * time.Second},
		{"zero", body(gemini("0s")), 1},
		{"a header that asks for more", body(gemini("7s"), "Retry-After", "9"), 9 * time.Second},
		{"a header that asks for less", body(gemini("7s"), "Retry-After", "2"), 7 * time.Second},
		{"below zero", body(gemini("-7s")), 0},
		{"no unit", body(gemini("7")), 0},
		{"another unit", body(gemini("7m")), 0},
		{"nothing", body(gemini("")), 0},
		{"a detail with another type", body(strings.ReplaceAll(gemini("7s"), "RetryInfo", "Help")), 0},
		{"details of another kind", body(`{"error":{"code":429,"details":{"retryDelay":"7s"}}}`), 0},
		{"longer than the longest duration", body(gemini("99999999999999999999s")), math.MaxInt64},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var seen events
			tr := retryhttp.LLM(retry.Policy{MaxAttempts: 2, MaxRetryAfter: math.MaxInt64, RetryAfter: retry.RetryAfterAtLeast, OnEvent: seen.add})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			tr.Base = script(tt.first, textResponse(200, "hi"))
			resp, err := tr.RoundTrip(request(t, "POST").WithContext(ctx))
			require.NoError(t, err)
			_, _ = io.ReadAll(resp.Body)
			assert.Equal(t, tt.want, retry.RetryAfterOf(seen.of(retry.AttemptFinished)[0].Err))
		})
	}
}

// A RetryInfo in the body has the same effect as a Retry-After: a 403 or 413 is retried, and the
// status decides about other statuses. Without a wait, a 403 is permanent.
func TestLLMVerdictOfRetryInfo(t *testing.T) {
	const plain = `{"error":{"message":"no"}}`
	unpaid := strings.ReplaceAll(gemini("1s"), "RESOURCE_EXHAUSTED", "payment_required")
	for _, tt := range []struct {
		name   string
		status int
		body   string
		header []string
		sent   int
		took   time.Duration
	}{
		{"403, in a header", 403, plain, []string{"Retry-After", "1"}, 2, time.Second},
		{"403, in the body", 403, gemini("1s"), nil, 2, time.Second},
		{"413, in the body", 413, gemini("1s"), nil, 2, time.Second},
		{"403, in the body and in a header", 403, gemini("1s"), []string{"Retry-After", "2"}, 2, 2 * time.Second},
		{"403, a wait of 0", 403, gemini("0s"), nil, 2, 10 * ms},
		{"403, in a stream", 403, "data: " + gemini("1s") + "\n\n", []string{"Content-Type", "text/event-stream"}, 2, time.Second},
		{"409, in the body", 409, gemini("1s"), nil, 2, time.Second},
		{"403, no wait", 403, plain, nil, 1, 0},
		{"403, a wait that is not valid", 403, gemini("-1s"), nil, 1, 0},
		{"400, in a header", 400, plain, []string{"Retry-After", "1"}, 1, 0},
		{"400, in the body", 400, gemini("1s"), nil, 1, 0},
		{"403, X-Should-Retry: false", 403, gemini("1s"), []string{"X-Should-Retry", "false"}, 1, 0},
		{"400, X-Should-Retry: true", 400, gemini("1s"), []string{"X-Should-Retry", "true"}, 2, time.Second},
		{"403, the account cannot pay", 403, unpaid, nil, 1, 0},
		{"403, the account cannot pay, and a header", 403, unpaid, []string{"Retry-After", "1"}, 1, 0},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tr := retryhttp.LLM(retry.Policy{MaxAttempts: 2, RetryAfter: retry.RetryAfterExact})
			base := script(textResponse(tt.status, tt.body, tt.header...), 200)
			tr.Base = base
			began := time.Now()
			resp := send(t, tr, request(t, "POST"))
			assert.Equal(t, tt.sent, base.count())
			assert.Equal(t, tt.took, time.Since(began))
			assert.Equal(t, tt.sent == 1, retry.ReasonOf(retryhttp.ErrorOf(resp)) == retry.ReasonPermanent)
		})
	}
}

// After LLM has read the body of an error, the caller can still read it, and the StatusError
// contains its beginning. If reading takes longer than a second, the attempt is canceled, so that
// the Read of the body ends.
func TestLLMKeepsTheBodyOfAnError(t *testing.T) {
	for _, tt := range []struct {
		name string
		body func(context.Context) io.Reader
		took time.Duration
		text string
		err  string
	}{
		{"short", func(context.Context) io.Reader { return strings.NewReader(`{"error":{}}`) }, 0, `{"error":{}}`, ""},
		{"longer than LLM reads", func(context.Context) io.Reader { return strings.NewReader(strings.Repeat("x", 70<<10)) }, 0, strings.Repeat("x", 70<<10), ""},
		{"empty", func(context.Context) io.Reader { return strings.NewReader("") }, 0, "", ""},
		{"broken", func(context.Context) io.Reader { return breaks("sor", errReset) }, 0, "sor", errReset.Error()},
		{"it hangs", func(ctx context.Context) io.Reader {
			return io.MultiReader(strings.NewReader("sor"), stalled{ctx})
		}, time.Second, "sor", "retryhttp: reading the body of an error took longer than a second"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var b *body
			tr := retryhttp.LLM(retry.Policy{MaxAttempts: 1})
			tr.Base = script(func(req *http.Request) (*http.Response, error) {
				b = &body{Reader: tt.body(req.Context())}
				return responseWith(400, b, "Content-Type", "application/json"), nil
			})
			began := time.Now()
			resp := send(t, tr, request(t, "POST"))
			assert.Equal(t, tt.took, time.Since(began))
			text, err := io.ReadAll(resp.Body)
			assert.Equal(t, tt.text, string(text))
			if tt.err == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, tt.err)
			}
			_, err = retryhttp.Result(resp, nil)
			var e *retryhttp.StatusError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.text[:min(len(tt.text), 1<<10)], string(e.Body))
			assert.Equal(t, 1, b.closes)
		})
	}
}

// If a status of 400 has a stream that never ends, LLM reads the stream only up to the first error
// or the first piece of an answer, and for at most a second.
func TestLLMDoesNotWaitForAStreamInAnError(t *testing.T) {
	for _, tt := range []struct {
		name, begins string
		took         time.Duration
	}{
		{"an error", `data: {"error":{}}` + "\n\n", 0},
		{"a piece", delta, 0},
		{"an opening", opening, time.Second},
		{"nothing", "", time.Second},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tr := retryhttp.LLM(retry.Policy{})
			tr.Base = script(func(req *http.Request) (*http.Response, error) {
				body := io.MultiReader(strings.NewReader(tt.begins), stalled{req.Context()})
				return responseWith(400, body, "Content-Type", "text/event-stream"), nil
			})
			began := time.Now()
			resp := send(t, tr, request(t, "POST"))
			assert.Equal(t, tt.took, time.Since(began))
			_, err := retryhttp.Result(resp, nil)
			var e *retryhttp.StatusError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.begins, string(e.Body))
		})
	}
}

// Check reads the body of an error, and AttemptTimeout limits the time until Check has returned.
func TestLLMErrorThatOutlastsAttemptTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]retry.Reason{
		time.Second - 1: retry.ReasonExhausted,  // three timeouts
		time.Second + 1: retry.ReasonRetryAfter, // the limit of a second ends the body first, so the status counts
	} {
		bubble(t, timeout.String(), func(t *testing.T) {
			var seen events
			tr := retryhttp.LLM(retry.Policy{MaxAttempts: 3, AttemptTimeout: timeout, OnEvent: seen.add})
			tr.Base = script(func(req *http.Request) (*http.Response, error) {
				return responseWith(429, stalled{req.Context()}, "Retry-After", "99"), nil
			})
			_, err := retryhttp.Result(tr.RoundTrip(request(t, "POST")))
			assert.Error(t, err)
			assert.Equal(t, want, seen.stop().Reason)
		})
	}
}

// The text of a StreamError is one line of limited length, whatever the server writes.
func TestStreamErrorIsOneLine(t *testing.T) {
	e := &retryhttp.StreamError{Type: strings.Repeat("x", 1000), Message: "a\nb" + strings.Repeat("y", 1000)}
	assert.Equal(t, `retryhttp: the stream began with an error: "`+strings.Repeat("x", 128)+`": "a\nb`+strings.Repeat("y", 509)+`"`, e.Error())
}

// A GET may open the stream of a session, whose first event comes only after the next request of the
// caller. So the caller gets this stream at once.
func TestLLMDoesNotWaitForTheStreamOfAGET(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		tr := retryhttp.LLM(retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Minute})
		tr.Base = roundTrip(func(req *http.Request) (*http.Response, error) {
			return responseWith(200, stalled{req.Context()}, "Content-Type", "text/event-stream"), nil
		})
		resp := send(t, tr, request(t, "GET"))
		assert.Zero(t, time.Since(start))
		assert.NoError(t, resp.Body.Close())
	})
}
