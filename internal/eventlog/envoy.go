package eventlog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
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
	1: {"start_time"}, 2: {"response_code"}, 3: {"response_flags"}, 4: {"response_code_details"},
	5: {"upstream_transport_failure_reason"}, 6: {"duration"}, 7: {"request_id", "x-request-id"},
	8: {"authority", ":authority"}, 9: {"upstream_host"}, 10: {"upstream_cluster"},
	11: {"upstream_request_attempt_count", "attempt_count", "attempts"},
}

// access returns the call that a line of Envoy's access log is, and nil if it is none.
func access(line []byte) *Record {
	if !contains(line, `"response_flags"`, `] "`) {
		return nil
	}
	texts := make([]string, len(accessNames))
	start := bytes.IndexByte(line, '{')
	switch {
	case start >= 0 && json.Valid(line[start:]):
		for key, value := range strict.Members(line[start:]) {
			i := slices.IndexFunc(accessNames, func(names []string) bool { return slices.Contains(names, string(key)) })
			if text, ok := strict.Text(value); ok && i >= 0 {
				texts[i] = text
			} else if i >= 0 && !ok && string(value) != "null" {
				texts[i] = string(value)
			}
		}
	default:
		for i, field := range accessLine.FindSubmatch(line) {
			texts[i] = string(field)
		}
	}
	return accessed(texts)
}

// accessed returns the call that has these fields of accessNames.
func accessed(texts []string) *Record {
	for i := range texts {
		texts[i] = strings.TrimPrefix(texts[i], "-") // nothing
	}
	begun, _ := time.Parse(time.RFC3339Nano, texts[1])
	code, err := strconv.Atoi(cmp.Or(texts[2], "0"))
	if begun.IsZero() || err != nil {
		return nil
	}
	flags := strings.Split(texts[3], ",")
	took, _ := strconv.Atoi(texts[6])
	attempts, err := strconv.Atoi(texts[11])
	r := &Record{Key: texts[7], origin: origin{source: cmp.Or(texts[10], texts[9], texts[8]), foreign: true, uncounted: err != nil, logged: true}}
	e := &r.Event
	*e = retry.Event{Kind: retry.CallFinished, Elapsed: time.Duration(took) * time.Millisecond, Attempt: max(1, attempts), Decision: retry.Decision{Reason: reasonOf(flags, code)}}
	e.Time = begun.Add(e.Elapsed)
	if r.uncounted && e.Reason == retry.ReasonExhausted {
		e.Attempt = 2 // at least
	}
	if e.Reason != retry.ReasonSuccess {
		text := strings.TrimSpace(texts[2] + " " + texts[3])
		if details := cmp.Or(texts[5], texts[4]); details != "" && details != "via_upstream" {
			text += ": " + details
		}
		e.Err = errors.New(text)
	}
	return r
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
