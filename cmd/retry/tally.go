package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/cmd/retry/internal/printable"
)

// An errorLine counts the attempts that failed with the same error.
type errorLine struct {
	Error   string  `json:"error"`
	Count   int     `json:"count"`
	Share   float64 `json:"share,omitempty"`    // the share of this error among all failures
	AtLeast bool    `json:"at_least,omitempty"` // whether Count may be too low
}

// times returns the count as text, such as "450 or more".
func (l *errorLine) times() string {
	text := preview.Thousands(l.Count)
	if l.AtLeast {
		text += " or more"
	}
	return text
}

func (l *errorLine) String() string {
	if l == nil {
		return ""
	}
	return l.Error + " (" + l.times() + ")"
}

// A tally counts errors with the algorithm of Misra and Gries, Finding Repeated Elements (1982). An
// error that makes up more than 1/mostErrors of all errors is always counted. No count is too high.
type tally struct {
	counts map[string]int // the count of each error, by the text of the error
	all    int            // how many errors were added
	least  bool           // whether a count may be too low
}

func (t *tally) add(err error) {
	text := printable.Line(err.Error())
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + "..."
	}
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.all++
	if t.counts[text]++; len(t.counts) > mostErrors {
		t.least = true
		for other := range t.counts {
			t.counts[other]--
		}
		maps.DeleteFunc(t.counts, func(_ string, count int) bool { return count == 0 })
	}
	if len(t.counts) == 0 { // all counts fell to 0, so there is room to count the new error
		t.counts[text] = 1
	}
}

// most returns the n commonest errors.
func (t *tally) most(n int) []errorLine {
	lines := []errorLine{}
	for text, count := range t.counts {
		lines = append(lines, errorLine{text, count, float64(count) / float64(t.all), t.least})
	}
	slices.SortFunc(lines, func(a, b errorLine) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Error, b.Error))
	})
	return lines[:min(n, len(lines))]
}
