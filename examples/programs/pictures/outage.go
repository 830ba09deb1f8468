package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goretry/retry/retrysim"
)

// The constant `system` describes a database that can answer 300 requests a second, and gets 280.
// After 20 seconds, its workers hang for 10 seconds.
const system = `{
	"services": {
		"web": {"rate": "280/s", "clients": %d, "calls": [{"to": "db", "timeout": "1s", %s}]},
		"db": {"workers": 30, "work": "100ms"%s}
	},
	"events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}],
	"duration": "%s"
}`

// A rescue is a change of the system that may end the outage.
type rescue struct {
	name     string
	clients  int
	call, db string // JSON to add to the settings of the call and of the database

	answer retrysim.Answer
}

const once = `"retry": {"max_attempts": 2}`

// simulateRescues simulates the outage once with each of the rescues in the list `all`. It stores
// the result of each simulation in the field `answer` of the rescue, and returns the list.
func simulateRescues(runs int, duration string) ([]rescue, error) {
	const jitter = `"retry": {"max_attempts": 2, "jitter": "full", ` +
		`"backoff": {"type": "fixed", "base": "10s"}}`
	const large = `, "budget": {"size": 100, "ratio": 0.1}`
	const small = `, "budget": {"size": 5, "ratio": 0.1}`
	all := []rescue{
		{name: "one retry", clients: 1, call: once},
		{name: "full jitter of 10s", clients: 1, call: jitter},
		{
			name: "canceled requests leave the queue", clients: 1,
			call: once, db: `, "cancel": "queue"`,
		},
		{name: "a queue of 240", clients: 1, call: once, db: `, "queue": 240`},
		{name: "one budget", clients: 1, call: once + large},
		{name: "10,000 budgets", clients: 10_000, call: once + small},
	}
	for i := range all {
		r, s := &all[i], retrysim.System{}
		err := json.Unmarshal(fmt.Appendf(nil, system, r.clients, r.call, r.db, duration), &s)
		if err == nil {
			r.answer, err = retrysim.Explain(s, runs)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// These are the size and the margins of the picture of one run. The vertical axis ends at maxRate
// requests a second. The largest value is 765: with a short queue, requests are refused at once,
// and clients retry at once.
const (
	runWidth, runHeight        = 380.0, 220.0
	runLeft, runTop, runBottom = 46.0, 44.0, 32.0
	maxRate                    = 800.0
)

// The function `draw` returns a picture that shows the runs in two columns. For each run it shows
// the requests to the database and the calls that succeed. The gray is visible on white and on
// black. Color-blind people can distinguish the colors.
func draw(all []rescue) []byte {
	var b strings.Builder
	rows := runHeight * float64((len(all)+1)/2)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" `+
		`font-family="sans-serif" font-size="12" fill="#767676">
<title>An outage of 10 s: requests to a database and calls that work, each second</title>
<text x="%g" y="%g" fill="#d55e00">requests to the database each second</text>
<text x="%g" y="%g" fill="#0072b2">calls that work each second</text>
<text x="%g" y="%g" text-anchor="end">gray: the outage</text>
`, 2*runWidth, rows+24, runLeft, rows+12, runLeft+runWidth, rows+12, 2*runWidth-26, rows+12)
	for i, r := range all {
		fmt.Fprintf(&b, "<g transform=\"translate(%g %g)\">\n",
			runWidth*float64(i%2), runHeight*float64(i/2))
		r.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// The method `draw` writes the picture of one run to b.
func (r rescue) draw(b *strings.Builder) {
	const inner = runHeight - runTop - runBottom
	seconds, db := r.answer.Run.Seconds, r.answer.Run.Services["db"].Seconds
	x := func(second int) float64 {
		return runLeft + (runWidth-runLeft-26)*float64(second)/float64(len(seconds))
	}
	y := func(v float64) float64 { return runHeight - runBottom - inner*v/maxRate }
	fmt.Fprintf(b, "<text x=\"%g\" y=\"18\" font-size=\"14\">%s: %.0f%% lost</text>",
		runLeft, r.name, 100*float64(r.answer.Lost)/float64(r.answer.Calls))
	fmt.Fprintf(b, "<text x=\"%g\" y=\"35\">%v</text>\n", runLeft, r.answer.Outcome)
	fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%g\" width=\"%.1f\" height=\"%g\" fill-opacity=\"0.3\"/>\n",
		x(20), runTop, x(30)-x(20), inner)
	for v := 0.0; v <= maxRate; v += 200 {
		fmt.Fprintf(b, "<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
			runLeft-6, y(v)+4, v)
	}
	for second := 0; second <= len(seconds); second += 120 {
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%d min</text>\n",
			x(second), runHeight-runBottom+16, second/60)
	}
	requests, worked := "", ""
	for second := range seconds {
		requests += fmt.Sprintf("%.1f,%.1f ", x(second), y(float64(db[second].Requests)))
		worked += fmt.Sprintf("%.1f,%.1f ", x(second), y(float64(seconds[second].Worked)))
	}
	const line = "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"%s\"/>\n"
	fmt.Fprintf(b, line+line, "#d55e00", requests, "#0072b2", worked)
}
