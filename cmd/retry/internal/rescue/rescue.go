// Package rescue finds what ends an outage of a system: it tries what people change.
package rescue

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/retrysim"
)

// A Rescue is a change of a system, and what becomes of the system then.
type Rescue struct {
	Change  string           `json:"change"` // such as "db: queue: 240"; a pair has "; " between them
	Verdict retrysim.Verdict `json:"verdict"`
	Lost    int              `json:"lost"`   // of the Calls of the Answer without a change
	Margin  float64          `json:"margin"` // as those of an Answer
	Share   float64          `json:"margin_share"`

	edits []func(name string, v *retrysim.Service)
}

// Of returns the Rescue without a change, of the answer about a system.
func Of(a retrysim.Answer) Rescue {
	return Rescue{"none", a.Outcome.Verdict, a.Lost, a.Margin, a.MarginShare, nil}
}

// mostPaired is how many changes that help are tried in pairs.
const mostPaired = 6

// Find tries the changes that people make in s, about which a is the answer of so many
// runs. It returns those that help, with which the verdict is better or a tenth less is
// lost, and the pairs of them that do more than each alone; the first loses least. The
// others are useless. Before each change, progress gets how many of how many it has tried.
func Find(s retrysim.System, a retrysim.Answer, runs int, progress func(done, of int)) (help []Rescue, useless []string, err error) {
	s.Duration = time.Duration(len(a.Run.Seconds)) * time.Second
	s.Counted = s.Duration
	singles, done := changes(s), 0
	of := len(singles)
	try := func(r Rescue, than ...Rescue) (helps bool) {
		if progress(done, of); err == nil {
			helps, err = r.try(s, runs, than)
		}
		if done++; helps {
			help = append(help, r)
		}
		return helps
	}
	for _, r := range singles {
		if !try(r, Of(a)) {
			useless = append(useless, r.Change)
		}
	}
	byLost := func(r, q Rescue) int { return cmp.Or(r.Lost-q.Lost, cmp.Compare(q.Margin, r.Margin)) }
	slices.SortStableFunc(help, byLost)
	best := slices.Clone(help[:min(mostPaired, len(help))])
	of += len(best) * (len(best) - 1) / 2
	for i, r := range best {
		for _, q := range best[:i] {
			if strings.Contains(r.Change, ": budget") && strings.Contains(q.Change, ": budget") {
				of-- // there is one for a call, or for each
				continue
			}
			try(Rescue{Change: q.Change + "; " + r.Change, edits: slices.Concat(q.edits, r.edits)}, q, r)
		}
	}
	slices.SortStableFunc(help, byLost)
	return help, useless, err
}

// try simulates s with the changes of r, and reports whether they help more than each of
// others. Most that do not show it in two runs.
func (r *Rescue) try(s retrysim.System, runs int, than []Rescue) (bool, error) {
	s = r.with(s)
	for seed := range uint64(min(2, runs)) {
		run, err := retrysim.Run(s, seed+1)
		if err != nil || !helps(run.Outcome, than) {
			return false, err
		}
	}
	a, err := retrysim.Explain(s, runs)
	r.Verdict, r.Lost, r.Margin, r.Share = a.Outcome.Verdict, a.Lost, a.Margin, a.MarginShare
	return err == nil && helps(a.Outcome, than), err
}

func helps(o retrysim.Outcome, than []Rescue) bool {
	rank := map[retrysim.Verdict]int{retrysim.Recovers: 0, retrysim.Draining: 1, retrysim.StaysDown: 2, retrysim.Overloaded: 3}
	return !slices.ContainsFunc(than, func(r Rescue) bool {
		worse := rank[o.Verdict] - rank[r.Verdict]
		return worse > 0 || worse == 0 && float64(o.Lost) > 0.9*float64(r.Lost)
	})
}

// with returns s with the changes of r.
func (r *Rescue) with(s retrysim.System) retrysim.System {
	s.Services = maps.Clone(s.Services)
	for name, v := range s.Services {
		v.Calls = slices.Clone(v.Calls)
		for _, edit := range r.edits {
			edit(name, &v)
		}
		s.Services[name] = v
	}
	return s
}

// changes returns what people change in s.
func changes(s retrysim.System) (all []Rescue) {
	add := func(service, at, key, value string, edit func(v *retrysim.Service)) {
		all = append(all, Rescue{Change: at + ": " + key + ": " + value, edits: []func(string, *retrysim.Service){
			func(name string, v *retrysim.Service) {
				if service == "" || name == service {
					edit(v)
				}
			},
		}})
	}
	const targetBudget = "the default of a target"
	patience, layers := map[string]time.Duration{}, 0 // the shortest of the callers; those that retry
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		v := s.Services[name]
		if v.Rate > 0 {
			patience[name] = cmp.Or(v.Patience, 5*time.Second)
		}
		for i, e := range v.Calls {
			policy := func(key, value string, edit func(p *retry.Policy)) {
				add(name, name+" -> "+e.To, key, value, func(v *retrysim.Service) { edit(&v.Calls[i].Policy) })
			}
			if t := e.Policy.AttemptTimeout; t > 1 {
				patience[e.To] = min(t, cmp.Or(patience[e.To], t))
				policy("timeout", (t / 2).String(), func(p *retry.Policy) { p.AttemptTimeout = t / 2 })
			}
			limit := e.Policy.EffectiveMax()
			if limit == 1 {
				continue
			}
			if layers++; limit < 0 {
				limit = 4
			}
			policy("max_attempts", strconv.Itoa(limit-1), func(p *retry.Policy) { p.AttemptCap = limit - 1 })
			if e.Policy.Budget == nil {
				policy("budget", targetBudget, addBudget)
			}
			if e.Policy.Jitter != retry.FullJitter {
				value, backoff := "full", e.Policy.Backoff
				if backoff == nil {
					value, backoff = "full, backoff: exponential 100ms", retry.Exponential{Base: 100 * time.Millisecond}
				}
				policy("jitter", value, func(p *retry.Policy) { p.Backoff, p.Jitter = backoff, retry.FullJitter })
			}
		}
	}
	if layers > 1 {
		add("", "each call", "budget", targetBudget, func(v *retrysim.Service) {
			for i := range v.Calls {
				addBudget(&v.Calls[i].Policy)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		v := s.Services[name]
		if layers > 1 && v.Rate > 0 && v.Lend == 0 {
			add(name, name, "lend", "1", func(v *retrysim.Service) { v.Lend = 1 })
		}
		if v.Workers == 0 || v.Work == 0 {
			continue
		}
		// What waits for longer than four fifths of the patience is answered too late.
		queue := int(0.8 * patience[name].Seconds() / v.Work.Seconds() * float64(v.Workers))
		if queue > 0 && (v.Queue == 0 || v.Queue > queue) {
			add(name, name, "queue", strconv.Itoa(queue), func(v *retrysim.Service) { v.Queue = queue })
		}
		for _, cancel := range []retrysim.Cancel{retrysim.CancelQueue, retrysim.CancelWork} {
			if v.Cancel != cancel && v.Cancel != retrysim.CancelWork {
				add(name, name, "cancel", string(cancel), func(v *retrysim.Service) { v.Cancel = cancel })
			}
		}
	}
	return all
}

func addBudget(p *retry.Policy) {
	if p.Budget == nil && p.EffectiveMax() != 1 {
		p.Budget = preview.TargetBudget()
	}
}
