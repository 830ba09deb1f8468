package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/logs"
	"github.com/goretry/retry/cmd/retry/internal/preview"
)

// A group counts calls that stopped for the same reason, or calls from the same source.
type group struct {
	Reason   string `json:"reason,omitempty"`
	Class    string `json:"class,omitempty"`
	Source   string `json:"source,omitempty"`
	Calls    int    `json:"calls"`
	GaveUp   int    `json:"gave_up"`
	Attempts int    `json:"attempts"`
	Least    int    `json:"least_max"`        // the smallest limit on attempts; -1: unlimited
	Most     int    `json:"greatest_max"`     // the greatest limit on attempts; -1: unlimited
	Differ   int    `json:"differ,omitempty"` // calls that differ from the policy

	// Commonest is the most frequent error. If the group contains the calls from the same source,
	// Commonest counts the error of every failed attempt. If the group contains the calls that stopped
	// for the same reason, Commonest counts only the last error of each call.
	Commonest *errorLine `json:"commonest,omitempty"`

	errors tally
}

// add counts a call and its errors.
func (g *group) add(t *logs.Trace, attempts int, differs bool, errs ...error) {
	limit := uint(t.Last().Max) // -1 means unlimited, and as a uint it is greater than any limit
	if g.Calls == 0 {
		g.Least, g.Most = int(limit), int(limit)
	}
	g.Least, g.Most = int(min(limit, uint(g.Least))), int(max(limit, uint(g.Most)))
	g.Calls++
	g.Attempts += attempts
	g.GaveUp += one(gaveUp(t))
	g.Differ += one(differs)
	for _, err := range errs {
		g.errors.add(err)
	}
}

// limits returns a text with the smallest and the greatest limit on attempts among the calls, such
// as "4 to 9".
func (g *group) limits() string {
	names := map[int]string{retry.Unlimited: "none", 0: "-"} // 0: the log does not name the limit
	least := cmp.Or(names[g.Least], preview.Thousands(g.Least))
	most := cmp.Or(names[g.Most], preview.Thousands(g.Most))
	if least == most {
		return least
	}
	return least + " to " + most
}

// groups maps a reason, a class and a source to the group of their calls. It contains at most
// mostGroups groups, and one more group for all other keys.
type groups map[[3]string]*group

// get returns the group of a key. If there are already mostGroups groups, a new key gets the group
// of the key `other`.
func (g groups) get(key, other [3]string) *group {
	if g[key] == nil && len(g) >= mostGroups {
		key = other
	}
	if g[key] == nil {
		g[key] = &group{Reason: key[0], Class: key[1], Source: key[2]}
	}
	return g[key]
}

// sorted sets Commonest in each group, and returns the groups. The group in which most calls gave
// up comes first.
func (g groups) sorted() []*group {
	all := slices.AppendSeq([]*group{}, maps.Values(g))
	for _, line := range all {
		for _, commonest := range line.errors.most(1) {
			line.Commonest = &commonest
		}
	}
	slices.SortFunc(all, func(a, b *group) int {
		return cmp.Or(
			b.GaveUp-a.GaveUp,
			b.Attempts-a.Attempts,
			strings.Compare(a.Reason+a.Class+a.Source, b.Reason+b.Class+b.Source),
		)
	})
	return all
}

const (
	mostGroups  = 64
	mostErrors  = 256 // the largest number of errors in a tally
	namedErrors = 5   // the number of errors that the summary lists
	longestText = 200 // the largest number of bytes in the text of an error
)
