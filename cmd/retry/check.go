package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/internal/eventlog"
)

// A comparison is what the calls of a log have in common with a policy.
type comparison struct {
	Differs []difference `json:"differs"` // the first of them
	Checked int          `json:"checked"`
	Skipped int          `json:"skipped"`
	ByCode  int          `json:"stopped_by_code"`

	policy  retry.Policy
	skipped []string // the first of them
	byCode  []string
	files   *eventlog.Files
}

// A difference is what a policy would not have decided, or what cannot have happened.
type difference struct {
	Source string `json:"source"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	What   string `json:"what"`
}

const mostNamed = 10

func newComparison(p retry.Policy) *comparison {
	// A program may have a Wait, which ends waits early, and no file can say so.
	p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, nil }
	return &comparison{policy: p, Differs: []difference{}}
}

// add compares a call, and reports whether it differs.
func (n *comparison) add(t *eventlog.Trace) bool {
	call, cut, err := t.Replay()
	if err == nil && call.Task == "" {
		err = call.Check(n.policy)
	}
	if err != nil {
		if n.Checked++; len(n.Differs) < mostNamed {
			n.Differs = append(n.Differs, differenceOf(err))
		}
		return true
	}
	by := call.ByCode(n.policy)
	switch {
	case call.Task != "":
		cut = "it follows the rules of a pipeline"
	case len(by) > 0 && by[len(by)-1].Event.Kind == retry.CallFinished:
		n.ByCode++
		why := fmt.Sprintf("%s: %v", call.Reason, cmp.Or(by[len(by)-1].Event.Err, call.Cause))
		n.byCode = note(n.byCode, t, eventlog.Printable(strings.TrimSuffix(why, ": <nil>")))
		return false
	case len(by) > 0:
		cut = "a class of the program decided"
	case cut == "":
		n.Checked++
		return false
	}
	n.Skipped++
	n.skipped = note(n.skipped, t, cut)
	return false
}

// note adds a call that is not compared to the names of others, unless there are enough.
func note(names []string, t *eventlog.Trace, why string) []string {
	if len(names) == mostNamed {
		return names
	}
	first := t.Records[0]
	if of := eventlog.Of(first); of != "" {
		why = of + ": " + why
	}
	_, file := eventlog.Place(first)
	return append(names, fmt.Sprintf("%s:%d: %s", file, first.Line, why))
}

// differenceOf returns what an error about a record says.
func differenceOf(err error) difference {
	var d difference
	if fault := new(eventlog.Fault); errors.As(err, &fault) {
		d.Source, d.File = eventlog.Place(fault.Record)
		d.Line, d.What = fault.Line, fault.What.Error()
	}
	return d
}

// String returns d as a line.
func (d difference) String() string {
	if d.Source != "" {
		d.What = eventlog.Printable(d.Source) + ": " + d.What
	}
	return (&policyfile.Fault{File: d.File, Line: d.Line, Text: d.What}).Error()
}

// status returns the exit status.
func (n *comparison) status() int {
	if n != nil && (len(n.Differs) > 0 || n.files.First != nil || n.Checked+n.ByCode == 0) {
		return found
	}
	return ok
}

// text returns the report.
func (n *comparison) text(s *summary) string {
	var b strings.Builder
	if len(n.Differs) > 0 {
		fmt.Fprintln(&b, n.Differs[0])
	}
	if n.files.First != nil {
		fmt.Fprintln(&b, differenceOf(n.files.First))
	}
	for _, list := range []struct {
		title string
		names []string
		all   int
	}{{"skipped", n.skipped, n.Skipped}, {"stopped by code", n.byCode, n.ByCode}} {
		for _, name := range list.names {
			fmt.Fprintf(&b, "%s: %s\n", list.title, name)
		}
		if more := list.all - len(list.names); more > 0 {
			fmt.Fprintf(&b, "%s: and %s more\n", list.title, preview.Thousands(more))
		}
	}
	if n.files.Torn+n.files.Bad > 0 {
		fmt.Fprintf(&b, "%s cut off, %s that cannot be read\n", counted(n.files.Torn, "line"), preview.Thousands(n.files.Bad))
	}
	switch {
	case s.Differ > 0:
		var of []string
		for _, line := range s.Sources {
			if line.Differ > 0 {
				of = append(of, fmt.Sprintf("%s of %s", preview.Thousands(line.Differ), eventlog.Printable(line.Source)))
			}
		}
		fmt.Fprintf(&b, "%s not as decided by %v: %s\n", counted(s.Differ, "call"), n.policy, strings.Join(of, ", "))
	case n.Checked == 0:
		fmt.Fprintf(&b, "none compared with %v\n", n.policy)
	default:
		fmt.Fprintf(&b, "all as decided by %v\n", n.policy)
	}
	fmt.Fprintf(&b, "%s: %s checked, %s skipped, %s stopped by code\n", counted(n.Checked+n.Skipped+n.ByCode, "call"),
		preview.Thousands(n.Checked), preview.Thousands(n.Skipped), preview.Thousands(n.ByCode))
	return b.String()
}
