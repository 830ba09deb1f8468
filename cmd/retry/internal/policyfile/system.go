package policyfile

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/goretry/retry/internal/strict"
	"github.com/goretry/retry/retrysim"
)

// Document returns the only document of f.
func (f *File) Document() (Block, *Fault) {
	if len(f.documents) != 1 {
		return Block{}, &Fault{File: f.Name, Line: 1, Text: fmt.Sprintf("there are %d documents: write one", len(f.documents))}
	}
	document := resolved(f.documents[0])
	return Block{File: f.Name, Line: document.Line, node: document}, nil
}

// IsSystem reports whether b is a system of services that call each other: it has
// services, and one of them has a key that only such a service has.
func (b *Block) IsSystem() bool {
	for _, e := range entries(b.node) {
		for _, service := range entries(resolved(e.value)) {
			has := func(key string) bool { return hasKey(service.value, key) }
			if e.key == "services" && (has("rate") || has("workers") || has("work") || has("calls")) {
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
	return s, b.systemFaults(err)
}

var (
	systemPrefix = regexp.MustCompile(`^(?:yaml: )?(?:retrysim: invalid system: )?`)
	systemKey    = regexp.MustCompile(`^(?:unknown key ")?([\w.[\]-]+)(?:: (?:unknown key ")?([\w.[\]]+))?`)
)

// systemFaults returns the faults in an error about a system, each at the line of its
// key. Those of a policy follow the key of that.
func (b *Block) systemFaults(err error) (faults []*Fault) {
	if err == nil {
		return nil
	}
	texts := []string{systemPrefix.ReplaceAllString(err.Error(), "")}
	if list := new(strict.Error); errors.As(err, &list) {
		texts = list.Texts
	}
	for _, text := range texts {
		line := b.Line
		if key := systemKey.FindStringSubmatch(text); key != nil {
			line, _ = b.line(strings.TrimRight(key[1]+"."+key[2], "."))
		}
		faults = append(faults, &Fault{File: b.File, Line: line, Text: text})
	}
	slices.SortStableFunc(faults, byLine)
	return faults
}

func byLine(f, g *Fault) int { return f.Line - g.Line }

// LintSystem returns what [retry.Policy.Lint] reports about the policies in b, which
// has the system s, and retries in two layers above each other, which multiply. It also
// returns how many policies there are.
func (b *Block) LintSystem(s retrysim.System) (policies int, faults []*Fault) {
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		for i, call := range s.Services[name].Calls {
			at := fmt.Sprintf("services.%s.calls[%d]", name, i)
			line, written := b.line(at + ".retry")
			if written {
				policies++
			}
			for _, text := range slices.Concat(call.Policy.Lint(), multiplied(s, call)) {
				faults = append(faults, &Fault{File: b.File, Line: line, Lint: true, Text: at + ": " + text})
			}
		}
	}
	slices.SortStableFunc(faults, byLine)
	return policies, faults
}

// multiplied returns what to say of a call whose attempts are multiplied by those of a call
// below it, of the first such call. A budget, or one that is lent, bounds them.
func multiplied(s retrysim.System, call retrysim.Edge) []string {
	retried := func(e retrysim.Edge) bool { return e.Policy.EffectiveMax() != 1 && e.Policy.Budget == nil }
	for _, v := range s.Services {
		if v.Lend > 0 {
			return nil
		}
	}
	if !retried(call) {
		return nil
	}
	seen := map[string]bool{call.To: true}
	for queue := []string{call.To}; len(queue) > 0; queue = queue[1:] {
		for _, e := range s.Services[queue[0]].Calls {
			if retried(e) {
				return []string{fmt.Sprintf("%s here, and %s in each of them where %s calls %s: they multiply; retry in one of these layers, set a budget in one, or lend",
					attempts(call), attempts(e), queue[0], e.To)}
			}
			if !seen[e.To] {
				seen[e.To] = true
				queue = append(queue, e.To)
			}
		}
	}
	return nil
}

func attempts(e retrysim.Edge) string {
	if n := e.Policy.EffectiveMax(); n > 0 {
		return fmt.Sprintf("%d attempts", n)
	}
	return "attempts without a limit"
}
