package policyfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// A format is how another system that retries by itself writes its settings.
type format struct {
	name, title, example string
	plain                func(string) string // the same for each spelling of a key that the system takes
	times                style
	read                 func(*form)
	marks                []string // the keys that show it by themselves
	certain              bool     // it is where a path leads without a mark, too
	beside               []sibling
	attemptLimit         string   // the key in it that bounds each attempt; "": none
	ignoresLong          bool     // it ignores that if it is not shorter than what bounds all attempts
	refusesLong          bool     // it refuses it if it is longer
	fillsLong            bool     // it writes what bounds all attempts there if it is left out
	expands              []string // the keys whose values it expands itself
	terms                terms
}

var formats = []format{
	{name: "temporal", terms: terms{"maximumAttempts", "maximumInterval", ""},
		title: "Temporal", example: `{"maximumAttempts": 3}`, plain: snake, times: temporalTimes, read: readTemporal, fillsLong: true,
		marks: []string{"initialInterval", "backoffCoefficient", "maximumInterval", "maximumAttempts", "nonRetryableErrorTypes"},
		beside: []sibling{{path: "scheduleToCloseTimeout", bounds: all}, {path: "startToCloseTimeout", bounds: each},
			{path: "scheduleToStartTimeout", says: "ends the wait for a worker, and is not retried"},
			{path: "heartbeatTimeout", says: "ends an attempt that is silent for so long, which is retried"}}},
	{name: "grpc", terms: terms{"maxAttempts", "maxBackoff", ""},
		title: "gRPC", example: `{"maxAttempts": 3, ...}`, plain: strings.ToLower, times: protoTimes, read: readGRPC,
		marks: []string{"initialBackoff", "backoffMultiplier", "retryableStatusCodes"},
		beside: []sibling{{path: "timeout", bounds: all},
			{path: "waitForReady", when: "true", says: "a call to a server that is down waits for a connection, and is not retried"}}},
	{name: "envoy", terms: terms{"num_retries", "retry_back_off.max_interval", ""},
		title: "Envoy", example: `{"num_retries": 2}`, plain: snake, times: protoTimes, read: readEnvoy,
		attemptLimit: "per_try_timeout", ignoresLong: true,
		marks: []string{"num_retries", "retry_on", "retry_back_off", "per_try_timeout"},
		beside: []sibling{{path: "timeout", bounds: all, absent: routeTimeout}, {path: "max_stream_duration.max_stream_duration", bounds: all},
			{path: "max_stream_duration.grpc_timeout_header_max", says: "a gRPC request brings its own timeout, which replaces that of the route"},
			{path: "max_grpc_timeout", says: "a gRPC request brings its own timeout, which replaces that of the route"},
			{path: "idle_timeout", says: "ends a stream that is silent for so long"}}},
	{name: "istio", terms: terms{"attempts", "", ""},
		title: "Istio", example: `{"attempts": 2}`, plain: snake, times: goTimes, read: readIstio,
		attemptLimit: "perTryTimeout", ignoresLong: true, marks: []string{"retryOn", "perTryTimeout"},
		beside: []sibling{{path: "timeout", bounds: all}}},
	{name: "httproute", terms: terms{"attempts", "", ""},
		title: "HTTPRoute", example: `{"attempts": 2}`, plain: exactly, times: gatewayTimes, read: readHTTPRoute, refusesLong: true,
		beside: []sibling{{path: "timeouts.request", bounds: all}, {path: "timeouts.backendRequest", bounds: each}}},
	{name: "stepfunctions", terms: terms{"MaxAttempts", "MaxDelaySeconds", ""},
		title: "Step Functions", example: `{"ErrorEquals": ["States.ALL"]}`, plain: exactly, read: readStepFunctions,
		marks: []string{"ErrorEquals", "IntervalSeconds", "BackoffRate"},
		beside: []sibling{{path: "/TimeoutSeconds", bounds: all}, {path: "TimeoutSeconds", bounds: each},
			{path: "TimeoutSecondsPath", says: "ends each attempt after what the input says"},
			{path: "HeartbeatSeconds", says: "ends an attempt that is silent for so long, with States.Timeout"}}},
	{name: "otel", terms: terms{"max_elapsed_time", "max_interval", "max_elapsed_time"},
		title: "the OpenTelemetry Collector", example: `{"max_elapsed_time": "5m"}`, plain: exactly, times: otelTimes, read: readOTel,
		certain: true, marks: []string{"initial_interval", "randomization_factor", "max_elapsed_time"},
		beside: []sibling{{path: "timeout", bounds: each, absent: exporterTimeout},
			{path: "sending_queue.enabled", when: "false", says: "without a queue, the deadline of the caller ends the retries, too"},
			{path: "sending_queue.wait_for_result", when: "true", says: "the deadline of the caller ends the retries, too"}}},
	{name: "argo", terms: terms{"limit", "backoff.cap", "backoff.maxDuration"},
		title: "Argo Workflows", example: `{"limit": 3}`, plain: exactly, times: argoTimes, read: readArgo, certain: true, expands: []string{"expression"},
		beside: []sibling{{path: "/spec.activeDeadlineSeconds", bounds: all}, {path: "/spec.workflowSpec.activeDeadlineSeconds", bounds: all}, {path: "activeDeadlineSeconds", bounds: each}, {path: "timeout", bounds: each}}},
	{name: "nats", terms: terms{"max_deliver", "", ""},
		title: "NATS", example: `{"max_deliver": 3}`, plain: snake, times: natsTimes, read: readNATS, marks: []string{"max_deliver"}},
	{name: "asynq", terms: terms{"max_retry", "", ""},
		title: "asynq", example: `{"max_retry": 25}`, plain: exactly, read: readAsynq, marks: []string{"max_retry"}, attemptLimit: "timeout_seconds"},
}

var upper = regexp.MustCompile(`[A-Z]`)

// snake makes of camelCase the snake_case that protocol buffers take too.
func snake(key string) string {
	if !strings.ContainsFunc(key, func(r rune) bool { return 'A' <= r && r <= 'Z' }) {
		return key // most are so, and an expression takes long
	}
	return upper.ReplaceAllStringFunc(key, func(c string) string { return "_" + strings.ToLower(c) })
}

func exactly(key string) string { return key }

// under reports whether s has settings under a key, somewhere.
func (s *format) under(key string) bool {
	return slices.ContainsFunc(shapes, func(of shape) bool { return of.system == s.name && of.path != "" && s.spells(of.last(), key) })
}

// unread is what the retries of systems do whose settings retry does not read.
var unread = map[string]string{
	"a Job that counts by index":    "each index has backoffLimitPerIndex retries, and backoffLimit, unlimited if it is left out, counts those of all",
	"a Job with a podFailurePolicy": "podFailurePolicy says which failures end the Job, and which do not count toward backoffLimit",
	"a Job whose pods restart":      "with restartPolicy OnFailure the containers start again in their pod after 10s, 20s, 40s and so on, at most 5m, and the Job fails after about backoffLimit restarts",
	"a Kubernetes Job":              "its pods start again after 10s, 20s, 40s and so on, at most 6m, backoffLimit times",
	"Polly":                         "MaxRetryAttempts counts retries, MaxDelay cuts after the jitter, and exponential delays with UseJitter are decorrelated",
	"Resilience4j":                  "maxAttempts counts the first attempt, and waitDuration is 500ms if it is left out",
	"Celery":                        "max_retries is 3 and the delay 3m if they are left out",
	"Sidekiq":                       "a job is retried 25 times in about 21 days, or :max_retries times",
	"Argo CD":                       "limit counts retries, and maxDuration bounds each wait",
	"Temporal's server":             "MaximumAttempts counts the first attempt, and 0 is unlimited",
	"Istio's filters":               "they change the route that Istio writes, with its own retries",
	"Contour":                       "count counts retries, and perTryTimeout ends each attempt",
	"Envoy Gateway":                 "numRetries counts retries, and is 2 if it is left out",
	"Spring":                        "max-attempts counts the first attempt, and max-retries, which is its name since Spring Boot 4, does not",
}

// A form is the settings of a format, while they are read.
type form struct {
	*settings
	b       *Block
	times   style
	needed  bool   // nothing stands in for the keys that are taken, unless they are templates
	retryOn string // which failures are retried

	attempts int // including the first; -1: unlimited
	base     time.Duration
	factor   float64
	cap      time.Duration // 0: none
	jitter   retry.Jitter
	around   bool // the jitter goes beyond the cap
	timeout  time.Duration
	elapsed  time.Duration
	budget   *retry.Budget
	delays   retry.Schedule // in place of base, factor and cap
}

// longestList is how many delays a policy is given as a list.
const longestList = 100

// policy returns the policy that decides as f. It adds a note if there is none.
func (f *form) policy() retry.Policy {
	p := retry.Policy{MaxAttempts: f.attempts, AttemptTimeout: f.timeout}
	if f.attempts == 1 {
		return p
	}
	p.MaxElapsed, p.Jitter, p.Budget = f.elapsed, f.jitter, f.budget
	if f.cap > 0 && f.base >= f.cap && f.factor >= 1 {
		f.base, f.factor = f.cap, 1
	}
	switch {
	case f.delays != nil:
		p.Backoff = f.delays
		return p
	case f.factor == 1 || f.base == 0:
		p.Backoff = retry.Fixed(f.base)
		if share, _ := f.jitter.(retry.Proportional); f.base > 0 && float64(f.base)*(1+float64(share)) < float64(f.cap) {
			p.MaxDelay = f.cap // which no delay reaches
		}
		return p
	case !f.around && f.factor > 1:
		p.Backoff, p.MaxDelay = retry.Exponential{Base: f.base, Factor: f.factor}, f.cap
		return p
	}

	// A MaxDelay cuts the jitter too. Only a list has delays whose jitter goes
	// beyond a cap, or that become shorter.
	var list retry.Schedule
	reached := false
	for d := float64(f.base); len(list) < longestList && (f.attempts < 0 || len(list) < f.attempts-1) && !reached; d *= f.factor {
		reached = f.factor > 1 && d >= float64(f.cap) || d < 1
		list = append(list, min(saturate.Float(d), f.cap))
	}
	switch {
	case reached || f.factor < 1 && len(list) == f.attempts-1:
		p.Backoff = list
	case list == nil: // there is a fault
	case f.factor < 1:
		f.fault("multiplier", f.factor, "1 or more, because delays that become shorter are not a policy")
	default:
		p.Backoff = retry.Exponential{Base: f.base, Factor: f.factor}
		if _, most := f.jitter.(retry.Proportional).Window(list[len(list)-1]); most <= f.cap {
			p.MaxDelay = f.cap
		} else if len(list) < longestList {
			f.b.note("jitter", say("no delay reaches the longest, %v, before its jitter: here it is left out", f.cap))
		} else {
			p.MaxDelay = f.cap
			f.b.note("jitter", say("the longest delays go up to %v beyond %v: here at most that", f.jitter, f.cap))
		}
	}
	return p
}

// skip takes keys that have no place in a policy, and notes why it matters.
func (f *form) skip(why string, keys ...string) {
	for _, key := range keys {
		v := take[json.RawMessage](f, key, "", nil, nil)
		if why != "" && v != nil && string(v) != "[]" && string(v) != "{}" {
			f.b.note(key, why)
		}
	}
}

// has reports whether a key is written with a value.
func (f *form) has(key string) bool {
	return anyEntry(f.b.node, func(e entry) bool {
		value := resolved(e.value)
		return f.plain(e.key) == f.plain(key) && value.ShortTag() != "!!null" && (value.Kind != yaml.SequenceNode || len(value.Content) > 0)
	})
}

// take takes the value of a key, or what the system puts in its place.
func take[T any](f *form, key, write string, missing T, valid func(T) bool) T {
	var v T
	value, ok := f.pull(key)
	switch {
	case !ok && f.needed && !f.b.templates[f.path+key]:
		f.wrong.add("missing_key", f.path+key, "%s is missing: write %s", f.path+key, write)
	case !ok:
	case json.Unmarshal(value, &v) != nil || valid != nil && !valid(v):
		f.fault(key, shown(value), write)
	default:
		return v
	}
	return missing
}

func (f *form) whole(key string, least, most int64, missing int64) int {
	write := fmt.Sprintf("a whole number from %d to %d", least, most)
	return int(min(math.MaxInt-1, take(f, key, write, missing, func(n int64) bool { return n >= least && n <= most })))
}

func (f *form) number(key, write string, missing float64, valid func(float64) bool) float64 {
	return take(f, key, write, missing, func(x float64) bool { return valid(x) && x <= math.MaxFloat64 })
}

func fromOne(x float64) bool { return x >= 1 }

// A style is how a format writes durations.
type style struct {
	write          string
	text           *regexp.Regexp // of what Go takes; nil: all
	digits, number time.Duration  // the unit of a text of digits, and of a number; 0: it is no duration
}

var (
	protoTimes    = style{`seconds as text, such as "0.2s"`, regexp.MustCompile(`^(\d+(\.\d{0,9})?|\.\d{1,9})s$`), 0, 0}
	temporalTimes = style{protoTimes.write + ` (the TypeScript SDK alone takes "1m" and "500 ms")`, protoTimes.text, 0, 0}
	goTimes       = style{`a duration as text, such as "200ms" or "1m30s"`, nil, 0, 0}
	otelTimes     = style{`a duration as text, such as "200ms", or nanoseconds`, nil, 0, 1} // so that 0 is one
	argoTimes     = style{`a duration as text, such as "30s" or "5m"`, nil, time.Second, time.Second}
	gatewayTimes  = style{`a duration as text in whole h, m, s and ms, such as "500ms" or "1m30s"`, regexp.MustCompile(`^(\d{1,5}(h|m|s|ms)){1,4}$`), 0, 0}
	wholeSeconds  = style{"whole seconds, such as 30", nil, time.Second, time.Second}
	natsTimes     = style{`nanoseconds, such as 30000000000, or text, such as "30s"`, nil, 0, 1}
)

// time takes a duration.
func (f *form) time(key string, least, missing time.Duration) time.Duration {
	write := f.times.write
	if least > 1 {
		write += fmt.Sprintf(", at least %v", least)
	} else if least > 0 {
		write += ", above 0s"
	}
	d := missing
	take(f, key, write, nil, func(value json.RawMessage) (ok bool) {
		d, ok = f.times.parse(value)
		return ok && d >= least
	})
	return d
}

func (s style) parse(value json.RawMessage) (time.Duration, bool) {
	text := ""
	isText := json.Unmarshal(value, &text) == nil
	digits, unit := text, s.digits
	if !isText {
		digits, unit = string(value), s.number
	}
	if n, err := strconv.ParseUint(digits, 10, 63); err == nil && unit > 0 {
		return saturate.Mul(n, unit), true
	}
	d, err := time.ParseDuration(text)
	return d, isText && err == nil && (s.text == nil || s.text.MatchString(text))
}

const routing = "a policy does not say where a retry goes"

// failures takes which failures are retried. Each must be valid.
func failures[T any](f *form, key, write string, names []T, valid func(string) bool) {
	var all []string
	for _, one := range names {
		all = append(all, fmt.Sprint(one))
		if name := all[len(all)-1]; !valid(name) {
			f.fault(key, fmt.Sprintf("%.60q", name), write)
		}
	}
	f.retryOn = strings.Join(all, ",")
}

// list takes a list that is not empty.
func list[T any](f *form, key, write string) []T {
	return take(f, key, write, nil, func(names []T) bool { return len(names) > 0 })
}

// readTemporal fills in what Temporal's server fills in, which takes 0 for a
// setting that is left out.
func readTemporal(f *form) {
	f.base = cmp.Or(f.time("initialInterval", 0, 0), time.Second)
	f.factor = cmp.Or(f.number("backoffCoefficient", "1 or more, or 0 for 2", 0, func(x float64) bool { return x == 0 || x >= 1 }), 2)
	f.cap = f.time("maximumInterval", 0, 0)
	if f.cap > 0 && f.cap < f.base {
		f.fault("maximumInterval", f.cap, say("at least the initialInterval, %v", f.base))
	}
	f.cap = cmp.Or(f.cap, saturate.Mul(100, f.base))
	f.attempts = cmp.Or(f.whole("maximumAttempts", 0, math.MaxInt32, 0), retry.Unlimited)
	f.skip("", "nonRetryableErrorTypes")
}

func readGRPC(f *form) {
	const write = "codes such as UNAVAILABLE"
	f.needed, f.around, f.jitter = true, true, retry.Proportional(0.2)
	f.attempts = f.whole("maxAttempts", 2, math.MaxInt32, 0)
	f.base = f.time("initialBackoff", 1, 0)
	f.cap = f.time("maxBackoff", 1, 0)
	f.factor = f.number("backoffMultiplier", "a number above 0", 0, func(x float64) bool { return x > 0 })
	failures(f, "retryableStatusCodes", write, list[any](f, "retryableStatusCodes", write), isGRPCCode)
	if f.retryOn != strings.ToUpper(f.retryOn) {
		f.b.warn(refused, "retryableStatusCodes", "retryableStatusCodes: grpc-go refuses the whole config for codes in lower case: write "+strings.ToUpper(f.retryOn))
	}
	if f.attempts > 5 {
		f.b.warn(noEffect, "maxAttempts", fmt.Sprintf("maxAttempts: gRPC clients cut %d to 5", f.attempts))
		f.attempts = 5
	}
	f.throttling()
}

// throttling reads what stands around a retryPolicy.
func (f *form) throttling() {
	if f.b.beside == nil {
		return
	}
	method := f.b.beside
	if method.key == "methodConfig" && !hasKey(method.node, "name") {
		f.b.warn(noEffect, "maxAttempts", "this does nothing: its entry of methodConfig has no name, and is skipped; write name: [{}] for all methods")
	}
	if method.up != nil && method.up.key == "serviceConfig" {
		f.b.note("serviceConfig", "this is the form of a DNS record: as a default config in code it does nothing")
	}
	if e, ok := method.get(strings.ToLower, "hedgingPolicy"); ok {
		f.b.lines[e.key] = e.line
		f.b.warn(refused, e.key, "hedgingPolicy: beside a retryPolicy it is not allowed: write one of them")
	}
	if e, ok := method.get(strings.ToLower, "retryThrottling"); ok && method.up != nil {
		f.b.lines[e.key] = e.line
		f.b.warn(noEffect, e.key, "retryThrottling: inside methodConfig it does nothing: write it beside methodConfig")
	}
	e, ok := method.up.get(strings.ToLower, "retryThrottling")
	if !ok {
		return
	}
	settings := &place{node: e.value}
	most, ratio := f.amount(settings, "maxTokens", 0), f.amount(settings, "tokenRatio", 0)
	size := int(math.Ceil(most/2)) - 1
	f.b.lines[e.key] = e.line
	switch {
	case !(most > 0 && most <= 1000 && ratio > 0):
		f.b.warn(refused, e.key, "retryThrottling: grpc-go refuses the whole config: write maxTokens above 0 and up to 1000, and a tokenRatio above 0")
	case size < 1:
		f.b.warn(noEffect, e.key, fmt.Sprintf("retryThrottling: with maxTokens %v no retry is allowed: the first failure leaves half of them or less", most))
	default:
		f.budget = &retry.Budget{Size: size, Ratio: min(1, ratio)}
		f.b.note(e.key, fmt.Sprintf("here a budget of %d retries; in gRPC failures that are not retried take from it, too, and recovery takes up to %.0f successes",
			size, math.Ceil(most/2/ratio)))
	}
}

func isGRPCCode(name string) bool {
	return slices.Contains(strings.Fields(`OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED
		RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED
		0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16`), strings.ToUpper(name))
}

// envoyConditions are what Envoy retries on; it ignores other names without a
// word.
var envoyConditions = strings.Fields(`5xx gateway-error reset reset-before-request connect-failure envoy-ratelimited retriable-4xx refused-stream
	retriable-status-codes retriable-headers http3-post-connect-failure cancelled deadline-exceeded internal resource-exhausted unavailable`)

// isEnvoyCondition reports whether Envoy retries on a name.
func isEnvoyCondition(name string) bool { return slices.Contains(envoyConditions, name) }

// isIstioCondition reports whether Istio takes a name: a condition of Envoy, or a
// status.
func isIstioCondition(name string) bool {
	status, _ := strconv.Atoi(name)
	return isEnvoyCondition(name) || http.StatusText(status) != ""
}

// mesh reads what Envoy and Istio, which configures Envoy, share: what they retry,
// and a delay that counts whole milliseconds, and is drawn from nothing to an
// interval that doubles, up to ten times the first.
func (f *form) mesh(key, write string, valid func(string) bool, base, most time.Duration) {
	write += strings.Join(envoyConditions, ", ")
	names := strings.FieldsFunc(take[string](f, key, write, "", nil), func(r rune) bool { return r == ',' })
	for i := range names {
		if key == "retry_on" { // Istio takes no blanks
			names[i] = strings.TrimSpace(names[i])
		}
	}
	failures(f, key, write, names, valid)
	f.base, f.factor, f.jitter = max(time.Millisecond, base.Truncate(time.Millisecond)), 2, retry.FullJitter
	f.cap = saturate.Mul(10, f.base)
	if most > 0 {
		f.cap = max(time.Millisecond, most.Truncate(time.Millisecond))
	}
}

func readEnvoy(f *form) {
	f.attempts = 1 + f.whole("num_retries", 0, math.MaxUint32, 1)
	f.timeout = f.time("per_try_timeout", 0, 0).Truncate(time.Millisecond)
	base, most := 25*time.Millisecond, time.Duration(0)
	f.inner("retry_back_off", `a mapping such as {"base_interval": "0.025s"}`, func(inner *settings) {
		in := &form{settings: inner, b: f.b, times: f.times, needed: true}
		base = in.time("base_interval", 1, 0)
		in.needed = false
		if most = in.time("max_interval", 1, 0); most > 0 && most < base {
			in.fault("max_interval", most, say("at least the base_interval, %v", base))
		}
	})
	f.mesh("retry_on", "conditions of Envoy, which ignores others: ", isEnvoyCondition, base, most)
	if !slices.ContainsFunc(strings.Split(f.retryOn, ","), isEnvoyCondition) {
		f.b.warn(noEffect, "retry_on", "this does nothing: without retry_on Envoy retries nothing, unless a request asks for it in x-envoy-retry-on")
	}
	for list, word := range map[string]string{"retriable_status_codes": "retriable-status-codes", "retriable_headers": "retriable-headers"} {
		switch written := f.retries(word); {
		case f.has(list) && !written:
			f.b.warn(noEffect, list, fmt.Sprintf("%s: it does nothing without %s in retry_on", list, word))
		case written && !f.has(list):
			f.b.warn(noEffect, "retry_on", fmt.Sprintf("retry_on: %s does nothing without %s", word, list))
		}
	}
	f.skip("", "retriable_status_codes", "retriable_headers")
	f.skip("only requests with these headers are retried", "retriable_request_headers")
	f.finalTimeout("per_try_timeout")
	if f.attempts > 1 {
		f.clusters()
	}
	f.skip(routing, "retry_priority", "retry_host_predicate", "retry_options_predicates", "host_selection_retry_max_attempts")
	f.skip("a policy bounds the whole attempt, not its silence", "per_try_idle_timeout")
	f.skip("a policy waits for what a server asks by its max_retry_after", "rate_limited_retry_back_off")
}

// retries reports whether a failure is one of those that are retried.
func (f *form) retries(name string) bool { return slices.Contains(strings.Split(f.retryOn, ","), name) }

// finalTimeout warns of an attempt that Envoy does not retry when its timeout has ended
// it: that is a reset, which no status and no other condition has in it.
func (f *form) finalTimeout(key string) {
	hedges, _ := f.b.beside.get(snake, "hedge_policy", "hedge_on_per_try_timeout")
	hedged := hedges.value != nil && hedges.value.Value == "true"
	if f.timeout > 0 && f.attempts != 1 && !hedged && !f.retries("5xx") && !f.retries("gateway-error") && !f.retries("reset") {
		f.b.warn(noEffect, key, key+" ends an attempt that is not retried then: add reset to the conditions, or 5xx or gateway-error")
	}
}

// some returns the entries of a list beside b, no more than can be looked at.
func (f *form) some(key string, list *yaml.Node) []entry {
	all := entries(list)
	if len(all) > mostBeside {
		f.b.note(key, fmt.Sprintf("of these %d, the first %d are looked at here", len(all), mostBeside))
		all = all[:mostBeside]
	}
	return all
}

// istioDefault is what Istio retries where that is not said.
const istioDefault = "connect-failure,refused-stream,unavailable,cancelled"

// readHTTPRoute reads the retry of a rule of the Gateway API, which leaves much to its
// implementation.
func readHTTPRoute(f *form) {
	f.attempts = 1 + f.whole("attempts", 0, math.MaxInt32, 2)
	if f.attempts == 1 {
		f.b.note("attempts", "0 is no retry; implementations of older versions refuse it")
	}
	if !f.has("attempts") {
		f.b.note("attempts", "it is left out, and the implementation decides; here it is 2, as in Istio")
	}
	for _, code := range take[[]int](f, "codes", "a list of statuses, such as [503]", nil, nil) {
		if code < 400 || code > 599 {
			f.fault("codes", code, "statuses from 400 to 599")
		}
		f.retryOn = strings.TrimPrefix(fmt.Sprintf("%s,%d", f.retryOn, code), ",")
	}
	if f.retryOn == "" {
		f.b.note("codes", "it is left out, so that only failures of the connection are retried")
	}
	f.constraint()
	least := time.Millisecond
	if f.attempts == 1 {
		least = 0
	}
	backoff := f.time("backoff", least, 0)
	switch {
	case f.attempts == 1:
		return
	case f.has("backoff"):
		f.base, f.factor = backoff, 1
		f.b.note("backoff", "it is the base of the waits; how they grow and vary is up to the implementation")
		return
	}
	f.base, f.factor, f.cap, f.jitter = 25*time.Millisecond, 2, 250*time.Millisecond, retry.FullJitter
	f.b.note("backoff", "it is left out, and the implementation decides; here it is that of Envoy")
}

func readIstio(f *form) {
	f.attempts = 1 + f.whole("attempts", 0, math.MaxInt32, 0) // which counts retries, whatever its name says
	if f.attempts == 1 {
		f.b.note("attempts", "with 0, or without it, Istio retries nothing")
		for _, key := range []string{"perTryTimeout", "retryOn", "retryRemoteLocalities"} {
			if !f.b.templates["attempts"] && f.has(key) {
				f.fault("attempts", 0, "1 or more, or no "+key+": Istio refuses both")
			}
		}
	}
	f.timeout = f.time("perTryTimeout", time.Millisecond, 0)
	f.mesh("retryOn", "a status such as 503, or one of ", isIstioCondition,
		f.time("backoff", time.Millisecond, 25*time.Millisecond), 0)
	f.skip(routing, "retryRemoteLocalities", "retryIgnorePreviousHosts")
	f.finalTimeout("perTryTimeout")
	f.destinations()
}

// The limits of the Amazon States Language.
const (
	stepMostAttempts = 99_999_999
	stepMostDelay    = 31_622_400
)

func readStepFunctions(f *form) {
	const write = `names of errors as a list, such as ["States.ALL"]`
	f.needed = true
	failures(f, "ErrorEquals", write, list[string](f, "ErrorEquals", write), func(name string) bool { return name != "" })
	f.needed = false
	if f.retries("States.ALL") && strings.Contains(f.retryOn, ",") {
		f.fault("ErrorEquals", f.retryOn, "States.ALL alone")
	}
	f.attempts = 1 + f.whole("MaxAttempts", 0, stepMostAttempts, 3)
	f.base = time.Duration(f.whole("IntervalSeconds", 1, stepMostAttempts, 1)) * time.Second
	f.factor = f.number("BackoffRate", "1 or more", 2, fromOne)
	f.cap = time.Duration(f.whole("MaxDelaySeconds", 1, stepMostDelay, 0)) * time.Second
	if f.cap > 0 && f.cap <= f.base {
		f.fault("MaxDelaySeconds", int(f.cap.Seconds()), fmt.Sprintf("more than the IntervalSeconds, %d", int(f.base.Seconds())))
	}
	if take(f, "JitterStrategy", `"FULL" or "NONE"`, "", func(j string) bool { return j == "FULL" || j == "NONE" }) == "FULL" {
		f.jitter = retry.FullJitter
	}
	f.skip("", "Comment")
	f.retriers()
	f.layers()
}

// mostBeside is how many retriers or templates are looked at for each block: more
// would take long for each of as many blocks.
const mostBeside = 300

// retriers says what the other retriers of a state do to this one.
func (f *form) retriers() {
	if f.b.beside == nil {
		return
	}
	if limit, ok := f.b.beside.get(exactly, "TimeoutSeconds"); ok && f.attempts != 1 && !f.retries("States.ALL") && !f.retries("States.Timeout") {
		f.b.note("ErrorEquals", fmt.Sprintf("an attempt that TimeoutSeconds, %s, ends is not retried by this: that needs States.Timeout", limit.value.Value))
	}
	list := f.all(f.b.beside, "Retry.*")
	if len(list) < 2 {
		return
	}
	attempts, before, first := 1, true, map[string]bool{}
	for i, r := range list {
		names := f.texts(r, "ErrorEquals.*")
		attempts = min(math.MaxInt32, attempts+f.retriesOf(r))
		if own := r.node == f.b.original; own && slices.Contains(names, "States.ALL") && i < len(list)-1 {
			f.fault("ErrorEquals", "States.ALL", "it in the last retrier")
		} else if own {
			before = false
		}
		for _, name := range names {
			first[name] = first[name] || before
		}
	}
	for name := range strings.SplitSeq(f.retryOn, ",") {
		if first[name] {
			f.b.warn(noEffect, "ErrorEquals", fmt.Sprintf("ErrorEquals: %s does nothing here: an earlier retrier of the state has it, and no later one is tried", name))
		}
	}
	f.b.note("MaxAttempts", fmt.Sprintf("each retrier counts by itself: with the others, the state makes up to %d attempts", attempts))
}

// retriesOf returns how often a retrier of a state retries.
func (f *form) retriesOf(retrier *place) int {
	return int(min(stepMostAttempts, f.amount(retrier, "MaxAttempts", 3)))
}

// layers warns of retries inside of what is retried as a whole.
func (f *form) layers() {
	for p := f.b.beside; p != nil && p.up != nil; p = p.up {
		more := 0
		for _, outer := range f.all(p.up, "Retry.*") {
			more = min(math.MaxInt32, more+f.retriesOf(outer))
		}
		if more > 0 && f.attempts != 1 {
			f.b.warn(multiply, "MaxAttempts", fmt.Sprintf("attempts multiply: the state around this one is retried as a whole, up to %d times, so that up to %d attempts of this one run",
				more, f.attempts*(more+1)))
		}
	}
}

func readOTel(f *form) {
	f.attempts = retry.Unlimited
	receiver := f.b.beside != nil && f.b.beside.up != nil && f.b.beside.up.key == "receivers" // whose default is to give up
	first := 5 * time.Second
	if receiver {
		first = time.Second
	}
	f.base = f.time("initial_interval", 0, first)
	if spread := f.number("randomization_factor", "a share from 0 to 1", 0.5, func(x float64) bool { return x >= 0 && x <= 1 }); spread > 0 {
		f.jitter, f.around = retry.Proportional(spread), true
	}
	f.factor = f.number("multiplier", "1 or more", 1.5, fromOne)
	f.cap = f.time("max_interval", 0, 30*time.Second)
	f.elapsed = f.time("max_elapsed_time", 0, 5*time.Minute)
	if !take(f, "enabled", "true or false", !receiver, nil) {
		f.attempts = 1
		return
	}
	if longest := max(f.base, f.cap); f.elapsed > 0 && f.elapsed < longest {
		f.fault("max_elapsed_time", f.elapsed, say("at least the initial_interval and the max_interval, %v, or 0s for no bound", longest))
	}
	if f.base > f.cap {
		f.delays = retry.Schedule{f.base, f.cap} // the first is not cut
	}
}

// textWhole takes a whole number of Argo, which may be text.
func (f *form) textWhole(key string, missing int) int {
	n := uint64(missing)
	take(f, key, "a whole number, such as 3", nil, func(value json.RawMessage) bool {
		var err error
		n, err = strconv.ParseUint(strings.Trim(string(value), `"`), 10, 31)
		return err == nil
	})
	return int(n)
}

func readArgo(f *form) {
	f.factor = 1
	if f.b.beside != nil && f.b.beside.key == "containerSet" { // which has settings of its own
		f.attempts, f.base = 1+f.textWhole("retries", 0), f.time("duration", 0, 0)
		return
	}
	f.attempts = 1 + f.textWhole("limit", -2) // -1: unlimited
	written := func(key string) bool { return f.has(key) || f.b.templates[key] }
	limited := written("limit")
	policies := []string{"Always", "OnFailure", "OnError", "OnTransientError"}
	if take(f, "retryPolicy", "one of "+strings.Join(policies, ", "), "", func(p string) bool { return slices.Contains(policies, p) }) == "" && limited && !written("expression") && !written("retryPolicy") {
		f.b.note("retryPolicy", "it is OnFailure: a pod that was evicted, or that the controller lost, is not retried")
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
			f.b.warn(noEffect, "backoff", "backoff: it does nothing without a limit: Argo retries at once, without an end")
		}
	})
	f.skip("", "expression")
	f.skip(routing, "affinity")
	f.callers()
}

// callers warns of a template whose steps are retried, and that is retried as a step.
func (f *form) callers() {
	whole, name := f.b.beside.outermost(), f.text(f.b.beside, "name")
	templates := append(f.all(whole, "spec.templates.*"), f.all(whole, "spec.workflowSpec.templates.*")...) // of a CronWorkflow
	for _, other := range templates {
		if f.attempts == 1 || name == "" || other.node == f.b.beside.node || !hasKey(other.node, "retryStrategy") {
			continue
		}
		walk(other.node, func(_ []string, e entry) bool {
			calls := e.key == "template" && resolved(e.value).Value == name
			if calls {
				f.b.warn(multiply, "limit", fmt.Sprintf("attempts multiply: template %s is retried, too, and runs this one each time", f.text(other, "name")))
			}
			return calls
		})
	}
}

func readNATS(f *form) {
	f.attempts = cmp.Or(f.whole("max_deliver", -1, math.MaxInt32, -1), retry.Unlimited)
	f.delays = retry.Schedule{f.time("ack_wait", 1, 30*time.Second)}
	if list := list[json.RawMessage](f, "backoff", "a list of delays"); list != nil {
		f.delays = nil
		for i, value := range list {
			d, ok := f.times.parse(value)
			if !ok || d < 1 {
				f.fault(fmt.Sprintf("backoff[%d]", i), fmt.Sprintf("%.60s", value), f.times.write)
			}
			f.delays = append(f.delays, d)
		}
		if f.attempts > 0 && len(list) > f.attempts {
			f.fault("backoff", fmt.Sprintf("a list of %d", len(list)), fmt.Sprintf("at most max_deliver delays, %d", f.attempts))
		}
	}
	f.b.note("max_deliver", "each delay starts at the delivery, so that the work is part of it; a Nak is delivered again at once")
	kubernetes := f.text(f.b.beside, "kind") == "Consumer"
	if kubernetes && !f.has("ack_wait") && !f.has("backoff") {
		f.delays = retry.Schedule{time.Millisecond}
		f.b.warn(shortDelays, "max_deliver", "ackWait: it is left out, and the default of the CRD is 1ns: what is not acknowledged within about 1ms is delivered again; set ackWait")
	}
	if least := f.delays[0]; least < time.Millisecond {
		f.b.warn(shortDelays, "ack_wait", fmt.Sprintf("ack_wait: the first delay is %v: numbers are nanoseconds", least))
	}
	if policy := take(f, "ack_policy", `"none", "all" or "explicit"`, "none", func(p string) bool { return p == "none" || p == "all" || p == "explicit" }); policy == "none" && f.attempts != 1 {
		f.attempts = 1
		f.b.warn(noEffect, "max_deliver", "this does nothing: ack_policy is none, also where it is left out, and nothing is delivered again; set it to explicit")
	}
	for _, key := range f.left() { // a consumer has many others, and each version new ones
		if nearest(key, []string{"max_deliver", "ack_wait", "backoff", "ack_policy"}) == "" {
			f.skip("", key)
		}
	}
}

// readAsynq reads the retries of a task under asynq's own delays, which it draws
// from n^4+15 to n^4+15+29(n+1) seconds after n retries.
func readAsynq(f *form) {
	f.attempts = 1 + f.whole("max_retry", 0, 1000, 25)
	f.timeout = time.Duration(f.whole("timeout_seconds", 0, math.MaxInt32, 0)) * time.Second
	if f.timeout == 0 && !f.has("deadline") {
		f.timeout = 30 * time.Minute
		f.b.note("timeout_seconds", "30m, the default of asynq where there is no deadline, ends each attempt")
	}
	for n := range uint64(f.attempts - 1) {
		f.delays = append(f.delays, saturate.Mul(2*n*n*n*n+30+29*(n+1), time.Second/2))
	}
	if last := time.Duration(29*(f.attempts-1)) * time.Second / 2; last > 0 {
		f.b.note("max_retry", say("asynq draws each delay from a range: here its middle, which is off by up to 14.5s at first and %v at last", last))
	}
	f.skip("", strings.Fields(`id queue type payload state start_time retried last_failed_at error_message deadline next_process_at
		ttl_seconds completed_at result group is_orphaned`)...)
}

// spells reports whether the format takes a text for one of its keys.
func (s *format) spells(key, text string) bool {
	return key == text || len(text) < longestKey && s.plain(key) == s.plain(text)
}

// keys returns the keys that the format knows, those of mappings in it as "backoff.duration".
func (s *format) keys() []string {
	f := &form{settings: newSettings(s.plain), times: s.times, b: new(Block)}
	f.b.reset()
	f.b.node = new(yaml.Node)
	s.read(f)
	return *f.listed
}

// policy reads the policy in a node, and sets the notes of b.
func (s *format) policy(node *yaml.Node, b *Block) (p retry.Policy, err error) {
	b.reset()
	node = resolved(node)
	read := *b
	read.original, read.unnoted = node, s.expands
	if read.node = read.expanded(node, ""); read.node == nil {
		read.node = node // a template in place of all settings is no mapping
	}
	defer func() { b.Notes, b.warnings = read.Notes, read.warnings }()
	in, err := settingsOf(read.node, s.plain, s.example)
	if in == nil {
		return p, err
	}
	f := &form{settings: in, times: s.times, b: &read}
	s.read(f)
	p = f.policy()
	f.rejectRest(s.title)
	return p, f.err()
}
