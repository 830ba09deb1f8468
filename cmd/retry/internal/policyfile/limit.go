package policyfile

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/saturate"
)

// A limit is a setting beside a block that bounds all attempts and their waits
// together. A policy does not have it: its MaxElapsed ends no attempt that runs.
type limit struct {
	format *format
	time   time.Duration // 0: none
}

// routeTimeout is what bounds a route of Envoy that says nothing. A virtual host has
// retry_policy too, for routes whose timeout is elsewhere.
const routeTimeout = 15 * time.Second

var inRoute = regexp.MustCompile(`(^|\.)route\.retry_?[pP]olicy$`)

// readLimit reads the limit of b, and notes it.
func (b *Block) readLimit(d dialect) {
	b.limit.format = d.format
	if d.format == nil || d.format.limit == "" || b.beside == nil {
		return
	}
	key, set := d.format.limit, false
	for _, e := range entries(b.beside) {
		if value := resolved(e.value); d.has([]string{key}, e.key) {
			text, _ := json.Marshal(value.Value) // no text fails
			if set, key = true, e.key; value.Kind == yaml.ScalarNode && value.ShortTag() != "!!str" {
				text = []byte(value.Value)
			}
			var ok bool
			if b.limit.time, ok = d.format.times.parse(text); !ok || b.limit.time < 0 {
				b.limit.time = 0
				b.Notes = append(b.Notes, fmt.Sprintf("%s: beside these settings it is %.60q, which is not read: write %s", key, value.Value, d.format.times.write))
			}
		}
	}
	origin := "beside these settings"
	if !set && d.name == "envoy" && inRoute.MatchString(b.At) {
		b.limit.time, origin = routeTimeout, "Envoy's default"
	}
	if b.limit.time > 0 {
		b.Notes = append(b.Notes, fmt.Sprintf("%s: %v, %s, ends all attempts and waits together", key, b.limit.time, origin))
	}
}

// Bound returns after how long what stands beside b ends all attempts and waits
// together, and the key that says so. It is 0 if nothing does. Read sets it.
func (b *Block) Bound() (time.Duration, string) {
	if b.limit.time == 0 {
		return 0, ""
	}
	return b.limit.time, b.limit.format.limit
}

// lintLimit returns which attempts of p never run or are cut off by the limit, and why
// the limit of each attempt does nothing.
func (b *Block) lintLimit(p retry.Policy) (texts []string) {
	attempts, each := p.EffectiveMax(), p.AttemptTimeout
	if b.limit.format == nil || attempts == 1 {
		return nil
	}
	all, key, own := b.limit.time, b.limit.format.limit, b.limit.format.attemptLimit
	switch {
	case each == 0 || own == "":
	case all > 0 && each >= all:
		texts = append(texts, fmt.Sprintf("%s is %v, and Envoy ignores it, because %s is %v: write less than %v", own, each, key, all, all))
		each = 0
	case !b.retriesTimeouts():
		texts = append(texts, fmt.Sprintf("%s ends an attempt that is not retried then: add reset to the conditions, or 5xx or gateway-error", own))
		each = 0
	}
	if all == 0 || attempts == retry.Unlimited {
		return texts
	}

	start := time.Duration(0) // of the next attempt, at the earliest if each attempt hangs
	steps := p.Plan(mostKeys)
	for _, step := range steps {
		if start = saturate.Add(start, saturate.Add(each, step.Lo)); start < all {
			continue
		}
		why := fmt.Sprintf("the waits before it take at least %v", start)
		if each > 0 {
			why = fmt.Sprintf("if each one before it takes its %v", each)
		}
		return append(texts, fmt.Sprintf("attempt %d of %d never runs, %s: %s is %v, for all attempts and waits", step.Attempt+1, attempts, why, key, all))
	}
	if end := saturate.Add(steps[len(steps)-1].Total, each); each > 0 && end > all {
		texts = append(texts, fmt.Sprintf("attempt %d may be cut off: %d attempts of %v and their waits take up to %v, and %s is %v",
			len(steps)+1, len(steps)+1, each, end, key, all))
	}
	return texts
}

// retriesTimeouts reports whether Envoy retries an attempt that its timeout ended: as a
// reset, which no status and no other condition has in it. Hedging retries it anyway.
func (b *Block) retriesTimeouts() bool {
	hedged := b.beside != nil && (hasKey(b.beside, "hedge_policy") || hasKey(b.beside, "hedgePolicy"))
	return hedged || slices.ContainsFunc(strings.Split(b.RetryOn, ","), func(name string) bool {
		return name == "5xx" || name == "gateway-error" || name == "reset"
	})
}
