package logs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// reasonUnknown is the Reason of a call if Envoy did not retry it and the log does not say why.
// There are three possible causes: the retry policy does not name the failure, there is no retry
// policy, or the retry budget was empty.
const reasonUnknown retry.Reason = "not_retried"

// accessLine matches a line of Envoy's access log in the default format or in Istio's format.
// Istio's format has three more fields after the flags, and more fields at the end. Each named
// group of this regular expression has the name that its field has if Istio writes the log as JSON.
var accessLine = regexp.MustCompile(`^\[(?P<start_time>\d{4}-\d\d-\d\dT[^\]]+)\] ` +
	`".*?" (?P<response_code>\d{1,3}) (?P<response_flags>-|[A-Z,]+)` +
	`(?: (?P<response_code_details>\S+) (?:-|"[^"]*"|\S+)` +
	` "(?P<upstream_transport_failure_reason>[^"]*)")?` +
	` \S+ \S+ (?P<duration>\d+|-) \S+ "[^"]*" ".*?"` +
	` "(?P<request_id>[^"]*)" "(?P<authority>[^"]*)" "(?P<upstream_host>[^"]*)"` +
	`(?: (?P<upstream_cluster>\S+))?`)

// access returns the call that a line of Envoy's access log describes. For any other line, the
// result ok is false.
func access(line retrylog.Line) (r retrylog.Record, ok bool) {
	if len(line.Records) > 0 {
		return r, false
	}
	a := fieldsOf(line.Text)
	begun, _ := time.Parse(time.RFC3339Nano, a["start_time"])
	code, err := strconv.Atoi(cmp.Or(a.first("response_code"), "0"))
	if a["response_flags"] == "" || begun.IsZero() || err != nil {
		return r, false
	}
	took, _ := strconv.Atoi(a["duration"])
	attempts, err := strconv.Atoi(a.first(
		"upstream_request_attempt_count", "attempt_count", "attempts"))
	r.Line, r.Logged = line.Number, true
	r.Key = a.first("request_id", "x-request-id")
	r.Source = a.first("upstream_cluster", "upstream_host", "authority", ":authority")
	e := &r.Event
	e.Kind, e.Attempt = retry.CallFinished, max(1, attempts)
	e.Reason = reasonOf(strings.Split(a["response_flags"], ","), code)
	e.Elapsed = time.Duration(took) * time.Millisecond
	e.Time = begun.Add(e.Elapsed)
	if err != nil && e.Reason == retry.ReasonExhausted {
		e.Attempt = 2 // the retries were exhausted, so there were at least two attempts
	}
	if e.Reason != retry.ReasonSuccess {
		e.Err = a.failure()
	}
	return r, true
}

// failure returns the error of a call that did not succeed.
func (a accessFields) failure() error {
	text := strings.TrimSpace(a.first("response_code") + " " + a.first("response_flags"))
	details := a.first("upstream_transport_failure_reason", "response_code_details")
	if details != "" && details != "via_upstream" {
		text += ": " + details
	}
	return errors.New(text)
}

// accessFields maps the names of the fields of a line to their values. If the log is JSON, these
// names depend on the configuration of Envoy.
type accessFields map[string]string

// fieldsOf returns the fields of a line of Envoy's access log. For any other line it returns an
// empty map.
func fieldsOf(text []byte) accessFields {
	a := accessFields{}
	if !bytes.HasPrefix(text, []byte("{")) {
		for i, field := range accessLine.FindSubmatch(text) {
			a[accessLine.SubexpNames()[i]] = string(field)
		}
		return a
	}
	var object map[string]any
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	if !bytes.Contains(text, []byte(`"response_flags"`)) || in.Decode(&object) != nil {
		return a
	}
	for name, value := range object {
		switch value.(type) {
		case string, json.Number:
			a[name] = fmt.Sprint(value)
		}
	}
	return a
}

// first returns the first value among the fields with these names, or "" if none of these fields
// has a value. The text "-" means that a field has no value.
func (a accessFields) first(names ...string) string {
	for _, name := range names {
		if text := a[name]; text != "" && text != "-" {
			return text
		}
	}
	return ""
}

// reasonOf returns the reason why a call with these flags and this status code stopped.
func reasonOf(flags []string, code int) retry.Reason {
	has := func(names ...string) bool {
		return slices.ContainsFunc(flags, func(flag string) bool { return slices.Contains(names, flag) })
	}
	switch {
	case has("URX"):
		return retry.ReasonExhausted
	case has("DC", "DR"):
		return retry.ReasonCanceled
	case has("UT", "DT"):
		return retry.ReasonDeadline
	case has("UH", "UF", "UC", "UR", "UO", "LR", "UPE", "UMSDR", "DF", "NC"), code == 0, code >= 500:
		return reasonUnknown
	default:
		return retry.ReasonSuccess
	}
}
