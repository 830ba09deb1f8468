package explore

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/goretry/retry/cmd/retry/internal/preview"
)

// These constants are the size of a chart and of its margins, in units of the viewBox.
const (
	width                    = 640.0
	left, right, top, bottom = 96.0, 28.0, 30.0, 48.0
	lineHeight               = 270.0
	rowHeight                = 22.0
)

// A drawing collects the SVG elements of a chart. The colors are in page.css.
type drawing struct {
	strings.Builder
	height float64
	xMax   float64 // the value at the right end of the x-axis
}

func newDrawing(label string, height, xMax float64) *drawing {
	d := &drawing{height: height, xMax: xMax}
	fmt.Fprintf(d, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`,
		width, height, html.EscapeString(label))
	return d
}

func (d *drawing) end() template.HTML {
	d.WriteString("</svg>")
	return template.HTML(d.String())
}

func (d *drawing) x(v float64) float64 { return left + min(1, v/d.xMax)*(width-left-right) }

func (d *drawing) text(x, y float64, anchor, text string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`,
		x, y, anchor, html.EscapeString(text))
}

func (d *drawing) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(d, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`,
		class, x1, y1, x2, y2)
}

// xAxis draws the x-axis, with a vertical line at each tick.
func (d *drawing) xAxis(a axis) {
	for _, tick := range a.ticks {
		d.line(d.x(tick), top, d.x(tick), d.height-bottom, "grid")
		d.text(d.x(tick), d.height-bottom+18, "middle", a.format(tick))
	}
	d.text((left+width-right)/2, d.height-6, "middle", a.title)
}

// yTitle writes the title of the y-axis, to the left of the axis.
func (d *drawing) yTitle(title string) {
	middle := (d.height - bottom + top) / 2
	fmt.Fprintf(d, `<text transform="rotate(-90 14 %.1f)" x="14" y="%.1f" text-anchor="middle">`,
		middle, middle)
	fmt.Fprintf(d, `%s</text>`, html.EscapeString(title))
}

// A span is a section of the x-axis.
type span struct{ from, to float64 }

// shade marks a section of the x-axis as an outage.
func (d *drawing) shade(of span) {
	from, to := d.x(of.from), d.x(of.to)
	fmt.Fprintf(d, `<rect class="outage" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`,
		from, top, to-from, d.height-bottom-top)
	if to > from+80 {
		d.text(to-4, top+16, "end", "outage")
	} else {
		d.text(to+4, top+16, "start", "outage")
	}
}

// An axis is the x-axis or the y-axis of a chart. It starts at 0.
type axis struct {
	title  string
	max    float64
	ticks  []float64
	format func(float64) string
}

// timeAxis returns the axis for the time since the outage began, from 0 to the time `end`.
func timeAxis(end time.Duration) axis {
	return axis{
		title:  "time since the outage began",
		max:    float64(end),
		ticks:  timeTicks(end),
		format: func(v float64) string { return preview.Brief(time.Duration(v)) },
	}
}

// A lineChart draws lines over two axes.
type lineChart struct {
	label  string
	x, y   axis
	lines  []line
	shades []span // the sections of the x-axis that are marked as outages
}

type line struct {
	name, class string
	points      []point
}

type point struct{ x, y float64 }

func (c *lineChart) svg() template.HTML {
	d := newDrawing(c.label, lineHeight, c.x.max)
	y := func(v float64) float64 {
		return lineHeight - bottom - v/c.y.max*(lineHeight-top-bottom)
	}
	for _, outage := range c.shades {
		d.shade(outage)
	}
	d.xAxis(c.x)
	d.yTitle(c.y.title)
	for _, tick := range c.y.ticks {
		d.line(left, y(tick), width-right, y(tick), "grid")
		d.text(left-8, y(tick)+4, "end", preview.Thousands(int64(tick)))
	}
	for i, l := range c.lines {
		fmt.Fprintf(d, `<polyline class="line %s" points="`, l.class)
		for _, p := range l.points {
			fmt.Fprintf(d, "%.1f,%.1f ", d.x(p.x), y(p.y))
		}
		d.WriteString(`"/>`)
		at := left + 134*float64(i)
		d.line(at, top-14, at+24, top-14, "line "+l.class)
		d.text(at+30, top-10, "start", l.name)
	}
	return d.end()
}

// niceTicks returns round numbers from 0 to the first round number that is not below the parameter
// `limit`. It also returns the last of these numbers.
func niceTicks(limit float64) (ticks []float64, last float64) {
	step := math.Pow(10, math.Floor(math.Log10(limit)))
	for _, part := range []float64{0.2, 0.5, 1, 2} {
		if limit/(step*part) <= 5 && step*part >= 1 {
			step *= part
			break
		}
	}
	for last < limit {
		last += step
	}
	for v := 0.0; v <= last; v += step {
		ticks = append(ticks, v)
	}
	return ticks, last
}

// timeTicks returns the times at which an axis gets a tick. There are at most seven ticks, and the
// axis ends at the time `end`.
func timeTicks(end time.Duration) (ticks []float64) {
	step := timeStep(end)
	for v := time.Duration(0); v <= end && v >= 0; v += step {
		ticks = append(ticks, float64(v))
	}
	return ticks
}

// roundSeconds lists the possible steps of an axis, in seconds. They are for axes from 5 seconds to
// three days long.
var roundSeconds = []time.Duration{
	1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 4 * 3600, 12 * 3600,
}

// timeStep returns the distance between two neighbors among the times that timeTicks returns.
func timeStep(end time.Duration) time.Duration {
	const day = 24 * time.Hour
	unit := time.Nanosecond
	if end >= 5*time.Second {
		for _, step := range roundSeconds {
			if end/(step*time.Second) < 6 {
				return step * time.Second
			}
		}
		unit = day
	}
	for ; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if end/(n*unit) < 6 {
				return n * unit
			}
		}
	}
}
