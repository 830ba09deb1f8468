package policyfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysim"
)

// IsSystem reports whether b is a system of services that call each other. A system has the key
// services, and at least one service has the key rate, workers, work or calls.
func (b *Block) IsSystem() bool {
	for e := range eachEntry(b.node) {
		for service := range eachEntry(resolved(e.value)) {
			has := func(key string) bool { return hasKey(service.value, key) }
			if e.key == "services" && (has("rate") || has("workers") || has("work") || has("calls")) {
				return true
			}
		}
	}
	return false
}

// System reads the system in b. If the system cannot be read or is invalid, System returns every
// fault.
func (b *Block) System() (s retrysim.System, faults []*Fault) {
	if b.tooLarge(mostSystemNodes) {
		const text = "this is larger than any system: write at most 1000 services"
		return s, []*Fault{{File: b.File, Line: b.Line, Code: unreadable, Text: text}}
	}
	err := b.node.Decode(&s)
	if err == nil {
		err = s.Validate()
	}
	return s, b.systemFaults(err)
}

// systemFaults turns the error of reading the settings of a system into a list of faults. Each
// fault has the line of its key.
func (b *Block) systemFaults(err error) (faults []*Fault) {
	var found finder
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &found):
		return []*Fault{{File: b.File, Line: b.Line, Code: unreadable, Text: err.Error()}}
	}
	for _, f := range found.Findings() {
		line, _ := b.line(f.Key)
		faults = append(faults,
			&Fault{File: b.File, Line: line, Code: f.Code, Key: f.Key, Text: f.InKeys()})
	}
	slices.SortStableFunc(faults, byLine)
	return faults
}

// LintSystem returns the findings of [retry.Policy.Lint] about the policies in b. It also reports a
// call with retries if the called service itself makes calls with retries, because then the
// attempts multiply. The parameter s is the system in b. The result `policies` is the number of
// policies in b.
func (b *Block) LintSystem(s retrysim.System) (policies int, faults []*Fault) {
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		for i, call := range s.Services[name].Calls {
			at := fmt.Sprintf("services.%s.calls[%d]", name, i)
			line, written := b.line(at + ".retry")
			if written {
				policies++
			}
			for _, f := range append(call.Policy.Lint(), multiplied(s, call)...) {
				key := at + ".retry"
				if f.Key != "" {
					key += "." + f.Key
				}
				faults = append(faults,
					&Fault{File: b.File, Line: line, Lint: true, Code: f.Code, Field: f.Field, Key: key,
						Text: at + ": " + f.InKeys()})
			}
		}
	}
	slices.SortStableFunc(faults, byLine)
	return policies, faults
}

// multiplied returns a finding if the parameter `call` is retried and leads to another call that is
// retried, directly or through other services. Then the attempts of the two calls multiply. If
// `call` leads to several retried calls, the finding names the nearest of them. There is no finding
// if a budget or a lent budget limits the attempts.
func multiplied(s retrysim.System, call retrysim.Edge) []retry.Finding {
	retried := func(e retrysim.Edge) bool {
		return e.Policy.EffectiveMax() != 1 && e.Policy.Budget == nil
	}
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
				text := fmt.Sprintf("%s here, and %s in each of these attempts where %s calls %s: they "+
					"multiply; retry in only one of these layers, set a budget in one of them, or set lend",
					attemptsText(call), attemptsText(e), queue[0], e.To)
				return []retry.Finding{retry.Finding{Code: multiply}.WithText(text)}
			}
			if !seen[e.To] {
				seen[e.To] = true
				queue = append(queue, e.To)
			}
		}
	}
	return nil
}

// attemptsText says how many attempts a service makes for its call e to another service.
func attemptsText(e retrysim.Edge) string {
	if n := e.Policy.EffectiveMax(); n > 0 {
		return fmt.Sprintf("%d attempts", n)
	}
	return "attempts without a limit"
}
