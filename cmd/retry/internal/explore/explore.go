// Package explore shows on a page, which is one file without scripts, what a retry policy
// does: its notes, its schedule, and how many retries hit a server when many clients fail
// at the same time; or what an outage does to a system.
package explore

import (
	"bytes"
	"cmp"
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

// A Policy is a policy of a file, for a page.
type Policy struct {
	retry.Policy // as it runs
	policyfile.Block
	Dialect string
	Text    string // of the file
	Lints   []*policyfile.Fault
}

// A view holds the values that the template shows.
type view struct {
	Title, CSS any

	*Policy // nil for a system
	outage
	Summary  string
	Before   string // the text of the file before the block, the block, and after it
	Read     string
	After    string
	Ends     []string // how the policy ends, as preview.Ending says it
	Steps    retry.Plan
	More     bool // there are more steps
	Endless  bool // no picture can have all retries
	Schedule template.HTML
	Herd     figure

	Systems []systemView
}

// A systemView holds what the template shows about a system.
type systemView struct {
	Name    string
	Said    []string
	Limits  []string
	Figures []figure
	Rescues [][]string // nil: not asked for
	Useless string
}

// An outage is what the pictures of a policy show.
type outage struct {
	Outage  time.Duration // how long attempts fail
	Clients int           // how many fail at the same time
	Shared  *retry.Budget // what they share: the policy's, or the one that a target has by default
}

// What a page shows at most.
const (
	maxRows   = 12
	around    = 20 // lines of the file before and after a block
	fastest   = 100 * time.Millisecond
	longest   = 24 * time.Hour
	fewFailed = 1000
)

// outageFor returns an outage in which several of the retries of a policy are.
func outageFor(p retry.Policy) outage {
	o := outage{Outage: fastest, Clients: fewFailed, Shared: cmp.Or(p.Budget, preview.TargetBudget())}
	if plan := p.Plan(maxRows); len(plan) > 0 {
		o.Outage = min(longest, max(fastest, timeStep(plan[len(plan)-1].Total)))
	}
	return o
}

// Page returns the page of a policy.
func Page(p Policy) ([]byte, error) {
	v := &view{Title: p.File, Policy: &p, outage: outageFor(p.Policy), Ends: preview.Ending(p.Policy, p.Bounds), Summary: p.String()}
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

// SystemPage returns the page of systems that were simulated.
func SystemPage(all ...Simulation) ([]byte, error) {
	v := &view{Title: all[0].Name}
	for _, of := range all {
		system := systemView{Name: of.Name, Said: strings.Split(strings.TrimSpace(of.Answer.String()), "\n"), Limits: of.Answer.Limits, Figures: of.figures()}
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
