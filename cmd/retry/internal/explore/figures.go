package explore

import (
	"fmt"
	"html/template"
	"math"
	"time"

	"github.com/goretry/retry/cmd/retry/internal/preview"
)

// A figure is a picture and its content in words.
type figure struct {
	Title   string
	Picture template.HTML
	Words   []string
}

// timeAxis returns the axis of the time since the outage began, at least to its
// end.
func timeAxis(end time.Duration) axis {
	return axis{title: "time since the outage began", max: float64(end), ticks: timeTicks(end), format: func(v float64) string { return preview.Brief(time.Duration(v)) }}
}

// herdFigure shows the retries of clients that all fail when the outage begins. They are
// counted over a time that is as long as the policy is slow.
func (v *view) herdFigure(h *herd) (f figure) {
	end := max(v.Outage+v.Outage/4, preview.Add(h.last(), h.last()/20))
	window := timeStep(end / 10)
	c := lineChart{
		label: fmt.Sprintf("Retries per second, counted over %s, after %s began to fail at once", preview.Brief(window), counted(float64(v.Clients), false, "client", "clients")),
		x:     timeAxis(end), y: axis{title: "retries per second", max: 1},
		shades: []span{{0, float64(v.Outage)}},
	}
	for _, of := range []struct {
		*herd
		name, class, word string
	}{{h, "no budget", "a", "Without a budget"}, {h.spend(v.Size, v.Ratio), "budget", "a dashed", "With the budget"}} {
		points, most := of.rate(end, window)
		c.lines = append(c.lines, line{of.name, of.class, points})
		c.y.max = max(c.y.max, most/window.Seconds())
		f.Words = append(f.Words, of.word+": "+of.words(v.Clients, most, window))
	}
	c.y.ticks, c.y.max = niceTicks(c.y.max)
	f.Picture = c.svg()
	return f
}

// words says what a herd does, where most is the most retries in any window.
func (h *herd) words(clients int, most float64, window time.Duration) string {
	text := "no retry"
	if len(h.moments) > 0 {
		text = fmt.Sprintf("%s, at most %s of them in any %s, which is %s per second",
			counted(h.during()+h.back, h.about || h.unsure, "retry", "retries"), number(most, h.drawn), preview.Brief(window), number(most/window.Seconds(), h.drawn))
	}
	text += fmt.Sprintf("; %s up", counted(float64(clients)-h.back, h.unsure, "client gives", "clients give"))
	if h.back > 0 {
		last := preview.Brief(h.last())
		if h.drawn {
			last = "about " + preview.Brief(h.last().Round(window))
		}
		text += fmt.Sprintf(", %s after the outage, the last at %s", counted(h.back, h.unsure, "succeeds", "succeed"), last)
	}
	return text + "."
}

// loadFigure shows the load against the share of failures.
func (v *view) loadFigure(h *herd) (f figure) {
	percent := func(v float64) string { return fmt.Sprintf("%.0f%%", v) }
	c := lineChart{
		label: "Attempts for each 100 calls, against the share of attempts that fail, with and without a budget",
		x:     axis{title: "attempts that fail", max: 100, format: percent, ticks: []float64{0, 20, 40, 60, 80, 100}},
		y:     axis{title: "attempts for 100 calls", max: 100},
	}
	plain, budgeted := line{name: "no budget", class: "a"}, line{name: "budget", class: "a dashed"}
	// The share of clients that make a retry is drawn from more than a few.
	of := v.Clients
	if of < leastDraws && h.about {
		h, of = herdOf(v.Policy.Policy, leastDraws, v.Outage), leastDraws
	}
	for percent := range 101 {
		failing := float64(percent) / 100
		without := h.load(failing, of)
		with := min(without, allowedLoad(failing, v.Clients, v.Size, v.Ratio))
		plain.points = append(plain.points, point{float64(percent), 100 * without})
		budgeted.points = append(budgeted.points, point{float64(percent), 100 * with})
		c.y.max = max(c.y.max, 100*without)
		if percent == 50 || percent == 100 {
			f.Words = append(f.Words, fmt.Sprintf("Where %d%% of attempts fail: %s attempts for 100 calls, with the budget at most %s.",
				percent, number(100*without, h.about), number(100*with, h.about && with == without)))
		}
	}
	c.lines = []line{plain, budgeted}
	c.y.ticks, c.y.max = niceTicks(c.y.max)
	f.Picture = c.svg()
	return f
}

// leastDraws is how many clients are drawn for a mean.
const leastDraws = 10_000

// number writes a number, with a decimal below 1,000. One that was drawn is
// rounded to two digits.
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

// counted writes how many there are of something.
func counted(v float64, about bool, one, many string) string {
	n := number(v, about)
	if n == "1" {
		return n + " " + one
	}
	return n + " " + many
}
