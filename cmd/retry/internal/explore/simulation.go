package explore

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/cmd/retry/internal/rescue"
	"github.com/goretry/retry/retrysim"
)

// A Simulation is a system with the results of its simulation.
type Simulation struct {
	Name    string          `json:"file"`
	Answer  retrysim.Answer `json:"answer"`
	System  retrysim.System `json:"-"`
	Rescues []rescue.Rescue `json:"rescues,omitempty"` // the changes that help; nil without -rescue
	Useless []string        `json:"useless,omitempty"` // the changes that do not help
	Result  retrysim.Result `json:"-"`                 // the run that the charts and the table show
}

// A Row is a section of a run. The table shows each Row as a row, and a chart shows it as a point.
type Row struct {
	From, To      time.Duration
	Event         bool               // whether an event of the system is active during the row
	Calls, Worked float64            // calls from outside per second, and how many of them worked
	Requests      map[string]float64 // requests per second to each service
	Queues        map[string]int     // the queue of each service at the end of the row
}

// Rows divides a run into rows of the same length. The number of rows is less than the parameter
// `limit`.
func (of Simulation) Rows(limit int) (rows []Row) {
	r := of.Result
	step := timeStep(time.Duration(6*len(r.Seconds)) * time.Second / time.Duration(limit))
	length := max(1, int(step/time.Second))
	for from := 0; from < len(r.Seconds); from += length {
		to := min(from+length, len(r.Seconds))
		row := Row{
			From:     time.Duration(from) * time.Second,
			To:       time.Duration(to) * time.Second,
			Requests: map[string]float64{},
			Queues:   map[string]int{},
		}
		seconds := float64(to - from)
		for _, sec := range r.Seconds[from:to] {
			row.Calls += float64(sec.Calls) / seconds
			row.Worked += float64(sec.Worked) / seconds
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

// RescueRows returns a row of texts for each change that helps: the change, the verdict, the number
// of lost calls, and the Margin of the changed system. The Margin is the highest rate of calls at
// which the system comes back after the events in its file, such as outages. The first row
// describes the system without a change.
func (of Simulation) RescueRows() (rows [][]string) {
	for _, r := range append([]rescue.Rescue{rescue.Of(of.Answer)}, of.Rescues...) {
		rows = append(rows, []string{
			r.Change, string(r.Verdict),
			fmt.Sprintf("%s (%.3g%%)", preview.Thousands(r.Lost),
				100*float64(r.Lost)/float64(max(1, of.Answer.Calls))),
			fmt.Sprintf("%s/s (%.0f%%)", number(r.Margin, false), 100*r.Share),
		})
	}
	return rows
}

// Loaded returns the names of the services, in the order of their load. The first service has the
// highest load, compared with its normal load. If two loads are equal, a service with an event
// comes first. Otherwise the order is alphabetical.
func (of Simulation) Loaded() []string {
	more := func(name string) float64 {
		load := of.Result.Services[name]
		return float64(load.Requests) / max(load.Normal, 1e-9)
	}
	event := map[string]int{}
	for _, t := range of.System.Events {
		event[t.Service] = 1
	}
	return slices.SortedFunc(maps.Keys(of.Result.Services), func(a, b string) int {
		return cmp.Or(
			cmp.Compare(more(b), more(a)),
			event[b]-event[a],
			strings.Compare(a, b),
		)
	})
}

// Picture draws the charts of all runs into one SVG file, one chart below the other.
func Picture(runs ...Simulation) []byte {
	css, _ := files.ReadFile("page.css") // reading an embedded file cannot fail
	var b strings.Builder
	y := 0.0
	for _, of := range runs {
		for _, f := range of.figures() {
			place := fmt.Sprintf("<svg y=\"%g\" width=\"%g\" height=\"%g\" ", y+24, width, lineHeight)
			fmt.Fprintf(&b, "<text x=\"%g\" y=\"%g\">%s: %s</text>\n%s\n",
				left, y+18, html.EscapeString(of.Name), f.Title,
				strings.Replace(string(f.Picture), "<svg ", place, 1))
			y += lineHeight + 40
		}
	}
	return fmt.Appendf(nil, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\">\n"+
		"<style>%s</style>\n<rect class=\"back\" width=\"100%%\" height=\"100%%\"/>\n%s</svg>\n",
		width, y, css, b.String())
}
