package policyfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

// Native is the name of the dialect of retry.Policy itself.
const Native = "native"

// A dialect is a way to write a policy in a file: the native form, or the form of another library
// or system.
type dialect struct {
	name   string
	read   func(*yaml.Node, *Block) (retry.Policy, error)
	format *format  // nil for a dialect of the library
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

// init adds the formats of other systems to dialects. The declaration of dialects cannot list these
// formats, because their read functions use dialects.
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

// Read reads the policy in b, and returns it with the name of its dialect. The parameter from is
// the name of the dialect. If from is "", Read uses the first of these dialects:
//
//   - the dialect that the place of b in its file shows, if any
//   - the native form, if b is in this form
//   - the dialect in which b can be read, if there is only one
//
// If b cannot be read or is invalid, Read returns every fault. Read sets Notes and Bounds.
func (b *Block) Read(from string) (p retry.Policy, name string, faults []*Fault) {
	b.reset()
	d, p, err := b.read(from)
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return retry.Policy{}, d.name, b.faults(err, d)
	}
	b.readBeside(d.format, p)
	b.terms = d.terms
	if d.name == "taskharbor" && p.MaxAttempts == 0 {
		b.note("max_attempts", "if it is 0, each job has a limit of its own; here the limit is 1")
	}
	if b.absent != "" {
		b.Notes = append([]string{b.absent}, b.Notes...)
	}
	return p, d.name, nil
}

// reset clears the fields that Read sets.
func (b *Block) reset() {
	b.Notes, b.Bounds, b.warnings, b.terms = nil, Bounds{}, nil, nil
	b.lines, b.templates = map[string]int{}, map[string]bool{}
}

func (b *Block) read(from string) (d dialect, p retry.Policy, err error) {
	switch {
	case b.broken != "":
		return d, p, b.fault(unreadable, b.broken)
	case b.node.ShortTag() == "!!null" && b.dialect == "":
		return d, p, b.noPolicy()
	case b.tooLarge(mostNodes):
		return d, p, b.fault(unreadable,
			"this is larger than any policy: write the path to the policy with -at")
	}
	if from == "" {
		from = b.dialect
	}
	if i := slices.IndexFunc(dialects, func(d dialect) bool { return d.name == from }); i >= 0 {
		p, err = dialects[i].read(b.node, b)
		return dialects[i], p, err
	}

	native := dialects[0]
	p, err = native.read(b.node, b)
	if err == nil || b.writtenAsNative() {
		return native, p, err
	}
	var fit []string
	possible := slices.DeleteFunc(slices.Clone(dialects), func(d dialect) bool {
		return d.name != Native && !d.shows(b.node)
	})
	for _, d := range possible[1:] {
		if _, err := d.read(b.node, b); err == nil {
			fit = append(fit, d.name)
		}
	}
	switch len(fit) {
	case 1:
		return b.read(fit[0])
	case 0:
		if why := b.elsewhere(); why != nil {
			return d, p, why
		}
		if (b.At == "" || isNumber(b.At)) && !b.Known() && !b.hasMark() && b.nearKeys() == 0 {
			return d, p, b.noPolicy()
		}
		// Report the faults in the dialect that was probably intended.
		d = slices.MinFunc(possible, func(d, e dialect) int { return b.unknown(d) - b.unknown(e) })
		_, err = d.read(b.node, b)
		return d, p, err
	default:
		return d, p, b.fault(ambiguous,
			fmt.Sprintf("this can be read as %s: choose one with -from", strings.Join(fit, " or ")))
	}
}

func (b *Block) noPolicy() *Fault {
	return b.fault(NoPolicy,
		"there is no policy here: write a policy, such as {max_attempts: 5}, or the path to it with -at")
}

// elsewhere returns a fault if b contains a policy, or settings of a system that this package does
// not read. The fault names the system, or the path to the policy and what to write after -at.
// elsewhere returns nil if b contains neither, or if b is itself a policy with one wrong key.
func (b *Block) elsewhere() error {
	if b.hasMark() && b.unknown(dialects[0]) == 1 {
		return nil
	}
	if inner := b.inner(); len(inner) > 0 {
		at := b.path(inner[0])
		line, _ := b.line(strings.Join(inner[0], "."))
		text := fmt.Sprintf("there is a policy at %s: use -at %s", at, b.Hint())
		return &Fault{File: b.File, Line: line, Code: NoPolicy, Text: text}
	}
	if note := b.Unread(); note != nil {
		note.Note = false
		return note
	}
	return nil
}

// Unread returns a note if b contains a setting of a system that this package does not read.
// Otherwise it returns nil.
func (b *Block) Unread() (note *Fault) {
	first := len(shapes)
	walk(b.node, func(path []string, e entry) bool {
		i := recognize(path, e)
		if i < 0 || i >= first || readable(shapes[i].system) != "" {
			return false
		}
		title := shapes[i].system
		first, note = i, &Fault{
			File: b.File, Line: e.line, Note: true, Code: notRead, Key: b.path(path),
			Text: fmt.Sprintf("%s is a setting of %s, which retry does not read: %s", b.path(path), title,
				unread[title]),
		}
		return true
	})
	return note
}

// Hint returns the path from b to a policy in the native form or in a dialect of the library. It
// returns "" if b is a policy itself, or if no policy is inside b. If the paths of several policies
// differ in only one key, Hint writes * for this key.
func (b *Block) Hint() string {
	inner := b.inner()
	if len(inner) == 0 {
		return ""
	}
	first := inner[0]
	if i := len(first) - 2; i >= 0 && slices.ContainsFunc(inner[1:], func(path []string) bool {
		return len(path) == len(first) && slices.Equal(path[:i], first[:i])
	}) {
		first[i] = "*"
	}
	return b.path(first)
}

// inner returns the path from b to each policy that is the value of a key named retry.
func (b *Block) inner() (paths [][]string) {
	if b.Known() {
		return nil
	}
	walk(b.node, func(path []string, e entry) (found bool) {
		if found = e.key == "retry" && isOwn(resolved(e.value)); found {
			paths = append(paths, slices.Clone(path))
		}
		return found
	})
	return paths
}

// path returns the path from the document to a node inside b. keys is the path from b to this node.
func (b *Block) path(keys []string) string {
	return strings.TrimPrefix(b.At+"."+strings.Join(keys, "."), ".")
}

// writtenAsNative reports whether b is written in the native form, even if b has faults. All keys
// of such a block are native keys, and its backoff is not a scalar.
func (b *Block) writtenAsNative() bool {
	return b.unknown(dialects[0]) == 0 && !anyEntry(b.node, func(e entry) bool {
		return e.key == "backoff" && resolved(e.value).Kind == yaml.ScalarNode
	})
}

// unknown returns how many keys of b are not keys of a dialect.
func (b *Block) unknown(d dialect) (n int) {
	for e := range eachEntry(b.node) {
		if !d.accepts(d.keys, e.key) {
			n++
		}
	}
	return n
}

// shows reports whether a mapping has a key that is typical of the dialect. In a dialect of the
// library, each key is typical. shows returns false if the mapping has more keys than a policy can
// have.
func (d *dialect) shows(node *yaml.Node) bool {
	if len(node.Content) > 2*mostKeys {
		return false
	}
	marks := d.keys
	if d.format != nil {
		marks = d.format.marks
	}
	return anyEntry(node, func(e entry) bool {
		if d.name == "argo" { // other systems have the same keys
			return e.key == "retryPolicy" && resolved(e.value).Kind == yaml.ScalarNode ||
				e.key == "backoff" && hasKey(e.value, "duration")
		}
		return d.accepts(marks, e.key)
	})
}

// accepts reports whether key is in keys, in any spelling that the dialect accepts.
func (d *dialect) accepts(keys []string, key string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		return k == key || d.format != nil && d.format.spells(k, key)
	})
}
