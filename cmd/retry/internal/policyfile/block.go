package policyfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
)

// A Block is a part of a file that contains a policy, or that should contain a policy.
type Block struct {
	File string
	At   string // the path to the block, such as jobs.0.retry; "" if the block is the whole file
	Line int

	Notes  []string // set by Read: a text for each setting that a policy cannot express
	Bounds          // set by Read

	node      *yaml.Node
	documents []*yaml.Node    // the documents of the file
	original  *yaml.Node      // the node of the block before its templates were replaced by values
	beside    *place          // the mapping around the block; nil if there is none
	dialect   string          // the dialect that belongs to the block's place in the file; "" if none
	broken    string          // why the block cannot be read; "" if it can be read
	absent    string          // a note on the defaults if the block is not in the file; otherwise ""
	misspelt  bool            // a key is probably misspelled; only set if another block is a policy
	warnings  []warning       // set by Read
	lines     map[string]int  // set by Read: for each key next to the block, the line of the key
	templates map[string]bool // set by Read: the keys whose value is a template without a default
	unnoted   []string        // used by Read: the keys whose templates get no note; see format.expands
	terms     *terms          // set by Read: the keys that limit retries; nil for the native form
}

// Excerpt returns the lines of b in the text of its file. It also returns the n lines before b and
// the n lines after b, or fewer if the text has fewer.
func (b *Block) Excerpt(text string, n int) (before, block, after string) {
	last := b.Line
	walk(b.node, func(_ []string, e entry) bool {
		value := resolved(e.value)
		last = max(last, e.line+strings.Count(value.Value, "\n"))
		return false
	})
	lines := strings.SplitAfter(text, "\n")
	first, end := min(b.Line-1, len(lines)), min(last, len(lines))
	part := func(from, to int) string {
		return strings.Join(lines[max(0, from):min(to, len(lines))], "")
	}
	return part(first-n, first), part(first, end), part(end, end+n)
}

// Read reads the policy in b, and returns it with the name of its dialect. The parameter `from` is
// the name of the dialect. If `from` is "", Read uses the first of these dialects:
//
//   - the dialect that belongs to the place of b in its file, if there is such a dialect
//   - the native form, if b is in this form
//   - the dialect in which b can be read, if there is only one
//
// If b cannot be read or is invalid, Read returns every fault. Read sets the fields Notes and
// Bounds.
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

// elsewhere returns a fault if b contains a policy. This fault names the path to the policy, and
// says what to write after -at. If b contains settings of a system that this package does not read,
// `elsewhere` returns a fault that names the system. In all other cases the result is nil. The
// result is also nil if b looks like a policy in the native form with one wrong key, because then
// the wrong key is the fault to report.
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

// Hint returns the path from b to a policy in the native form or in a dialect of package
// retrydialect. It returns "" if b is a policy itself, or if no policy is inside b. If the paths of
// several policies differ in only one key, Hint writes * for this key.
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

// path returns the path from the document to a node inside b. The parameter `keys` is the path from
// b to this node.
func (b *Block) path(keys []string) string {
	return strings.TrimPrefix(b.At+"."+strings.Join(keys, "."), ".")
}

// note adds a note about a setting that a policy cannot express.
func (b *Block) note(key, text string) { b.Notes = append(b.Notes, key+": "+text) }
