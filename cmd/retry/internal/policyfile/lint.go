package policyfile

import (
	"fmt"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// Lint returns the findings of [retry.Policy.Lint] about the policy in b. It adds findings about
// settings that are seldom right in a file. The same settings are often right in code, because a
// program has a context and a budget. A finding about a dialect names only keys of this dialect.
func (b *Block) Lint(p retry.Policy) (faults []*Fault) {
	found := p.Lint()
	if gap, isEndless := endless(p); isEndless && b.All == 0 {
		text := say("unlimited attempts (max_attempts), at most %v apart: a target that is down gets "+
			"%.0f an hour from each call; set max_elapsed, or a longer delay",
			gap, time.Hour.Seconds()/max(1e-3, gap.Seconds()))
		f := retry.Finding{Code: forever, Field: "MaxAttempts", Key: "max_attempts"}
		found = append(found, f.WithText(text))
	}
	if b.All > 0 { // p.Lint does not know this timeout of a call, and may have reported its absence
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
	// The texts of b.warnings and of lintBounds need no translation: they already name the keys of
	// the dialect.
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

// leastForever is the shortest delay that `lint` accepts in a policy that limits neither the number
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

// lintBounds warns of attempts of p that never run, or that the timeout b.All may cut off.
func (b *Block) lintBounds(p retry.Policy) (found []warning) {
	if b.All == 0 {
		return nil
	}
	p.AttemptTimeout = b.Each
	start := time.Duration(0) // the earliest start of the next attempt if each attempt hangs
	steps, of := p.Plan(mostKeys), fmt.Sprintf(" of %d", p.EffectiveMax())
	// If the attempts are unlimited, the timeout b.All is meant to end the call. Then lintBounds warns
	// only if b.All ends the call before the first retry.
	if p.EffectiveMax() == retry.Unlimited {
		steps, of = p.Plan(1), ""
	}
	for i, step := range steps {
		if start = saturate.Add(start, saturate.Add(b.Each, step.Lo)); start < b.All {
			continue
		}
		why := say("the waits before it take at least %v", start)
		if b.Each > 0 {
			why = say("if each attempt before it takes its %v", b.Each)
		}
		return []warning{{neverRuns, b.AllKey,
			say("attempt %d%s never runs, %s: %s is %v, for all attempts and waits", i+2, of, why, b.AllKey,
				b.All)}}
	}
	if n := len(steps); n > 0 && b.Each > 0 && of != "" {
		if end := saturate.Add(steps[n-1].Total, b.Each); end > b.All {
			return []warning{{cutOff, b.AllKey,
				say("attempt %d may be cut off: %d attempts of %v and their waits take up to %v, and %s is %v",
					n+1, n+1, b.Each, end, b.AllKey, b.All)}}
		}
	}
	return nil
}

// tooLong warns that the timeout of an attempt is too long to have an effect.
func (b *Block) tooLong(code, why, write string) {
	b.warn(code, b.EachKey,
		say("%s is %v, and %s, because %s is %v: write %s %v", b.EachKey, b.Each, why, b.AllKey, b.All,
			write, b.All))
	b.Each = 0
}

// A warning is a report of `lint` about a key in b or next to it.
type warning struct{ code, key, text string }

func (b *Block) warn(code, key, text string) {
	b.warnings = append(b.warnings, warning{code, key, text})
}
