package noetl

import (
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryhttp"
)

// object returns the Outcome o as a mapping with the keys `status`, `result`, `error` and `meta`,
// and the keys of Data.
func object(o retryflow.Outcome) map[string]any {
	m := map[string]any{}
	maps.Copy(m, o.Data)
	m["status"] = o.Status()
	m["result"] = o.Result
	meta := map[string]any{}
	if said, ok := m["meta"].(map[string]any); ok {
		maps.Copy(meta, said)
	}
	meta["attempt"], meta["duration_ms"] = o.Attempt, o.Took.Milliseconds()
	m["meta"] = meta
	if text, ok := m["error"].(string); ok {
		m["error"] = map[string]any{"message": text}
	}
	if o.Err != nil {
		m["error"] = merged(map[string]any{"message": o.Err.Error()}, m["error"])
	}
	if said, ok := m["http"].(map[string]any); ok {
		said = maps.Clone(said)
		if headers, ok := said["headers"]; ok {
			said["headers"] = lowerCased(headers)
		}
		m["http"] = said
	}
	return m
}

// outcomeOf turns m, a mapping that the function `object` has made from an Outcome, back into an
// Outcome. e is the event of this Outcome.
func outcomeOf(m map[string]any, e retryflow.Event) retryflow.Outcome {
	o := retryflow.Outcome{
		Result: m["result"], Data: maps.Clone(m),
		Task: e.Task, Attempt: e.Attempt, Took: e.Took,
	}
	if m["status"] == "error" {
		o.Err = e.Err
	}
	delete(o.Data, "status")
	delete(o.Data, "result")
	if meta, ok := o.Data["meta"].(map[string]any); ok {
		meta = maps.Clone(meta)
		delete(meta, "attempt")
		delete(meta, "duration_ms")
		if o.Data["meta"] = meta; len(meta) == 0 {
			delete(o.Data, "meta")
		}
	}
	return o
}

// visible returns the mapping that expressions read under the name "outcome". In this mapping, the
// header retry-after is a number of seconds, even if the server sent a date. If retryhttp would
// ignore the header, the mapping lacks it. Then an expression for a delay can supply a number with
// the filter default(…).
func visible(o retryflow.Outcome) map[string]any {
	m := object(o)
	response, _ := m["http"].(map[string]any)
	headers, _ := response["headers"].(map[string]any)
	text, ok := headers["retry-after"].(string)
	if !ok {
		return m
	}
	if wait, ok := retryAfter(text, headers["date"], headers["age"]); ok {
		headers["retry-after"] = strconv.FormatFloat(wait.Seconds(), 'f', -1, 64)
	} else {
		delete(headers, "retry-after")
	}
	return m
}

// retryAfter returns the wait that a response with these headers asks for, and whether there is a
// valid Retry-After. It calls retryhttp.AdviceOf with the status 403. For this status, the
// verdict is Again only if there is a valid Retry-After.
func retryAfter(text string, date, age any) (time.Duration, bool) {
	header := http.Header{"Retry-After": {text}}
	for name, value := range map[string]any{"Date": date, "Age": age} {
		if text, ok := value.(string); ok {
			header.Set(name, text)
		}
	}
	advice := retryhttp.AdviceOf(&http.Response{StatusCode: http.StatusForbidden, Header: header})
	wait := min(advice.Wait, time.Duration(maxSeconds)*time.Second)
	if wait == time.Nanosecond {
		wait = 0 // AdviceOf returns 1ns if a server asks for 0
	}
	return wait, advice.Verdict == retryhttp.Again
}

// merged adds the members of `data` to m and returns m. If `data` is not a mapping, it returns
// `data`.
func merged(m map[string]any, data any) any {
	switch data := data.(type) {
	case nil:
	case map[string]any:
		maps.Copy(m, data)
	default:
		return data
	}
	return m
}

// lowerCased returns `headers` with lower-case names. If a name has several values, lowerCased
// joins the values with commas, as RFC 9110 section 5.3 says. Two names may become the same in
// lower case. So lowerCased reads the names in sorted order, to always return the same result.
func lowerCased(headers any) any {
	lower := map[string]any{}
	switch headers := headers.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			lower[strings.ToLower(name)] = headers[name]
		}
	case map[string]string:
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			lower[strings.ToLower(name)] = headers[name]
		}
	case map[string][]string:
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			lower[strings.ToLower(name)] = strings.Join(headers[name], ", ")
		}
	case http.Header:
		return lowerCased(map[string][]string(headers))
	case textproto.MIMEHeader:
		return lowerCased(map[string][]string(headers))
	default:
		return headers
	}
	return lower
}
