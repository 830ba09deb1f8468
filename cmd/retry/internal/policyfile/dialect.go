package policyfile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

// Native is the name of the native form, which retry.Policy itself reads and writes.
const Native = "native"

// A dialect is a way to write a policy in a file: the native form, or the form of another library
// or system.
type dialect struct {
	name   string
	read   func(*yaml.Node, *Block) (retry.Policy, error)
	format *format  // nil for the native form and for the dialects of package retrydialect
	all    []string // all keys, including keys of inner mappings such as "backoff.base"
	keys   []string // the keys of the outer mapping: the keys without a dot
	terms  *terms   // the keys that limit retries; nil for the native form
}

// dialects lists all dialects. The native form is the first.
var dialects = []dialect{
	{name: Native, read: readNative, all: retry.Keys()},
	{name: "tasker", read: readDialect[retrydialect.Tasker], all: new(retrydialect.Tasker).Keys(),
		terms: &terms{"max_attempts", "max_backoff_ms", ""}},
	{name: "argyll", read: readDialect[retrydialect.Argyll], all: new(retrydialect.Argyll).Keys(),
		terms: &terms{"max_retries", "max_backoff", ""}},
	{name: "taskharbor", read: readDialect[retrydialect.TaskHarbor],
		all:   new(retrydialect.TaskHarbor).Keys(),
		terms: &terms{"max_attempts", "max_delay", ""}},
}

// Dialects returns the names that [Block.Read] accepts.
func Dialects() (names []string) {
	for _, d := range dialects {
		names = append(names, d.name)
	}
	return names
}

// init adds the formats of other systems to `dialects`. The declaration of `dialects` cannot list
// these formats, because the functions that read the formats use the variable `dialects`.
func init() {
	for i := range formats {
		f := &formats[i]
		dialects = append(dialects,
			dialect{name: f.name, read: f.policy, format: f, all: f.keys(), terms: &f.terms})
	}
	for i := range dialects {
		d := &dialects[i]
		d.keys = slices.DeleteFunc(slices.Clone(d.all), func(key string) bool {
			return strings.Contains(key, ".")
		})
	}
}

func readNative(node *yaml.Node, _ *Block) (p retry.Policy, err error) {
	err = node.Decode(&p)
	return p, err
}

func readDialect[T any, P interface {
	*T
	Policy() (retry.Policy, error)
}](node *yaml.Node, _ *Block) (retry.Policy, error) {
	block := P(new(T))
	if err := node.Decode(block); err != nil {
		return retry.Policy{}, err
	}
	return block.Policy()
}

// accepts reports whether `key` is in `keys`, in any spelling that the dialect accepts.
func (d *dialect) accepts(keys []string, key string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		return k == key || d.format != nil && d.format.spells(k, key)
	})
}

// The terms of a dialect are the keys with which it limits retries. A field is "" if the dialect
// has no such key.
type terms struct {
	count   string // the key that limits the number of attempts or retries
	longest string // the key that limits each delay
	total   string // the key that limits the time of all attempts and delays together
}

// told returns the key and the text of a finding of the library, in the words of a dialect. The
// text is "" if the finding matters only to programs that use this library. It is also "" if the
// dialect lacks the key that would have to be changed.
func (t *terms) told(code string, p retry.Policy) (key, text string) {
	switch {
	case code == "unused_limit":
		return "retryable", say("retryable is false, so %s has no effect", t.count)
	case code == "short_max_delay" && t.longest != "":
		return t.longest, say("%s of %v is shorter than the first delay: it cuts even the first delay",
			t.longest, p.MaxDelay)
	case code == neverRuns && t.total != "":
		n := len(p.Plan(retry.Unlimited)) + 1
		return t.total, say("at most %d of %d attempts fit into %s of %v: attempt %d and all later "+
			"attempts never run", n, p.EffectiveMax(), t.total, p.MaxElapsed, n+1)
	case code == "no_time" && t.total != "":
		return t.total, say("%s of %v is shorter than the first delay: there is no retry",
			t.total, p.MaxElapsed)
	case code == "growing_delays" && t.longest != "":
		return t.longest, say("unlimited attempts whose delays grow to years: set %s", t.longest)
	case code == "too_long" && t.longest != "":
		plan := p.Plan(retry.Unlimited)
		return t.count, say("the delays of the first %d retries take up to %v: lower %s, or set "+
			"a shorter %s", len(plan), plan[len(plan)-1].Total, t.count, t.longest)
	case code == forever && t.count != "":
		return t.count, say("nothing ends the attempts, and the delays between them are shorter "+
			"than %v: set %s", leastForever, t.count)
	}
	return "", ""
}
