package eventlog

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// reasonUnknown is why Envoy did not try again where its log does not say it: the failure is not
// one that its retry policy has, there is no such policy, or its retry budget was empty.
const reasonUnknown retry.Reason = "not_retried"

// accessLine is a line in the default format of Envoy's access log, or in Istio's, which has
// three more fields behind the flags and more of them at the end. Its groups have the names that
// Istio gives them in JSON.
var accessLine = regexp.MustCompile(`^\[(?P<start_time>\d{4}-\d\d-\d\dT[^\]]+)\] ".*?" (?P<response_code>\d{1,3}) (?P<response_flags>-|[A-Z,]+)` +
	`(?: (?P<response_code_details>\S+) (?:-|"[^"]*"|\S+) "(?P<upstream_transport_failure_reason>[^"]*)")?` +
	` \S+ \S+ (?P<duration>\d+|-) \S+ "[^"]*" ".*?" "(?P<request_id>[^"]*)" "(?P<authority>[^"]*)" "(?P<upstream_host>[^"]*)"` +
	`(?: (?P<upstream_cluster>\S+))?`)

// accessNames are those names, and others in JSON. Only JSON has the number of attempts.
var accessNames = append(accessLine.SubexpNames()[1:], strings.Fields("x-request-id :authority upstream_request_attempt_count attempt_count attempts")...)

// ofAccessLine returns the values of an accessLine.
func ofAccessLine(line []byte) *values {
	v := newValues()
	for i, field := range accessLine.FindSubmatch(line)[1:] {
		v.set(keys[accessNames[i]], string(field))
	}
	return v
}

// access adds the call that a line of Envoy's access log is.
func (l *Files) access(f *file, v *values) {
	begun, _ := time.Parse(time.RFC3339Nano, v.get("start_time"))
	code, err := strconv.Atoi(cmp.Or(v.first(indexes("response_code")), "0"))
	if begun.IsZero() || err != nil {
		return
	}
	took, _ := strconv.Atoi(v.get("duration"))
	attempts, err := strconv.Atoi(v.first(indexes("upstream_request_attempt_count attempt_count attempts")))
	r := Record{Key: v.first(indexes("request_id x-request-id")), origin: origin{foreign: true}}
	r.source = v.first(indexes("upstream_cluster upstream_host authority :authority"))
	e := &r.Event
	e.Kind, e.Attempt = retry.CallFinished, max(1, attempts)
	e.Reason = reasonOf(strings.Split(v.get("response_flags"), ","), code)
	e.Elapsed = time.Duration(took) * time.Millisecond
	e.Time = begun.Add(e.Elapsed)
	if err != nil && e.Reason == retry.ReasonExhausted {
		e.Attempt = 2 // at least
	}
	if e.Reason != retry.ReasonSuccess {
		text := strings.TrimSpace(v.first(indexes("response_code")) + " " + v.first(indexes("response_flags")))
		if details := v.first(indexes("upstream_transport_failure_reason response_code_details")); details != "" && details != "via_upstream" {
			text += ": " + details
		}
		e.Err = errors.New(text)
	}
	v.clear()
	v.set(keys["level"], "access")
	l.add(f, r, v, nil, "")
}

// reasonOf returns why a call stopped that has these flags and this status.
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
