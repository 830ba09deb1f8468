package policyfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry/retrysim"
)

// Document returns the only document of f.
func (f *File) Document() (Block, *Fault) {
	if len(f.documents) != 1 {
		return Block{}, &Fault{f.Name, 1, false, fmt.Sprintf("there are %d documents: write one", len(f.documents))}
	}
	document := resolved(f.documents[0])
	return Block{File: f.Name, Line: document.Line, node: document}, nil
}

// IsSystem reports whether b is a system of services that call each other: it has
// services, and one of them has a key that only such a service has.
func (b *Block) IsSystem() bool {
	for _, e := range entries(b.node) {
		if e.key != "services" {
			continue
		}
		for _, service := range entries(resolved(e.value)) {
			if slices.ContainsFunc(entries(resolved(service.value)), func(e entry) bool {
				return slices.Contains([]string{"rate", "workers", "work", "calls"}, e.key)
			}) {
				return true
			}
		}
	}
	return false
}

// System reads the system in b. If it cannot be read or is invalid, System returns
// every fault.
func (b *Block) System() (s retrysim.System, faults []*Fault) {
	err := errors.New("this is larger than any system: write at most 1000 services")
	if !b.tooLarge(mostSystemNodes) {
		err = b.node.Decode(&s)
	}
	if err == nil {
		err = s.Validate()
	}
	if err == nil {
		return s, nil
	}
	list := systemPrefix.ReplaceAllString(err.Error(), "")
	for start := 0; start < len(list); {
		text := list[start:]
		if end := nextSystemFault.FindStringIndex(text); end != nil {
			text = text[:end[0]]
		}
		start += len(text) + len("; ")
		faults = append(faults, &Fault{File: b.File, Line: b.systemLine(text), Text: text})
	}
	slices.SortStableFunc(faults, func(f, g *Fault) int { return f.Line - g.Line })
	return retrysim.System{}, faults
}

var (
	systemPrefix    = regexp.MustCompile(`^(?:yaml: )?(?:retrysim: invalid system: )?`)
	nextSystemFault = regexp.MustCompile(`; (?:services\.|events\[|rate is |duration is |unknown key (?:"services\.|"events\[|[^:]+: the keys of a system )|and \d+ more$)`)
	systemKey       = regexp.MustCompile(`^(?:unknown key ")?([\w.[\]-]+)(?:: (?:unknown key ")?([\w.[\]]+))?`)
)

// systemLine returns the line of the key that a fault of a system is about. The
// faults of a policy follow its key.
func (b *Block) systemLine(text string) int {
	key := systemKey.FindStringSubmatch(text)
	if key == nil {
		return b.Line
	}
	line, _ := b.line(strings.TrimRight(key[1]+"."+key[2], "."))
	return line
}

// LintSystem returns what [retry.Policy.Lint] reports about the policies in b, which
// has the system s.
func (b *Block) LintSystem(s retrysim.System) (faults []*Fault) {
	for name, v := range s.Services {
		for i, call := range v.Calls {
			at := fmt.Sprintf("services.%s.calls[%d]", name, i)
			for _, text := range call.Policy.Lint() {
				line, _ := b.line(at + ".retry")
				faults = append(faults, &Fault{File: b.File, Line: line, Lint: true, Text: at + ": " + text})
			}
		}
	}
	slices.SortFunc(faults, func(f, g *Fault) int { return strings.Compare(f.Text, g.Text) })
	slices.SortStableFunc(faults, func(f, g *Fault) int { return f.Line - g.Line })
	return faults
}

// Change replaces the first event of the system in f, and one of its calls, which
// says with from whose call it is. An empty text changes nothing.
func (f *File) Change(event, call string) *Fault {
	for _, change := range []struct {
		name, text string
		apply      func(to *yaml.Node) string
	}{{"the event", event, f.changeEvent}, {"the call", call, f.changeCall}} {
		if strings.TrimSpace(change.text) == "" {
			continue
		}
		parsed, err := Parse(change.name, []byte(change.text))
		if fault := new(Fault); errors.As(err, &fault) {
			return fault
		}
		problem := "write one mapping, such as {at: 20s, for: 10s}"
		if len(parsed.documents) == 1 {
			problem = change.apply(resolved(parsed.documents[0]))
		}
		if problem != "" {
			return &Fault{File: change.name, Line: 1, Text: problem}
		}
	}
	return nil
}

func (f *File) changeEvent(to *yaml.Node) string {
	system, fault := f.Document()
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{to}}
	switch events := f.Find("events"); {
	case fault != nil || system.node.Kind != yaml.MappingNode:
		return "" // what is wrong with the system is more important
	case len(events) == 0:
		system.node.Content = append(system.node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "events"}, list)
	case events[0].node.Kind == yaml.SequenceNode && len(events[0].node.Content) > 0:
		events[0].node.Content[0] = to
	case events[0].node.Kind == yaml.SequenceNode || events[0].node.ShortTag() == "!!null":
		*events[0].node = *list
	}
	return ""
}

func (f *File) changeCall(to *yaml.Node) string {
	const write = "write whose call it is, and to which service, such as {from: web, to: db, timeout: 1s, retry: {max_attempts: 2}}"
	ends := map[string]string{}
	for i := 0; to.Kind == yaml.MappingNode && i < len(to.Content); i += 2 {
		ends[to.Content[i].Value] = to.Content[i+1].Value
	}
	if ends["from"] == "" || ends["to"] == "" {
		return write
	}
	for _, call := range f.Find("services." + ends["from"] + ".calls.*") {
		if i := slices.IndexFunc(entries(call.node), func(e entry) bool { return e.key == "to" && e.value.Value == ends["to"] }); i < 0 {
			continue
		}
		from := slices.IndexFunc(to.Content, func(n *yaml.Node) bool { return n.Value == "from" })
		to.Content = slices.Delete(to.Content, from, from+2)
		*call.node = *to
		return ""
	}
	return fmt.Sprintf("there is no call from %s to %s: %s", ends["from"], ends["to"], write)
}
