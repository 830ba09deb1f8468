package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/logs"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/cmd/retry/internal/printable"
)

// A comparison counts the calls of a log that follow a policy, and the calls that differ from it.
type comparison struct {
	Differs []difference `json:"differs"` // the first ten differences
	Checked int          `json:"checked"` // calls that were compared with the policy
	Skipped int          `json:"skipped"`
	ByCode  int          `json:"stopped_by_code"`

	policy retry.Policy
	calls  map[string]int // how many calls were not compared, for each reason
}

// A difference is a decision that the policy would not have made, or an event that cannot follow
// the events before it.
type difference struct {
	Source string `json:"source"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	What   string `json:"what"`
}

func newComparison(p retry.Policy) *comparison {
	// A program may set Policy.Wait, which can end waits early. A policy in a file has no Wait, so
	// this function sets one. Then a retry that starts earlier than the policy says is not a
	// difference.
	p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, nil }
	return &comparison{policy: p, Differs: []difference{}, calls: map[string]int{}}
}

// add compares a call with the policy, and reports whether the call differs.
func (n *comparison) add(t *logs.Trace) bool {
	by, cut, fault := t.Compare(n.policy)
	if fault != nil {
		if n.Checked++; len(n.Differs) < 10 {
			n.Differs = append(n.Differs, differenceOf(fault))
		}
		return true
	}
	why := "skipped: " + cut
	switch {
	case len(by) > 0 && by[len(by)-1].Event.Kind == retry.CallFinished:
		n.ByCode++
		why = "stopped by code: " + printable.Line(string(t.Reason))
	case len(by) > 0:
		n.Skipped++
		why = "skipped: a class of the program decided"
	case cut != "":
		n.Skipped++
	default:
		n.Checked++
		return false
	}
	n.calls[why]++
	return false
}

// differenceOf returns a fault in a log as a difference.
func differenceOf(f *logs.Fault) difference {
	return difference{f.Source, f.File, f.Line, f.Err.Error()}
}

// String returns d as one line: file:line: source: what differs.
func (d difference) String() string {
	if d.Source != "" {
		d.What = d.Source + ": " + d.What
	}
	return (&policyfile.Fault{File: d.File, Line: d.Line, Text: d.What}).Error()
}

// addTo adds the sentences about the comparison to p.
func (n *comparison) addTo(p *paragraph, s *summary) {
	number := preview.Thousands[int]
	for _, first := range n.Differs[:min(1, len(n.Differs))] {
		p.say(true, "%v\n", first)
	}
	if s.First != nil {
		p.say(true, "%v\n", differenceOf(s.First))
	}
	for _, why := range slices.Sorted(maps.Keys(n.calls)) {
		p.say(true, "%s: %s\n", why, counted(n.calls[why], "call"))
	}
	p.say(s.Torn+s.Bad > 0, "%s cut off, %s that cannot be read\n",
		counted(s.Torn, "line"), counted(s.Bad, "line"))
	p.say(true, "the policy: %v\n", n.policy)
	var differ []string
	for _, line := range s.Sources {
		if line.Differ > 0 {
			differ = append(differ, fmt.Sprintf("%s of %s from %s",
				number(line.Differ), number(line.Calls), printable.Line(line.Source)))
		}
	}
	p.say(differ != nil, "differ from the policy: %s (%s)\n",
		counted(s.Differ, "call"), strings.Join(differ, ", "))
	p.say(differ == nil && n.Checked == 0, "no call could be compared with the policy\n")
	p.say(differ == nil && n.Checked > 0, "all checked calls follow the policy\n")
	p.say(true, "%s: %s checked, %s skipped, %s stopped by code\n",
		counted(n.Checked+n.Skipped+n.ByCode, "call"),
		number(n.Checked), number(n.Skipped), number(n.ByCode))
}
