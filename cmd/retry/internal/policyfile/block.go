package policyfile

import (
	"strings"

	"go.yaml.in/yaml/v3"
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
	original  *yaml.Node      // node as it was before values replaced its templates
	beside    *place          // the mapping around the block; nil if there is none
	dialect   string          // the dialect that the block's place in the file shows; "" if none
	broken    string          // why the block cannot be read; "" if it can be read
	absent    string          // what applies because the file lacks the block; "" if it has it
	misspelt  bool            // a key is probably misspelled, and other documents are policies
	warnings  []warning       // set by Read
	lines     map[string]int  // set by Read: the lines of the settings next to the block
	templates map[string]bool // set by Read: the keys with a template whose value is unknown
	unnoted   []string        // during Read: the keys whose templates need no note
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

// line returns the line of a key in b, such as backoff.delays[1]. If b does not have the key, ok is
// false, and line returns the line of the node that should contain the key.
func (b *Block) line(path string) (line int, ok bool) {
	node, line := b.node, b.Line
	separates := func(r rune) bool { return strings.ContainsRune(".[]", r) }
	for _, key := range strings.FieldsFunc(path, separates) {
		e, ok := firstEntry(node, func(e entry) bool {
			return e.key == key || snake(e.key) == snake(key)
		})
		if !ok {
			e, ok = firstEntry(node, func(e entry) bool { return strings.EqualFold(e.key, key) })
		}
		if !ok {
			return line, false
		}
		node, line = resolved(e.value), e.line
	}
	return line, true
}
