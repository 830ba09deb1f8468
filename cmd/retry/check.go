package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/logfile"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/internal/eventlog"
)

// A comparison is what the calls of a log have in common with a policy.
type comparison struct {
	Differs []difference `json:"differs"` // the first of them
	Differ  int          `json:"differ"`  // calls
	Checked int          `json:"checked"`
	Skipped int          `json:"skipped"`
	ByCode  int          `json:"stopped_by_code"`

	policy retry.Policy
	notes  [2][]string // the first calls that are skipped, and stopped by code
	bad    *policyfile.Fault
	faults int // lines that cannot be read, or are cut off
	torn   int
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

// judge returns a call as it was, why it cannot be compared, and what differs.
func (n *comparison) judge(c *logfile.Call) (call eventlog.Call, cut string, err error) {
	call, cut, err = c.Replay()
	if call.Task != "" {
		return call, "it follows the rules of a pipeline", err
	}
	if err == nil && len(call.Records) > 0 {
		err = call.Check(n.policy)
	}
	return call, cut, err
}

// differs reports whether a call differs from the policy, if there is one.
func (n *comparison) differs(c *logfile.Call) bool {
	if n == nil {
		return false
	}
	_, _, err := n.judge(c)
	return err != nil
}

// add compares a call, and reports whether it differs.
func (n *comparison) add(c *logfile.Call) bool {
	if n == nil {
		return false
	}
	call, cut, err := n.judge(c)
	switch by := call.ByCode(n.policy); {
	case err != nil:
		n.Checked++
		if n.Differ++; n.Differ <= mostNamed {
			n.Differs = append(n.Differs, differenceOf(c, err))
		}
		return true
	case call.Task != "":
		n.Skipped += n.note(0, c, cut)
	case len(by) > 0 && by[len(by)-1].Event.Kind == retry.CallFinished:
		e := by[len(by)-1].Event
		n.ByCode += n.note(1, c, eventlog.Printable(strings.TrimSuffix(fmt.Sprintf("%s: %v", e.Reason, cmp.Or(e.Err, e.Cause)), ": <nil>")))
	case len(by) > 0:
		n.Skipped += n.note(0, c, "a class of the program decided")
	case cut != "":
		n.Skipped += n.note(0, c, cut)
	default:
		n.Checked++
	}
	return false
}

// note names a call that is not compared.
func (n *comparison) note(list int, c *logfile.Call, why string) int {
	if len(n.notes[list]) < mostNamed {
		if origin := c.Origin.String(); origin != "" {
			why = eventlog.Printable(origin) + ": " + why
		}
		n.notes[list] = append(n.notes[list], fmt.Sprintf("%s:%d: %s", c.Records[0].File.Name, c.Records[0].Line, why))
	}
	return 1
}

// differenceOf returns what an error about a line of a replayed call says.
func differenceOf(c *logfile.Call, err error) difference {
	line, text := 1, err.Error()
	if _, other := fmt.Sscanf(text, "retrylog: line %d: ", &line); other == nil {
		_, text, _ = strings.Cut(text, fmt.Sprintf("line %d: ", line))
	}
	r := c.Records[line-1]
	return difference{c.Source, r.File.Name, r.Line, logfile.Plain(text)}
}

// finish computes what can only be known at the end.
func (n *comparison) finish(l *logfile.Log) {
	if n != nil {
		n.bad, n.faults, n.torn = l.First, l.Bad, l.Torn
	}
}

// status returns the exit status.
func (n *comparison) status() int {
	if n != nil && (n.Differ > 0 || n.bad != nil || n.Checked+n.ByCode == 0) {
		return found
	}
	return ok
}

// text returns the report.
func (n *comparison) text(sources []*sourceLine) string {
	var b strings.Builder
	if len(n.Differs) > 0 {
		d := n.Differs[0]
		if d.Source != "" {
			d.What = eventlog.Printable(d.Source) + ": " + d.What
		}
		fmt.Fprintln(&b, &policyfile.Fault{File: d.File, Line: d.Line, Text: d.What})
	}
	if n.bad != nil {
		fmt.Fprintln(&b, n.bad)
	}
	for i, title := range []string{"skipped", "stopped by code"} {
		for _, name := range n.notes[i] {
			fmt.Fprintf(&b, "%s: %s\n", title, name)
		}
		if more := []int{n.Skipped, n.ByCode}[i] - len(n.notes[i]); more > 0 {
			fmt.Fprintf(&b, "%s: and %s more\n", title, preview.Thousands(more))
		}
	}
	if n.faults+n.torn > 0 {
		fmt.Fprintf(&b, "%s cut off, %s that cannot be read\n", counted(n.torn, "line"), preview.Thousands(n.faults))
	}
	switch {
	case n.Differ > 0:
		var of []string
		for _, line := range sources {
			if line.Differ > 0 {
				of = append(of, fmt.Sprintf("%s of %s", preview.Thousands(line.Differ), eventlog.Printable(line.Source)))
			}
		}
		fmt.Fprintf(&b, "%s not as decided by %v: %s\n", counted(n.Differ, "call"), n.policy, strings.Join(of, ", "))
	case n.Checked == 0:
		fmt.Fprintf(&b, "none compared with %v\n", n.policy)
	default:
		fmt.Fprintf(&b, "all as decided by %v\n", n.policy)
	}
	fmt.Fprintf(&b, "%s: %s checked, %s skipped, %s stopped by code\n", counted(n.Checked+n.Skipped+n.ByCode, "call"),
		preview.Thousands(n.Checked), preview.Thousands(n.Skipped), preview.Thousands(n.ByCode))
	return b.String()
}
