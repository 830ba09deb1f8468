package policyfile

import (
	"fmt"
	"slices"
	"strings"
)

// readArgo reads the retryStrategy of a template or of a containerSet.
func readArgo(f *form) {
	f.factor = 1
	if f.b.beside != nil && f.b.beside.key == "containerSet" { // a containerSet has other keys
		f.attempts, f.base = 1+f.textWhole("retries", 0), f.time("duration", 0, 0)
		return
	}
	f.attempts = 1 + f.textWhole("limit", -2) // without a limit 1 - 2 is -1: unlimited
	written := func(key string) bool { return f.isSet(key) || f.b.templates[key] }
	limited := written("limit")
	policies := []string{"Always", "OnFailure", "OnError", "OnTransientError"}
	isPolicy := func(p string) bool { return slices.Contains(policies, p) }
	policy := take(f, "retryPolicy", "one of "+strings.Join(policies, ", "), "", isPolicy)
	if policy == "" && limited && !written("expression") && !written("retryPolicy") {
		f.b.note("retryPolicy",
			"it is left out, so the default OnFailure applies: a pod that was evicted, or that the "+
				"controller lost, is not retried")
	}
	f.inner("backoff", `a mapping such as {"duration": "30s"}`, func(inner *settings) {
		in := &form{settings: inner, b: f.b, times: f.times, needed: true}
		f.base = in.time("duration", 0, 0)
		in.needed = false
		f.factor = float64(max(1, in.textWhole("factor", 1)))
		f.cap = in.time("cap", 0, 0)
		f.elapsed = in.time("maxDuration", 0, 0)
		if !limited {
			f.base, f.cap = 0, 0
			f.b.warn(noEffect, "backoff",
				"backoff: without a limit it has no effect: Argo retries at once and forever")
		}
	})
	f.skip("", "expression")
	f.skip(routing, "affinity")
	f.callers()
}

// callers warns if this template runs inside another template that is retried, because then the
// attempts multiply.
func (f *form) callers() {
	whole, name := f.b.beside.document(), f.textAt(f.b.beside, "name")
	templates := f.places(whole, "spec.templates.*")
	ofCronWorkflow := f.places(whole, "spec.workflowSpec.templates.*")
	templates = append(templates, ofCronWorkflow...)
	for _, other := range templates {
		if f.attempts == 1 || name == "" || other.node == f.b.beside.node ||
			!hasKey(other.node, "retryStrategy") {
			continue
		}
		walk(other.node, func(_ []string, e entry) bool {
			calls := e.key == "template" && resolved(e.value).Value == name
			if calls {
				f.b.warn(multiply, "limit",
					fmt.Sprintf("attempts multiply: template %s is retried too, and runs this template in "+
						"each attempt", f.textAt(other, "name")))
			}
			return calls
		})
	}
}
