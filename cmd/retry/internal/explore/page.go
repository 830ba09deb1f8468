// Package explore writes HTML pages. A page is one file without scripts. The page of a policy shows
// the findings about the policy, its schedule, and how many retries reach a server when many
// clients fail at the same time. The page of a system shows what an outage does to the system.
package explore

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/preview"
)

//go:embed page.html page.css
var files embed.FS

var page = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"brief": preview.Brief, "thousands": preview.Thousands[int], "budget": preview.BudgetText,
	"next": func(i int) int { return i + 1 },
}).ParseFS(files, "page.html"))

// A Policy is a policy in a file, with everything that the page of the policy shows.
type Policy struct {
	retry.Policy // the policy that policyfile.Block.Effective returns
	policyfile.Block
	Dialect string
	Text    string // the text of the file
	Lints   []*policyfile.Fault
}

// A view contains the values that the template shows.
type view struct {
	Title, CSS any

	*Policy // nil on the page of a system
	outage
	Summary  string
	Before   string   // the text of the file before the policy
	Read     string   // the text of the policy in the file
	After    string   // the text of the file after the policy
	Ends     []string // the sentences that preview.Ending returns
	Steps    retry.Plan
	More     bool // the plan has more steps than the page shows
	Endless  bool // a client makes mostRetries retries or more in the outage, too many for a chart
	Schedule template.HTML
	Herd     figure

	Systems []systemView
}

// A systemView contains the values that the template shows about one system.
type systemView struct {
	Name    string
	Said    []string
	Limits  []string
	Figures []figure
	Rescues [][]string // the rows of the table of changes; nil without -rescue
	Useless string
}

const (
	maxRows  = 12                     // limit on the rows of the table and on the bars of the schedule
	around   = 20                     // the number of lines shown before the policy and after it
	shortest = 100 * time.Millisecond // the shortest outage
	longest  = 24 * time.Hour         // the longest outage
	clients  = 1000                   // the number of clients that fail at the same time
)

// Page returns the page of a policy.
func Page(p Policy) ([]byte, error) {
	v := &view{
		Title:   p.File,
		Policy:  &p,
		outage:  outageFor(p.Policy),
		Ends:    preview.Ending(p.Policy, p.Bounds),
		Summary: p.String(),
	}
	v.Before, v.Read, v.After = p.Excerpt(p.Text, around)
	v.Steps = preview.Within(p.Plan(maxRows+1), p.All)
	if v.More = len(v.Steps) > maxRows; v.More {
		v.Steps = v.Steps[:maxRows]
	}
	v.Schedule = v.scheduleChart()
	if all, drawn, ok := momentsOf(p.Policy, v.Clients, v.Outage); ok {
		v.Herd = v.herdFigure(all, drawn)
	} else {
		v.Endless = true
	}
	return v.html()
}

// SystemPage returns the page of one or more systems that were simulated.
func SystemPage(all ...Simulation) ([]byte, error) {
	v := &view{Title: all[0].Name}
	for _, of := range all {
		system := systemView{
			Name:    of.Name,
			Said:    strings.Split(strings.TrimSpace(of.Answer.String()), "\n"),
			Limits:  of.Answer.Limits,
			Figures: of.figures(),
		}
		if of.Rescues != nil || of.Useless != nil {
			system.Rescues, system.Useless = of.RescueRows(), strings.Join(of.Useless, "; ")
		}
		v.Systems = append(v.Systems, system)
	}
	return v.html()
}

func (v *view) html() ([]byte, error) {
	css, err := files.ReadFile("page.css")
	if err != nil {
		return nil, fmt.Errorf("page.css: %w", err)
	}
	v.CSS = template.CSS(css)
	var b bytes.Buffer
	err = page.Execute(&b, v)
	return b.Bytes(), err
}
