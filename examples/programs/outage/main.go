// Outage simulates an outage of 10 seconds that one retry makes permanent, and what
// ends it. docs/simulate.md and docs/why.md show what it prints and draws.
//
//	go run .
//	go run . -svg ../../../docs    also draws it
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/goretry/retry/retrysim"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// The database can answer 300 requests a second, and gets 280. Then its workers hang.
const system = `{
	"services": {
		"web": {"rate": "280/s", "clients": %d, "calls": [{"to": "db", "timeout": "1s", %s}]},
		"db": {"workers": 30, "work": "100ms"%s}
	},
	"events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}],
	"duration": "%s"
}`

// A rescue is something that could end the outage.
type rescue struct {
	name     string
	clients  int
	call, db string // keys of the call and of the database

	answer retrysim.Answer
}

const once = `"retry": {"max_attempts": 2}`

func rescues() []*rescue {
	return []*rescue{
		{name: "one retry", clients: 1, call: once},
		{name: "full jitter of 10s", clients: 1, call: `"retry": {"max_attempts": 2, "jitter": "full", "backoff": {"type": "fixed", "base": "10s"}}`},
		{name: "canceled requests leave the queue", clients: 1, call: once, db: `, "cancel": "queue"`},
		{name: "a queue of 240", clients: 1, call: once, db: `, "queue": 240`},
		{name: "one budget", clients: 1, call: once + `, "budget": {"size": 100, "ratio": 0.1}`},
		{name: "10,000 budgets", clients: 10_000, call: once + `, "budget": {"size": 5, "ratio": 0.1}`},
	}
}

func (r *rescue) simulate(runs int, duration string) error {
	var s retrysim.System
	err := json.Unmarshal(fmt.Appendf(nil, system, r.clients, r.call, r.db, duration), &s)
	if err == nil {
		r.answer, err = retrysim.Explain(s, runs)
	}
	return err
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("outage", flag.ContinueOnError)
	flags.SetOutput(stderr)
	svg := flags.String("svg", "", "also draw the outages, as SVG files in this directory")
	if flags.Parse(args) != nil {
		return 2
	}
	all := rescues()
	for _, r := range all {
		if err := r.simulate(10, "10m"); err != nil {
			fmt.Fprintln(stderr, "outage:", err)
			return 1
		}
	}
	print(stdout, all)
	if *svg == "" {
		return 0
	}
	for name, some := range map[string][]*rescue{"outage.svg": {all[0], all[4]}, "rescues.svg": all} {
		if err := os.WriteFile(filepath.Join(*svg, name), draw(some), 0o644); err != nil {
			fmt.Fprintln(stderr, "outage:", err)
			return 1
		}
	}
	return 0
}

// print prints the answers as a table.
func print(w io.Writer, all []*rescue) {
	fmt.Fprint(w, "280 calls a second to a database that can do 300, whose workers hang for 10s\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "rescue\tcomes back up to\tat 280/s\truns\tcalls lost")
	for _, r := range all {
		a := r.answer
		fmt.Fprintf(t, "%s\t%.0f/s\t%v\t%d of %d\t%d\n", r.name, a.Margin, a.Outcome, a.Agree, a.Runs, a.Lost)
	}
	t.Flush()
	fmt.Fprintf(w, "\n%s\n", strings.Join(all[0].answer.Limits, "\n"))
}

// The size of a picture of one run, and of its margins.
const (
	width, height            = 380.0, 220.0
	left, right, top, bottom = 46.0, 26.0, 44.0, 32.0
	most                     = 600 // a second, at the top
	step                     = 5   // seconds that are one point
)

// draw draws runs, two in a row: the requests to the database, and the calls that
// work. The gray shows on white and on black.
func draw(all []*rescue) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#767676\">\n",
		2*width, height*float64((len(all)+1)/2)+24)
	fmt.Fprintln(&b, "<title>An outage of 10 s: requests to a database and calls that work, each second</title>")
	for i, r := range all {
		fmt.Fprintf(&b, "<g transform=\"translate(%g %g)\">\n", width*float64(i%2), height*float64(i/2))
		r.draw(&b)
		fmt.Fprintln(&b, "</g>")
	}
	y := height*float64((len(all)+1)/2) + 12
	for i, name := range []string{"requests to the database each second", "calls that work each second"} {
		x := left + 300*float64(i)
		fmt.Fprintf(&b, "<path d=\"M%g %gh24\" stroke=\"%s\" stroke-width=\"2\"/><text x=\"%g\" y=\"%g\">%s</text>\n", x, y-4, colors[i], x+32, y, name)
	}
	fmt.Fprintln(&b, "</svg>")
	return b.Bytes()
}

// colors can be distinguished by the color-blind, on white and on black.
var colors = []string{"#d55e00", "#0072b2"}

func (r *rescue) draw(w io.Writer) {
	seconds := r.answer.Run.Seconds
	x := func(second int) float64 {
		return left + (width-left-right)*float64(second)/float64(len(seconds))
	}
	y := func(v int) float64 { return height - bottom - (height-top-bottom)*float64(v)/most }
	fmt.Fprintf(w, "<text x=\"%g\" y=\"18\" font-size=\"14\">%s</text><text x=\"%g\" y=\"35\">%v</text>\n", left, r.name, left, r.answer.Outcome)
	fmt.Fprintf(w, "<rect x=\"%.1f\" y=\"%g\" width=\"%.1f\" height=\"%g\" fill-opacity=\"0.3\"/>\n", x(20), top, x(30)-x(20), height-top-bottom)
	for v := 0; v <= most; v += 200 {
		fmt.Fprintf(w, "<path d=\"M%g %.1fH%g\" stroke=\"#767676\" stroke-opacity=\"0.3\"/><text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n",
			left, y(v), width-right, left-6, y(v)+4, v)
	}
	for second := 0; second <= len(seconds); second += 120 {
		fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%d min</text>\n", x(second), height-bottom+16, second/60)
	}
	for i, value := range []func(second int) int{
		func(second int) int { return r.answer.Run.Services["db"].Seconds[second].Requests },
		func(second int) int { return seconds[second].Worked },
	} {
		fmt.Fprintf(w, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" stroke-linejoin=\"round\" points=\"", colors[i])
		for second := 0; second+step <= len(seconds); second += step {
			sum := 0
			for i := range step {
				sum += value(second + i)
			}
			fmt.Fprintf(w, "%.1f,%.1f ", x(second), y(sum/step))
		}
		fmt.Fprintln(w, "\"/>")
	}
}
