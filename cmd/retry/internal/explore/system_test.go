package explore

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
	defer func(before int) { pageEvents = before }(pageEvents)
	pageEvents = 2_000_000
	text := func(old, new string) SystemInput { return SystemInput{Text: strings.Replace(small, old, new, 1)} }
	without, _, _ := strings.Cut(small, "events:")
	for _, row := range []struct {
		name        string
		in          SystemInput
		said, fault string
	}{
		{"as in the text", SystemInput{Text: small}, "stays down", ""},
		{"another event", SystemInput{Text: small, Event: "{at: 20s, for: 1s, service: db, fail: 1}"}, "recovers", ""},
		{"an event where there is none", SystemInput{Text: without, Event: "at: 20s\nfor: 10s\nservice: db\nworkers: 0\n"}, "stays down", ""},
		{"another policy", SystemInput{Text: small, Call: "web:\n  calls: [{to: db, timeout: 1s}]\n"}, "web comes back up to 2", ""},
		{"JSON", SystemInput{Text: `{"services": {"web": {"rate": "1/s"}}}`, Event: `{"at": "1s", "for": "1s", "service": "web", "fail": 1}`}, "recovers", ""},
		{"no system", SystemInput{Text: "max_attempts: 5"}, "", `the system:1: unknown key "max_attempts": the keys of a system are `},
		{"no YAML", SystemInput{Text: "a: ["}, "", "the system:1: "},
		{"two documents", SystemInput{Text: "a: 1\n---\na: 1"}, "", "the system:1: there are 2 documents: write one"},
		{"wrong value", text("20/s", "20"), "", "the system:3: services.web.rate is 20: "},
		{"wrong event", SystemInput{Text: small, Event: "{at: 20s, for: 10s,\n service: db, slower: -1}"}, "", "the event:2: events[0].slower is -1: "},
		{"wrong policy", SystemInput{Text: small, Call: "web: {calls: [{to: db, retry: {jitter: 7}}]}"}, "", "the call:1: services.web.calls[0].retry: jitter is 7: "},
		{"no such service", SystemInput{Text: small, Event: "{at: 20s, for: 10s, service: x, workers: 0}"}, "", `the system:7: events[0].service is "x": `},
		{"no such call", SystemInput{Text: small, Call: "db: {calls: [{to: web}]}"}, "", "the system:1: there is no call from db to web: "},
		{"long text", SystemInput{Text: strings.Repeat("#", MaxText+1)}, "", "the text is longer than 128 KiB"},
		{"a bound on the runs", SystemInput{Text: strings.NewReplacer("20/s", "1000/s", "workers: 3,", "workers: 3000,").Replace(small)}, "", "more than 2000000 events after "},
		{"a bound on their length", SystemInput{Text: "duration: 500h\n" + small}, "", "it takes about 5e+08 events without a single retry, more than 2000000: "},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := lookAtSystem(row.in)
			assert.Equal(t, row.fault != "", v.Wrong)
			assert.Contains(t, v.Status, row.said)
			assert.Contains(t, v.Status, row.fault)
			assert.Equal(t, v.Wrong, v.Figures == nil)
			for _, f := range v.Figures {
				assert.NotRegexp(t, `NaN|Inf`, f.Picture)
			}
		})
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
	assert.Contains(t, html, "<li>&lt;b&gt;: at most ")
	assert.Contains(t, html, "<strong>recovers")
	_, html = send(t, "POST", site+"/system/answer", url.Values{"text": {"x: 1"}}.Encode(), nil)
	assert.Contains(t, html, "<li>the system, line 1: unknown key")
	assert.NotContains(t, html, "<html")
}
