package explore

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/retrysim"
)

// A Simulation is a run of a system.
type Simulation struct {
	Name   string // of its file
	System retrysim.System
	Result retrysim.Result
}

// A Row is a part of a run.
type Row struct {
	From, To      time.Duration
	Event         bool    // something goes wrong in it
	Calls, Worked float64 // from outside, a second
	P99           time.Duration
	Requests      map[string]float64 // to each service, a second
	Queues        map[string]int     // at the end
}

// Rows returns a run in rows of the same length, at most most.
func (of Simulation) Rows(most int) (rows []Row) {
	r := of.Result
	step := 1
	for _, longer := range []int{2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 4 * 3600, 12 * 3600, 24 * 3600, 10 * 24 * 3600} {
		if len(r.Seconds) > step*most {
			step = longer
		}
	}
	for from := 0; from < len(r.Seconds); from += step {
		to := min(from+step, len(r.Seconds))
		row := Row{From: time.Duration(from) * time.Second, To: time.Duration(to) * time.Second, Requests: map[string]float64{}, Queues: map[string]int{}}
		seconds := float64(to - from)
		for _, sec := range r.Seconds[from:to] {
			row.Calls += float64(sec.Calls) / seconds
			row.Worked += float64(sec.Worked) / seconds
			row.P99 = max(row.P99, sec.P99)
		}
		for name, load := range r.Services {
			for _, sec := range load.Seconds[from:to] {
				row.Requests[name] += float64(sec.Requests) / seconds
			}
			row.Queues[name] = load.Seconds[to-1].Queue
		}
		for _, event := range of.System.Events {
			row.Event = row.Event || event.At < row.To && row.From < event.At+event.For
		}
		rows = append(rows, row)
	}
	return rows
}

// Loaded returns the names of the services, the one with the most load beyond its
// normal load first. Equal ones are in the order of the events, and of the alphabet.
func (of Simulation) Loaded() []string {
	more := func(name string) float64 {
		load := of.Result.Services[name]
		return float64(load.Requests) / max(load.Normal, 1e-9)
	}
	event := func(name string) int {
		if slices.ContainsFunc(of.System.Events, func(t retrysim.Trigger) bool { return t.Service == name }) {
			return 0
		}
		return 1
	}
	return slices.SortedFunc(maps.Keys(of.Result.Services), func(a, b string) int {
		return cmp.Or(cmp.Compare(more(b), more(a)), event(a)-event(b), strings.Compare(a, b))
	})
}

// mostLines is how many services a picture shows.
const mostLines = 4

// figures draws the calls that work, the load of the services that have the most of
// it, and their queues.
func (of Simulation) figures() []figure {
	rows := of.Rows(300)
	names := of.Loaded()
	names = names[:min(mostLines, len(names))]
	services := func(value func(Row, string) float64, shown func(retrysim.Load) bool) (lines []line) {
		for i, name := range names {
			if !shown(of.Result.Services[name]) {
				continue
			}
			lines = append(lines, of.line(rows, name, string(rune('a'+i)), func(row Row) float64 { return value(row, name) }))
		}
		return lines
	}
	figures := []figure{
		of.figure("Calls", "calls per second", []line{
			of.line(rows, "all", "b dashed", func(row Row) float64 { return row.Calls }),
			of.line(rows, "that work", "a", func(row Row) float64 { return row.Worked }),
		}),
		of.figure("Load by service", "% of its normal load", services(func(row Row, name string) float64 {
			return 100 * row.Requests[name] / max(of.Result.Services[name].Normal, 1e-9)
		}, func(retrysim.Load) bool { return true })),
	}
	queues := services(func(row Row, name string) float64 { return float64(row.Queues[name]) }, func(l retrysim.Load) bool { return l.Peak > 0 })
	if queues != nil {
		figures = append(figures, of.figure("Queues", "requests that wait", queues))
	}
	return figures
}

func (of Simulation) line(rows []Row, name, class string, value func(Row) float64) line {
	l := line{name: name, class: class}
	if runes := []rune(name); len(runes) > 14 {
		l.name = string(runes[:13]) + "…"
	}
	for _, row := range rows {
		l.points = append(l.points, point{float64(row.From), value(row)})
	}
	return l
}

func (of Simulation) figure(title, unit string, lines []line) figure {
	end := time.Duration(len(of.Result.Seconds)) * time.Second
	c := lineChart{label: title + ": " + unit, x: timeAxis(end), y: axis{title: unit, max: 1}, lines: lines}
	c.x.title = "time"
	for _, event := range of.System.Events {
		c.shades = append(c.shades, span{float64(event.At), float64(event.At + event.For)})
	}
	f := figure{Title: title}
	for _, l := range lines {
		most := slices.MaxFunc(l.points, func(p, q point) int { return cmp.Compare(p.y, q.y) })
		c.y.max = max(c.y.max, most.y)
		f.Words = append(f.Words, fmt.Sprintf("%s: at most %s, at %s; %s at the end.",
			l.name, number(most.y, false), preview.Brief(time.Duration(most.x)), number(l.points[len(l.points)-1].y, false)))
	}
	c.y.ticks, c.y.max = niceTicks(c.y.max)
	f.Picture = c.svg()
	return f
}

// Picture draws runs as one SVG file, below each other.
func Picture(runs ...Simulation) ([]byte, error) {
	css, err := files.ReadFile("page.css")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	y := 0.0
	for _, of := range runs {
		for _, f := range of.figures() {
			_, drawn, _ := strings.Cut(string(f.Picture), ">") // without its own <svg>
			fmt.Fprintf(&b, "<g transform=\"translate(0 %g)\"><text x=\"%g\" y=\"18\">%s: %s</text><g transform=\"translate(0 24)\">%s</g></g>\n",
				y, left, template.HTMLEscapeString(of.Name), f.Title, strings.TrimSuffix(drawn, "</svg>"))
			y += lineHeight + 40
		}
	}
	head := fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\">\n<style>%s</style>\n<rect class=\"back\" width=\"100%%\" height=\"100%%\"/>\n", width, y, css)
	return append(append([]byte(head), b.Bytes()...), "</svg>\n"...), nil
}
