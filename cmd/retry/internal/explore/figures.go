package explore

import (
	"fmt"
	"html/template"
	"math"
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

// timeAxis returns the axis for the time since the outage began, from 0 to end.
func timeAxis(end time.Duration) axis {
	return axis{
		title:  "time since the outage began",
		max:    float64(end),
		ticks:  timeTicks(end),
		format: func(v float64) string { return preview.Brief(time.Duration(v)) },
	}
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
		f.Words = append(f.Words, of.word+": "+of.words(v.Clients, most, window, drawn))
	}
	c.y.ticks, c.y.max = niceTicks(c.y.max)
	f.Picture = c.svg()
	return f
}

// words describes a herd in one sentence. The parameter most is the largest number of retries in
// one window.
func (h *herd) words(clients, most int, window time.Duration, drawn bool) string {
	text := "no retry"
	if n := len(h.moments); n > 0 {
		text = fmt.Sprintf("%s, at most %s of them in any %s, which is %s per second",
			counted(n, drawn, "retry", "retries"), number(float64(most), drawn),
			preview.Brief(window), number(float64(most)/window.Seconds(), drawn))
	}
	text += fmt.Sprintf("; %s up", counted(clients-h.back, drawn, "client gives", "clients give"))
	if h.back > 0 {
		at := h.moments[len(h.moments)-1].at
		last := preview.Brief(at)
		if drawn {
			last = "about " + preview.Brief(at.Round(window))
		}
		text += fmt.Sprintf(", %s after the outage, the last at %s",
			counted(h.back, drawn, "succeeds", "succeed"), last)
	}
	return text + "."
}

// number returns a number as text. A number below 1,000 has one decimal, unless it is whole. If
// about is true, the number depends on random draws. Then the number is rounded to two digits, and
// the text starts with "about".
func number(v float64, about bool) string {
	if about {
		unit := math.Pow(10, math.Max(0, math.Floor(math.Log10(math.Max(1, v)))-1))
		return "about " + preview.Thousands(int64(math.Round(v/unit)*unit))
	}
	if v = math.Round(v*10) / 10; v != math.Trunc(v) && v < 1000 {
		return fmt.Sprintf("%.1f", v)
	}
	return preview.Thousands(int64(math.Round(v)))
}

// counted returns a number with its noun or verb, such as "2 retries". It never says "about 0".
func counted(n int, about bool, one, many string) string {
	if n == 1 && !about {
		return "1 " + one
	}
	return number(float64(n), about && n > 0) + " " + many
}
