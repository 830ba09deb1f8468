package policyfile

import (
	"slices"
	"time"

	"github.com/goretry/retry"
)

// Lint returns the findings of [retry.Policy.Lint] about the policy in b. It adds findings about
// settings that are seldom right in a file. In code they are often right, because code has a
// context and a budget. A finding about a dialect names only keys of this dialect.
func (b *Block) Lint(p retry.Policy) (faults []*Fault) {
	found := p.Lint()
	if gap, isEndless := endless(p); isEndless && b.All == 0 {
		text := say("unlimited attempts (max_attempts), at most %v apart: a target that is down gets "+
			"%.0f an hour from each call; set max_elapsed, or a longer delay",
			gap, time.Hour.Seconds()/max(1e-3, gap.Seconds()))
		f := retry.Finding{Code: forever, Field: "MaxAttempts", Key: "max_attempts"}
		found = append(found, f.WithText(text))
	}
	if b.All > 0 { // p.Lint does not know b.All, and may have reported a call without a limit
		found = slices.DeleteFunc(found, func(f retry.Finding) bool {
			return slices.Contains(ofNoBound, f.Code)
		})
	}
	if len(b.templates) > 0 { // an unknown template may contain the missing setting
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
	// The texts of warnings already name the keys of the dialect.
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

// ofNoBound lists the codes of findings about calls without a limit.
var ofNoBound = []string{"no_limit", "unused_limit", "too_long"}

// leastForever is the shortest delay that lint accepts in a policy that limits neither the number
// of attempts nor their time.
const leastForever = time.Second

// endless returns the delay after 100 attempts of p, or 0 if p limits the number of attempts or
// their time. tooShort is true if p has no such limit and this delay is shorter than leastForever.
func endless(p retry.Policy) (gap time.Duration, tooShort bool) {
	delays := p.Delays(100)
	if p.EffectiveMax() != retry.Unlimited || p.MaxElapsed > 0 || len(delays) == 0 {
		return 0, false
	}
	gap = delays[len(delays)-1]
	return gap, gap < leastForever
}

// The terms of a dialect are the keys with which it limits retries. A field is "" if the dialect
// has no such key.
type terms struct {
	count   string // the key that limits the number of attempts or retries
	longest string // the key that limits each delay
	total   string // the key that limits all attempts and delays together
}

// told returns the key and the text of a finding of the library, in the words of a dialect. The
// text is "" if the finding matters only to programs that use this library. It is also "" if no key
// of the dialect would help.
func (t *terms) told(code string, p retry.Policy) (key, text string) {
	switch {
	case code == "unused_limit":
		return "retryable", say("retryable is false, so %s has no effect", t.count)
	case code == "short_max_delay" && t.longest != "":
		return t.longest, say("%s of %v is shorter than the first delay: it cuts even the first delay",
			t.longest, p.MaxDelay)
	case code == neverRuns && t.total != "":
		n := len(p.Plan(retry.Unlimited)) + 1
		return t.total, say("at most %d of %d attempts fit into %s of %v: attempt %d and all later "+
			"attempts never run", n, p.EffectiveMax(), t.total, p.MaxElapsed, n+1)
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
