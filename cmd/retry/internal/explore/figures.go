package explore

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"slices"
	"strconv"
	"time"

	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// A figure is a chart with sentences that say what the chart shows.
type figure struct {
	Title   string
	Picture template.HTML
	Words   []string
}

// scheduleChart draws a bar for each retry, from its earliest to its latest start. A bar is pale if
// a call that starts with the outage never makes this retry. There are two reasons: an earlier
// attempt starts after the outage and succeeds, or this call alone has used up the budget.
func (v *view) scheduleChart() template.HTML {
	rows := len(v.Steps)
	if rows == 0 {
		return ""
	}
	end := max(1, v.Steps[rows-1].Total)
	const label = "When each attempt starts, from the earliest to the latest: " +
		"the table has the numbers"
	d := newDrawing(label, top+bottom+rowHeight*float64(rows), float64(end))
	d.shade(span{0, float64(v.Outage)})
	d.xAxis(timeAxis(end))
	d.yTitle("attempt")
	earliest := time.Duration(0)
	for i, step := range v.Steps {
		y, class := top+rowHeight*float64(i), "bar a"
		d.text(left-8, y+rowHeight/2+4, "end", strconv.Itoa(i+2))
		if earliest >= v.Outage || i >= v.Shared.Size {
			class += " pale"
		}
		earliest = saturate.Add(earliest, step.Lo)
		from, to := d.x(float64(earliest)), d.x(float64(step.Total))
		title := fmt.Sprintf("attempt %d: %s to %s",
			i+2, preview.Brief(earliest), preview.Brief(step.Total))
		fmt.Fprintf(d, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f">`,
			class, min(from, width-right-3), y+3, max(3, to-from), rowHeight-6)
		fmt.Fprintf(d, `<title>%s</title></rect>`, html.EscapeString(title))
	}
	for _, limit := range []time.Duration{v.MaxElapsed, v.All} {
		if limit > 0 && limit <= end {
			d.line(d.x(float64(limit)), top, d.x(float64(limit)), d.height-bottom, "limit a")
		}
	}
	return d.end()
}

// herdFigure returns a chart of the retries of clients that all fail when the outage begins. The
// retries are counted in windows of time. The window is longer for a slower policy.
func (v *view) herdFigure(all []moment, drawn bool) (f figure) {
	plain := herdOf(all, v.Outage, nil)
	end := v.Outage + v.Outage/4
	if n := len(all); n > 0 {
		end = max(end, saturate.Add(all[n-1].at, all[n-1].at/20))
	}
	window := timeStep(end / 10)
	c := lineChart{
		label: fmt.Sprintf(
			"Retries per second, counted over %s, after %s clients began to fail at the same time",
			preview.Brief(window), preview.Thousands(v.Clients)),
		x:      timeAxis(end),
		y:      axis{title: "retries per second", max: 1},
		shades: []span{{0, float64(v.Outage)}},
	}
	for _, of := range []struct {
		*herd
		name, class, word string
	}{
		{plain, "no budget", "a", "Without a budget"},
		{herdOf(all, v.Outage, v.Shared), "budget", "a dashed", "With the budget"},
	} {
		points, most := of.rate(end, window)
		c.lines = append(c.lines, line{of.name, of.class, points})
		c.y.max = max(c.y.max, float64(most)/window.Seconds())
		f.Words = append(f.Words, of.word+": "+of.describe(v.Clients, most, window, drawn))
	}
	c.y.ticks, c.y.max = niceTicks(c.y.max)
	f.Picture = c.svg()
	return f
}

// figures returns the line charts of a run. The charts show how many calls come from outside and
// how many of these calls work, the load of the first four services that [Simulation.Loaded]
// returns, and the queues of these four services.
func (of Simulation) figures() []figure {
	rows, names := of.Rows(300), of.Loaded()
	draw := func(name, class string, value func(Row) float64) line {
		l := line{name: fmt.Sprintf("%.14s", name), class: class}
		for _, row := range rows {
			l.points = append(l.points, point{float64(row.From), value(row)})
		}
		return l
	}
	loads, queues := []line{}, []line{}
	for i, name := range names[:min(4, len(names))] {
		class, load := string(rune('a'+i)), of.Result.Services[name]
		loads = append(loads, draw(name, class, func(row Row) float64 {
			return 100 * row.Requests[name] / max(load.Normal, 1e-9)
		}))
		if load.Peak > 0 {
			queues = append(queues, draw(name, class, func(row Row) float64 {
				return float64(row.Queues[name])
			}))
		}
	}
	figures := []figure{
		of.figure("Calls", "calls per second", []line{
			draw("all", "b dashed", func(row Row) float64 { return row.Calls }),
			draw("that work", "a", func(row Row) float64 { return row.Worked }),
		}),
		of.figure("Load by service", "% of its normal load", loads),
	}
	if len(queues) > 0 {
		figures = append(figures, of.figure("Queues", "requests that wait", queues))
	}
	return figures
}

func (of Simulation) figure(title, unit string, lines []line) figure {
	c := lineChart{
		label: title + ": " + unit,
		x:     timeAxis(time.Duration(len(of.Result.Seconds)) * time.Second),
		y:     axis{title: unit, max: 1},
		lines: lines,
	}
	c.x.title = "time"
	for _, event := range of.System.Events {
		c.shades = append(c.shades, span{float64(event.At), float64(event.At + event.For)})
	}
	f := figure{Title: title}
	for _, l := range lines {
		most := slices.MaxFunc(l.points, func(p, q point) int { return cmp.Compare(p.y, q.y) })
		c.y.max = max(c.y.max, most.y)
		end := l.points[len(l.points)-1]
		f.Words = append(f.Words, fmt.Sprintf("%s: at most %s, at %s; %s at the end.",
			l.name, number(most.y, false), preview.Brief(time.Duration(most.x)), number(end.y, false)))
	}
	c.y.ticks, c.y.max = niceTicks(c.y.max)
	f.Picture = c.svg()
	return f
}
