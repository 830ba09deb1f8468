package policyfile

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// A scope says what a setting next to a block of retry settings limits.
type scope int

const (
	nothing scope = iota // the setting does not limit a time
	each                 // the setting limits the time of each attempt
	all                  // the setting limits the time of all attempts and waits together
)

// A sibling is a setting next to a block of retry settings.
type sibling struct {
	path   string // a path from the mapping around the block; "/..." is a path from the document
	bounds scope
	says   string                     // the note about the setting, if the field `bounds` is `nothing`
	when   string                     // the only value that gets the note; "" if every value gets it
	absent func(*Block) time.Duration // returns the setting's default; nil if it has none
}

// Bounds are the timeouts in a block of retry settings, or next to such a block.
type Bounds struct {
	// All is the timeout of all attempts together, and Each is the timeout of each attempt. 0 means
	// that there is no timeout. AllKey and EachKey are the keys of these timeouts in the file.
	All, Each       time.Duration
	AllKey, EachKey string
}

// readBeside reads the settings next to b, sets Bounds, and adds notes.
func (b *Block) readBeside(f *format, p retry.Policy) {
	b.Bounds = Bounds{Each: p.AttemptTimeout, EachKey: "attempt_timeout"}
	if f == nil {
		return
	}
	if f.attemptLimit != "" {
		b.EachKey = f.attemptLimit
	}
	read := map[*yaml.Node]bool{}
	for _, s := range f.beside {
		from, path := b.beside, s.path
		if inner, ok := strings.CutPrefix(path, "/"); ok {
			if from, path = b.beside.document(), inner; from == b.beside && !strings.Contains(path, ".") {
				continue // b is directly in the document, so no outer mapping has this setting
			}
		}
		e, ok := from.get(f.plain, strings.Split(path, ".")...)
		if ok && read[e.value] || b.beside == nil {
			continue
		}
		read[e.value] = ok
		if !ok && (s.absent == nil || s.absent(b) == 0) {
			continue
		}
		b.readSibling(f, s, path, e, ok)
	}
	switch {
	case b.All == 0 || b.Each < b.All:
	case f.fillsLong && b.Each == b.All:
		b.Each = 0 // b.Each only repeats the system's default, so lintBounds must not warn about it
	case f.ignoresLong:
		b.tooLong(noEffect, "Envoy ignores it", "less than")
	case f.refusesLong && b.Each > b.All:
		b.tooLong(refused, "the API refuses it", "at most")
	}
}

// readSibling reads one setting next to b. If the setting is not in the file, readSibling uses the
// default of the setting.
func (b *Block) readSibling(f *format, s sibling, key string, e entry, written bool) {
	if e.key != "" && !strings.Contains(key, ".") {
		key = e.key
	}
	if s.bounds == nothing {
		if s.when == "" || s.when == e.value.Value {
			b.note(key, s.says)
		}
		return
	}
	what := "ends each attempt"
	if s.bounds == all {
		what = "ends all attempts and waits together"
	}
	time, origin := time.Duration(0), "the default of "+f.title
	if written {
		value, why := expand(e.value)
		b.lines[key] = e.line
		ok := value != nil
		if ok {
			text, _ := json.Marshal(value.Value) // a string can always be encoded
			if value.Kind != yaml.ScalarNode || value.ShortTag() != "!!str" {
				text = []byte(value.Value)
			}
			times := f.times
			if strings.HasSuffix(key, "Seconds") {
				times = wholeSeconds
			}
			if time, ok = times.parse(text); !ok {
				why = "write " + times.write
			}
		}
		if !ok || time < 0 {
			b.note(key,
				fmt.Sprintf("next to these settings it is %.60q, which is not read: %s", e.value.Value, why))
			return
		}
		origin = "next to these settings"
	} else {
		time = s.absent(b)
	}
	if time == 0 { // a setting of 0 is no timeout
		return
	}
	b.note(key, say("%v, %s, %s", time, origin, what))
	switch {
	case s.bounds == all && (b.All == 0 || time < b.All):
		b.All, b.AllKey = time, key
	case s.bounds == each && (b.Each == 0 || time < b.Each):
		b.Each, b.EachKey = time, key
	}
}

// Effective returns a copy of p whose AttemptTimeout is b.Each, the timeout of each attempt.
func (b *Block) Effective(p retry.Policy) retry.Policy {
	p.AttemptTimeout = b.Each
	return p
}

// Fits returns how many attempts of p have ended by the time b.All, the timeout of all attempts,
// ends the call. If b.Each is 0, Fits counts the attempts that start before this time. Fits assumes
// that each attempt takes b.Each, and that each wait is the longest possible. If b.All is 0, Fits
// returns -1.
func (b *Bounds) Fits(p retry.Policy) int {
	if b.All == 0 {
		return -1
	}
	p.AttemptTimeout = b.Each
	n := 0
	for _, step := range append(retry.Plan{{}}, p.Plan(retry.Unlimited)...) {
		if end := saturate.Add(step.Total, b.Each); end > b.All || end == b.All && b.Each == 0 {
			break
		}
		n++
	}
	return n
}
