package retryhttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// LLM returns a Transport for the APIs of language models, such as the APIs of
// Anthropic, OpenAI and Gemini. Use it under an SDK whose own retries are off:
//
//	option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: retryhttp.LLM(policy)})
//
// It retries what the function Check retries, and also a 409, every POST, a JSON body of up to
// 8 MiB that breaks off, and a stream that fails before the first piece of its answer: by an error
// event, by its end, or by AttemptTimeout. It reads the headers of VendorAdvice. If the answer to
// an attempt is lost, or late, that attempt may have been executed and billed as well as the next.
//
// LLM reads 64 KiB of the body of an error, for at most a second, and looks for JSON at its
// beginning, whatever the Content-Type is, as the vendors' SDKs do. It reads a stream up to its
// first error event. If the body says that the account cannot pay, as insufficient_quota does, the
// error is permanent, whatever the status is. A compressed body says nothing. The wait of a
// google.rpc.RetryInfo in the body counts like a Retry-After. The longer wait applies. The second
// is a bound only if a Read of the body ends with the context of its request, as with
// [http.Transport]. If AttemptTimeout ends before the body, the attempt failed with that timeout,
// whatever its status and its Retry-After were.
//
// An error event is a [*StreamError]. It is permanent if the request is wrong, not
// allowed or not paid for. An error event after the first piece of the answer reaches the
// caller unchanged.
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

// checkLLM retries a 409 too, as the vendors' SDKs do, and heeds what the body of an error says.
func checkLLM(req *http.Request, resp *http.Response, err error) error {
	if err != nil || resp.StatusCode < 400 {
		return Check(req, resp, err)
	}
	said, text := errorLLM(req, resp)
	e := statusErrorOf(req, resp)
	if text != nil {
		e.keep(resp.Request, text)
	}
	e.advice.Wait = max(e.advice.Wait, said.wait())
	switch {
	case said.is(unpaidLLM):
		e.advice.Verdict = Never
	case resp.StatusCode == http.StatusConflict && e.advice.Verdict != Never:
		e.advice.Verdict = Again
	}
	return e.judged(req)
}

// errorLLM returns what the body of an error says, and the beginning of the body, nil if the body
// was not read. A stream need not end, so it is read up to its first error, as a stream with a
// status of 200 is. After a second errorLLM ends the attempt, and so the body.
func errorLLM(req *http.Request, resp *http.Response) (said failureLLM, text []byte) {
	if !hasText(resp) {
		return said, nil
	}
	a := attemptOf(req)
	if a != nil {
		late := time.AfterFunc(time.Second, func() { a.cancel(errSlow) })
		defer late.Stop()
	}
	if isEvents(resp) {
		said = eventLLM(req, resp)
	} else {
		readHead(resp, firstEventBytes)
	}
	read, is := resp.Body.(*readBody)
	if !is { // a compressed stream
		return said, nil
	}
	if read.err != nil && a != nil && context.Cause(a) == errSlow {
		read.err = errSlow
	}
	if !said.isError { // it may be JSON all the same
		said = failureIn(read.head)
	}
	return said, read.head
}

// eventLLM returns what the first events of a stream say, whatever its status is.
func eventLLM(req *http.Request, resp *http.Response) (said failureLLM) {
	accept := func(*http.Request, *http.Response, error) error { return nil }
	judge := func(_ *http.Response, _ string, data []byte) (more bool, err error) {
		said = failureIn(data)
		return !said.isError && slices.Contains(openingsLLM, said.event), nil
	}
	_ = FirstEvent(accept, judge)(req, resp, nil) // a stream without an event says nothing
	return said
}

var errSlow = errors.New("retryhttp: the body of an error took longer than a second")

// A StreamError is an error event at the beginning of a stream. Its fields are copied from the
// event, so they come from the server. The caller of a Transport can still read the whole stream.
type StreamError struct {
	Type    string // such as "overloaded_error" or "server_error"; "": not said
	Message string
	Data    []byte // the data of the event

	wait time.Duration
}

// Error returns one line with the Type and the Message, both quoted, and cut if they are long.
func (e *StreamError) Error() string {
	return fmt.Sprintf("retryhttp: the stream began with an error: %.128q: %.512q", e.Type, e.Message)
}

// RetryAfter returns the wait that the server asked for, as the RetryAfter of a [*StatusError]
// does.
func (e *StreamError) RetryAfter() time.Duration { return e.wait }

// judgeLLM returns an error for an error event. It wants the next event, too, after an event that
// vendors send before the first piece of an answer.
func judgeLLM(_ *http.Response, event string, data []byte) (more bool, err error) {
	found := failureIn(data)
	switch {
	case found.isError:
	case event == "error":
		found.Type = "" // this type says only that there is an error
	default:
		return slices.Contains(openingsLLM, found.event), nil
	}
	failed := &StreamError{
		Type: cmp.Or(found.Type, found.Status, found.code()), Message: found.Message,
		Data: data, wait: found.wait(),
	}
	if found.is(unpaidLLM) || found.is(finalLLM) {
		return false, retry.Permanent(failed)
	}
	return false, failed
}

// A failureLLM is what a body or an event says about an error. A vendor sends some of its fields.
type failureLLM struct {
	Type, Message string
	Status        string          // of Gemini
	Code          json.RawMessage // of OpenAI: a text, a number or null
	Details       []struct {
		Type       string `json:"@type"`
		RetryDelay string
	}

	event   string // the type of the event
	isError bool   // the body or the event is an error
}

// failureIn reads a body or the data of an event. Gemini sends a list if the request did not ask
// for a stream of events.
func failureIn(data []byte) (found failureLLM) {
	data = firstValue(data)
	if list := []json.RawMessage(nil); bytes.HasPrefix(data, []byte("[")) {
		if json.Unmarshal(data, &list) == nil && len(list) > 0 {
			data = list[0]
		}
	}
	var e struct {
		failureLLM
		Error    json.RawMessage
		Response struct{ Error json.RawMessage }
	}
	_ = json.Unmarshal(data, &e) // a field of another type says nothing
	found, inner, event := e.failureLLM, e.Error, e.Type
	if !isError(inner) {
		inner = e.Response.Error
	}
	switch {
	case isError(inner):
		found = failureLLM{isError: true}
		_ = json.Unmarshal(inner, &found)
	case event == "error" || event == "response.failed":
		found.Type, found.isError = "", true
	}
	found.event = event
	return found
}

// firstValue returns the JSON value at the beginning of a text, nil if there is none. A proxy may
// write a byte order mark before the value, or more text after it.
func firstValue(text []byte) (value json.RawMessage) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	_ = json.NewDecoder(bytes.NewReader(text)).Decode(&value) // a text without JSON says nothing
	return value
}

// code returns the Code, which may be a text or a number, as a text.
func (f *failureLLM) code() (code string) {
	var number json.Number
	if json.Unmarshal(f.Code, &code) != nil && json.Unmarshal(f.Code, &number) == nil {
		code = number.String()
	}
	return code
}

// is reports whether names contains the Type, the Status or the Code.
func (f *failureLLM) is(names []string) bool {
	return slices.ContainsFunc([]string{f.Type, f.Status, f.code()}, func(name string) bool {
		return slices.Contains(names, name)
	})
}

// wait returns how long a google.rpc.RetryInfo in the Details asks to wait: 1ns if it asks for a
// wait of 0, and 0 if there is none. In JSON, a Duration of protobuf is a number of seconds
// followed by an s.
func (f *failureLLM) wait() (longest time.Duration) {
	for _, detail := range f.Details[:min(len(f.Details), headerElements)] {
		seconds, ok := strings.CutSuffix(cut(detail.RetryDelay), "s")
		ok = ok && strings.HasSuffix(detail.Type, "google.rpc.RetryInfo")
		if wait, valid := decimal(seconds, time.Second); ok && valid {
			longest = max(longest, wait, 1)
		}
	}
	return longest
}

// isError reports whether the value of "error" is an error: an object or a text. Some
// servers send null, false or "" with each piece of an answer.
func isError(value json.RawMessage) bool {
	return len(value) > 0 && (value[0] == '{' || value[0] == '"' && len(value) > len(`""`))
}

var (
	// openingsLLM are the events before the first piece of an answer.
	openingsLLM = []string{
		"ping", "message_start", "content_block_start", // Anthropic
		"response.created", "response.queued", "response.in_progress", // OpenAI
		"response.output_item.added", "response.content_part.added", // OpenAI
	}

	// unpaidLLM are final whatever the status is: OpenAI sends them with a 429.
	unpaidLLM = []string{
		"billing_error",                                                          // Anthropic
		"insufficient_quota", "billing_not_active", "billing_hard_limit_reached", // OpenAI
	}

	// finalLLM are final in a stream. In a body, the status decides instead: some servers send
	// invalid_request_error with a 429.
	finalLLM = []string{
		"invalid_request_error", "authentication_error", "permission_error", // Anthropic, and OpenAI
		"not_found_error", "request_too_large", // Anthropic
		"invalid_prompt",                                             // OpenAI
		"INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNAUTHENTICATED", // Gemini
		"PERMISSION_DENIED", "NOT_FOUND", // Gemini
	}
)
