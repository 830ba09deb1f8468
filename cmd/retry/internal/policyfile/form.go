package policyfile

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// A form has the settings of a format while they are read.
type form struct {
	*settings
	b       *Block
	times   style
	needed  bool   // a key that is taken must not be missing, unless it is a template
	retryOn string // the failures that are retried, separated by commas

	attempts int // with the first; -1 is unlimited
	base     time.Duration
	factor   float64
	cap      time.Duration // the longest delay; 0 is no limit
	jitter   retry.Jitter
	around   bool // jitter may exceed the cap
	timeout  time.Duration
	elapsed  time.Duration
	budget   *retry.Budget
	delays   retry.Schedule // replaces base, factor and cap; nil if it is not set
}

// longestList is how many delays a policy gets as a list.
const longestList = 100

// policy returns the policy that decides like f. It adds a note if no policy does.
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
			p.MaxDelay = f.cap // no delay reaches it
		}
		return p
	case !f.around && f.factor > 1:
		p.Backoff, p.MaxDelay = retry.Exponential{Base: f.base, Factor: f.factor}, f.cap
		return p
	}

	// MaxDelay limits jitter too. Only a list can have delays whose jitter exceeds a cap, or delays
	// that become shorter.
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
	case list == nil: // another key has a fault
	case f.factor < 1:
		f.fault("multiplier", f.factor, "1 or more, because delays that become shorter are not a policy")
	default:
		p.Backoff = retry.Exponential{Base: f.base, Factor: f.factor}
		if _, most := f.jitter.(retry.Proportional).Window(list[len(list)-1]); most <= f.cap {
			p.MaxDelay = f.cap
		} else if len(list) < longestList {
			f.b.note("jitter", say("no delay reaches the longest, %v, before jitter: here the longest "+
				"is left out", f.cap))
		} else {
			p.MaxDelay = f.cap
			f.b.note("jitter", say("jitter of %v lets the longest delays exceed %v: here no delay does",
				f.jitter, f.cap))
		}
	}
	return p
}

// skip takes keys that a policy cannot express. It adds the note why, unless that is "".
func (f *form) skip(why string, keys ...string) {
	for _, key := range keys {
		v := take[json.RawMessage](f, key, "", nil, nil)
		if why != "" && v != nil && string(v) != "[]" && string(v) != "{}" {
			f.b.note(key, why)
		}
	}
}

// has reports whether a key has a value that is neither null nor an empty list.
func (f *form) has(key string) bool {
	return anyEntry(f.b.node, func(e entry) bool {
		value := resolved(e.value)
		return f.plain(e.key) == f.plain(key) && value.ShortTag() != "!!null" &&
			(value.Kind != yaml.SequenceNode || len(value.Content) > 0)
	})
}

// take takes the value of a key, or returns missing, the default of the system. write says what a
// user should write.
func take[T any](f *form, key, write string, missing T, valid func(T) bool) T {
	var v T
	value, ok := f.pull(key)
	switch {
	case !ok && f.needed && !f.b.templates[f.path+key]:
		f.wrong.add("missing_key", f.path+key, "%s is missing: write %s", f.path+key, write)
	case !ok:
	case json.Unmarshal(value, &v) != nil || valid != nil && !valid(v):
		f.fault(key, shown(value), write)
	default:
		return v
	}
	return missing
}

// whole takes a whole number.
func (f *form) whole(key string, least, most int64, missing int64) int {
	write := fmt.Sprintf("a whole number from %d to %d", least, most)
	return int(min(math.MaxInt-1, take(f, key, write, missing, func(n int64) bool {
		return n >= least && n <= most
	})))
}

// number takes a number.
func (f *form) number(key, write string, missing float64, valid func(float64) bool) float64 {
	return take(f, key, write, missing, func(x float64) bool {
		return valid(x) && x <= math.MaxFloat64
	})
}

// fromOne reports whether x is 1 or more.
func fromOne(x float64) bool { return x >= 1 }

// A style is the form of durations in a format.
type style struct {
	write          string
	text           *regexp.Regexp // the accepted texts among those of Go; nil accepts all
	digits, number time.Duration  // the units of digits as text and of a number; 0 refuses them
}

var (
	protoTimes = style{
		write: `seconds as text, such as "0.2s"`,
		text:  regexp.MustCompile(`^(\d+(\.\d{0,9})?|\.\d{1,9})s$`),
	}
	temporalTimes = style{
		write: protoTimes.write + ` (the TypeScript SDK alone takes "1m" and "500 ms")`,
		text:  protoTimes.text,
	}
	goTimes   = style{write: `a duration as text, such as "200ms" or "1m30s"`}
	otelTimes = style{
		write:  `a duration as text, such as "200ms", or nanoseconds`,
		number: time.Nanosecond,
	}
	argoTimes = style{
		write:  `a duration as text, such as "30s" or "5m"`,
		digits: time.Second,
		number: time.Second,
	}
	gatewayTimes = style{
		write: `a duration as text in whole h, m, s and ms, such as "500ms" or "1m30s"`,
		text:  regexp.MustCompile(`^(\d{1,5}(h|m|s|ms)){1,4}$`),
	}
	wholeSeconds = style{
		write:  "whole seconds, such as 30",
		digits: time.Second,
		number: time.Second,
	}
	natsTimes = style{
		write:  `nanoseconds, such as 30000000000, or text, such as "30s"`,
		number: time.Nanosecond,
	}
)

// time takes a duration of at least least.
func (f *form) time(key string, least, missing time.Duration) time.Duration {
	write := f.times.write
	if least > 1 {
		write += fmt.Sprintf(", at least %v", least)
	} else if least > 0 {
		write += ", above 0s"
	}
	d := missing
	take(f, key, write, nil, func(value json.RawMessage) (ok bool) {
		d, ok = f.times.parse(value)
		return ok && d >= least
	})
	return d
}

// parse returns the duration in a value, false if the style does not accept the value.
func (s style) parse(value json.RawMessage) (time.Duration, bool) {
	text := ""
	isText := json.Unmarshal(value, &text) == nil
	digits, unit := text, s.digits
	if !isText {
		digits, unit = string(value), s.number
	}
	if n, err := strconv.ParseUint(digits, 10, 63); err == nil && unit > 0 {
		return saturate.Mul(n, unit), true
	}
	d, err := time.ParseDuration(text)
	return d, isText && err == nil && (s.text == nil || s.text.MatchString(text))
}

const routing = "a policy does not say where a retry goes"

// failures sets the failures that are retried. Each name must be valid.
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

// list takes a list that is not empty.
func list[T any](f *form, key, write string) []T {
	return take(f, key, write, nil, func(names []T) bool { return len(names) > 0 })
}

// retries reports whether a failure is retried.
func (f *form) retries(name string) bool {
	return slices.Contains(strings.Split(f.retryOn, ","), name)
}

// some returns the entries of a list next to b, at most mostBeside.
func (f *form) some(key string, list *yaml.Node) []entry {
	all := entries(list)
	if len(all) > mostBeside {
		f.b.note(key, fmt.Sprintf("of these %d, the first %d are looked at here", len(all), mostBeside))
		all = all[:mostBeside]
	}
	return all
}

// mostBeside is how many retriers or templates are read for each block. In a file with many blocks,
// the work would otherwise grow with the square.
const mostBeside = 300
