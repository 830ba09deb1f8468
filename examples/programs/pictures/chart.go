package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"
)

// A chart is a line chart with two axes.
type chart struct {
	title  string
	x, y   axis
	series []series
}

// An axis goes from min to max. If the field `log` is true, the axis is logarithmic.
type axis struct {
	label    string
	min, max float64
	log      bool
}

type series struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

const (
	width, height            = 760.0, 400.0
	left, right, top, bottom = 80.0, 180.0, 48.0, 56.0
)

// colors can be distinguished by color-blind people, on white and on black. They are taken from
// Okabe and Ito, "Color Universal Design" (2008).
var colors = []string{"#d55e00", "#0072b2", "#009e73", "#cc79a7"}

// The method `svg` returns c as a picture. The gray of its text and lines is visible on white and
// on black.
func (c chart) svg() []byte {
	var b bytes.Buffer
	text := func(x, y float64, attributes, s string) {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n",
			x, y, attributes, html.EscapeString(s))
	}
	line := func(x1, y1, x2, y2 float64, attributes string) {
		fmt.Fprintf(&b, "<path d=\"M%.1f %.1fL%.1f %.1f\" %s/>\n", x1, y1, x2, y2, attributes)
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" `+
		`font-family="sans-serif" font-size="13" fill="#767676">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(c.title))
	text(left, 24, `font-size="15"`, c.title)
	for _, tick := range c.y.ticks() {
		y := c.vertical(tick)
		line(left, y, width-right, y, `stroke="#767676" stroke-opacity="0.3"`)
		text(left-8, y+4, `text-anchor="end"`, number(tick))
	}
	for _, tick := range c.x.ticks() {
		text(c.horizontal(tick), height-bottom+20, `text-anchor="middle"`, number(tick))
	}
	text((left+width-right)/2, height-12, `text-anchor="middle"`, c.x.label)
	middle := (top + height - bottom) / 2
	upward := fmt.Sprintf(`text-anchor="middle" transform="rotate(-90 18 %.1f)"`, middle)
	text(18, middle, upward, c.y.label)
	for i, s := range c.series {
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" `+
			`stroke-linejoin="round" points="`, colors[i])
		for _, p := range s.points {
			fmt.Fprintf(&b, "%.1f,%.1f ", c.horizontal(p.x), c.vertical(p.y))
		}
		fmt.Fprintln(&b, "\"/>")
		y := top + 20*float64(i)
		stroke := fmt.Sprintf(`stroke="%s" stroke-width="2"`, colors[i])
		line(width-right+16, y, width-right+40, y, stroke)
		text(width-right+48, y+4, "", s.name)
	}
	fmt.Fprintln(&b, "</svg>")
	return b.Bytes()
}

func (c chart) horizontal(x float64) float64 {
	return left + c.x.share(x)*(width-left-right)
}

func (c chart) vertical(y float64) float64 {
	return height - bottom - c.y.share(y)*(height-top-bottom)
}

// The method `share` returns the position of v on the axis, from 0 to 1.
func (a axis) share(v float64) float64 {
	v = min(max(v, a.min), a.max)
	if a.log {
		return math.Log(v/a.min) / math.Log(a.max/a.min)
	}
	return (v - a.min) / (a.max - a.min)
}

// The method `ticks` returns the values that are printed at an axis. On a logarithmic axis, these
// are the powers of ten. Any other axis has five values at equal distances.
func (a axis) ticks() []float64 {
	var ticks []float64
	if a.log {
		for v := a.min; v <= a.max*1.01; v *= 10 {
			ticks = append(ticks, v)
		}
		return ticks
	}
	for i := range 5 {
		ticks = append(ticks, a.min+(a.max-a.min)*float64(i)/4)
	}
	return ticks
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
