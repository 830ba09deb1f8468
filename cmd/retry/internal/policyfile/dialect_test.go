package policyfile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Whatever a file contains, every block can be read, and the line of every
// fault is in the file.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"max_attempts: 5\nbackoff: {type: exponential, base: 200ms}",
		"a: &a {jitter: 2}\nretry: {<<: [*a, {x: 1}], max_delay: 5}\n---\n[1]",
		`{"retry": {"max_retries": -1, "backoff": 5, "backoff_type": "cubic", "a": {"b": [1e400]}}, "work_config": null}`,
		"&a [*a]", "<<: x", "? {a: 1}\n: 2", "max_elapsed: 1m\n", "\xff", "!!binary x", "2001-01-01: .inf",
		"route: {timeout: x, cluster: a, retry_policy: {retry_on: 5xx, per_try_timeout: 2s}}",
		"{retryThrottling: {maxTokens: 3}, methodConfig: [{retryPolicy: {maxAttempts: 1, initialBackoff: 1s, maxBackoff: 5s, backoffMultiplier: 2, retryableStatusCodes: [a]}}]}",
		"{kind: VirtualService, spec: {http: [{route: 1}, {timeout: 1s, retries: {attempts: '${X:-3}'}}]}}", "{rules: [{timeouts: {request: 1s}, retry: {attempts: 0}}]}",
		"{TimeoutSeconds: 9, States: {A: {Retry: [{ErrorEquals: [a]}, {ErrorEquals: [a]}], Iterator: {States: {B: {Retry: [{ErrorEquals: [b]}]}}}}}}",
		"exporters: {otlp: , otlp/2: {timeout: '${T}', sending_queue: {enabled: false}, retry_on_failure: {multiplier: 2}}}",
		"{spec: {activeDeadlineSeconds: 9, templates: [{name: a, steps: [[{template: b}]], retryStrategy: {limit: 1}}, {name: b, retryStrategy: {limit: '{{x}}', backoff: {duration: 1}}}]}}",
		"{kind: Consumer, spec: {maxDeliver: 2, backoff: []}}", "{max_retry: 3}",
		"retry:\n\n\n  backoff:\n    delays: [1, 2]\n    type: schedule",
	} {
		f.Add(text, "")
		f.Add(text, "*.*")
	}
	f.Fuzz(func(t *testing.T, text, at string) {
		lines := 2 + strings.Count(text, "\n") + strings.Count(text, "\r") // plus the line at which yaml reports the end
		for _, name := range []string{"file.yaml", "file.json", "file"} {
			file, err := Parse(name, []byte(text))
			if err != nil {
				fault := err.(*Fault)
				assert.True(t, 1 <= fault.Line && fault.Line <= lines, err)
				continue
			}
			for _, block := range file.Find(at) {
				for _, from := range append(Dialects(), "") {
					p, _, faults := block.Read(from)
					for _, fault := range append(faults, block.Lint(p)...) {
						assert.True(t, 1 <= fault.Line && fault.Line <= lines, fault)
						assert.NotEmpty(t, fault.Text)
						assert.NotContains(t, fault.Text, "\n")
					}
				}
			}
		}
	})
}
