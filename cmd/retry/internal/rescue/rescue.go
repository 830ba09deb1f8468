// Package rescue looks for changes with which a system recovers from an outage. It tries the
// changes that people usually make.
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

// A Rescue is a change of a system, with the result of simulating the changed system.
type Rescue struct {
	// Change is the text of the change, such as "db: queue: 240". A semicolon and a space separate the
	// texts of two changes.
	Change  string           `json:"change"`
	Verdict retrysim.Verdict `json:"verdict"`
	Lost    int              `json:"lost"`         // how many calls are lost in the changed system
	Margin  float64          `json:"margin"`       // Answer.Margin for the changed system
	Share   float64          `json:"margin_share"` // Answer.MarginShare for the changed system

	edits []func(name string, v *retrysim.Service)
}

// Of converts the parameter `a`, which is the answer about the unchanged system, into a Rescue that
// changes nothing.
func Of(a retrysim.Answer) Rescue {
	return Rescue{"none", a.Outcome.Verdict, a.Lost, a.Margin, a.MarginShare, nil}
}

// mostPaired is the largest number of changes that Find combines in pairs. Among the changes that
// help by themselves, Find takes the changes with which the fewest calls are lost.
const mostPaired = 6

// Find tries the changes that people usually make to the system s. The parameter `a` is the answer
// about the unchanged system. The parameter `runs` is the number of runs for each change. The
// answer `a` must come from the same number of runs.
//
// Find returns the changes that help. A change helps if the verdict becomes better, or if at least
// a tenth fewer calls are lost. Find also tries pairs of the best of these changes, and returns
// each pair that helps more than either change alone. The result `help` starts with the change with
// which the fewest calls are lost. The result `useless` contains the changes that do not help.
//
// Find calls the function `progress` before each change. The argument `done` is the number of
// changes that Find has tried, and `total` is the number of all changes.
func Find(
	s retrysim.System, a retrysim.Answer, runs int, progress func(done, total int),
) (help []Rescue, useless []string, err error) {
	s.Duration = time.Duration(len(a.Run.Seconds)) * time.Second
	s.Counted = s.Duration
	singles, done := changes(s), 0
	total := len(singles)
	try := func(r Rescue, others ...Rescue) (helps bool) {
		if progress(done, total); err == nil {
			helps, err = r.try(s, runs, others)
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
	total += len(best) * (len(best) - 1) / 2
	for i, r := range best {
		for _, q := range best[:i] {
			if strings.Contains(r.Change, ": budget") && strings.Contains(q.Change, ": budget") {
				// Both changes add a budget. Do not try this pair, because the change "each call:
				// budget" already adds a budget to every call that has retries.
				total--
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

// try simulates s with the changes of r, and reports whether these changes help more than every
// Rescue in `others`. It starts with two runs, because two runs are enough to reject most changes
// that do not help.
func (r *Rescue) try(s retrysim.System, runs int, others []Rescue) (bool, error) {
	s = r.applyTo(s)
	for seed := range uint64(min(2, runs)) {
		run, err := retrysim.Run(s, seed+1)
		if err != nil || !helps(run.Outcome, others) {
			return false, err
		}
	}
	a, err := retrysim.Explain(s, runs)
	r.Verdict, r.Lost, r.Margin, r.Share = a.Outcome.Verdict, a.Lost, a.Margin, a.MarginShare
	return err == nil && helps(a.Outcome, others), err
}

// helps reports whether an outcome is better than the outcome of every Rescue in `others`.
func helps(o retrysim.Outcome, others []Rescue) bool {
	rank := map[retrysim.Verdict]int{
		retrysim.Recovers: 0, retrysim.Draining: 1, retrysim.StaysDown: 2, retrysim.Overloaded: 3,
	}
	return !slices.ContainsFunc(others, func(r Rescue) bool {
		worse := rank[o.Verdict] - rank[r.Verdict]
		return worse > 0 || worse == 0 && float64(o.Lost) > 0.9*float64(r.Lost)
	})
}

// applyTo returns a copy of s with the changes of r.
func (r *Rescue) applyTo(s retrysim.System) retrysim.System {
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

// changes returns the changes that people usually make to s.
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
	if c.retried > 1 {
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

// targetBudget is the text for the Budget of [preview.TargetBudget] in Rescue.Change, as in "each
// call: budget: the default of a target".
const targetBudget = "the default of a target"

// A changer collects changes of a system.
type changer struct {
	all      []Rescue
	patience map[string]time.Duration // the shortest timeout among the callers of each service
	retried  int                      // how many calls between services have retries
}

// add adds to c.all a change of a service. If the parameter `service` is "", the change is for all
// services. The text of the change consists of the parameters `at`, `key` and `value`. In "web ->
// db: max_attempts: 3", `at` is "web -> db".
func (c *changer) add(service, at, key, value string, edit func(v *retrysim.Service)) {
	edits := []func(string, *retrysim.Service){func(name string, v *retrysim.Service) {
		if service == "" || name == service {
			edit(v)
		}
	}}
	c.all = append(c.all, Rescue{Change: at + ": " + key + ": " + value, edits: edits})
}

// changeCall adds to c.all the changes that can be made to e, a call that the service `name` makes.
// The index of e among the calls of this service is i.
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
	if c.retried++; limit < 0 {
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

// changeService adds to c.all the changes that can be made to the keys `lend`, `queue` and `cancel`
// of a service.
func (c *changer) changeService(name string, v retrysim.Service) {
	if c.retried > 1 && v.Rate > 0 && v.Lend == 0 {
		c.add(name, name, "lend", "1", func(v *retrysim.Service) { v.Lend = 1 })
	}
	if v.Workers == 0 || v.Work == 0 {
		return
	}
	// Limit the queue so that a request waits in it for at most 80 % of its caller's timeout. The
	// other 20 % are for the work on the request.
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

// addBudget gives a policy the default Budget of a target, unless the policy has a Budget or never
// retries.
func addBudget(p *retry.Policy) {
	if p.Budget == nil && p.EffectiveMax() != 1 {
		p.Budget = preview.TargetBudget()
	}
}
