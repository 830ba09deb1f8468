package policyfile

import (
	"slices"
	"time"

	"github.com/goretry/retry"
)

// Lint returns what [retry.Policy.Lint] reports about the policy in b, and what is
// right in code, which has a context and a budget, but seldom in a file. What it reports about a
// dialect names the keys of that dialect alone.
func (b *Block) Lint(p retry.Policy) (faults []*Fault) {
	found := p.Lint()
	if gap, is := endless(p); is && b.All == 0 {
		text := say("unlimited attempts (max_attempts), at most %v apart: a target that is down gets "+
			"%.0f an hour from each call; set max_elapsed, or a longer delay",
			gap, time.Hour.Seconds()/max(1e-3, gap.Seconds()))
		f := retry.Finding{Code: forever, Field: "MaxAttempts", Key: "max_attempts"}
		found = append(found, f.WithText(text))
	}
	if b.All > 0 { // a bound that the library does not know
		found = slices.DeleteFunc(found, func(f retry.Finding) bool {
			return slices.Contains(ofNoBound, f.Code)
		})
	}
	if len(b.templates) > 0 { // what is not known here may be what is missing
		found = nil
	}
	for _, f := range found {
		if b.terms != nil {
			key, text := b.terms.told(f.Code, p)
			if text == "" {
				continue
			}
			f = retry.Finding{Code: f.Code, Key: key}.WithText(text)
		}
		fault := b.found(f)
		fault.Lint = true
		faults = append(faults, fault)
	}
	// Warnings are in the words of their system.
	for _, w := range append(slices.Clone(b.warnings), b.lintBounds(p)...) {
		line, beside := b.lines[w.key]
		if !beside {
			line, _ = b.line(w.key)
		}
		faults = append(faults, &Fault{
			File: b.File, Line: line, Lint: true, Code: w.code, Key: w.key, Text: w.text,
		})
	}
	return faults
}

// ofNoBound are the codes of what Lint reports where nothing bounds a call.
var ofNoBound = []string{"no_limit", "unused_limit", "too_long"}

// leastForever is how far apart attempts should be that go on forever.
const leastForever = time.Second

// endless returns the delay after 100 attempts of p, and whether nothing ends them and that delay
// is shorter than leastForever.
func endless(p retry.Policy) (gap time.Duration, is bool) {
	delays := p.Delays(100)
	if p.EffectiveMax() != retry.Unlimited || p.MaxElapsed > 0 || len(delays) == 0 {
		return 0, false
	}
	gap = delays[len(delays)-1]
	return gap, gap < leastForever
}

// terms are the keys with which a dialect bounds retries; "": it has no such key.
type terms struct {
	count   string // all attempts, or all retries
	longest string // each delay
	total   string // all attempts with their delays
}

// told returns what the policy of a dialect has to hear about a finding of the library, and at
// which key. The text is "" if the finding is about a loop of the library, or if the dialect has
// no key that mends it.
func (t *terms) told(code string, p retry.Policy) (key, text string) {
	switch {
	case code == "unused_limit":
		return "retryable", say("retryable is false, so %s has no effect", t.count)
	case code == "short_max_delay" && t.longest != "":
		return t.longest, say("%s of %v is shorter than the first delay: it cuts even that one",
			t.longest, p.MaxDelay)
	case code == neverRuns && t.total != "":
		n := len(p.Plan(retry.Unlimited)) + 1
		return t.total, say("at most %d of %d attempts fit into %s of %v: attempt %d and those "+
			"after it never run", n, p.EffectiveMax(), t.total, p.MaxElapsed, n+1)
	case code == "no_time" && t.total != "":
		return t.total, say("%s of %v is shorter than the first delay: there is no retry",
			t.total, p.MaxElapsed)
	case code == "growing_delays" && t.longest != "":
		return t.longest, say("unlimited attempts whose delays grow to years: set %s", t.longest)
	case code == "too_long" && t.longest != "":
		plan := p.Plan(retry.Unlimited)
		return t.count, say("the delays of the first %d retries take up to %v: lower %s, or set "+
			"a shorter %s", len(plan), plan[len(plan)-1].Total, t.count, t.longest)
	case code == forever && t.count != "":
		return t.count, say("nothing ends the attempts, and the delays between them are shorter "+
			"than %v: set %s", leastForever, t.count)
	}
	return "", ""
}
