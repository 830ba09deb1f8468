package explore

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retrysim"
)

// small is a system that a retry keeps down, and which takes little time to simulate.
const small = `services:
  web:
    rate: 20/s
    calls: [{to: db, timeout: 1s, retry: {max_attempts: 2}}]
  db: {workers: 3, work: 100ms}
events:
  - {at: 20s, for: 10s, service: db, workers: 0}
`

// What is written beside the text is used instead of a part of it.
func TestLookAtSystem(t *testing.T) {
	for _, row := range []struct {
		name        string
		in          SystemInput
		said, fault string
	}{
		{"as in the text", SystemInput{Text: small}, "stays down", ""},
		{"another event", SystemInput{Text: small, Event: "{at: 20s, for: 1s, service: db, fail: 1}"}, "recovers", ""},
		{"an event where there is none", SystemInput{Text: "events: []\n" + strings.Split(small, "events:")[0], Event: "{at: 20s, for: 10s, service: db, workers: 0}"}, "stays down", ""},
		{"an event where there is nothing yet", SystemInput{Text: strings.Split(small, "  -")[0], Event: "{at: 20s, for: 10s, service: db, workers: 0}"}, "stays down", ""},
		{"another policy", SystemInput{Text: small, Call: "from: web\nto: db\ntimeout: 1s\nretry: {max_attempts: 1}\n"}, "web comes back up to 2", ""},
		{"JSON", SystemInput{Text: `{"services": {"web": {"rate": "1/s"}}}`, Event: `{"at": "1s", "for": "1s", "service": "web", "fail": 1}`}, "recovers", ""},

		{"no system", SystemInput{Text: "max_attempts: 5"}, "", `the system:1: unknown key "max_attempts": the keys of a system are `},
		{"no YAML", SystemInput{Text: "a: ["}, "", "the system:1: "},
		{"two documents", SystemInput{Text: "a: 1\n---\na: 1"}, "", "the system:1: there are 2 documents: write one"},
		{"wrong value", SystemInput{Text: strings.Replace(small, "20/s", "20", 1)}, "", "the system:3: services.web.rate is 20: "},
		{"wrong event", SystemInput{Text: small, Event: "{at: 20s, for: 10s, service: db, slower: -1}"}, "", "events[0].slower is -1: "},
		{"an event that is a list", SystemInput{Text: small, Event: "[1]"}, "", "events[0] is [1]: "},
		{"events that are no list", SystemInput{Text: strings.Split(small, "  -")[0] + " 5", Event: "{at: 1s}"}, "", "the system:6: events is 5: "},
		{"an event beside no system", SystemInput{Text: "[5]", Event: "{at: 1s}"}, "", "the system:1: got [5], want a mapping such as "},
		{"an event beside null", SystemInput{Text: "~", Event: "{at: 1s}", Call: "{from: a, to: b}"}, "", "there is no call from a to b"},
		{"two events", SystemInput{Text: small, Event: "a: 1\n---\na: 1"}, "", "the event:1: write one mapping, such as "},
		{"no YAML of an event", SystemInput{Text: small, Event: "{"}, "", "the event:1: "},
		{"a call of nothing", SystemInput{Text: small, Call: "retry: {max_attempts: 1}"}, "", "the call:1: write whose call it is, and to which service, "},
		{"a call that is a number", SystemInput{Text: small, Call: "5"}, "", "the call:1: write whose call it is, "},
		{"no such call", SystemInput{Text: small, Call: "{from: db, to: web}"}, "", "the call:1: there is no call from db to web: "},
		{"wrong policy", SystemInput{Text: small, Call: "{from: web, to: db, retry: {jitter: 7}}"}, "", "services.web.calls[0].retry: jitter is 7: "},

		{"too many requests", SystemInput{Text: strings.Replace(small, "20/s", "6000/s", 1)}, "", "a run may have 1.62e+06 requests, and this page shows at most 1500000: "},
		{"without a limit on attempts", SystemInput{Text: strings.Replace(small, "max_attempts: 2", "max_attempts: -1, backoff: {type: fixed, base: 1s}", 1)}, "", "a run may have +Inf requests, "},
		{"more calls in an event", SystemInput{Text: small, Event: "{at: 20s, for: 10s, service: web, rate: 6000/s}"}, "", "a run may have 1.62e+06 requests, "},
		{"too long", SystemInput{Text: "duration: 500h\n" + small}, "", "a run may have 1.08e+08 requests, "},
		{"long text", SystemInput{Text: strings.Repeat("#", MaxText+1)}, "", "the text is longer than 128 KiB"},
		{"too large for its margin", SystemInput{Text: strings.Replace(small, "workers: 3, ", "workers: 3000, ", 1)}, "recovers at once (1 run). This system is too large for its margin here: ", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := lookAtSystem(row.in)
			assert.Equal(t, row.fault != "", v.Wrong)
			assert.Contains(t, v.Status, row.said)
			assert.Contains(t, v.Status, row.fault)
			if v.Wrong {
				assert.Empty(t, v.Figures)
				return
			}
			require.GreaterOrEqual(t, len(v.Figures), 2)
			assert.NotEmpty(t, v.Loads)
			for _, f := range v.Figures {
				assert.NotRegexp(t, `NaN|Inf`, f.Picture)
			}
		})
	}
}

// The limit is on what a run has at most: here nearly all attempts fail.
func TestRequestsAreBounded(t *testing.T) {
	for depth := range 5 {
		var s retrysim.System
		text := `"s0": {"workers": 1, "work": "10s", "queue": 0}`
		for i := range depth {
			text += fmt.Sprintf(`, "s%d": {"calls": [{"to": "s%d", "retry": {"max_attempts": 3}}, {"to": "s0", "retry": {"max_attempts": 2}}]}`, i+1, i)
		}
		text += fmt.Sprintf(`, "web": {"rate": "10/s", "calls": [{"to": "s%d", "retry": {"max_attempts": 2}}]}`, depth)
		require.NoError(t, json.Unmarshal([]byte(`{"services": {`+text+`}}`), &s))
		run, err := retrysim.Run(s, 1)
		require.NoError(t, err)
		all := 0
		for _, load := range run.Services {
			all += load.Requests
		}
		bound := requests(s, 0) * float64(run.Calls) / 600
		assert.LessOrEqual(t, float64(all), bound)
		assert.Greater(t, float64(all), 0.3*bound)
	}
}

// The page starts with a system, and answers a form.
func TestServeSystem(t *testing.T) {
	site := "http://" + serve(t)
	response, html := send(t, "GET", site+"/system", "", nil)
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.Contains(t, html, "<strong>stays down (3 of 3 runs)</strong>")
	assert.Contains(t, html, `aria-label="Queues: requests that wait"`)
	assert.Contains(t, html, "A model, not a measurement")

	form := url.Values{"text": {strings.ReplaceAll(small, "db", "<b>")}, "event": {`{at: 20s, for: 10s, service: "<b>", fail: 1}`}}
	_, html = send(t, "GET", site+"/system?"+form.Encode(), "", nil)
	assert.NotContains(t, html, "<b>")
	assert.Contains(t, html, "<td>&lt;b&gt;</td>")
	assert.Contains(t, html, "<strong>recovers")
	form = url.Values{"text": {small}, "call": {"{from: web, to: db, timeout: 1s}"}}
	_, html = send(t, "GET", site+"/system?"+form.Encode(), "", nil)
	assert.NotContains(t, html, "stays down")

	_, html = send(t, "POST", site+"/system/answer", url.Values{"text": {"x: 1"}}.Encode(), nil)
	assert.Contains(t, html, "<li>the system, line 1: unknown key")
	assert.NotContains(t, html, "<html")
	response, _ = send(t, "POST", site+"/system/answer", "text="+strings.Repeat("x", maxForm), nil)
	assert.Equal(t, http.StatusBadRequest, response.StatusCode)
}
