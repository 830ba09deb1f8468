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

// LLM returns a Transport for the APIs of language models, such as those of
// Anthropic, OpenAI and Gemini, under an SDK whose own retries are off:
//
//	option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: retryhttp.LLM(policy)})
//
// It retries what Check does, and also 409, a POST, a JSON body of up to 8 MiB that breaks
// off, and a stream that fails before the first piece of its answer: by an error event, by
// its end, or by AttemptTimeout. It reads VendorAdvice's headers. After a timeout or a lost
// connection the first attempt may have been executed, and billed, too.
//
// Of the body of an error it reads 64 KiB, for at most a second, and looks for JSON at its
// beginning, whatever the Content-Type is, as the vendors' SDKs do. Of a stream it reads the
// first error event. If the body says that the account cannot pay, as insufficient_quota does,
// the error is permanent, whatever the status is. A compressed body says nothing.
// The wait of a google.rpc.RetryInfo in it counts as a Retry-After does; the longer wait applies.
// The second is a bound if Read of the body ends with the context of its request, as with
// [http.Transport]. If AttemptTimeout ends before the body, the attempt failed by that timeout,
// whatever its status and its Retry-After were.
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

// checkLLM retries 409 too, as the vendors' SDKs do, and reads what the body of an error says.
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

// errorLLM returns what the body of an error says, and its beginning, nil if it was not read. A
// stream need not end: it is read up to its first error, as one with a status of 200 is. If the
// body takes longer, its attempt ends, and with it the body.
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
	if !is { // a stream that is compressed
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

// A StreamError is an error event at the beginning of a stream, which the caller of
// a Transport reads as it came. What it says is the server's.
type StreamError struct {
	Type    string // such as "overloaded_error" or "server_error"; "": not said
	Message string
	Data    []byte // of the event

	wait time.Duration
}

func (e *StreamError) Error() string {
	return fmt.Sprintf("retryhttp: the stream began with an error: %.128q: %.512q", e.Type, e.Message)
}

// RetryAfter returns the wait that the server asked for, as the RetryAfter of a [*StatusError]
// does.
func (e *StreamError) RetryAfter() time.Duration { return e.wait }

// judgeLLM fails for an error event, and reads on after what the vendors send
// before the first piece of an answer.
func judgeLLM(_ *http.Response, event string, data []byte) (more bool, err error) {
	found := failureIn(data)
	switch {
	case found.isError:
	case event == "error":
		found.Type = "" // it says that there is an error, and not which
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

// A failureLLM is what a body or an event says of an error. Each vendor has some of the fields.
type failureLLM struct {
	Type, Message string
	Status        string          // of Gemini
	Code          json.RawMessage // of OpenAI: a text, a number or null
	Details       []struct {
		Type       string `json:"@type"`
		RetryDelay string
	}

	event   string // its type
	isError bool
}

// failureIn reads a body or an event. Gemini sends a list, if it was not asked for a stream of
// events.
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
	_ = json.Unmarshal(data, &e) // what is of another type says nothing
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

// firstValue returns the first JSON value of a text, nil if that does not begin with one. A proxy
// may write a byte order mark before it, or more text after it.
func firstValue(text []byte) (value json.RawMessage) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	_ = json.NewDecoder(bytes.NewReader(text)).Decode(&value) // what is no JSON says nothing
	return value
}

// code returns the code as a text.
func (f *failureLLM) code() (code string) {
	var number json.Number
	if json.Unmarshal(f.Code, &code) != nil && json.Unmarshal(f.Code, &number) == nil {
		code = number.String()
	}
	return code
}

// is reports whether one of these is the type, the status or the code.
func (f *failureLLM) is(names []string) bool {
	return slices.ContainsFunc([]string{f.Type, f.Status, f.code()}, func(name string) bool {
		return slices.Contains(names, name)
	})
}

// wait returns how long a google.rpc.RetryInfo asks to wait, 1ns for a wait of 0; 0: it does
// not. A Duration of protobuf is in JSON a number of seconds with an s.
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

// isError reports whether the value of "error" is one: an object or a text. Some
// servers send null, false or "" with each piece.
func isError(value json.RawMessage) bool {
	return len(value) > 0 && (value[0] == '{' || value[0] == '"' && len(value) > len(`""`))
}

var (
	openingsLLM = []string{
		"ping", "message_start", "content_block_start", // Anthropic
		"response.created", "response.queued", "response.in_progress", // OpenAI
		"response.output_item.added", "response.content_part.added", // OpenAI
	}

	// unpaidLLM are final whatever the status is: OpenAI says them in a 429.
	unpaidLLM = []string{
		"billing_error",                                                          // Anthropic
		"insufficient_quota", "billing_not_active", "billing_hard_limit_reached", // OpenAI
	}

	// finalLLM are final in a stream. In a body, the status says whose fault an error is: some
	// servers have invalid_request_error in a 429.
	finalLLM = []string{
		"invalid_request_error", "authentication_error", "permission_error", // Anthropic, and OpenAI
		"not_found_error", "request_too_large", // Anthropic
		"invalid_prompt",                                             // OpenAI
		"INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNAUTHENTICATED", // Gemini
		"PERMISSION_DENIED", "NOT_FOUND", // Gemini
	}
)
