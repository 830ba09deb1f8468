package policyfile

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// The systems whose settings are read only, by what their documents and their
// source say. integration/formatstest compares the others with their own types.
func TestReadOnly(t *testing.T) {
	const s, m = time.Second, time.Minute
	for _, test := range []struct {
		name, from, text string
		attempts         int
		delays           []time.Duration // the first
		elapsed, timeout time.Duration
		fault            string
	}{
		// Argo Workflows: docs/fields.md#retrystrategy; processNodeRetries in
		// workflow/controller/operator.go: duration * factor^retries, at most cap, until
		// maxDuration after the first start. The limit counts retries.
		{name: "Argo", from: "argo", text: "{limit: 3, retryPolicy: Always, backoff: {duration: 10s, factor: 2, cap: 30s, maxDuration: 5m}}",
			attempts: 4, delays: []time.Duration{10 * s, 20 * s, 30 * s}, elapsed: 5 * m},
		{name: "Argo, text for numbers", from: "argo", text: `{limit: "2", backoff: {duration: "90", factor: "3"}}`, attempts: 3, delays: []time.Duration{90 * s, 270 * s}},
		{name: "Argo, no factor", from: "argo", text: "{limit: 9, backoff: {duration: 1m}}", attempts: 10, delays: []time.Duration{m, m, m}},
		{name: "Argo, no backoff", from: "argo", text: "{limit: 1}", attempts: 2, delays: []time.Duration{0}},
		{name: "Argo, no limit", from: "argo", text: "{backoff: {duration: 1s}}", attempts: -1, delays: []time.Duration{s, s}},
		{name: "Argo, nothing", from: "argo", text: "{}", fault: "unlimited attempts without a delay"},
		{name: "Argo, a template", from: "argo", text: `{limit: "{{inputs.parameters.limit}}"}`, fault: `limit is "{{inputs`},
		{name: "Argo, no duration", from: "argo", text: "{limit: 2, backoff: {factor: 2}}", fault: "backoff.duration is missing"},
		{name: "Argo, an unknown policy", from: "argo", text: "{limit: 2, retryPolicy: Sometimes}", fault: `retryPolicy is "Sometimes"`},
		{name: "Argo, a fraction", from: "argo", text: "{limit: 2, backoff: {duration: 1s, factor: 1.5}}", fault: "backoff.factor is 1.5"},

		// NATS: docs.nats.io, Consumers; server/consumer.go: BackOff replaces AckWait,
		// its last entry repeats, and it may not be longer than MaxDeliver.
		{name: "NATS", text: `{"durable_name": "pay", "max_deliver": 4, "ack_wait": 30000000000, "backoff": [1000000000, 5000000000]}`,
			attempts: 4, delays: []time.Duration{s, 5 * s, 5 * s}},
		{name: "NATS, AckWait", text: "{max_deliver: 2, ack_wait: 60000000000}", attempts: 2, delays: []time.Duration{m}},
		{name: "NATS, defaults", from: "nats", text: "{durable_name: x}", attempts: -1, delays: []time.Duration{30 * s, 30 * s}},
		{name: "NATS in Kubernetes", text: "kind: Consumer\nspec: {durableName: x, maxDeliver: 3, ackWait: 10s, backoff: [1s, 2s]}", attempts: 3, delays: []time.Duration{s, 2 * s}},
		{name: "NATS, a long list", text: "{max_deliver: 1, backoff: [1000000000, 1000000000]}", fault: "backoff is a list of 2: write at most max_deliver delays, 1"},
		{name: "NATS, milliseconds", text: `{max_deliver: 2, backoff: ["soon"]}`, fault: `backoff[0] is "soon"`},

		// asynq: DefaultRetryDelayFunc in server.go: n^4 + 15 + rand(30)*(n+1) seconds
		// after n retries; its middle is here.
		{name: "asynq", text: "{max_retry: 3, timeout_seconds: 60}", attempts: 4, delays: []time.Duration{29*s + s/2, 45 * s, 74*s + s/2}, timeout: m},
		{name: "asynq, a task", text: `{"id": "1", "queue": "default", "max_retry": 0, "retried": 0}`, attempts: 1},
		{name: "asynq, a text", text: `{max_retry: "3"}`, fault: `max_retry is "3"`},
		{name: "asynq, delays beyond what a duration can hold", text: `{max_retry: 1000}`, attempts: 1001, delays: []time.Duration{29*s + s/2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, err := Parse("file.yaml", []byte(test.text))
			require.NoError(t, err)
			block, fault := file.Only("")
			require.Nil(t, fault)
			p, _, faults := block.Read(test.from)
			if test.fault != "" {
				require.NotEmpty(t, faults)
				assert.True(t, strings.HasPrefix(faults[0].Text, test.fault), faults[0].Text)
				return
			}
			require.Empty(t, faults)
			assert.Equal(t, test.attempts, p.EffectiveMax())
			assert.Equal(t, test.elapsed, p.MaxElapsed)
			assert.Equal(t, test.timeout, p.AttemptTimeout)
			for i, want := range test.delays {
				d := p.Next(retry.Attempt{Number: i + 1, Seed: 1})
				assert.Equal(t, [2]time.Duration{want, want}, [2]time.Duration{d.Lo, d.Hi}, i)
			}
		})
	}
}

// Where whole files have settings, and what is said where they have none.
func TestPlaces(t *testing.T) {
	const istio = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: pay}\nspec:\n  hosts: [pay]\n  http:\n  - route: [{destination: {host: pay}}]\n    timeout: 10s\n    retries: {attempts: 3, perTryTimeout: 2s, retryOn: 5xx}\n"
	for _, test := range []struct{ name, text, at, want string }{
		{"Istio", istio, "", "spec.http.0.retries istio"},
		{"Istio, attempts alone", "kind: VirtualService\nspec: {http: [{retries: {attempts: 2}}]}", "", "spec.http.0.retries istio"},
		{"a health check", "services: {db: {healthcheck: {retries: 3}}}", "", `unknown key "services": the keys of a policy are `},
		{"Envoy", "static_resources: {listeners: [{filter_chains: [{filters: [{typed_config: {route_config: {virtual_hosts: [{routes: [{route: {retry_policy: {retry_on: 5xx, num_retries: 2}}}]}]}}}]}]}]}", "",
			"static_resources.listeners.0.filter_chains.0.filters.0.typed_config.route_config.virtual_hosts.0.routes.0.route.retry_policy envoy"},
		{"gRPC", `{"methodConfig": [{"name": [{"service": "a.B"}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`, "", "methodConfig.0.retryPolicy grpc"},
		{"gRPC, out of place", `{"loadBalancingPolicy": "x", "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}`, "", "maxBackoff is missing"},
		{"Temporal", "workflow: {activity: {retryPolicy: {maximumAttempts: 3}}}", "", "workflow.activity.retryPolicy temporal"},
		{"Step Functions", `{"StartAt": "A", "States": {"A": {"Type": "Task", "Retry": [{"ErrorEquals": ["States.ALL"], "MaxAttempts": 2}]}}}`, "", "States.A.Retry.0 stepfunctions"},
		{"Step Functions, a list", `{"States": {"A": {"Retry": [{"ErrorEquals": ["A"]}, {"ErrorEquals": ["States.ALL"]}]}}}`, "States.A.Retry",
			"there are 2 policies, and this is the second: choose one with -at States.A.Retry.0, -at States.A.Retry.1"},
		{"the Collector", "receivers: {otlp: }\nexporters:\n  otlp:\n    endpoint: x\n    retry_on_failure: {enabled: true}\n", "", "exporters.otlp.retry_on_failure otel"},
		{"Argo", "kind: Workflow\nspec: {templates: [{name: a, retryStrategy: {limit: 3}}]}", "", "spec.templates.0.retryStrategy argo"},
		{"an asterisk", "a: {x: {retry: {max_attempts: 2}}}", "a.*.retry", "a.x.retry native"},

		{"the second document", "kind: Service\n---\n" + istio, "", "2.spec.http.0.retries istio"},
		{"a document by its number", "max_attempts: 2\n---\nmax_attempts: 3\n---\n", "2", "2 native"},
		{"a path in a document", "a: {max_attempts: 2}\n---\na: {max_attempts: 3}\n", "1.a", "1.a native"},
		{"a --- at the end", "max_attempts: 2\n---\n", "", "1 native"},
		{"a --- after something else", "color: red\n---\n", "", `unknown key "color": `},
		{"an element of a list", "- max_attempts: 2\n- max_attempts: 3", "1", "1 native"},
		{"no such document", "max_attempts: 2\n---\nmax_attempts: 3\n", "3", "there is nothing at 3: name the keys that lead to the policy"},

		{"a policy below", "services:\n  payments:\n    retry: {max_attempts: 4}\n", "", "there is a policy at services.payments.retry: use -at services.payments.retry"},
		{"another spelling", "maxAttempts: 3", "", `unknown key "maxAttempts": write max_attempts`},
		{"a typing mistake", "max_atempts: 3", "", `unknown key "max_atempts": write max_attempts`},
		{"inside a backoff", "backoff: {type: fixed, bse: 1s, base: 1s}", "", `unknown key "backoff.bse": write backoff.base`},
		{"another format", "{maximumAttempts: 3, initialIntervall: 1s}", "", `unknown key "initialIntervall": write initialInterval`},
		{"far from any key", "{max_attempts: 3, color: red}", "", `unknown key "color": the keys of a policy are `},

		{"a Kubernetes Job", "kind: Job\nspec: {backoffLimit: 4, template: {}}", "", "spec.backoffLimit is a setting of a Kubernetes Job, which retry does not read: "},
		{"Polly", `{"Resilience": {"MaxRetryAttempts": 3, "UseJitter": true}}`, "", "Resilience.MaxRetryAttempts is a setting of Polly, "},
		{"Resilience4j", "resilience4j.retry: {instances: {backend: {maxAttempts: 3, waitDuration: 500ms}}}", "", "resilience4j.retry is a setting of Resilience4j, "},
		{"Spring", "spring: {kafka: {retry: {topic: {attempts: 4}}}}", "", "spring is a setting of Spring, "},
		{"a policy in a file of Spring", "spring: {x: {retry: {max_attempts: 4}}}", "", "there is a policy at spring.x.retry: "},
		{"Celery", "{max_retries: 3, interval_start: 0, interval_step: 0.2}", "", "interval_start is a setting of Celery, "},
		{"Sidekiq", ":concurrency: 5\n:max_retries: 3\n", "", ":concurrency is a setting of Sidekiq, "},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, err := Parse("file.yaml", []byte(test.text))
			require.NoError(t, err)
			block, fault := file.Only(test.at)
			if fault != nil {
				assert.Equal(t, test.want, fault.Text)
				return
			}
			_, name, faults := block.Read("")
			got := block.At + " " + name
			if faults != nil {
				got = faults[0].Text
			}
			assert.True(t, strings.HasPrefix(got, test.want), got)
		})
	}
}

// A fault and a note have the line of their key, in either spelling.
func TestForeignLines(t *testing.T) {
	file, err := Parse("file.yaml", []byte("spec:\n  http:\n  - retries:\n      attempts: 3\n      per_try_timeout: 2\n      retryOn: 5xx,resett\n"))
	require.NoError(t, err)
	block, _ := file.Only("")
	_, _, faults := block.Read("")
	require.Len(t, faults, 2)
	assert.Equal(t, 5, faults[0].Line)
	assert.Equal(t, 6, faults[1].Line)
	assert.Contains(t, faults[1].Text, `retryOn is "resett": write a status such as 503, or one of 5xx, `)
}

// Anchors that stand for more than anybody could read are a fault, or are looked at
// once. The bound is on steps.
func TestHostile(t *testing.T) {
	nested := func(line string) string {
		text := "a0: &a0 {x: 1}\n"
		for i := range 40 {
			text += fmt.Sprintf(line, i+1, i+1, i, i)
		}
		return text
	}
	merges, lists := nested("a%d: &a%d {<<: [*a%d, *a%d]}\n"), nested("a%d: &a%d [*a%d, *a%d]\n")
	for _, test := range []struct{ name, text, at, want string }{
		{"merges", merges, "", "<<"},
		{"merges beside a policy", merges + "retry: {max_attempts: 3}", "", "<<"},
		{"lists", lists, "", "this is larger than any policy"},
		{"lists by a path", lists + "retry: *a40\n", "retry", "this is larger than any policy"},
		{"lists at a place of settings", lists + "Retry: *a40\n", "", "this is larger than any policy"},
		{"lists by asterisks", lists, "a40" + strings.Repeat(".*", 40), "this path leads to more places"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, err := Parse("file.yaml", []byte(test.text))
			if test.want == "<<" {
				require.EqualError(t, err, "file.yaml:14: << merges more than 10000 keys here")
				return
			}
			require.NoError(t, err)
			assert.Less(t, file.steps, 1000)
			blocks := file.Find(test.at)
			_, _, faults := blocks[len(blocks)-1].Read("")
			require.NotEmpty(t, faults)
			assert.True(t, strings.HasPrefix(faults[0].Text, test.want), faults[0].Text)
		})
	}

	// Neither a long key nor a deep list is copied for each entry below it.
	for _, text := range []string{
		`{"` + strings.Repeat("k", 1<<20) + `": {` + regexp.MustCompile(`(k\d+): 1\n`).ReplaceAllString(manyKeys(900), `"$1": 1, `) + `"z": 1}}`,
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
	} {
		file, err := Parse("file.json", []byte(text))
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		block := file.Find("")[0]
		block.elsewhere()
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20), text[:10])
	}
	long := strings.Repeat("x", 1<<20)
	file, err := Parse("file.yaml", []byte("{initialInterval: "+long+", maximumAttempts: 3}"))
	require.NoError(t, err)
	_, _, faults := file.Find("")[0].Read("")
	require.NotEmpty(t, faults)
	assert.Less(t, len(faults[0].Text), 200)
	_, err = Parse("file.yaml", []byte("a: &a {x: 1, y: 2}\nb: &b {<<: *a, z: 3}\nretry: {<<: [*a, *b]}"))
	assert.NoError(t, err)
}

// What a file has in it cannot reach a terminal, or be taken for an annotation.
func TestVisible(t *testing.T) {
	assert.Equal(t, "a b/ä.yaml", Visible("a b/ä.yaml"))
	assert.Equal(t, `"a\x1b[2Jb\n::error::x.yaml"`, Visible("a\x1b[2Jb\n::error::x.yaml"))
	assert.Equal(t, `"\xff"`, Visible("\xff"))
	fault := &Fault{File: "\x1b[31m", Line: 1, Text: "an \x07"}
	assert.Equal(t, `"\x1b[31m":1: "an \a"`, fault.Error())
}

// No text of the library keeps a name of Go, once it is in the words of a file.
func TestInKeys(t *testing.T) {
	source, err := os.ReadFile("../../../../lint.go")
	require.NoError(t, err)
	goName := regexp.MustCompile(`\b(Max[A-Z]|Attempt[CT]|Backoff|Schedule|NonRetryable|HealthyAfter|Fixed|retry\.)`)
	for _, say := range regexp.MustCompile(`say\("([^"]*)"`).FindAllStringSubmatch(string(source), -1) {
		if !strings.HasPrefix(say[1], "Classify") {
			assert.NotRegexp(t, goName, InKeys(say[1]))
		}
	}
	assert.Equal(t, "backoff is fibonacci: write fixed or exponential", InKeys("Backoff (backoff) is a retry.Fibonacci: write a Fixed (fixed) or an Exponential (exponential)"))
	assert.Equal(t, "jitter is full: write 0.2, which is what gRPC draws", InKeys("Jitter (jitter) is full: write Proportional(0.2) (0.2), which is what gRPC draws"))
}
