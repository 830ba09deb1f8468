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
// three more fields behind the flags and more of them at the end.
var accessLine = regexp.MustCompile(`\[(\d{4}-\d\d-\d\dT[^\]]+)\] ".*?" (\d{1,3}) (-|[A-Z,]+)` +
	`(?: (\S+) (?:-|"[^"]*"|\S+) "([^"]*)")? \S+ \S+ (\d+|-) \S+ "[^"]*" ".*?" "([^"]*)" "([^"]*)" "([^"]*)"(?: (\S+))?`)

// accessNames are the names that Envoy Gateway and Istio give to what stands in accessLine, in that
// order, where they log JSON. The last is the number of attempts, which the text does not have.
var accessNames = [][]string{
	{"start_time"}, {"response_code"}, {"response_flags"}, {"response_code_details"},
	{"upstream_transport_failure_reason"}, {"duration"}, {"request_id", "x-request-id"},
	{"authority", ":authority"}, {"upstream_host"}, {"upstream_cluster"},
	{"upstream_request_attempt_count", "attempt_count", "attempts"},
}

// ofAccessLine returns the values of an accessLine.
func ofAccessLine(line []byte) values {
	v := values{}
	for i, field := range accessLine.FindSubmatch(line)[1:] {
		v[accessNames[i][0]] = string(field)
	}
	return v
}

// access adds the call that a line of Envoy's access log is.
func (l *Files) access(f *file, v values) {
	texts := make([]string, len(accessNames))
	for i, names := range accessNames {
		texts[i] = strings.TrimPrefix(v.first(names...), "-") // nothing
	}
	begun, _ := time.Parse(time.RFC3339Nano, texts[0])
	code, err := strconv.Atoi(cmp.Or(texts[1], "0"))
	if begun.IsZero() || err != nil {
		l.Skipped++
		return
	}
	took, _ := strconv.Atoi(texts[5])
	attempts, err := strconv.Atoi(texts[10])
	r := Record{Key: texts[6], origin: origin{foreign: true, uncounted: err != nil}}
	r.source = cmp.Or(texts[9], texts[8], texts[7])
	e := &r.Event
	e.Kind, e.Attempt = retry.CallFinished, max(1, attempts)
	e.Reason = reasonOf(strings.Split(texts[2], ","), code)
	e.Elapsed = time.Duration(took) * time.Millisecond
	e.Time = begun.Add(e.Elapsed)
	if r.uncounted && e.Reason == retry.ReasonExhausted {
		e.Attempt = 2 // at least
	}
	if e.Reason != retry.ReasonSuccess {
		text := strings.TrimSpace(texts[1] + " " + texts[2])
		if details := cmp.Or(texts[4], texts[3]); details != "" && details != "via_upstream" {
			text += ": " + details
		}
		e.Err = errors.New(text)
	}
	l.add(f, r, values{"level": "access"}, nil, "")
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
