package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/retrysim"
)

// A SystemInput holds the values from which the page of a system is computed.
type SystemInput struct {
	Name  string // of the file; may be empty
	Text  string
	Event string // instead of the first event; may be empty
	Call  string // a service with the calls that are used instead; may be empty
}

// NewSystemInput returns a SystemInput with an example.
func NewSystemInput() SystemInput {
	return SystemInput{Text: `services:
  web: {rate: 112/s, calls: [{to: db, timeout: 1s, retry: {max_attempts: 2}}]}
  db: {workers: 12, work: 100ms}
events:
  - {at: 20s, for: 10s, service: db, workers: 0}
`}
}

const pageRuns = 3

// A page shows what pageRuns and the margin say, which together have at most pageEvents.
// So it is computed within 2 seconds. Tests lower it.
var pageEvents = 14_000_000

// A systemView holds the values that the templates show about a system.
type systemView struct {
	frame
	SystemInput
	Faults  []*policyfile.Fault
	Lints   []*policyfile.Fault
	Said    []string
	Limits  []string
	Figures []figure
}

func lookAtSystem(in SystemInput) *systemView {
	v := &systemView{frame: frame{Titles: []string{in.Name}}, SystemInput: in}
	s, faults := in.read(v)
	if faults == nil {
		if err := v.simulate(s); err != nil {
			faults = faultOf(strings.TrimPrefix(err.Error(), "retrysim: ") + "; or use retry simulate")
		}
	}
	v.Faults, v.Wrong = faults, faults != nil
	for _, fault := range faults {
		v.Said = append(v.Said, fault.Error())
	}
	v.Status = strings.Join(v.Said, ". ")
	return v
}

func faultOf(text string) []*policyfile.Fault {
	return []*policyfile.Fault{{File: "the system", Line: 1, Text: text}}
}

// read returns the system of an input.
func (in SystemInput) read(v *systemView) (s retrysim.System, faults []*policyfile.Fault) {
	block, faults := document("the system", in.Text)
	if faults == nil {
		s, faults = block.PartOfSystem()
	}
	event, wrong := part("the event", "events:\n- ", in.Event)
	faults = append(faults, wrong...)
	call, wrong := part("the call", "services:\n  ", in.Call)
	if faults = append(faults, wrong...); faults != nil {
		return s, faults
	}
	if event.Events != nil {
		s.Events = append(event.Events, s.Events[min(1, len(s.Events)):]...)
	}
	for from, other := range call.Services {
		for _, c := range other.Calls {
			calls := s.Services[from].Calls
			i := slices.IndexFunc(calls, func(own retrysim.Edge) bool { return own.To == c.To })
			if i < 0 {
				return s, faultOf(fmt.Sprintf("there is no call from %s to %s: write both as the system has them", from, c.To))
			}
			calls[i] = c
		}
	}
	s.MaxEvents = pageEvents
	v.Lints = block.LintSystem(s)
	return s, block.SystemFaults(s.Validate())
}

func document(name, text string) (block policyfile.Block, faults []*policyfile.Fault) {
	if len(text) > MaxText {
		return block, faultOf(fmt.Sprintf("the text is longer than %d KiB", MaxText>>10))
	}
	file, err := policyfile.Parse(name, []byte(text))
	fault := new(policyfile.Fault)
	if !errors.As(err, &fault) {
		block, fault = file.Document()
	}
	if fault != nil {
		faults = append(faults, fault)
	}
	return block, faults
}

// part reads a part of a system as the text below a line that has its key.
func part(name, key, text string) (s retrysim.System, faults []*policyfile.Fault) {
	if text = strings.TrimSpace(text); text == "" {
		return s, nil
	}
	block, faults := document(name, key+strings.ReplaceAll(text, "\n", "\n  "))
	if faults == nil {
		s, faults = block.PartOfSystem()
	}
	for _, fault := range faults {
		fault.Line = max(1, fault.Line-1)
	}
	return s, faults
}

// simulate adds what becomes of a system.
func (v *systemView) simulate(s retrysim.System) error {
	a, err := retrysim.Explain(s, pageRuns)
	if err != nil {
		return err
	}
	v.Said = strings.Split(strings.TrimSpace(a.String()), "\n")
	v.Figures, v.Limits = Simulation{Name: v.Name, System: s, Result: a.Run}.figures(), a.Limits
	return nil
}
