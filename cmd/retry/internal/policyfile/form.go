package policyfile

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// A form contains the settings of another system while they are read.
type form struct {
	*settings
	b       *Block
	times   durationStyle
	needed  bool   // whether a missing key is a fault; a key with a template is not missing
	retryOn string // the failures that are retried, separated by commas

	attempts int // the limit on attempts, including the first; -1 is unlimited
	base     time.Duration
	factor   float64
	cap      time.Duration // the longest delay; 0 is no limit
	jitter   retry.Jitter
	around   bool // whether jitter may make a delay longer than the field `cap`
	timeout  time.Duration
	elapsed  time.Duration
	budget   *retry.Budget
	delays   retry.Schedule // the delays, in place of `base`, `factor` and `cap`; nil if not listed
}

// longestList is the largest number of delays that the method `policy` computes for a Schedule. If
// there are more delays, the Backoff of the policy is an Exponential.
const longestList = 100

// policy returns a policy that makes the same decisions as the other system. If there is no such
// policy, the method returns a similar policy and adds a note.
func (f *form) policy() retry.Policy {
	p := retry.Policy{MaxAttempts: f.attempts, AttemptTimeout: f.timeout}
	if f.attempts == 1 {
		return p
	}
	p.MaxElapsed, p.Jitter, p.Budget = f.elapsed, f.jitter, f.budget
	if f.cap > 0 && f.base >= f.cap && f.factor >= 1 {
		f.base, f.factor = f.cap, 1
	}
	switch {
	case f.delays != nil:
		p.Backoff = f.delays
		return p
	case f.factor == 1 || f.base == 0:
		p.Backoff = retry.Fixed(f.base)
		if share, _ := f.jitter.(retry.Proportional); f.base > 0 &&
			float64(f.base)*(1+float64(share)) < float64(f.cap) {
			p.MaxDelay = f.cap // the policy keeps the cap, although no delay reaches it
		}
		return p
	case !f.around && f.factor > 1:
		p.Backoff, p.MaxDelay = retry.Exponential{Base: f.base, Factor: f.factor}, f.cap
		return p
	}

	// MaxDelay also limits a delay with jitter, so it cannot express a cap that jitter may exceed.
	// Exponential cannot express delays that become shorter. In both cases, a list of delays is
	// necessary.
	var list retry.Schedule
	reached := false
	for d := float64(f.base); len(list) < longestList &&
		(f.attempts < 0 || len(list) < f.attempts-1) && !reached; d *= f.factor {
		reached = f.factor > 1 && d >= float64(f.cap) || d < 1
		list = append(list, min(saturate.Float(d), f.cap))
	}
	switch {
	case reached || f.factor < 1 && len(list) == f.attempts-1:
		p.Backoff = list
	case list == nil: // f.attempts is 0, because the limit is missing, wrong or an unknown template
	case f.factor < 1:
		f.fault("multiplier", f.factor,
			"1 or more, because a policy cannot express delays that become shorter")
	default:
		p.Backoff = retry.Exponential{Base: f.base, Factor: f.factor}
		if _, most := f.jitter.(retry.Proportional).Window(list[len(list)-1]); most <= f.cap {
			p.MaxDelay = f.cap
		} else if len(list) < longestList {
			f.b.note("jitter", say("before jitter, no delay reaches the longest delay of %v, so the policy "+
				"here has no max_delay", f.cap))
		} else {
			p.MaxDelay = f.cap
			f.b.note("jitter", say("with jitter of %v, the longest delays exceed %v; here "+
				"no delay exceeds %v", f.jitter, f.cap, f.cap))
		}
	}
	return p
}

// skip removes from the settings the keys in the parameter `keys`, because a policy cannot express
// these keys. For each of these keys that is set, `skip` adds the parameter `note` as a note. If
// `note` is "", `skip` adds no note.
func (f *form) skip(note string, keys ...string) {
	for _, key := range keys {
		v := take[json.RawMessage](f, key, "", nil, nil)
		if note != "" && v != nil && string(v) != "[]" && string(v) != "{}" {
			f.b.note(key, note)
		}
	}
}

// isSet reports whether a key has a value other than null and an empty list.
func (f *form) isSet(key string) bool {
	return anyEntry(f.b.node, func(e entry) bool {
		value := resolved(e.value)
		return f.plain(e.key) == f.plain(key) && value.ShortTag() != "!!null" &&
			(value.Kind != yaml.SequenceNode || len(value.Content) > 0)
	})
}

// take removes a key from the settings and returns its value. If the key is not set, `take` returns
// the parameter `fallback`, which is the default of the system. If the value is wrong, `take` adds
// a finding, which ends with the parameter `hint`.
func take[T any](f *form, key, hint string, fallback T, valid func(T) bool) T {
	var v T
	value, ok := f.pull(key)
	switch {
	case !ok && f.needed && !f.b.templates[f.path+key]:
		f.wrong.add("missing_key", f.path+key, "%s is missing: write %s", f.path+key, hint)
	case !ok:
	case json.Unmarshal(value, &v) != nil || valid != nil && !valid(v):
		f.fault(key, shown(value), hint)
	default:
		return v
	}
	return fallback
}

// whole removes a key from the settings and returns its value, which must be a whole number from
// `least` to `most`. If the value is wrong, `whole` adds a finding, as the function `take` does.
func (f *form) whole(key string, least, most int64, fallback int64) int {
	write := fmt.Sprintf("a whole number from %d to %d", least, most)
	return int(min(math.MaxInt-1, take(f, key, write, fallback, func(n int64) bool {
		return n >= least && n <= most
	})))
}

// textWhole returns the value of a key that must be a whole number. The number may be written as
// text.
func (f *form) textWhole(key string, fallback int) int {
	n := uint64(fallback)
	take(f, key, "a whole number, such as 3", nil, func(value json.RawMessage) bool {
		var err error
		n, err = strconv.ParseUint(strings.Trim(string(value), `"`), 10, 31)
		return err == nil
	})
	return int(n)
}

// number removes a key from the settings and returns its value, which must be a number. If the
// value is wrong, `number` adds a finding, as the function `take` does.
func (f *form) number(key, write string, fallback float64, valid func(float64) bool) float64 {
	return take(f, key, write, fallback, func(x float64) bool {
		return valid(x) && x <= math.MaxFloat64
	})
}

// time removes a key from the settings and returns its value, which must be a duration of at least
// `shortest`. If the value is wrong, `time` adds a finding, as the function `take` does.
func (f *form) time(key string, shortest, fallback time.Duration) time.Duration {
	write := f.times.write
	if shortest > 1 {
		write += fmt.Sprintf(", at least %v", shortest)
	} else if shortest > 0 {
		write += ", above 0s"
	}
	d := fallback
	take(f, key, write, nil, func(value json.RawMessage) (ok bool) {
		d, ok = f.times.parse(value)
		return ok && d >= shortest
	})
	return d
}

// fromOne reports whether x is 1 or more.
func fromOne(x float64) bool { return x >= 1 }

// failures sets the field retryOn to the names of the failures that are retried. It adds a finding
// for each name that is not valid.
func failures[T any](f *form, key, write string, names []T, valid func(string) bool) {
	var all []string
	for _, one := range names {
		all = append(all, fmt.Sprint(one))
		if name := all[len(all)-1]; !valid(name) {
			f.fault(key, fmt.Sprintf("%.60q", name), write)
		}
	}
	f.retryOn = strings.Join(all, ",")
}

// list removes a key from the settings and returns its value, which must be a list with at least
// one element. If the value is wrong, `list` adds a finding, as the function `take` does.
func list[T any](f *form, key, write string) []T {
	return take(f, key, write, nil, func(names []T) bool { return len(names) > 0 })
}

// isRetried reports whether the system retries the failure with this name.
func (f *form) isRetried(name string) bool {
	return slices.Contains(strings.Split(f.retryOn, ","), name)
}

// places follows a path that starts at the mapping p, and returns the places at its end. In the
// path, * stands for each element of a list.
func (f *form) places(p *place, path string) []*place {
	found := []*place{p}
	list, _, _ := strings.Cut(path, ".*")
	for key := range strings.SplitSeq(path, ".") {
		var inner []*place
		for _, in := range found {
			if e, ok := in.get(f.plain, key); ok && key != "*" {
				inner = append(inner, &place{node: e.value})
			}
			if key == "*" {
				for _, e := range f.firstEntries(list, in.node) {
					inner = append(inner, &place{node: resolved(e.value)})
				}
			}
		}
		found = inner
	}
	return found
}

// textsAt follows a path as [form.places] does, and returns the scalars at its end as texts.
func (f *form) textsAt(p *place, path string) (all []string) {
	for _, at := range f.places(p, path) {
		all = append(all, at.node.Value)
	}
	return all
}

// textAt follows a path that starts at the mapping p and contains no *. It returns the scalar at
// the end of the path as text. It returns "" if there is no such scalar.
func (f *form) textAt(p *place, path string) string { return strings.Join(f.textsAt(p, path), "") }

// amount follows a path that starts at the mapping p, and returns the number at its end. It returns
// the parameter `fallback` if there is no number.
func (f *form) amount(p *place, path string, fallback float64) float64 {
	for _, at := range f.places(p, path) {
		var n float64
		if err := at.node.Decode(&n); err == nil && n >= 0 {
			return n
		}
		f.b.note(path, fmt.Sprintf("%.60q is not read: here it is %v", at.node.Value, fallback))
	}
	return fallback
}

// resources returns the documents of the file that have this kind.
func (f *form) resources(kind string) (all []*place) {
	for _, document := range f.b.documents[:min(len(f.b.documents), mostEntries)] {
		if p := (&place{node: resolved(document)}); f.textAt(p, "kind") == kind {
			all = append(all, p)
		}
	}
	return all
}

// firstEntries returns the first entries of a list next to b, at most mostEntries.
func (f *form) firstEntries(key string, list *yaml.Node) []entry {
	all := entries(list)
	if len(all) > mostEntries {
		f.b.note(key,
			fmt.Sprintf("of these %d elements, only the first %d are read", len(all), mostEntries))
		all = all[:mostEntries]
	}
	return all
}

// mostEntries is the largest number of entries that firstEntries returns for a block. Without
// this limit, the work would grow with the square of the number of blocks.
const mostEntries = 300
