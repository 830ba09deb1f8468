package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goretry/retry/cmd/retry/internal/preview"
)

// A histogram counts events over time, in at most mostBars bars. A longer log has wider bars.
type histogram struct {
	width       int // the width of a bar, as an index of the variable `widths`
	bars        map[int64]*bar
	first, last int64 // the first and the last second with an event, in Unix time
}

// A bar counts the events in one section of time. The section starts at Time and lasts for Seconds.
type bar struct {
	Time    string `json:"time"`
	Seconds int64  `json:"seconds"`
	GaveUp  int    `json:"gave_up"` // calls that gave up
	Retries int    `json:"retries"`
	begin   time.Time
}

const (
	mostBars = 60
	widest   = 24 // the number of characters of the longest bar
	clock    = "2006-01-02 15:04:05Z"
)

// widths lists the possible widths of a bar. Each width is a multiple of the width before it, so
// wider bars can be made by adding narrow bars.
var widths = []struct {
	seconds int64
	name    string
}{
	{1, "second"}, {5, "5 seconds"}, {10, "10 seconds"}, {30, "30 seconds"},
	{60, "minute"}, {120, "2 minutes"}, {600, "10 minutes"}, {1800, "30 minutes"},
	{3600, "hour"}, {7200, "2 hours"}, {21_600, "6 hours"}, {86_400, "day"},
	{864_000, "10 days"}, {8_640_000, "100 days"},
	{86_400_000, "1,000 days"}, {864_000_000, "10,000 days"},
}

// add counts retries, and calls that gave up, in the bar that contains the time `at`. If there are
// too many bars afterwards, `add` makes them wider. If the time is zero, `add` does nothing.
func (h *histogram) add(at time.Time, gaveUp, retries int) {
	if at.IsZero() || gaveUp+retries == 0 {
		return
	}
	second := at.Unix()
	if len(h.bars) == 0 {
		h.bars, h.first, h.last = map[int64]*bar{}, second, second
	}
	h.first, h.last = min(h.first, second), max(h.last, second)
	h.count(second, gaveUp, retries)
	tooMany := func() bool {
		return h.start(h.last)-h.start(h.first) >= mostBars*widths[h.width].seconds
	}
	for h.width < len(widths)-1 && tooMany() {
		h.width++
		bars := h.bars
		h.bars = map[int64]*bar{}
		for second, b := range bars {
			h.count(second, b.GaveUp, b.Retries)
		}
	}
}

func (h *histogram) count(second int64, gaveUp, retries int) {
	second = h.start(second)
	if h.bars[second] == nil {
		begin := time.Unix(second, 0).UTC()
		h.bars[second] = &bar{
			Time:    instant(begin),
			Seconds: widths[h.width].seconds,
			begin:   begin,
		}
	}
	h.bars[second].GaveUp += gaveUp
	h.bars[second].Retries += retries
}

// start returns the first second of the bar that contains the parameter `second`.
func (h *histogram) start(second int64) int64 {
	width := widths[h.width].seconds
	return second - (second%width+width)%width
}

// table writes the bars as a table. If there is a gap between two bars, `table` writes a row
// with "..." for the gap.
func (h *histogram) table(t *tabwriter.Writer, bars []*bar) {
	gaveUp, retries := 1, 1
	for _, b := range bars {
		gaveUp, retries = max(gaveUp, b.GaveUp), max(retries, b.Retries)
	}
	draw := func(n, most int) string {
		return preview.Thousands(n) + "\t" + strings.Repeat("#", max(min(n, 1), n*widest/most))
	}
	for i, b := range bars {
		title(t, i, "IN EACH "+strings.ToUpper(widths[h.width].name)+"\tGAVE UP\t\tRETRIES")
		if i > 0 && b.begin.Unix() > bars[i-1].begin.Unix()+b.Seconds {
			fmt.Fprint(t, "...\t\t\t\n")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n",
			b.begin.Format(clock), draw(b.GaveUp, gaveUp), draw(b.Retries, retries))
	}
}
