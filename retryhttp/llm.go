package retryhttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// LLM returns a Transport for the APIs of language models, such as the APIs of Anthropic, OpenAI
// and Gemini. Use it in the http.Client of an SDK, and turn off the retries of the SDK:
//
//	option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: retryhttp.LLM(policy)})
//
// The Transport retries all failures that the function Check retries, and also these:
//
//   - A 409 is retried, and so are Groq's 498 (no capacity) and OpenAI's conversation_locked.
//   - A POST is retried even if the server may have processed it.
//   - An attempt is retried if its JSON body of up to 8 MiB breaks off.
//   - An attempt is retried if its stream fails before the first piece of the answer, and within
//     its first 1 MiB. The stream may fail by an error event, by its end, by AttemptTimeout or by
//     StallTimeout. The event [DONE] counts as a piece. So do an event that says that a tool has
//     begun its work, and a delta of Anthropic with an empty text, because minutes may pass before
//     the next delta. The stream of a GET is not read, because its first event may come late.
//
// The Transport also reads the headers of the vendors, as VendorAdvice does. If the answer to an
// attempt is lost or late, the server may execute and bill both this attempt and the next one.
//
// If the status is 400 or above, the Transport reads up to 64 KiB of the body, or up to 1 MiB of a
// stream, for at most a second. It looks for JSON at the beginning of the body, whatever the
// Content-Type is, as the vendors' SDKs do. It reads a stream up to the first error event or the
// first piece of the answer. It cannot read a compressed body, except a gzip body that net/http
// decompresses. If the body says that the account cannot pay, for example by insufficient_quota,
// the error is permanent, whatever the status is, and its text says that the account cannot pay. A
// 402 with a wait is an exception if its code is payment_required or billing_error. The error is
// also permanent if the vendor says that the request has more tokens than the account may send in a
// minute, or that the account's plan does not include the model. Of some vendors, LLM also knows
// which error says that the limit of hours, a day, a week or a month is reached. The file named at
// the end lists these errors.
//
// A wait in the body counts like a Retry-After, and the longer of the two waits applies. A 402, 403
// or 413 with a wait is retried: OpenRouter sends a 402, and [AdviceOf] explains the others. The
// body may have the wait in a google.rpc.RetryInfo, in the metadata.headers of OpenRouter, or in
// the message of a rate limit of OpenAI or Moonshot ("Please try again in 1.5s").
//
// If the body takes longer than a second, the attempt is canceled, and the caller can read only the
// bytes that have arrived. The limit of a second needs a Base whose bodies end with the context of
// the request, such as [http.Transport]. If AttemptTimeout passes while the body is read, the
// attempt fails with a timeout. The status and the Retry-After of the response are then ignored.
//
// Over HTTP/2, a Read of net/http may go on after its context has ended. The call then waits for
// the Read, longer than a second and longer than AttemptTimeout. This happens in two cases: the
// server has stopped reading an upload on the same connection (see [Transport]), or net/http
// decompresses a gzip body whose decompression takes seconds. net/http may have 4 MiB of such a
// body in memory.
//
// In a stream with a status below 400, an error event before the first piece of the answer becomes
// a [*StreamError]. So does an error that Gemini writes as bare JSON between the events. The error
// is permanent if the request is invalid, not allowed or not paid for, or above one of the limits
// that are named above. An error with a code that LLM does not know is retried, unless the code is
// the number of a status that is not retried, such as 400. In a stream with a status of 400 or
// above, LLM reads an error event as it reads the JSON body of an error. An error event after the
// first piece of the answer reaches the caller unchanged. A JSON body with a status below 400 also
// reaches the caller unchanged, even if it contains only an error, as some bodies of OpenRouter do.
//
// The file [llm.json] lists the errors of 17 vendors that LLM knows, each with its source of
// November 2026. It says what LLM does after each error.
//
// [llm.json]: https://github.com/goretry/retry/blob/main/retryhttp/testdata/llm.json
func LLM(p retry.Policy) *Transport {
	whole, first := WholeBody(checkLLM, 8<<20), FirstEvent(checkLLM, judgeLLM)
	return &Transport{
		Policy:     p,
		Idempotent: func(*http.Request) bool { return true },
		Advise:     VendorAdvice,
		Check: func(req *http.Request, resp *http.Response, err error) error {
			switch {
			case err == nil && isMedia(resp, "application/json"):
				return whole(req, resp, err)
			case err != nil, resp.StatusCode >= 400, req != nil && isGet(req):
				return checkLLM(req, resp, err)
			}
			failure := first(req, resp, err)
			if failure == nil {
				return nil
			}
			return cmp.Or(bareErrorLLM(resp), failure)
		},
	}
}

// checkLLM decides like Check, but it also retries a 409, as the vendors' SDKs do, and it reads the
// body of an error. A wait in the body has the same effect as a wait in a Retry-After.
func checkLLM(req *http.Request, resp *http.Response, err error) error {
	if err != nil || resp.StatusCode < 400 {
		return Check(req, resp, err)
	}
	said, text := errorLLM(req, resp)
	e := statusErrorOf(req, resp)
	if text != nil {
		e.keep(text, resp.Request)
	}
	e.advice.Wait = max(e.advice.Wait, said.wait(resp))
	var verdict Verdict
	verdict, e.unpaid = said.verdict(resp.StatusCode, e.advice.Wait)
	switch {
	case e.advice.Verdict == Never:
	case verdict != Unsaid:
		e.advice.Verdict = verdict
	case isTransientLLM(resp.StatusCode):
		e.advice.Verdict = Again
	}
	return e.judged(req)
}

// errorLLM returns the failure that the body of an error describes, and the beginning of the body.
// If the body was not read, the result `text` is nil. A stream is read only up to the first error
// event or the first piece of the answer, because a stream may have no end. If reading takes longer
// than a second, errorLLM cancels the attempt, so that the Read of the body ends.
func errorLLM(req *http.Request, resp *http.Response) (said failureLLM, text []byte) {
	if !hasText(resp) {
		return said, nil
	}
	a := attemptOf(req)
	if a != nil {
		late := time.AfterFunc(time.Second, func() { a.cancel(errSlowLLM) })
		defer late.Stop()
	}
	if isEvents(resp) {
		said = eventLLM(req, resp)
	} else {
		readBeginning(resp, 64<<10)
	}
	read, is := resp.Body.(*readBody)
	if !is { // a compressed stream
		return said, nil
	}
	if read.err != nil && a != nil && context.Cause(a) == errSlowLLM {
		read.err = errSlowLLM
	}
	if !said.isError { // no event describes a failure, so the body is read as JSON
		said = failureIn(read.beginning)
	}
	if !said.isError && !isEvents(resp) && firstValue(read.beginning) == nil {
		// Alibaba sends a stream of events as application/json.
		said = eventLLM(req, &http.Response{
			StatusCode: resp.StatusCode, Header: http.Header{"Content-Type": {"text/event-stream"}},
			Body: io.NopCloser(bytes.NewReader(read.beginning)),
		})
	}
	return said, read.beginning
}

// eventLLM returns the failure that the first events of a stream describe, whatever the status is.
func eventLLM(req *http.Request, resp *http.Response) (said failureLLM) {
	accept := func(*http.Request, *http.Response, error) error { return nil }
	judge := func(_ *http.Response, event string, data []byte) (more bool, err error) {
		said = failureOf(event, data)
		opening := !said.isError && said.isOpening(event, data)
		said.isError = !opening // the status is 400 or above, so any other event is the error
		return opening, nil
	}
	_ = FirstEvent(accept, judge)(req, resp, nil) // the error for a stream without an event is ignored
	return said
}

// A slowError ends an attempt in which errorLLM took too long.
type slowError struct{}

func (*slowError) Error() string {
	return "retryhttp: reading the body of an error took longer than a second"
}

var errSlowLLM error = new(slowError)

// unpaidText returns the text that an error gets at its end if the account cannot pay, or "" if
// `code` is "". The parameter `code` is the vendor's code for this failure, such as
// insufficient_quota, or words of the vendor's message. It needs no quotes, because it comes from a
// list in this package and not from the server.
func unpaidText(code string) string {
	if code == "" {
		return ""
	}
	return " (the account cannot pay: " + code + ")"
}

// judgeLLM returns an error for an error event. The result `more` is true after an event that
// vendors send before the first piece of an answer.
func judgeLLM(resp *http.Response, event string, data []byte) (more bool, err error) {
	found := failureOf(event, data)
	if !found.isError {
		return found.isOpening(event, data), nil
	}
	return false, found.streamError(resp, data)
}

// bareErrorLLM returns the error that Gemini may write as bare JSON into a stream, without "data:"
// before it. It returns nil if the first line that may begin such JSON does not begin an error.
func bareErrorLLM(resp *http.Response) error {
	read, is := resp.Body.(*readBody)
	if !is || !isEvents(resp) {
		return nil
	}
	for text := read.beginning; len(text) > 0; _, text, _ = bytes.Cut(text, []byte("\n")) {
		if text[0] != '{' && text[0] != '[' {
			continue
		}
		if found := failureIn(text); found.isError {
			return found.streamError(resp, firstValue(text))
		}
		break
	}
	return nil
}

// streamError returns the error for an error event. The parameter `data` is the data of the event.
func (f *failureLLM) streamError(resp *http.Response, data []byte) error {
	status, wait := f.statusIn(resp), f.wait(resp)
	verdict, unpaid := f.verdict(status, wait)
	failed := &StreamError{
		Type:    cmp.Or(f.Type, f.ErrorType, f.Status, f.code()),
		Message: f.Message,
		Data:    data, wait: max(wait, VendorAdvice(resp).Wait), unpaid: unpaid,
	}
	if verdict == Never || verdict == Unsaid && f.isFinal(status) {
		return retry.Permanent(failed)
	}
	return failed
}

// A failureLLM is an error that a body or an event describes. Each vendor sends only some of its
// fields.
type failureLLM struct {
	Type, Message string
	ErrorType     string          `json:"error_type"` // sent by Text Generation Inference, OpenRouter
	Status        string          // sent by Gemini
	Code          json.RawMessage // sent by OpenAI: a text, a number or null
	Details       json.RawMessage // sent by Gemini: a list; sent by Anthropic: an object
	Metadata      json.RawMessage // sent by OpenRouter: an object

	event   string // the type of the event
	isError bool   // the body or the event describes an error
}

// failureOf reads an event. Some vendors say only in the name of the event that the event is an
// error.
func failureOf(event string, data []byte) failureLLM {
	found := failureIn(data)
	found.isError = found.isError || isFailed(event)
	return found
}

// isFailed reports whether the name or the type of an event says that the answer has failed.
func isFailed(event string) bool { return event == "error" || event == "response.failed" }

// failureIn reads a body or the data of an event. If the data is a list, failureIn reads the first
// element, because Gemini sends a list if the request did not ask for a stream of events.
func failureIn(data []byte) (found failureLLM) {
	data = firstValue(data)
	if bytes.HasPrefix(data, []byte("[")) {
		list := json.NewDecoder(bytes.NewReader(data))
		_, _ = list.Token() // the bracket
		var first json.RawMessage
		if list.Decode(&first) == nil {
			data = first
		}
	}
	var e struct {
		failureLLM
		Error    json.RawMessage
		Response struct {
			Error     json.RawMessage
			ErrorType string `json:"error_type"` // sent by OpenRouter
		}
	}
	_ = json.Unmarshal(data, &e) // a field of another type is ignored
	found, inner, event := e.failureLLM, e.Error, e.Type
	if !isError(inner) {
		inner = e.Response.Error
	}
	text, failed := "", isFailed(event)
	_ = json.Unmarshal(inner, &text)
	switch {
	case text == "" && isError(inner):
		found = failureLLM{isError: true}
		_ = json.Unmarshal(inner, &found)
		found.ErrorType = cmp.Or(
			found.ErrorType, e.Response.ErrorType, e.ErrorType, found.metadata().ErrorType)
	case text != "" || failed:
		// There is no error object to read. The fields next to the key "error" are already in `found`.
		found.Message, found.isError = cmp.Or(found.Message, text), true
		if failed {
			found.Type = "" // the type says only that there is an error
		}
	}
	found.event = event
	return found
}

// isOpening reports whether an event is of a kind that vendors send before the first piece of an
// answer. The event must not be an error. The parameters are the name and the data of the event.
// Some vendors write the type of an event into the data, and others only into the name.
func (f *failureLLM) isOpening(event string, data []byte) bool {
	return slices.Contains(openingsLLM, cmp.Or(f.event, event)) || isEmptyChunk(data)
}

// isEmptyChunk reports whether `data` is a chunk of a chat completion without a piece of the
// answer. The first chunk of OpenAI contains only a role and an empty text. The first chunk of
// Azure has no choices.
func isEmptyChunk(data []byte) bool {
	var chunk struct {
		Choices []struct {
			Delta  map[string]json.RawMessage
			Text   *string // sent by an API that is older than chat completions
			Reason *string `json:"finish_reason"`
		}
		Usage *struct{} // in the last chunk, whose list of choices is empty; vLLM: in each chunk
	}
	if len(data) > longestPart || json.Unmarshal(data, &chunk) != nil || chunk.Choices == nil {
		return false
	}
	if chunk.Usage != nil && len(chunk.Choices) == 0 {
		return false
	}
	for _, choice := range chunk.Choices {
		if choice.Text != nil || choice.Reason != nil {
			return false
		}
		for key, value := range choice.Delta {
			if key != "role" && !isEmpty(value) {
				return false
			}
		}
	}
	return true
}

// firstValue returns the JSON value at the beginning of a text, or nil if there is no JSON. A proxy
// may write a byte order mark before the value, or more text after it.
func firstValue(text []byte) (value json.RawMessage) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	_ = json.NewDecoder(bytes.NewReader(text)).Decode(&value) // a text without JSON leaves `value` nil
	return value
}

// The method `code` returns the Code as a text. In JSON, the Code may be a text or a number.
func (f *failureLLM) code() (code string) {
	var number json.Number
	if json.Unmarshal(f.Code, &code) != nil && json.Unmarshal(f.Code, &number) == nil {
		code = number.String()
	}
	return code
}

// A detailLLM is one element of the list "details" in an error of Gemini.
type detailLLM struct {
	Type       string `json:"@type"`
	RetryDelay string // a field of google.rpc.RetryInfo
	Reason     string // a field of google.rpc.ErrorInfo
}

// longestPart limits the parts of an event that are decoded into lists and maps. A server could
// send a megabyte of empty elements, each of which would take 50 bytes, and no deadline ends the
// decoding.
const longestPart = 64 << 10

// The method `details` returns the list "details" of an error of Gemini.
func (f *failureLLM) details() (list []detailLLM) {
	if len(f.Details) <= longestPart {
		_ = json.Unmarshal(f.Details, &list) // fails for the object of Anthropic; then `list` is empty
	}
	return list
}

// A metadataLLM is the Metadata of an error of OpenRouter.
type metadataLLM struct {
	Headers   map[string]string
	ErrorType string `json:"error_type"`
}

// The method `metadata` returns the Metadata of an error. It is empty if it has another form.
func (f *failureLLM) metadata() (found metadataLLM) {
	if len(f.Metadata) <= longestPart {
		_ = json.Unmarshal(f.Metadata, &found) // a field of another type is ignored
	}
	return found
}

// detailCode returns the code in the details of an error of Anthropic.
func (f *failureLLM) detailCode() string {
	var details struct {
		Code string `json:"error_code"`
	}
	_ = json.Unmarshal(f.Details, &details) // fails for the list of Gemini; then details.Code is empty
	return details.Code
}

// statusIn returns the status of a failure. Some servers begin a stream with the status 200 before
// they check the request. Then the Code of the error is the status that the response would
// otherwise have had. If the Code is not a number, the result is 0.
func (f *failureLLM) statusIn(resp *http.Response) int {
	if resp.StatusCode >= 400 {
		return resp.StatusCode
	}
	status, _ := strconv.Atoi(f.code())
	return status
}

// The method `verdict` decides about a failure that has a status and asks for a wait. It also
// returns the code, or the words of the message, that say that the account cannot pay, or "".
//
// OpenRouter sends a 402 with a wait if too many requests are running. Two codes of a 402 say no
// more than the 402 itself, and so do not outweigh the wait.
func (f *failureLLM) verdict(status int, wait time.Duration) (verdict Verdict, unpaid string) {
	mayWait := []int{
		http.StatusPaymentRequired, http.StatusForbidden, http.StatusRequestEntityTooLarge,
	}
	waits := wait > 0 && slices.Contains(mayWait, status)
	unpaid = f.unpaid()
	if waits && status == http.StatusPaymentRequired &&
		(unpaid == "payment_required" || unpaid == "billing_error") {
		unpaid = ""
	}
	switch {
	case unpaid != "", f.isAboveLimit():
		return Never, unpaid
	case waits, f.nameIn(laterLLM) != "":
		return Again, ""
	default:
		return Unsaid, ""
	}
}

// isFinal reports whether the error of a stream is permanent, if `verdict` does not say it.
func (f *failureLLM) isFinal(status int) bool {
	isStatus := status >= 400 && status <= 599
	again := isTransient(status) || isTransientLLM(status)
	switch f.nameIn(finalLLM) {
	case "":
		return isStatus && !again
	case "invalid_request_error": // some servers send this type with the code of another error
		return !(isStatus && again) && f.nameIn(rateLimitLLM) == ""
	default:
		return true
	}
}

// nameIn returns the first code, type or Status of the failure that is in the list `names`, or ""
// if none of them is in the list. It looks for the codes first, because a code is more exact than a
// type.
func (f *failureLLM) nameIn(names []string) string {
	for _, name := range []string{f.detailCode(), f.code(), f.Type, f.ErrorType, f.Status} {
		if slices.Contains(names, name) {
			return name
		}
	}
	return ""
}

// isAboveLimit reports whether a failure is about a limit that no attempt of this call can keep.
func (f *failureLLM) isAboveLimit() bool {
	return f.nameIn(aboveLimitLLM) != "" || f.saysOneOf(aboveLimitMessagesLLM) != ""
}

// saysOneOf returns the first of the texts `parts` that the message contains, or "" if the message
// contains none of them.
func (f *failureLLM) saysOneOf(parts []string) string {
	for _, part := range parts {
		if strings.Contains(f.Message, part) {
			return part
		}
	}
	return ""
}

// The method `unpaid` returns the code, or the words of the message, that say that the account
// cannot pay. It returns "" if nothing says so.
func (f *failureLLM) unpaid() string {
	for _, detail := range f.details() {
		isInfo := strings.HasSuffix(detail.Type, "google.rpc.ErrorInfo")
		if isInfo && detail.Reason == billingDisabled {
			return billingDisabled
		}
	}
	if words := f.saysOneOf(unpaidMessagesLLM); words != "" {
		return words
	}
	code := f.nameIn(unpaidLLM)
	if code == "insufficient_quota" && isRateLimit(f.Message) {
		return ""
	}
	return code
}

// isRateLimit reports whether the message of an insufficient_quota is from Alibaba's Model Studio.
// Model Studio sends this code if the tokens of the present minute are used up.
func isRateLimit(message string) bool {
	return strings.Contains(message, "llocated quota exceeded") ||
		strings.Contains(message, "model-studio/error-code")
}

// isTransientLLM reports whether LLM retries a status that Check does not retry.
func isTransientLLM(status int) bool {
	return status == http.StatusConflict || status == statusFull
}

// statusFull is the status of Groq if there is no capacity for a request of the service tier flex.
const statusFull = 498

// billingDisabled is the Reason of a google.rpc.ErrorInfo for a project without billing.
const billingDisabled = "BILLING_DISABLED"

// The method `wait` returns the wait that a failure asks for, in one of three places: a
// google.rpc.RetryInfo in the Details, the headers that OpenRouter puts into the Metadata, or the
// Message of a rate limit of OpenAI or Moonshot. If there are several, the longest applies. The
// result is 0 if there is no wait, and 1ns if a RetryInfo has a wait of 0. In JSON, a Duration of
// protobuf is a text such as "1.5s".
//
// The names of Gemini's quotas are not read. Users report that a quota with PerDay in its name ends
// after the wait of the RetryInfo, and others that it does not.
func (f *failureLLM) wait(resp *http.Response) time.Duration {
	longest := max(f.waitInMetadata(resp), f.waitInMessage())
	for _, detail := range f.details() {
		seconds, ok := strings.CutSuffix(cut(detail.RetryDelay), "s")
		ok = ok && strings.HasSuffix(detail.Type, "google.rpc.RetryInfo")
		if wait, valid := decimal(seconds, time.Second); ok && valid {
			longest = max(longest, wait, 1)
		}
	}
	return longest
}

// waitInMetadata reads the wait in the headers that OpenRouter puts into the Metadata of an error.
func (f *failureLLM) waitInMetadata(resp *http.Response) time.Duration {
	in := &http.Response{StatusCode: f.statusIn(resp), Header: http.Header{}}
	for name, value := range f.metadata().Headers {
		in.Header.Set(name, value)
	}
	if resp.StatusCode >= 400 { // an event of a stream may come long after the Date of its response
		in.Header["Date"] = resp.Header["Date"]
	}
	return VendorAdvice(in).Wait
}

// waitInMessage reads the wait in the Message of a rate limit: "Please try again in 1m2.5s" of
// OpenAI, or "please try again after 7 seconds" of Moonshot. A stream of OpenAI has it nowhere
// else.
func (f *failureLLM) waitInMessage() time.Duration {
	_, said, found := strings.Cut(f.Message, "lease try again in ") // after "Please" or "please"
	if !found {
		_, said, found = strings.Cut(f.Message, "lease try again after ")
	}
	if !found || f.nameIn(rateLimitLLM) == "" {
		return 0
	}
	said, rest, _ := strings.Cut(cut(said), " ")
	if strings.HasPrefix(rest, "second") {
		said += "s"
	}
	wait, _ := time.ParseDuration(strings.TrimRight(said, ".,")) // 0 if there is no wait
	return max(0, wait)
}

// isError reports whether the value of the key "error" describes an error. An error is an object or
// a text that is not empty. Some servers send null, false, "" or an object whose fields are empty
// with each piece of an answer.
func isError(value json.RawMessage) bool {
	switch {
	case bytes.HasPrefix(value, []byte(`"`)):
		return !isEmpty(value)
	case !bytes.HasPrefix(value, []byte("{")):
		return false
	case len(value) > longestPart:
		return true
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(value, &fields) // `value` is a part of JSON that was decoded, so it is valid
	for _, field := range fields {
		if !isEmpty(field) {
			return true
		}
	}
	return false
}

// isEmpty reports whether a value of JSON is null, or an empty text, list or object.
func isEmpty(value json.RawMessage) bool {
	return slices.Contains([]string{`""`, "null", "[]", "{}"}, string(value))
}

var (
	// openingsLLM contains the names of events that come before the first piece of an answer.
	openingsLLM = []string{
		"ping", "message_start", "content_block_start", // Anthropic
		"response.created", "response.queued", "response.in_progress", // OpenAI
		"response.output_item.added", "response.content_part.added", // OpenAI
		"response.reasoning_summary_part.added", "response.mcp_list_tools.in_progress", // OpenAI
		"response.compaction.compacting", "keepalive", // OpenAI
		"codex.rate_limits", "response.metadata", // OpenAI sends them to Codex
		"interaction.in_progress",                                               // Gemini
		"interaction.created", "interaction.start", "interaction.status_update", // Gemini
		"step.start", "content.start", // Gemini
	}

	// unpaidLLM contains codes of errors. An error with such a code is permanent, whatever the status
	// is. OpenAI sends some of these errors with a 429.
	unpaidLLM = []string{
		"billing_error", "enforced_spend_limit_reached", // Anthropic
		"insufficient_quota", "billing_not_active", "billing_hard_limit_reached", // OpenAI
		"credit_balance_exhausted", "organization_spend_limit_exceeded", // OpenAI
		"project_spend_limit_exceeded", "organization_usage_limit_exceeded", // OpenAI
		"payment_required",             // Gemini
		"exceeded_current_quota_error", // Moonshot sends it with a 429
		"1113", "1309", "1314",         // Zhipu and Z.ai send them with a 429
		"insufficient_balance_error",                // MiniMax sends it with a 429
		"PrepaidBillOverdue", "PostpaidBillOverdue", // Alibaba sends them with a 429
		"Arrearage",                                    // Alibaba sends it with a 400
		"CommodityNotPurchased", "BudgetLimitExceeded", // Alibaba sends them with a 429
		"SetLimitExceeded",    // Volcengine sends it with a 429
		"AccountOverdueError", // Volcengine sends it with a 403
		"budget_exceeded",     // the proxy LiteLLM sends it with a 429
	}

	// unpaidMessagesLLM contains parts of messages. If a message contains one of these parts, the
	// account cannot pay. The code of such an error does not say so: it is also the code of a rate
	// limit or of an invalid request.
	unpaidMessagesLLM = []string{
		"credit balance is too low", "reached your specified API usage limits", // Anthropic, with a 400
		"reached your specified workspace API usage limits",               // Anthropic, with a 400
		"crossed its monthly API usage threshold",                         // Anthropic, with a 429
		"exceed your account's monthly spend limit", "out of extra usage", // Anthropic, with a 429
		"Extra usage is required for long context requests",                    // Anthropic, with a 429
		"exceeded its monthly spending cap", "prepayment credits are depleted", // Gemini, with a 429
		"used all available credits or reached its monthly spending limit", // xAI, with a 429
		"Free allocated quota exceeded",                                    // Alibaba, with a 429
		"has exhausted its free trial quota",                               // Volcengine, with a 429
		"insufficient balance (1008)",                                      // MiniMax, with a 500
		"No deployments available - crossed budget",                        // LiteLLM, with a 429
	}

	// aboveLimitLLM contains codes that usually come with a 429. An error with such a code is
	// permanent: the limit of a day, a week or a month is reached, or the account may not use the
	// model. The code 1300 must not be in the list, because it is Mistral's rate limit.
	aboveLimitLLM = []string{
		"quota_exceeded",                            // Gemini: the quota of a day
		"usage_limit_reached", "usage_not_included", // OpenAI: a plan of ChatGPT
		"1112", "1121", "1304", "1308", "1310", "1311", "1313", // Zhipu and Z.ai
		"1315", "1316", "1317", "1318", "1319", "1320", "1321", // Zhipu and Z.ai
	}

	// aboveLimitMessagesLLM contains parts of messages that usually come with a 429. If a message
	// contains one of these parts, the error is permanent: the request has more tokens than the
	// account may send in a minute, or the limit of hours, a week or a month is reached. The code
	// of such an error is also the code of a limit of a minute.
	aboveLimitMessagesLLM = []string{
		"must be reduced in order to run successfully",                   // OpenAI
		"hour allocated quota exceeded", "week allocated quota exceeded", // Alibaba
		"month allocated quota exceeded",                                       // Alibaba
		" usage quota. It will reset at ",                                      // Volcengine
		"reached your usage limit for this period", "kimi monthly usage limit", // Kimi
		"(2056)", // MiniMax
	}

	// rateLimitLLM contains codes of limits that end soon. The message of such an error may contain a
	// wait.
	rateLimitLLM = []string{
		"rate_limit_exceeded",      // OpenAI
		"rate_limit_reached_error", // Moonshot
	}

	// laterLLM contains codes of errors that are soon over, although their status says that another
	// attempt would fail too.
	laterLLM = []string{
		"conversation_locked", // OpenAI: another request uses the conversation
	}

	// finalLLM contains codes of errors. If a stream contains an error with such a code, the error is
	// permanent. In the body of another response, the status decides instead, because some servers
	// send invalid_request_error with a 429.
	finalLLM = []string{
		"invalid_request_error", "authentication_error", "permission_error", // Anthropic, and OpenAI
		"not_found_error", "request_too_large", // Anthropic
		"invalid_prompt", "context_length_exceeded", // OpenAI
		"invalid_image", "invalid_image_format", "invalid_base64_image", "invalid_image_url", // OpenAI
		"invalid_image_mode", "image_too_large", "image_too_small", "image_parse_error", // OpenAI
		"image_content_policy_violation", "image_file_too_large", "empty_image_file", // OpenAI
		"moderation_blocked", "resource_not_found", "active_turn_not_steerable", // OpenAI
		"max_output_tokens", "session_budget_exceeded", "usage_limit_exceeded", // OpenAI
		"executor_version_incompatible",                        // OpenAI
		"unsupported_image_media_type", "image_file_not_found", // OpenAI
		"cyber_policy", "bio_policy", "misalignment_policy_violation", // OpenAI
		"data_residency_mismatch",                                      // OpenAI
		"invalid_parameter_error", "InvalidParameter", "InvalidApiKey", // Alibaba
		"AccessDenied", "ModelNotFound", "DataInspectionFailed", // Alibaba
		"data_inspection_failed",                                     // Alibaba
		"INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNAUTHENTICATED", // Gemini
		"PERMISSION_DENIED", "NOT_FOUND", "OUT_OF_RANGE", "UNIMPLEMENTED", "ALREADY_EXISTS", // Gemini
		"invalid_request", "failed_precondition", "out_of_range", "parameter_unknown", // Gemini
		"authentication", "permission_denied", "not_found", "model_not_found", // Gemini
		"already_exists", "unimplemented", "missing_thought_signature", // Gemini
		"safety", "recitation", "language", "prohibited_content", "spii", "blocklist", // Gemini
		"image_safety", "image_prohibited_content", "image_recitation", "image_other", // Gemini
		"content_blocked",                                                  // Gemini
		"invalid_api_key",                                                  // OpenAI, OpenRouter
		"payload_too_large", "max_tokens_exceeded", "token_limit_exceeded", // OpenRouter
		"string_too_long", "precondition_failed", "unprocessable", "refusal", // OpenRouter
		"content_policy_violation", "unsupported_image_format", "image_not_found", // OpenRouter
		"content_filter",                             // Azure
		"validation", "template_error", "tool_error", // Text Generation Inference
		"missing_template_variable", // Text Generation Inference
	}
)
