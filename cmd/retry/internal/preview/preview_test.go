package preview

import (
	"flag"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
)

var update = flag.Bool("update", false, "rewrite the golden file in testdata")

func TestText(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	with := func(p retry.Policy, set ...func(*retry.Policy)) retry.Policy {
		for _, set := range set {
			set(&p)
		}
		return p
	}
	unlimited := func(p *retry.Policy) { p.MaxAttempts = retry.Unlimited }
	full := func(p *retry.Policy) { p.Jitter = retry.FullJitter }
	none := func(p *retry.Policy) { p.Jitter = nil }
	timeout := func(p *retry.Policy) { p.AttemptTimeout = 2 * s }
	within := func(d time.Duration) func(*retry.Policy) { return func(p *retry.Policy) { p.MaxElapsed = d } }
	healthy := func(d time.Duration) func(*retry.Policy) { return func(p *retry.Policy) { p.HealthyAfter = d } }

	previews := map[string]struct {
		retries int
		p       retry.Policy
	}{
		"default":             {-1, retry.Default()},
		"no_rows":             {0, retry.Default()},
		"attempt_timeout":     {-1, with(retry.Default(), timeout)},
		"time_cuts_thousands": {1, retry.Policy{MaxAttempts: 20_000, Backoff: retry.Fixed(ms), MaxElapsed: 15 * s, AttemptTimeout: s}},
		"cap_from_the_first":  {-1, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(s), MaxDelay: s}},
		"cap_not_reached":     {2, retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Linear(ms), MaxDelay: time.Hour}},
		"cap_never_reached":   {1, retry.Policy{MaxAttempts: 10_001, Backoff: retry.Linear(ms), MaxDelay: time.Hour}},
		"tiny_jitter":         {-1, retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(1000100 * time.Microsecond), Jitter: retry.Proportional(1e-6)}},
		"schedule":            {-1, retry.Policy{MaxAttempts: 4, Backoff: retry.Schedule{5 * time.Minute, 15 * time.Minute, time.Hour}}},
		"no_delay":            {-1, retry.Policy{MaxRetries: 2}},
		"no_delay_timeout":    {-1, retry.Policy{MaxRetries: 2, AttemptTimeout: s}},
		"unlimited":           {2, with(retry.Default(), unlimited, full)},
		"unlimited_uncapped":  {1, retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fibonacci(time.Hour)}},
		"unlimited_within":    {1, with(retry.Default(), unlimited, full, within(time.Minute), timeout)},
		"retries_within":      {4, retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Linear(5 * s), MaxDelay: 15 * s, MaxElapsed: 10 * time.Minute, AttemptTimeout: 2 * s}},
		"cut_by_time":         {-1, with(retry.Default(), unlimited, none, within(10*s))},
		"limit_and_time":      {-1, with(retry.Default(), within(3*s))},
		"time_before_limit":   {-1, with(retry.Default(), within(s))},
		"thousands":           {3, retry.Policy{MaxAttempts: 999_999, Backoff: retry.Linear(ms), MaxDelay: 5 * s}},
		"thousands_within":    {3, retry.Policy{MaxAttempts: 999_999, Backoff: retry.Linear(ms), Jitter: retry.FullJitter, MaxElapsed: time.Hour}},
		"as_many_as_a_plan":   {1, retry.Policy{MaxAttempts: 10_001, Backoff: retry.Fixed(ms)}},
		"one_more":            {1, retry.Policy{MaxAttempts: 10_002, Backoff: retry.Fixed(ms), AttemptTimeout: ms, MaxElapsed: time.Hour}},
		"on_and_on":           {1, retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(ms), AttemptTimeout: ms, MaxElapsed: time.Hour}},
		"time_alone":          {3, retry.Policy{Backoff: retry.Exponential{Base: s}, MaxDelay: 10 * s, MaxElapsed: time.Minute}},
		"time_and_cap":        {-1, retry.Policy{Backoff: retry.Fixed(s), AttemptCap: 3, MaxElapsed: time.Minute}},
		"cap_without_limit":   {-1, retry.Policy{Backoff: retry.Fixed(s), AttemptCap: 3}},
		"saturated":           {-1, retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(math.MaxInt64 / 2), AttemptTimeout: 1}},
		"one_attempt_within":  {-1, retry.Policy{MaxAttempts: 1, MaxElapsed: s}},
		"too_short":           {-1, retry.Policy{MaxAttempts: 3, MaxElapsed: s, Backoff: retry.Fixed(2 * s)}},
		"no_limit":            {-1, retry.Policy{Backoff: retry.Fixed(s)}},
		"not_retryable":       {-1, retry.Policy{MaxAttempts: 3, NonRetryable: true}},
		"healthy":             {1, with(retry.Default(), healthy(time.Minute))},
		"healthy_timeout":     {1, with(retry.Default(), healthy(s), timeout)},
		"never_healthy":       {1, with(retry.Default(), healthy(2*s), timeout)},
		"healthy_one_attempt": {1, retry.Policy{MaxAttempts: 1, AttemptTimeout: s, HealthyAfter: ms}},
	}
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(previews)) {
		all.WriteString("== " + name + "\n" + Text(previews[name].p, previews[name].retries, policyfile.Bounds{Each: previews[name].p.AttemptTimeout, EachKey: "attempt_timeout"}) + "\n\n")
	}

	file := filepath.Join("testdata", "previews.txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(all.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), all.String())
}
