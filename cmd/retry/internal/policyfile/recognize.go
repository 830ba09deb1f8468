package policyfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A shape describes a place in the documents of a system where the system has its settings for
// retries. The name of a key alone does not identify a system. Other systems use the same name, and
// a file with a JSON Schema can contain any name as the name of a property.
type shape struct {
	system string // the name of a dialect, or the title of a system without a dialect
	group  string // the API group of the resource; "" if the document may be any document
	kinds  string // the kinds of the resource, separated by blanks

	// The path leads from the root of a document to the settings. In the path, * is any key, and ** is
	// any number of keys.
	path string

	// The text `has` lists conditions on the keys next to the settings. For example, "a|b c=d e!=0"
	// requires the key a or b, the key c with the value d, and the key e with a value other than 0.
	has string
}

// These constants are values, or beginnings of values, in `shapes`. configPatches is the beginning
// of a value of the field `path`. argoKinds is a value of the field `kinds`. temporalTimeouts and
// temporalBlock are values of the field `has`.
const (
	configPatches    = "spec/configPatches/**/"
	argoKinds        = "Workflow WorkflowTemplate ClusterWorkflowTemplate CronWorkflow"
	temporalTimeouts = "scheduleToCloseTimeout|startToCloseTimeout|scheduleToStartTimeout|" +
		"workflowExecutionTimeout|workflowRunTimeout|workflowTaskTimeout"
	temporalBlock = "retryPolicy.backoffCoefficient|retryPolicy.maximumInterval " +
		"retryPolicy.initialInterval|retryPolicy.maximumAttempts"
)

// shapes lists all shapes. If a document has settings of several systems that `lint` cannot read,
// `lint` reports only the system that comes first in this list.
var shapes = slices.Concat([]shape{
	{"Istio's filters", "networking.istio.io", "EnvoyFilter", configPatches + "retry_policy", ""},
	{"Istio's filters", "networking.istio.io", "EnvoyFilter", configPatches + "retryPolicy", ""},
	{"temporal", "", "", "**/retryPolicy", temporalTimeouts},
	{"temporal", "", "", "**/retryPolicy", temporalBlock},
	{"temporal", "", "", "", strings.ReplaceAll(temporalBlock, "retryPolicy.", "")},
	{"grpc", "", "", "**/methodConfig/*/retryPolicy", ""},
	{"envoy", "", "", "**/routes/*/route/retry_policy", ""},
	{"envoy", "", "", "**/virtual_hosts/*/retry_policy", ""},
	{"istio", "networking.istio.io", "VirtualService", "spec/http/*/retries", ""},
	{"httproute", "gateway.networking.k8s.io", "HTTPRoute", "spec/rules/*/retry", ""},
	{"stepfunctions", "", "", "**/States/*/Retry/*", "Type"},
	{"otel", "", "", "**/exporters/*/retry_on_failure", ""},
	{"otel", "", "", "**/exporters/*/protocol/otlp/retry_on_failure", ""}, // loadbalancing
	{"otel", "", "", "**/receivers/*/retry_on_failure", ""},
	{"argo", "argoproj.io", argoKinds, "spec/**/retryStrategy", ""},
	{"nats", "jetstream.nats.io", "Consumer", "spec", "spec.max_deliver|spec.ack_wait|spec.backoff"},
	{"nats", "", "", "config", "stream_name config.max_deliver|config.ack_wait|config.backoff"},
	{"nats", "", "", "", "max_deliver durable_name|ack_policy|ack_wait|deliver_policy"},
	{"asynq", "", "", "", "max_retry queue retried|timeout_seconds"},
},
	job("a Job that counts by index", "backoffLimitPerIndex", "backoffLimitPerIndex"),
	job("a Job with a podFailurePolicy", "podFailurePolicy", "podFailurePolicy.rules"),
	job("a Job whose pods restart", "backoffLimit", "template.spec.restartPolicy=OnFailure"),
	job("a Kubernetes Job", "backoffLimit", "backoffLimit!=0"), // if it is 0, no pod starts again
	[]shape{
		{"Polly", "", "", "**/MaxRetryAttempts", "BackoffType|UseJitter|Delay|MaxDelay"},
		{"Resilience4j", "", "", "resilience4j/retry", ""},
		{"Resilience4j", "", "", "resilience4j.retry", ""},
		{"Celery", "", "", "**/autoretry_for", "max_retries|retry_backoff|retry_jitter|retry_kwargs"},
		{"Celery", "", "", "**/interval_start", "interval_step|interval_max max_retries"},
		{"Sidekiq", "", "", ":max_retries", ":concurrency|:queues"},
		{"Argo CD", "argoproj.io", "Application", "spec/syncPolicy/retry", ""},
		{"Argo CD", "argoproj.io", "ApplicationSet", "spec/template/spec/syncPolicy/retry", ""},
		{"Temporal's server", "", "", "history.defaultActivityRetryPolicy", ""},
		{"Temporal's server", "", "", "history.defaultWorkflowRetryPolicy", ""},
		{"Contour", "projectcontour.io", "HTTPProxy", "spec/routes/*/retryPolicy", ""},
		{"Envoy Gateway", "gateway.envoyproxy.io", "BackendTrafficPolicy", "spec/retry", ""},
		{"Spring", "", "", "spring/**/retry", ""},
	})

// job returns the shapes of a setting in a Kubernetes Job, and in the resources that make Jobs,
// such as a CronJob.
func job(system, setting, has string) (all []shape) {
	for _, in := range []shape{
		{"", "batch", "Job", "spec/", ""},
		{"", "batch", "CronJob", "spec/jobTemplate/spec/", ""},
		{"", "jobset.x-k8s.io", "JobSet", "spec/replicatedJobs/*/template/spec/", ""},
		{"", "keda.sh", "ScaledJob", "spec/jobTargetRef/", ""},
	} {
		all = append(all, shape{system, in.group, in.kinds, in.path + setting, has})
	}
	return all
}

// last returns the last key in the path of s. The settings are the value of this key, or an element
// of a list that is the value of this key.
func (s *shape) last() string {
	path := strings.TrimSuffix(s.path, "/*")
	return path[strings.LastIndex(path, "/")+1:]
}

// byKey maps a key to the indexes (in `shapes`) of the shapes whose path ends with this key. The
// keys of the map are results of the function `fold`, which returns the same text for all spellings
// of a key.
var byKey = map[string][]int{}

func init() {
	for i := range shapes {
		key := fold(shapes[i].last())
		byKey[key] = append(byKey[key], i)
	}
}

// recognize returns the index of the shape that fits an entry. It returns -1 if no shape fits. The
// path leads from a node, such as the root of the file, to the entry. In e.in and in each place
// around it, the field `depth` must be the number of keys that lead from this node to the place.
func recognize(path []string, e entry) int {
	if e.in == nil || len(e.under) > longestKey {
		return -1
	}
	candidates := byKey[fold(e.under)]
	if len(candidates) == 0 || e.in.inSchema() {
		return -1
	}
	root := e.in.document()
	for _, i := range candidates {
		s := &shapes[i]
		if plain := plainOf(s.system); root.isOf(s) && e.in.hasKeys(s.has, plain) &&
			matches(strings.Split(s.path, "/"), path[root.depth:], plain) {
			return i
		}
	}
	return -1
}

// matches reports whether a path matches a pattern.
func matches(pattern, path []string, plain func(string) string) bool {
	switch {
	case len(pattern) == 0:
		return len(path) == 0
	case pattern[0] == "**":
		return matches(pattern[1:], path, plain) || len(path) > 0 && matches(pattern, path[1:], plain)
	case len(path) == 0 || len(path[0]) > longestKey:
		return false
	}
	equal := pattern[0] == "*" || pattern[0] == path[0] || plain(pattern[0]) == plain(path[0])
	return equal && matches(pattern[1:], path[1:], plain)
}

// dialectOf looks at the place of the entry e in its document, and returns the name of the dialect
// whose settings belong at this place. It returns "" if no dialect has settings at this place, or
// if the value of e is not a mapping.
func dialectOf(path []string, e entry) string {
	if i := recognize(path, e); i >= 0 && resolved(e.value).Kind == yaml.MappingNode {
		return readable(shapes[i].system)
	}
	return ""
}

// dialectAt returns the name of the dialect of the settings in the value of the entry e. The user
// has written the path to e. If the place of e in the document does not show the dialect, dialectAt
// compares keys. A dialect fits if its settings are usually the value of a key named e.under, such
// as retryPolicy for Temporal. The settings must also contain a key that is typical of the dialect,
// unless the field `certain` of its format is true. dialectAt returns "" if no dialect fits, or if
// more than one dialect fits.
func dialectAt(path []string, e entry) (dialect string) {
	node := e.value
	if node.Kind != yaml.MappingNode || len(e.under) > longestKey || len(byKey[fold(e.under)]) == 0 {
		return ""
	}
	root := e.in.document()
	if dialect = dialectOf(path, e); dialect != "" || root != nil && root.resource {
		return dialect
	}
	for _, d := range dialects {
		if d.format == nil || !d.format.hasPlaceUnder(e.under) {
			continue
		}
		native := len(node.Content) > 0 && (&Block{node: node}).writtenAsNative()
		if d.format.certain && !native || d.shows(node) ||
			d.name == "istio" && (hasKey(node, "attempts") || len(node.Content) == 0) {
			if dialect != "" {
				return ""
			}
			dialect = d.name
		}
	}
	return dialect
}

// wholeDialect returns the dialect of a document that consists only of settings. For any other
// document it returns "".
func wholeDialect(document *place) string {
	if document.node.Kind != yaml.MappingNode {
		return ""
	}
	for _, i := range byKey[""] {
		if s := &shapes[i]; document.hasKeys(s.has, plainOf(s.system)) {
			return s.system
		}
	}
	return ""
}

// readable returns the parameter `system` if it is the name of a format, because then the settings
// of the system can be read. For any other system it returns "".
func readable(system string) string {
	if slices.ContainsFunc(formats, func(f format) bool { return f.name == system }) {
		return system
	}
	return ""
}

// Unread returns a note if b contains a setting of a system whose settings this package does not
// read. Otherwise it returns nil.
func (b *Block) Unread() (note *Fault) {
	first := len(shapes)
	walk(b.node, func(path []string, e entry) bool {
		i := recognize(path, e)
		if i < 0 || i >= first || readable(shapes[i].system) != "" {
			return false
		}
		title := shapes[i].system
		first, note = i, &Fault{
			File: b.File, Line: e.line, Note: true, Code: notRead, Key: b.path(path),
			Text: fmt.Sprintf("%s is a setting of %s, which retry does not read: %s", b.path(path), title,
				unread[title]),
		}
		return true
	})
	return note
}

// The keys of the map `unread` are the systems whose settings this package does not read. The value
// of a key is a text that says how the system retries.
var unread = map[string]string{
	"a Job that counts by index": "" +
		"each index has backoffLimitPerIndex retries, and backoffLimit, which is unlimited if it " +
		"is left out, limits the retries of all indexes together",
	"a Job with a podFailurePolicy": "" +
		"podFailurePolicy says which failures end the Job, and which do not count toward " +
		"backoffLimit",
	"a Job whose pods restart": "" +
		"with restartPolicy OnFailure the containers start again in their pod after 10s, 20s, " +
		"40s and so on, at most 5m, and the Job fails after about backoffLimit restarts",
	"a Kubernetes Job": "" +
		"its pods start again after 10s, 20s, 40s and so on, at most 6m, backoffLimit times",
	"Polly": "" +
		"MaxRetryAttempts counts retries, MaxDelay cuts after the jitter, and exponential delays " +
		"with UseJitter are decorrelated",
	"Resilience4j": "" +
		"maxAttempts counts the first attempt, and waitDuration is 500ms if it is left out",
	"Celery":            "by default max_retries is 3, and the delay is 3m",
	"Sidekiq":           "a job is retried 25 times in about 21 days, or :max_retries times",
	"Argo CD":           "limit counts retries, and maxDuration bounds each wait",
	"Temporal's server": "MaximumAttempts counts the first attempt, and 0 is unlimited",
	"Istio's filters":   "a filter changes the route that Istio writes, which has its own retries",
	"Contour":           "count counts retries, and perTryTimeout ends each attempt",
	"Envoy Gateway":     "numRetries counts retries, and is 2 if it is left out",
	"Spring": "" +
		"max-attempts counts the first attempt, and max-retries, which is its name since Spring " +
		"Boot 4, does not",
}

// isOwn reports whether a mapping is in the native form or in a dialect of package retrydialect.
// All keys of such a mapping belong to one form. A key that looks like a misspelled key of the
// native form is accepted too. isOwn is also true for a mapping with a backoff of the native form,
// whatever the other keys of the mapping are.
func isOwn(node *yaml.Node) bool {
	if node.Kind != yaml.MappingNode || len(node.Content) > 2*mostKeys {
		return false
	}
	all := entries(node)
	if len(all) == 0 || len(all) > mostKeys {
		return false
	}
	return slices.ContainsFunc(dialects, func(d dialect) bool {
		return d.format == nil && !slices.ContainsFunc(all, func(e entry) bool {
			misspelt := d.name == Native && !strings.ContainsFunc(e.key, isForeign) && isNear(e.key)
			return !d.accepts(d.keys, e.key) && !misspelt
		})
	}) || slices.ContainsFunc(all, func(e entry) bool {
		return e.key == "backoff" && isBackoff(resolved(e.value))
	})
}

// isForeign reports whether no key of a policy contains the character r.
func isForeign(r rune) bool { return r != '_' && !('a' <= r && r <= 'z') }

// isBackoff reports whether a mapping is a backoff of the native form.
func isBackoff(node *yaml.Node) bool {
	in := &place{node: node}
	kind, _ := in.get(exactly, "type")
	curves := []string{"fixed", "linear", "exponential", "fibonacci", "schedule"}
	return slices.Contains(curves, text(kind.value)) && in.hasKeys("base|delays", exactly)
}

// unknown returns how many keys of b are not keys of a dialect.
func (b *Block) unknown(d dialect) (n int) {
	for e := range eachEntry(b.node) {
		if !d.accepts(d.keys, e.key) {
			n++
		}
	}
	return n
}

// hasMark reports whether b has a key that is typical of a dialect. Such a block may still be
// something other than a policy.
func (b *Block) hasMark() bool {
	return slices.ContainsFunc(dialects, func(d dialect) bool { return d.shows(b.node) })
}

// Known reports whether b is certainly a policy. Such a block is in the native form, in a dialect
// of package retrydialect, or at the place where a document of another system has its settings.
func (b *Block) Known() bool { return b.dialect != "" || b.misspelt || isOwn(b.node) }

func isKnown(b Block) bool { return b.Known() }

// writtenAsNative reports whether b is written in the native form: all its keys are native keys,
// and its backoff is not a scalar. Such a block may still have faults.
func (b *Block) writtenAsNative() bool {
	return b.unknown(dialects[0]) == 0 && !anyEntry(b.node, func(e entry) bool {
		return e.key == "backoff" && resolved(e.value).Kind == yaml.ScalarNode
	})
}

// MayHold reports whether a text that does not parse was probably meant to contain a policy. Such a
// text has a key of a policy and is not a template.
func MayHold(data []byte) bool { return ownKey.Match(data) && !template.Match(data) }

// The method `shows` reports whether a mapping has a key that is typical of the dialect. In the
// native form and in the dialects of package retrydialect, each key is typical. `shows` returns
// false if the mapping has more keys than a policy can have.
func (d *dialect) shows(node *yaml.Node) bool {
	if len(node.Content) > 2*mostKeys {
		return false
	}
	marks := d.keys
	if d.format != nil {
		marks = d.format.marks
	}
	return anyEntry(node, func(e entry) bool {
		if d.name == "argo" { // other systems have the same keys
			return e.key == "retryPolicy" && resolved(e.value).Kind == yaml.ScalarNode ||
				e.key == "backoff" && hasKey(e.value, "duration")
		}
		return d.accepts(marks, e.key)
	})
}
