// Package rescue finds changes of a system with which it recovers from an outage. It tries the
// changes that people make.
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

// A Rescue is a change of a system, and the result of simulating the changed system.
type Rescue struct {
	Change  string           `json:"change"` // such as "db: queue: 240"; "; " separates two changes
	Verdict retrysim.Verdict `json:"verdict"`
	Lost    int              `json:"lost"`         // of the calls of the unchanged system
	Margin  float64          `json:"margin"`       // as Answer.Margin
	Share   float64          `json:"margin_share"` // as Answer.MarginShare

	edits []func(name string, v *retrysim.Service)
}

// Of returns the Rescue that changes nothing. a is the answer about the unchanged system.
func Of(a retrysim.Answer) Rescue {
	return Rescue{"none", a.Outcome.Verdict, a.Lost, a.Margin, a.MarginShare, nil}
}

// mostPaired is how many of the best changes are tried in pairs.
const mostPaired = 6

// Find tries the changes that people make to s. a is the answer about s, from the same number of
// runs.
//
// Find returns the changes that help: with such a change the verdict is better, or at least a tenth
// fewer calls are lost. It adds the pairs of these changes that help more than either change alone.
// The first change in help loses the fewest calls. The changes that do not help are in useless.
//
// Before each change, Find calls progress with the number of changes that it has tried, and the
// number of all changes.
func Find(
	s retrysim.System, a retrysim.Answer, runs int, progress func(done, of int),
) (help []Rescue, useless []string, err error) {
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
	byLost := func(r, q Rescue) int {
		return cmp.Or(r.Lost-q.Lost, cmp.Compare(q.Margin, r.Margin))
	}
	slices.SortStableFunc(help, byLost)
	best := slices.Clone(help[:min(mostPaired, len(help))])
	of += len(best) * (len(best) - 1) / 2
	for i, r := range best {
		for _, q := range best[:i] {
			if strings.Contains(r.Change, ": budget") && strings.Contains(q.Change, ": budget") {
				of-- // a budget for one call and a budget for each call are no pair
				continue
			}
			pair := Rescue{
				Change: q.Change + "; " + r.Change,
				edits:  slices.Concat(q.edits, r.edits),
			}
			try(pair, q, r)
		}
	}
	slices.SortStableFunc(help, byLost)
	return help, useless, err
}

// try simulates s with the changes of r, and reports whether they help more than each Rescue in
// than. It starts with two runs, because two runs show most of the changes that do not help.
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

// helps reports whether an outcome is better than each Rescue in than.
func helps(o retrysim.Outcome, than []Rescue) bool {
	rank := map[retrysim.Verdict]int{
		retrysim.Recovers: 0, retrysim.Draining: 1, retrysim.StaysDown: 2, retrysim.Overloaded: 3,
	}
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

// changes returns the changes that people make to s.
func changes(s retrysim.System) []Rescue {
	c := changer{patience: map[string]time.Duration{}}
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		v := s.Services[name]
		if v.Rate > 0 {
			c.patience[name] = cmp.Or(v.Patience, 5*time.Second)
		}
		for i, e := range v.Calls {
			c.changeCall(name, i, e)
		}
	}
	if c.layers > 1 {
		c.add("", "each call", "budget", targetBudget, func(v *retrysim.Service) {
			for i := range v.Calls {
				addBudget(&v.Calls[i].Policy)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		c.changeService(name, s.Services[name])
	}
	return c.all
}

// targetBudget is the value of a change that adds [preview.TargetBudget].
const targetBudget = "the default of a target"

// A changer collects changes of a system.
type changer struct {
	all      []Rescue
	patience map[string]time.Duration // of each service, the shortest timeout among its callers
	layers   int                      // calls that are retried
}

// add adds a change of a service, or of all services if service is "". at, key and value are its
// text.
func (c *changer) add(service, at, key, value string, edit func(v *retrysim.Service)) {
	edits := []func(string, *retrysim.Service){func(name string, v *retrysim.Service) {
		if service == "" || name == service {
			edit(v)
		}
	}}
	c.all = append(c.all, Rescue{Change: at + ": " + key + ": " + value, edits: edits})
}

// changeCall adds the changes of e, which is the call with index i of a service.
func (c *changer) changeCall(name string, i int, e retrysim.Edge) {
	policy := func(key, value string, edit func(p *retry.Policy)) {
		c.add(name, name+" -> "+e.To, key, value, func(v *retrysim.Service) {
			edit(&v.Calls[i].Policy)
		})
	}
	if t := e.Policy.AttemptTimeout; t > 1 {
		c.patience[e.To] = min(t, cmp.Or(c.patience[e.To], t))
		policy("timeout", (t / 2).String(), func(p *retry.Policy) { p.AttemptTimeout = t / 2 })
	}
	limit := e.Policy.EffectiveMax()
	if limit == 1 {
		return
	}
	if c.layers++; limit < 0 {
		limit = 4
	}
	policy("max_attempts", strconv.Itoa(limit-1), func(p *retry.Policy) { p.AttemptCap = limit - 1 })
	if e.Policy.Budget == nil {
		policy("budget", targetBudget, addBudget)
	}
	if e.Policy.Jitter != retry.FullJitter {
		value, backoff := "full", e.Policy.Backoff
		if backoff == nil {
			value = "full, backoff: exponential 100ms"
			backoff = retry.Exponential{Base: 100 * time.Millisecond}
		}
		policy("jitter", value, func(p *retry.Policy) {
			p.Backoff, p.Jitter = backoff, retry.FullJitter
		})
	}
}

// changeService adds the changes of lend, of the queue and of cancel of a service.
func (c *changer) changeService(name string, v retrysim.Service) {
	if c.layers > 1 && v.Rate > 0 && v.Lend == 0 {
		c.add(name, name, "lend", "1", func(v *retrysim.Service) { v.Lend = 1 })
	}
	if v.Workers == 0 || v.Work == 0 {
		return
	}
	// A request that waits longer than four fifths of the patience is answered too late.
	queue := int(0.8 * c.patience[name].Seconds() / v.Work.Seconds() * float64(v.Workers))
	if queue > 0 && (v.Queue == 0 || v.Queue > queue) {
		c.add(name, name, "queue", strconv.Itoa(queue), func(v *retrysim.Service) { v.Queue = queue })
	}
	for _, cancel := range []retrysim.Cancel{retrysim.CancelQueue, retrysim.CancelWork} {
		if v.Cancel != cancel && v.Cancel != retrysim.CancelWork {
			c.add(name, name, "cancel", string(cancel), func(v *retrysim.Service) { v.Cancel = cancel })
		}
	}
}

// addBudget gives a policy that retries and has no Budget the default Budget of a target.
func addBudget(p *retry.Policy) {
	if p.Budget == nil && p.EffectiveMax() != 1 {
		p.Budget = preview.TargetBudget()
	}
}
