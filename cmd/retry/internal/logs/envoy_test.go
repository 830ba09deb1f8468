package logs_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/logs"
)

// Each line of Envoy's access log is a call: in the default format, in Istio's format, and as JSON
// with the names of Istio or of Envoy Gateway.
func TestEachLineOfAnAccessLogIsACall(t *testing.T) {
	const plain = `[2026-11-22T10:00:00.250Z] "GET /a?b="c HTTP/1.1" CODE FLAGS 0 91 1500 - "-" "curl/8 [x]" "id-1" "shop" "HOST"`
	const istio = `[2026-11-22T10:00:00.250Z] "GET /a HTTP/2" CODE FLAGS via_upstream - "-" 0 91 1500 12 "-" "curl/8" "id-1" "shop" "HOST" outbound|80||shop.svc 10.0.0.9:1 10.0.0.9:2 - default`
	for _, row := range []struct {
		name, code, flags string
		reason            retry.Reason
		attempts          int // for a line without the number of attempts
		err               string
	}{
		{"success", "200", "-", retry.ReasonSuccess, 1, ""},
		{"a fault of the client", "404", "NR", retry.ReasonSuccess, 1, ""},
		{"the last status that is not an error of the server", "499", "-", retry.ReasonSuccess, 1, ""},
		{"the first status that is an error of the server", "500", "-", "not_retried", 1, "500"},
		{"the limit", "503", "UF,URX", retry.ReasonExhausted, 2, "503 UF,URX"},
		{"no connection", "503", "UF", "not_retried", 1, "503 UF"},
		{"no host", "503", "UH", "not_retried", 1, "503 UH"},
		{"the client went away", "0", "DC", retry.ReasonCanceled, 1, "0 DC"},
		{"no answer", "0", "-", "not_retried", 1, "0"},
		{"the timeout of all attempts", "504", "UT", retry.ReasonDeadline, 1, "504 UT"},
	} {
		t.Run(row.name, func(t *testing.T) {
			fill := strings.NewReplacer("CODE", row.code, "FLAGS", row.flags, "HOST", "10.0.0.1:80").Replace
			flags, _ := json.Marshal(row.flags)
			for _, form := range []struct {
				line, source string
				attempts     int
			}{
				{fill(plain), "10.0.0.1:80", row.attempts},
				{"[pod/gateway-1/envoy] " + fill(plain), "10.0.0.1:80", row.attempts},
				{strings.Replace(fill(plain), "10.0.0.1:80", "-", 1), "shop", row.attempts},
				{fill(istio), "outbound|80||shop.svc", row.attempts},
				{`{"start_time":"2026-11-22T10:00:00.250Z","response_code":` + row.code + `,"response_flags":` + string(flags) +
					`,"duration":1500,"request_id":"id-1","upstream_cluster":"shop","upstream_transport_failure_reason":null,"upstream_request_attempt_count":3}`, "shop", 3},
				{`{":authority":"shop","start_time":"2026-11-22T10:00:00.250Z","response_code":"` + row.code + `","response_flags":` + string(flags) +
					`,"duration":"1500","x-request-id":"id-1","upstream_host":"-","response_code_details":"via_upstream"}`, "shop", row.attempts},
			} {
				c := only(t, of(form.line))
				e := c.Last()
				assert.Equal(t, form.source, sourceOf(c), form.line)
				assert.Equal(t, "id-1", c.Key, form.line)
				assert.Equal(t, row.reason, e.Reason, form.line)
				assert.Equal(t, form.attempts, e.Attempt, form.line)
				assert.Equal(t, 1500*time.Millisecond, e.Elapsed, form.line)
				assert.Equal(t, "10:00:01.750", e.Time.Format("15:04:05.000"), form.line)
				if row.err == "" {
					require.NoError(t, e.Err)
				} else {
					require.EqualError(t, e.Err, row.err, form.line)
				}
				_, cut, fault := c.Compare(policy)
				require.Nil(t, fault)
				assert.Equal(t, "an access log has no decisions", cut)
			}
		})
	}
	for _, line := range []string{
		`{"start_time":"2026-11-22T10:00:00.250Z","response_code":503,"response_flags":"UF"`, // cut off
		`{"response_code":503,"response_flags":"UF"}`,
		`{"start_time":"2026-11-22T10:00:00.250Z","response_code":"x","response_flags":"UF"}`,
		`10.0.0.1 - - [22/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 503 91 "-" "curl/8"`,
	} {
		log := of(line)
		require.NoError(t, log.Each(func(*logs.Trace) { t.Error("a call: " + line) }))
		assert.Equal(t, 1, log.Skipped+log.Torn, line)
	}
	details := only(t, of(`{"start_time":"2026-11-22T10:00:00Z","response_code":503,"response_flags":"UF","upstream_transport_failure_reason":"delayed_connect_error: 111"}`))
	assert.EqualError(t, details.Last().Err, "503 UF: delayed_connect_error: 111")
}
