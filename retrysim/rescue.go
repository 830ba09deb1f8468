package retrysim

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// A Rescue is a change of a [System], and what becomes of it then.
type Rescue struct {
	Change      string  `json:"change"` // such as "db: queue: 240"; a pair has "; " between them
	Verdict     Verdict `json:"verdict"`
	Lost        int     `json:"lost"`   // of the Calls of the Answer
	Margin      float64 `json:"margin"` // as those of the Answer
	MarginShare float64 `json:"margin_share"`

	changes []change
}

// A change is one that people make.
type change struct {
	text string
	key  string // what it changes: two changes of that are no pair
	edit func(name string, v *Service)
}

// mostPaired is how many changes that help are tried in pairs.
const mostPaired = 6

// FindRescues is [Explain], and then tries what people change in such a system: an
// attempt less, a budget, full jitter or half the timeout for a call; a budget for all
// calls, or one retry lent to all layers; a queue no longer than callers wait; cancel.
// Rescues of the Answer are the changes with which the worst Verdict of the runs is
// better, or a tenth less is lost, and the pairs of the best six that do more than each
// alone. The first loses least. If progress is not nil, it gets how many changes of how
// many were tried, before each.
func FindRescues(s System, runs int, progress func(done, of int)) (Answer, error) {
	if err := s.begin(); err != nil {
		return Answer{}, err
	}
	a, err := Explain(s, runs)
	if err != nil {
		return a, err
	}
	s.counted = len(a.Run.Seconds)
	s.Duration = time.Duration(s.counted) * time.Second
	all, done := s.changes(), 0
	of := len(all)
	try := func(than Rescue, changes ...change) (helps bool) {
		if progress != nil {
			progress(done, of)
		}
		done++
		r := Rescue{changes: changes}
		if err == nil {
			helps, err = r.try(s, a.Scale, runs, than)
		}
		if r.Margin = r.MarginShare * a.Rate; helps {
			a.Rescues = append(a.Rescues, r)
		}
		return helps
	}
	for _, c := range all {
		if !try(Rescue{Verdict: a.Outcome.Verdict, Lost: a.Lost}, c) {
			a.Useless = append(a.Useless, c.text)
		}
	}
	byLost := func(r, q Rescue) int { return cmp.Or(r.Lost-q.Lost, cmp.Compare(q.Margin, r.Margin)) }
	slices.SortStableFunc(a.Rescues, byLost)
	best := slices.Clone(a.Rescues[:min(mostPaired, len(a.Rescues))])
	of += len(best) * (len(best) - 1) / 2
	for i, r := range best {
		for _, better := range best[:i] {
			if r.changes[0].key == better.changes[0].key {
				of--
				continue
			}
			try(better, better.changes[0], r.changes[0])
		}
	}
	slices.SortStableFunc(a.Rescues, byLost)
	return a, err
}

// try simulates s with the changes of r, and reports whether they help. Most that do
// not show it in two runs.
func (r *Rescue) try(s System, part, runs int, than Rescue) (helps bool, err error) {
	var texts []string
	for _, c := range r.changes {
		texts = append(texts, c.text)
		s = s.with(c.edit)
	}
	r.Change = strings.Join(texts, "; ")
	s = s.divided(part)
	var o Outcome
	for _, n := range []int{min(2, runs), runs} {
		if o, err = s.several(n); err != nil {
			return false, err
		}
		r.Verdict, r.Lost = o.Verdict, o.Lost
		better := slices.Index(verdicts, than.Verdict) - slices.Index(verdicts, r.Verdict)
		if better < 0 || better == 0 && float64(r.Lost) > 0.9*float64(than.Lost) {
			return false, nil
		}
	}
	r.MarginShare, _, err = s.margin(runs, o.back())
	return err == nil, err
}

// changes returns what people change in s.
func (s System) changes() (all []change) {
	add := func(service, at, key, value string, edit func(v *Service)) {
		of := at + key
		if key == "budget" {
			of = key // one for each call, or for all
		}
		all = append(all, change{at + ": " + key + ": " + value, of, func(name string, v *Service) {
			if service == "" || name == service {
				edit(v)
			}
		}})
	}
	patience, layers := map[string]time.Duration{}, 0 // the shortest of the callers; those that retry
	for _, name := range s.names() {
		v := s.Services[name]
		if v.Rate > 0 {
			patience[name] = cmp.Or(v.Patience, defaultPatience)
		}
		for i, e := range v.Calls {
			policy := func(key, value string, edit func(p *retry.Policy)) {
				add(name, name+" -> "+e.To, key, value, func(v *Service) { edit(&v.Calls[i].Policy) })
			}
			if t := e.Policy.AttemptTimeout; t > 0 {
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
				policy("budget", usualBudget, addBudget)
			}
			if e.Policy.Jitter != retry.FullJitter && e.Policy.Backoff != nil {
				policy("jitter", "full", func(p *retry.Policy) { p.Jitter = retry.FullJitter })
			} else if e.Policy.Backoff == nil {
				policy("jitter", "full, backoff: exponential 100ms", func(p *retry.Policy) {
					p.Backoff, p.Jitter = retry.Exponential{Base: 100 * time.Millisecond}, retry.FullJitter
				})
			}
		}
	}
	if layers > 1 {
		add("", "each call", "budget", usualBudget, func(v *Service) {
			for i := range v.Calls {
				addBudget(&v.Calls[i].Policy)
			}
		})
	}
	for _, name := range s.names() {
		v := s.Services[name]
		if layers > 1 && v.Rate > 0 && v.Lend == 0 {
			add(name, name, "lend", "1", func(v *Service) { v.Lend = 1 })
		}
		if v.Workers == 0 || v.Work == 0 {
			continue
		}
		// What waits for longer than four fifths of the patience is answered too late.
		queue := int(0.8 * patience[name].Seconds() / v.Work.Seconds() * float64(v.Workers))
		if queue > 0 && (v.Queue == 0 || v.Queue > queue) {
			add(name, name, "queue", strconv.Itoa(queue), func(v *Service) { v.Queue = queue })
		}
		for _, cancel := range []Cancel{CancelQueue, CancelWork} {
			if v.Cancel != cancel && v.Cancel != CancelWork {
				add(name, name, "cancel", string(cancel), func(v *Service) { v.Cancel = cancel })
			}
		}
	}
	return all
}

const usualBudget = "size 10, ratio 0.1" // what retryhttp sets, in words

func addBudget(p *retry.Policy) {
	if p.Budget == nil && p.EffectiveMax() != 1 {
		p.Budget = &retry.Budget{Size: 10, Ratio: 0.1}
	}
}
