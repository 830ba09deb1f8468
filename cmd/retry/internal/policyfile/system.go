package policyfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goretry/retry/retrysim"
)

// System returns the only document of f as a system.
func (f *File) System() (retrysim.System, []*Fault) {
	if len(f.documents) != 1 {
		return retrysim.System{}, []*Fault{{f.Name, 1, false, fmt.Sprintf("there are %d documents: write one system", len(f.documents))}}
	}
	document := f.documents[0]
	return (&Block{File: f.Name, Line: document.Line, node: resolved(document)}).System()
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
