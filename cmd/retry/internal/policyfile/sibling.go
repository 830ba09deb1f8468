package policyfile

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// A place is a mapping in a file, with a pointer to the mapping around it.
type place struct {
	node     *yaml.Node
	key      string // the key of the outer mapping that contains this mapping, directly or in lists
	up       *place // the outer mapping; nil if there is none
	depth    int    // the number of keys that lead to the mapping
	resource bool   // the mapping is a resource of Kubernetes
}

// newPlace returns the place of a mapping. path is the path from the document to the mapping.
func newPlace(node *yaml.Node, key string, up *place, path []string) *place {
	return &place{node, key, up, len(path), isResource(node)}
}

// outermost returns the document that contains p. The document is the whole document in the file,
// or a resource of Kubernetes in a list or in another resource.
func (p *place) outermost() *place {
	for p != nil && p.up != nil && !p.resource {
		p = p.up
	}
	return p
}

// get returns the entry to which keys lead from p. Two spellings of a key are equal if plain
// returns the same text for both.
func (p *place) get(plain func(string) string, keys ...string) (found entry, ok bool) {
	if p == nil {
		return entry{}, false
	}
	found.value = p.node
	for _, key := range keys {
		found, ok = firstEntry(resolved(found.value), func(e entry) bool {
			return e.key == key || plain(e.key) == plain(key)
		})
		if !ok {
			return entry{}, false
		}
	}
	found.value = resolved(found.value)
	return found, true
}

// A scope says what a setting next to a block limits.
type scope int

const (
	nothing scope = iota // the setting limits no time
	each                 // each attempt
	all                  // all attempts and their waits
)

// A sibling is a setting next to a block.
type sibling struct {
	path   string // the path from the mapping around the block; /x is the key x of the document
	bounds scope
	says   string                     // the note about a setting that limits nothing
	when   string                     // the only value that gets the note; "" if every value gets it
	absent func(*Block) time.Duration // returns the default; nil if there is no default
}

// Bounds are the timeouts in a block or next to it.
type Bounds struct {
	All, Each       time.Duration // the timeout of all attempts together, and of each; 0 is none
	AllKey, EachKey string
}

// routeTimeout returns the default timeout of a route of Envoy. It returns 0 for the retry_policy
// of a virtual host, because the timeout is a setting of each route.
func routeTimeout(b *Block) time.Duration {
	if inRoute.MatchString(b.At) {
		return 15 * time.Second
	}
	return 0
}

var inRoute = regexp.MustCompile(`(^|\.)route\.retry_?[pP]olicy$`)

// exporterTimeout returns the default timeout of one attempt of an exporter.
func exporterTimeout(b *Block) time.Duration {
	switch name, _, _ := strings.Cut(b.beside.key, "/"); {
	case b.beside.up == nil || b.beside.up.key != "exporters":
		return 0
	case name == "otlp_http" || name == "otlphttp":
		return 30 * time.Second
	default:
		return 5 * time.Second
	}
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
			if from, path = b.beside.outermost(), inner; from == b.beside && !strings.Contains(path, ".") {
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
		b.Each = 0 // b.Each may be the default, so there is no warning
	case f.ignoresLong:
		b.tooLong(noEffect, "Envoy ignores it", "less than")
	case f.refusesLong && b.Each > b.All:
		b.tooLong(refused, "the API refuses it", "at most")
	}
}

// tooLong warns that the timeout of an attempt is too long to have an effect.
func (b *Block) tooLong(code, why, write string) {
	b.warn(code, b.EachKey,
		say("%s is %v, and %s, because %s is %v: write %s %v", b.EachKey, b.Each, why, b.AllKey, b.All,
			write, b.All))
	b.Each = 0
}

// readSibling reads one setting next to b. If the setting is not written, readSibling uses its
// default.
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

// note adds a note about a setting that a policy cannot express.
func (b *Block) note(key, text string) { b.Notes = append(b.Notes, key+": "+text) }

// A warning is a report of lint about a key in b or next to it.
type warning struct{ code, key, text string }

// warn adds a warning.
func (b *Block) warn(code, key, text string) {
	b.warnings = append(b.warnings, warning{code, key, text})
}

// Effective returns p with the timeout of each attempt, b.Each, as its AttemptTimeout.
func (b *Block) Effective(p retry.Policy) retry.Policy {
	p.AttemptTimeout = b.Each
	return p
}

// Fits returns how many attempts of p end before b.All, the timeout of all attempts. It assumes
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

// lintBounds warns of attempts of p that never run, or that the timeout b.All may cut off.
func (b *Block) lintBounds(p retry.Policy) (found []warning) {
	if b.All == 0 {
		return nil
	}
	p.AttemptTimeout = b.Each
	start := time.Duration(0) // the earliest start of the next attempt if each attempt hangs
	steps, of := p.Plan(mostKeys), fmt.Sprintf(" of %d", p.EffectiveMax())
	// If the attempts are unlimited, b.All is meant to end them, but not before the first retry.
	if p.EffectiveMax() == retry.Unlimited {
		steps, of = p.Plan(1), ""
	}
	for i, step := range steps {
		if start = saturate.Add(start, saturate.Add(b.Each, step.Lo)); start < b.All {
			continue
		}
		why := say("the waits before it take at least %v", start)
		if b.Each > 0 {
			why = say("if each attempt before it takes its %v", b.Each)
		}
		return []warning{{neverRuns, b.AllKey,
			say("attempt %d%s never runs, %s: %s is %v, for all attempts and waits", i+2, of, why, b.AllKey,
				b.All)}}
	}
	if n := len(steps); n > 0 && b.Each > 0 && of != "" {
		if end := saturate.Add(steps[n-1].Total, b.Each); end > b.All {
			return []warning{{cutOff, b.AllKey,
				say("attempt %d may be cut off: %d attempts of %v and their waits take up to %v, and %s is %v",
					n+1, n+1, b.Each, end, b.AllKey, b.All)}}
		}
	}
	return nil
}

var (
	withDefault = regexp.MustCompile(`^\$\{(?:env:)?\w+:-([^${}]*)\}$`)
	unknownText = regexp.MustCompile(`(^|[^$])\$\{|\{\{|\{%`)
)

// expand returns the value of a scalar. A template with a default, such as ${env:X:-5s}, has the
// value 5s. Any other template has the value nil. The result why is the text of a note about the
// template.
func expand(node *yaml.Node) (value *yaml.Node, why string) {
	if node.Kind != yaml.ScalarNode || !unknownText.MatchString(node.Value) {
		return node, ""
	}
	match := withDefault.FindStringSubmatch(node.Value)
	if match == nil || unknownText.MatchString(match[1]) {
		return nil, fmt.Sprintf("%.60q is not known here: it is read as if it were left out", node.Value)
	}
	value = &yaml.Node{Kind: yaml.ScalarNode, Value: match[1], Line: node.Line}
	return value, fmt.Sprintf("%.60q is read as its default, %s", node.Value, match[1])
}

// expanded returns a copy of a node with the values of its templates, and adds a note for each
// template. A key is left out and recorded in b.templates if the value of its template is unknown.
func (b *Block) expanded(node *yaml.Node, path string) *yaml.Node {
	node = resolved(node)
	switch node.Kind {
	case yaml.ScalarNode:
		value, why := expand(node)
		if why != "" && !slices.Contains(b.unnoted, path) {
			b.note(path, why)
		}
		return value
	case yaml.MappingNode:
		result := *node
		result.Content = nil
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			inner := strings.TrimPrefix(path+"."+key.Value, ".")
			if key.ShortTag() != "!!merge" {
				value = b.expanded(value, inner)
			}
			if value == nil {
				b.templates[inner] = true
				continue
			}
			result.Content = append(result.Content, key, value)
		}
		return &result
	default:
		return node
	}
}
