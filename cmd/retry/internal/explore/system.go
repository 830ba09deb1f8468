package explore

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/retrysim"
)

// A SystemInput holds the values from which the page of a system is computed.
type SystemInput struct {
	Name  string // of the file; may be empty
	Text  string
	Event string // instead of the first event; may be empty
	Call  string // instead of one call; may be empty
}

// NewSystemInput returns a SystemInput with an example.
func NewSystemInput() SystemInput {
	return SystemInput{Text: `services:
  web:
    rate: 280/s
    calls:
      - to: db
        timeout: 1s
        retry: {max_attempts: 2}
  db:
    workers: 30
    work: 100ms
events:
  - {at: 20s, for: 10s, service: db, workers: 0}
`}
}

// Limits on the requests of a run if all attempts fail, so that a page is computed
// within 2 seconds.
const (
	mostRequests       = 1_500_000 // for one run
	mostMarginRequests = 300_000   // for several, and the margin
	marginSeconds      = 300       // of its runs
	pageRuns           = 3
)

// A systemView holds the values that the templates show about a system.
type systemView struct {
	SystemInput
	Faults  []*policyfile.Fault
	Lints   []*policyfile.Fault
	Said    []string
	Limits  []string
	Loads   []loadView
	Figures []figure
	Wrong   bool
	Status  string
}

// A loadView is the load of one service.
type loadView struct {
	Name string
	retrysim.Load
	Times string // its load beside the normal one
}

func lookAtSystem(in SystemInput) *systemView {
	v := &systemView{SystemInput: in}
	system, faults := in.read(v)
	if faults == nil {
		faults = v.simulate(system)
	}
	v.Faults, v.Wrong = faults, faults != nil
	for _, fault := range faults {
		v.Said = append(v.Said, fault.Error())
	}
	v.Status = strings.Join(v.Said, ". ")
	return v
}

// read returns the system of an input.
func (in SystemInput) read(v *systemView) (s retrysim.System, faults []*policyfile.Fault) {
	fault := func(text string) []*policyfile.Fault {
		return []*policyfile.Fault{{File: "the system", Line: 1, Text: text}}
	}
	if max(len(in.Text), len(in.Event), len(in.Call)) > MaxText {
		return s, fault(fmt.Sprintf("the text is longer than %d KiB", MaxText>>10))
	}
	file, err := policyfile.Parse("the system", []byte(in.Text))
	if fault := new(policyfile.Fault); errors.As(err, &fault) {
		return s, []*policyfile.Fault{fault}
	}
	if fault := file.Change(in.Event, in.Call); fault != nil {
		return s, []*policyfile.Fault{fault}
	}
	block, wrong := file.Document()
	if wrong != nil {
		return s, []*policyfile.Fault{wrong}
	}
	if s, faults = block.System(); faults != nil {
		return s, faults
	}
	v.Lints = block.LintSystem(s)
	if most := requests(s, 0); most > mostRequests {
		return s, fault(fmt.Sprintf("a run may have %.3g requests, and this page shows at most %d: write a lower rate, a limit on attempts or a shorter duration, or use retry simulate", most, mostRequests))
	}
	return s, nil
}

// requests returns how many requests a run has at most, if it takes at least so many
// seconds.
func requests(s retrysim.System, atLeast float64) float64 {
	of := map[string]float64{} // for each request to a service, with the calls that it makes
	var follow func(name string) float64
	follow = func(name string) float64 {
		if n, done := of[name]; done {
			return n
		}
		n := 1.0
		for _, call := range s.Services[name].Calls {
			attempts := float64(call.Policy.EffectiveMax())
			if attempts < 0 {
				attempts = math.Inf(1)
			}
			n += attempts * follow(call.To)
		}
		of[name] = n
		return n
	}
	end := 0.0
	peak := map[string]float64{}
	for _, event := range s.Events {
		end = max(end, (event.At + event.For).Seconds())
		if event.Change == retrysim.Rate {
			peak[event.Service] = max(peak[event.Service], event.Value)
		}
	}
	seconds := s.Duration.Seconds()
	if seconds == 0 {
		seconds = end + 60
	}
	all := 0.0
	for name, v := range s.Services {
		if rate := max(v.Rate, peak[name]); rate > 0 {
			all += rate * max(seconds, atLeast) * follow(name)
		}
	}
	return all
}

// simulate adds what becomes of a system.
func (v *systemView) simulate(s retrysim.System) []*policyfile.Fault {
	answer, err := v.answer(s)
	if err != nil {
		return []*policyfile.Fault{{File: "the system", Line: 1, Text: strings.TrimPrefix(err.Error(), "retrysim: ")}}
	}
	of := Simulation{Name: v.Name, System: s, Result: answer.Run}
	v.Figures, v.Limits = of.figures(), answer.Limits
	for _, name := range of.Loaded() {
		load := of.Result.Services[name]
		times := float64(load.Requests) / max(load.Normal*float64(len(of.Result.Seconds)), 1e-9)
		v.Loads = append(v.Loads, loadView{name, load, fmt.Sprintf("%.2f", times)})
	}
	return nil
}

// answer simulates s as often as a page has time for.
func (v *systemView) answer(s retrysim.System) (a retrysim.Answer, err error) {
	run, err := retrysim.Run(s, 1)
	if err != nil {
		return a, err
	}
	grows := 100.0 // how many times the rate the margin can be
	for name, load := range run.Services {
		if service := s.Services[name]; service.Workers > 0 && service.Work > 0 && load.Normal > 0 {
			grows = min(grows, float64(service.Workers)/service.Work.Seconds()/load.Normal)
		}
	}
	if requests(s, marginSeconds)*max(1, grows) <= mostMarginRequests {
		if a, err = retrysim.Explain(s, pageRuns); err == nil {
			v.Said = strings.Split(strings.TrimSpace(a.String()), "\n")
		}
		return a, err
	}
	a.Run = run
	v.Said = []string{run.Outcome.String() + " (1 run)", "This system is too large for its margin here: retry simulate finds it, and makes ten runs."}
	return a, nil
}
