// Package explore shows what a retry policy does on a page: its faults, its
// schedule, how many retries hit a server when many clients fail at the same
// time, and how much load it adds. The page is updated while the user types, or
// is a single file without scripts.
package explore

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/preview"
)

//go:embed page.html system.html page.css page.js
var files embed.FS

var page = template.Must(template.New("page.html").Funcs(template.FuncMap{"brief": preview.Brief, "thousands": preview.Thousands[int]}).ParseFS(files, "page.html", "system.html"))

// An Input holds the values from which a page is computed.
type Input struct {
	Names [2]string // of the files, for the titles; may be empty
	Texts [2]string // the policies; the second may be empty
	At    string    // the path to each policy, as policyfile.File.Find takes it
	From  string    // the dialect of each policy, as policyfile.Block.Read takes it

	Outage  time.Duration // how long attempts fail
	Clients int           // how many fail at the same time
	Size    int           // the size of the budget that they share
	Ratio   float64       // its ratio
}

// NewInput returns an Input with an example policy.
func NewInput() Input {
	return Input{
		Texts:  [2]string{"max_attempts: 5\nbackoff:\n  type: exponential\n  base: 200ms\nmax_delay: 5s\njitter: 0.2\n"},
		Outage: 5 * time.Second, Clients: 1000, Size: 10, Ratio: 0.1,
	}
}

// Window returns the time over which rates are counted. It depends on nothing but
// the outage, so that another policy does not change the numbers of the first.
func (in Input) Window() time.Duration { return timeStep(in.Outage / 20) }

// An Input beyond these limits is a fault on the page.
const (
	MaxText     = 128 << 10
	maxPath     = 200
	leastOutage = time.Millisecond
	mostOutage  = 24 * time.Hour
	maxClients  = 100_000
	maxRows     = 12
)

// A view holds the values that the templates show.
type view struct {
	frame
	Input
	Dialects []string
	Faults   []string // faults of the path and the numbers
	Policies []policyView
	Schedule template.HTML
	Herd     figure
	Load     figure
	Endless  []string // the policies that the pictures leave out
}

// A frame holds the values that the templates of every page show.
type frame struct {
	Titles []string // may be empty
	Static bool
	CSS    template.CSS
	Wrong  bool // there is a fault
	Status string
}

// A policyView holds what the page shows about one policy.
type policyView struct {
	Name    string // A or B
	Class   string // its color
	Dialect string
	Faults  []*policyfile.Fault
	Lints   []*policyfile.Fault
	Summary string
	Ends    []string // how the policy ends, as preview.Ending says it
	Steps   retry.Plan
	More    bool // there are more steps

	policy retry.Policy
	herd   *herd
}

// look computes the content of a page. Whatever the input is, the number of steps
// is bounded: by the size of what is parsed, and by how many retries are drawn.
func look(in Input) *view {
	v := &view{frame: frame{Titles: in.Names[:]}, Input: in, Dialects: policyfile.Dialects()}
	if len(in.At) > maxPath {
		v.Faults = append(v.Faults, fmt.Sprintf("The path is longer than %d characters.", maxPath))
		v.Status = status(v)
		return v
	}
	if in.Outage < leastOutage || in.Outage > mostOutage {
		v.Faults = append(v.Faults, fmt.Sprintf("The outage needs a length from %s to %s, such as 30s or 5m.", preview.Brief(leastOutage), preview.Brief(mostOutage)))
	}
	if in.Clients < 1 || in.Clients > maxClients {
		v.Faults = append(v.Faults, fmt.Sprintf("The number of clients is %d: write 1 to %d.", in.Clients, maxClients))
	}
	if err := (retry.Policy{Budget: &retry.Budget{Size: in.Size, Ratio: in.Ratio}}).Validate(); err != nil {
		v.Faults = append(v.Faults, "The budget needs a size of at least 1 and a ratio from 0 to 1.")
	}
	var sound []policyView
	for i, text := range in.Texts {
		if i == 1 && strings.TrimSpace(text) == "" {
			continue
		}
		p := lookAt(in.Names[i], text, in.At, in.From)
		p.Name, p.Class = string(rune('A'+i)), string(rune('a'+i))
		v.Policies = append(v.Policies, p)
		if p.Faults == nil {
			sound = append(sound, p)
		}
	}
	v.Status = status(v)
	if len(sound) == 0 || v.Faults != nil {
		return v
	}
	v.Schedule = scheduleChart(sound, in)
	var ending []policyView
	for _, p := range sound {
		if p.herd = herdOf(p.policy, in.Clients, in.Outage); p.herd == nil {
			v.Endless = append(v.Endless, p.Name)
			continue
		}
		ending = append(ending, p)
	}
	if len(ending) > 0 {
		v.Herd, v.Load = herdFigure(ending, in), loadFigure(ending, in)
	}
	return v
}

// lookAt reads a policy.
func lookAt(name, text, at, from string) (v policyView) {
	if len(text) > MaxText {
		v.Faults = []*policyfile.Fault{{File: name, Line: 1, Text: fmt.Sprintf("the text is longer than %d KiB", MaxText>>10)}}
		return v
	}
	file, err := policyfile.Parse(name, []byte(text))
	if fault := new(policyfile.Fault); errors.As(err, &fault) {
		v.Faults = []*policyfile.Fault{fault}
		return v
	}
	block, fault := file.Only(at)
	if fault != nil {
		v.Faults = []*policyfile.Fault{fault}
		return v
	}
	v.policy, v.Dialect, v.Faults = block.Read(from)
	if v.Faults != nil {
		return v
	}
	v.Lints = block.Lint(v.policy)
	v.Summary = v.policy.String()
	v.Ends = preview.Ending(v.policy, block.Bounds)
	v.policy = block.Effective(v.policy)
	v.Steps = v.policy.Plan(maxRows + 1)
	if v.More = len(v.Steps) > maxRows; v.More {
		v.Steps = v.Steps[:maxRows]
	}
	return v
}

// status returns the answer as one line: the faults, if there are any.
func status(v *view) string {
	var faults, parts []string
	for _, p := range v.Policies {
		name, text := "Policy "+p.Name+": ", p.Summary
		if len(p.Faults) > 0 {
			faults = append(faults, fmt.Sprintf("%sline %d: %s", name, p.Faults[0].Line, p.Faults[0].Text))
		}
		if len(p.Lints) > 0 {
			text += "; " + p.Lints[0].Text
		}
		parts = append(parts, name+text)
	}
	if faults = append(faults, v.Faults...); faults != nil {
		v.Wrong, parts = true, faults
	}
	return strings.Join(parts, ". ")
}

// Static returns a page as one file without scripts, and the faults that it shows of the
// policies. One of the path or the numbers is an error.
func Static(in Input) (html []byte, faults []*policyfile.Fault, err error) {
	css, err := files.ReadFile("page.css")
	if err != nil {
		return nil, nil, err
	}
	v := look(in)
	if v.Faults != nil {
		return nil, nil, errors.New(strings.Join(v.Faults, " "))
	}
	v.Static, v.CSS = true, template.CSS(css)
	for _, p := range v.Policies {
		faults = append(faults, p.Faults...)
	}
	var b bytes.Buffer
	err = page.Execute(&b, v)
	return b.Bytes(), faults, err
}
