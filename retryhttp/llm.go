package retryhttp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/goretry/retry"
)

// LLM returns a Transport for the APIs of language models, such as those of
// Anthropic and OpenAI, under an SDK whose own retries are off:
//
//	option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: retryhttp.LLM(policy)})
//
// It retries what Check does, and also 409, a POST, a JSON body of up to 8 MiB that breaks
// off, and a stream that fails before the first piece of its answer: by an error event, by
// its end, or by AttemptTimeout. It reads VendorAdvice's headers. After a timeout or a lost
// connection the first attempt may have been executed, and billed, too.
//
// An error event is a [*StreamError]. The errors of a request that is wrong, not
// allowed or not paid for are permanent. An error that comes later reaches the
// caller as it is.
func LLM(p retry.Policy) *Transport {
	whole := WholeBody(checkLLM, 8<<20)
	return &Transport{
		Policy:     p,
		Idempotent: func(*http.Request) bool { return true },
		Advise:     VendorAdvice,
		Check: FirstEvent(func(req *http.Request, resp *http.Response, err error) error {
			if resp != nil && isMedia(resp, "application/json") {
				return whole(req, resp, err)
			}
			return checkLLM(req, resp, err)
		}, judgeLLM),
	}
}

// checkLLM retries 409 too, as the vendors' SDKs do.
func checkLLM(req *http.Request, resp *http.Response, err error) error {
	if resp != nil && resp.StatusCode == http.StatusConflict {
		if e := statusErrorOf(req, resp); e.advice.Verdict != Never {
			return e
		}
	}
	return Check(req, resp, err)
}

// A StreamError is an error event at the beginning of a stream, which the caller of
// a Transport reads as it came. What it says is the server's.
type StreamError struct {
	Type    string // such as "overloaded_error" or "server_error"; "": not said
	Message string
	Data    []byte // of the event
}

func (e *StreamError) Error() string {
	return fmt.Sprintf("retryhttp: the stream began with an error: %.128q: %.512q", e.Type, e.Message)
}

// judgeLLM fails for an error event, and reads on after what the vendors send
// before the first piece of an answer.
func judgeLLM(_ *http.Response, event string, data []byte) (more bool, err error) {
	type failure struct {
		Type, Message string
		Code          json.RawMessage // of OpenAI: a text, a number or null
	}
	var e struct {
		failure
		Error    json.RawMessage
		Response struct{ Error json.RawMessage }
	}
	_ = json.Unmarshal(data, &e) // what is of another type, or no JSON, says nothing
	found, inner := e.failure, e.Error
	if !isError(inner) {
		inner = e.Response.Error
	}
	switch kind := e.Type; {
	case isError(inner):
		found = failure{}
		_ = json.Unmarshal(inner, &found)
	case event == "error" || kind == "error" || kind == "response.failed":
		found.Type = "" // it says that there is an error, and not which
	default:
		return slices.Contains(openingsLLM, kind), nil
	}
	var code string
	var number json.Number
	if json.Unmarshal(found.Code, &code) != nil && json.Unmarshal(found.Code, &number) == nil {
		code = number.String()
	}
	failed := &StreamError{Type: cmp.Or(found.Type, code), Message: found.Message, Data: data}
	if slices.Contains(finalLLM, failed.Type) || slices.Contains(finalLLM, code) {
		return false, retry.Permanent(failed)
	}
	return false, failed
}

// isError reports whether the value of "error" is one: an object or a text. Some
// servers send null, false or "" with each piece.
func isError(value json.RawMessage) bool {
	return len(value) > 0 && (value[0] == '{' || value[0] == '"' && len(value) > len(`""`))
}

var (
	openingsLLM = []string{
		"ping", "message_start", "content_block_start", // Anthropic
		"response.created", "response.queued", "response.in_progress", "response.output_item.added", "response.content_part.added", // OpenAI
	}
	finalLLM = []string{
		"invalid_request_error", "authentication_error", "permission_error", "billing_error", "not_found_error", "request_too_large", // Anthropic, and OpenAI
		"insufficient_quota", "invalid_prompt", // OpenAI
	}
)
