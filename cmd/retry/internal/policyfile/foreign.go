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

// A format is the form of the settings of another system that retries.
type format struct {
	name, title, example string
	plain                func(string) string // maps each accepted spelling of a key to the same text
	times                style
	read                 func(*form)
	marks                []string // the keys that show the format by themselves
	certain              bool     // settings at a path are in this format even without a mark
	beside               []sibling
	attemptLimit         string   // its key that limits each attempt; "" if there is none
	ignoresLong          bool     // it ignores that limit at or above the limit of all attempts
	refusesLong          bool     // it refuses that limit above the limit of all attempts
	fillsLong            bool     // it sets that limit to the limit of all attempts by default
	expands              []string // the keys whose values the system itself expands
	terms                terms
}

var formats = []format{
	{
		name:      "temporal",
		title:     "Temporal",
		example:   `{"maximumAttempts": 3}`,
		terms:     terms{"maximumAttempts", "maximumInterval", ""},
		plain:     snake,
		times:     temporalTimes,
		read:      readTemporal,
		fillsLong: true,
		marks: []string{
			"initialInterval", "backoffCoefficient", "maximumInterval", "maximumAttempts",
			"nonRetryableErrorTypes",
		},
		beside: []sibling{
			{path: "scheduleToCloseTimeout", bounds: all},
			{path: "startToCloseTimeout", bounds: each},
			{path: "scheduleToStartTimeout", says: "ends the wait for a worker, and is not retried"},
			{path: "heartbeatTimeout", says: "ends an attempt without a heartbeat for this time, " +
				"and the attempt is retried"},
		},
	},
	{
		name:    "grpc",
		title:   "gRPC",
		example: `{"maxAttempts": 3, ...}`,
		terms:   terms{"maxAttempts", "maxBackoff", ""},
		plain:   strings.ToLower,
		times:   protoTimes,
		read:    readGRPC,
		marks:   []string{"initialBackoff", "backoffMultiplier", "retryableStatusCodes"},
		beside: []sibling{
			{path: "timeout", bounds: all},
			{path: "waitForReady", when: "true", says: "a call to a server that is down waits for a " +
				"connection, and is not retried"},
		},
	},
	{
		name:         "envoy",
		title:        "Envoy",
		example:      `{"num_retries": 2}`,
		terms:        terms{"num_retries", "retry_back_off.max_interval", ""},
		plain:        snake,
		times:        protoTimes,
		read:         readEnvoy,
		attemptLimit: "per_try_timeout",
		ignoresLong:  true,
		marks:        []string{"num_retries", "retry_on", "retry_back_off", "per_try_timeout"},
		beside: []sibling{
			{path: "timeout", bounds: all, absent: routeTimeout},
			{path: "max_stream_duration.max_stream_duration", bounds: all},
			{path: "max_stream_duration.grpc_timeout_header_max", says: grpcTimeout},
			{path: "max_grpc_timeout", says: grpcTimeout},
			{path: "idle_timeout", says: "ends a stream that is idle for this time"},
		},
	},
	{
		name:         "istio",
		title:        "Istio",
		example:      `{"attempts": 2}`,
		terms:        terms{"attempts", "", ""},
		plain:        snake,
		times:        goTimes,
		read:         readIstio,
		attemptLimit: "perTryTimeout",
		ignoresLong:  true,
		marks:        []string{"retryOn", "perTryTimeout"},
		beside:       []sibling{{path: "timeout", bounds: all}},
	},
	{
		name:        "httproute",
		title:       "HTTPRoute",
		example:     `{"attempts": 2}`,
		terms:       terms{"attempts", "", ""},
		plain:       exactly,
		times:       gatewayTimes,
		read:        readHTTPRoute,
		refusesLong: true,
		beside: []sibling{
			{path: "timeouts.request", bounds: all},
			{path: "timeouts.backendRequest", bounds: each},
		},
	},
	{
		name:    "stepfunctions",
		title:   "Step Functions",
		example: `{"ErrorEquals": ["States.ALL"]}`,
		terms:   terms{"MaxAttempts", "MaxDelaySeconds", ""},
		plain:   exactly,
		read:    readStepFunctions,
		marks:   []string{"ErrorEquals", "IntervalSeconds", "BackoffRate"},
		beside: []sibling{
			{path: "/TimeoutSeconds", bounds: all},
			{path: "TimeoutSeconds", bounds: each},
			{path: "TimeoutSecondsPath", says: "ends each attempt after the time in the input"},
			{path: "HeartbeatSeconds", says: "ends an attempt without a heartbeat for this time, " +
				"with States.Timeout"},
		},
	},
	{
		name:    "otel",
		title:   "the OpenTelemetry Collector",
		example: `{"max_elapsed_time": "5m"}`,
		terms:   terms{"max_elapsed_time", "max_interval", "max_elapsed_time"},
		plain:   exactly,
		times:   otelTimes,
		read:    readOTel,
		certain: true,
		marks:   []string{"initial_interval", "randomization_factor", "max_elapsed_time"},
		beside: []sibling{
			{path: "timeout", bounds: each, absent: exporterTimeout},
			{path: "sending_queue.enabled", when: "false",
				says: "without a queue, the deadline of the caller ends the retries too"},
			{path: "sending_queue.wait_for_result", when: "true",
				says: "the deadline of the caller ends the retries too"},
		},
	},
	{
		name:    "argo",
		title:   "Argo Workflows",
		example: `{"limit": 3}`,
		terms:   terms{"limit", "backoff.cap", "backoff.maxDuration"},
		plain:   exactly,
		times:   argoTimes,
		read:    readArgo,
		certain: true,
		expands: []string{"expression"},
		beside: []sibling{
			{path: "/spec.activeDeadlineSeconds", bounds: all},
			{path: "/spec.workflowSpec.activeDeadlineSeconds", bounds: all},
			{path: "activeDeadlineSeconds", bounds: each},
			{path: "timeout", bounds: each},
		},
	},
	{
		name:    "nats",
		title:   "NATS",
		example: `{"max_deliver": 3}`,
		terms:   terms{"max_deliver", "", ""},
		plain:   snake,
		times:   natsTimes,
		read:    readNATS,
		marks:   []string{"max_deliver"},
	},
	{
		name:         "asynq",
		title:        "asynq",
		example:      `{"max_retry": 25}`,
		terms:        terms{"max_retry", "", ""},
		plain:        exactly,
		read:         readAsynq,
		marks:        []string{"max_retry"},
		attemptLimit: "timeout_seconds",
	},
}

const grpcTimeout = "a gRPC request has its own timeout, which replaces the timeout of the route"

var upper = regexp.MustCompile(`[A-Z]`)

// snake turns camelCase into snake_case. Protocol buffers accept both.
func snake(key string) string {
	if !strings.ContainsFunc(key, func(r rune) bool { return 'A' <= r && r <= 'Z' }) {
		return key // most keys have no upper case, and a regular expression is slow
	}
	return upper.ReplaceAllStringFunc(key, func(c string) string { return "_" + strings.ToLower(c) })
}

func exactly(key string) string { return key }

// under reports whether the format has settings under a key in any of its places.
func (s *format) under(key string) bool {
	return slices.ContainsFunc(shapes, func(of shape) bool {
		return of.system == s.name && of.path != "" && s.spells(of.last(), key)
	})
}

// unread says how the systems retry whose settings are not read.
var unread = map[string]string{
	"a Job that counts by index": "" +
		"each index has backoffLimitPerIndex retries, and backoffLimit, unlimited if it is left " +
		"out, counts those of all",
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
	"Celery":            "max_retries is 3 and the delay 3m if they are left out",
	"Sidekiq":           "a job is retried 25 times in about 21 days, or :max_retries times",
	"Argo CD":           "limit counts retries, and maxDuration bounds each wait",
	"Temporal's server": "MaximumAttempts counts the first attempt, and 0 is unlimited",
	"Istio's filters":   "they change the route that Istio writes, with its own retries",
	"Contour":           "count counts retries, and perTryTimeout ends each attempt",
	"Envoy Gateway":     "numRetries counts retries, and is 2 if it is left out",
	"Spring": "" +
		"max-attempts counts the first attempt, and max-retries, which is its name since Spring " +
		"Boot 4, does not",
}

// A form has the settings of a format while they are read.
type form struct {
	*settings
	b       *Block
	times   style
	needed  bool   // a key that is taken must not be missing, unless it is a template
	retryOn string // the failures that are retried, separated by commas

	attempts int // including the first; -1: unlimited
	base     time.Duration
	factor   float64
	cap      time.Duration // 0: none
	jitter   retry.Jitter
	around   bool // jitter may exceed the cap
	timeout  time.Duration
	elapsed  time.Duration
	budget   *retry.Budget
	delays   retry.Schedule // replaces base, factor and cap; nil if it is not set
}

// longestList is how many delays a policy gets as a list.
const longestList = 100

// policy returns the policy that decides like f. It adds a note if no policy does.
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
		if share, _ := f.jitter.(retry.Proportional); f.base > 0 &&
			float64(f.base)*(1+float64(share)) < float64(f.cap) {
			p.MaxDelay = f.cap // no delay reaches it
		}
		return p
	case !f.around && f.factor > 1:
		p.Backoff, p.MaxDelay = retry.Exponential{Base: f.base, Factor: f.factor}, f.cap
		return p
	}

	// MaxDelay limits jitter too. Only a list can have delays whose jitter exceeds a cap, or delays
	// that become shorter.
	var list retry.Schedule
	reached := false
	for d := float64(f.base); len(list) < longestList &&
		(f.attempts < 0 || len(list) < f.attempts-1) && !reached; d *= f.factor {
		reached = f.factor > 1 && d >= float64(f.cap) || d < 1
		list = append(list, min(saturate.Float(d), f.cap))
	}
	switch {
	case reached || f.factor < 1 && len(list) == f.attempts-1:
		p.Backoff = list
	case list == nil: // another key has a fault
	case f.factor < 1:
		f.fault("multiplier", f.factor, "1 or more, because delays that become shorter are not a policy")
	default:
		p.Backoff = retry.Exponential{Base: f.base, Factor: f.factor}
		if _, most := f.jitter.(retry.Proportional).Window(list[len(list)-1]); most <= f.cap {
			p.MaxDelay = f.cap
		} else if len(list) < longestList {
			f.b.note("jitter", say("no delay reaches the longest, %v, before jitter: here the longest "+
				"is left out", f.cap))
		} else {
			p.MaxDelay = f.cap
			f.b.note("jitter", say("jitter of %v lets the longest delays exceed %v: here no delay does",
				f.jitter, f.cap))
		}
	}
	return p
}

// skip takes keys that a policy cannot express. It adds the note why, unless that is "".
func (f *form) skip(why string, keys ...string) {
	for _, key := range keys {
		v := take[json.RawMessage](f, key, "", nil, nil)
		if why != "" && v != nil && string(v) != "[]" && string(v) != "{}" {
			f.b.note(key, why)
		}
	}
}

// has reports whether a key has a value that is neither null nor an empty list.
func (f *form) has(key string) bool {
	return anyEntry(f.b.node, func(e entry) bool {
		value := resolved(e.value)
		return f.plain(e.key) == f.plain(key) && value.ShortTag() != "!!null" &&
			(value.Kind != yaml.SequenceNode || len(value.Content) > 0)
	})
}

// take takes the value of a key, or returns missing, the default of the system. write says what a
// user should write.
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

// whole takes a whole number.
func (f *form) whole(key string, least, most int64, missing int64) int {
	write := fmt.Sprintf("a whole number from %d to %d", least, most)
	return int(min(math.MaxInt-1, take(f, key, write, missing, func(n int64) bool {
		return n >= least && n <= most
	})))
}

// number takes a number.
func (f *form) number(key, write string, missing float64, valid func(float64) bool) float64 {
	return take(f, key, write, missing, func(x float64) bool {
		return valid(x) && x <= math.MaxFloat64
	})
}

func fromOne(x float64) bool { return x >= 1 }

// A style is how a format writes durations.
type style struct {
	write          string
	text           *regexp.Regexp // the accepted texts among those of Go; nil accepts all
	digits, number time.Duration  // the units of digits as text and of a number; 0 refuses them
}

var (
	protoTimes = style{
		write: `seconds as text, such as "0.2s"`,
		text:  regexp.MustCompile(`^(\d+(\.\d{0,9})?|\.\d{1,9})s$`),
	}
	temporalTimes = style{
		write: protoTimes.write + ` (the TypeScript SDK alone takes "1m" and "500 ms")`,
		text:  protoTimes.text,
	}
	goTimes   = style{write: `a duration as text, such as "200ms" or "1m30s"`}
	otelTimes = style{
		write:  `a duration as text, such as "200ms", or nanoseconds`,
		number: time.Nanosecond,
	}
	argoTimes = style{
		write:  `a duration as text, such as "30s" or "5m"`,
		digits: time.Second,
		number: time.Second,
	}
	gatewayTimes = style{
		write: `a duration as text in whole h, m, s and ms, such as "500ms" or "1m30s"`,
		text:  regexp.MustCompile(`^(\d{1,5}(h|m|s|ms)){1,4}$`),
	}
	wholeSeconds = style{
		write:  "whole seconds, such as 30",
		digits: time.Second,
		number: time.Second,
	}
	natsTimes = style{
		write:  `nanoseconds, such as 30000000000, or text, such as "30s"`,
		number: time.Nanosecond,
	}
)

// time takes a duration of at least least.
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

// parse returns the duration in a value, false if the style does not accept the value.
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

// failures sets the failures that are retried. Each name must be valid.
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

// readTemporal uses the defaults of Temporal's server, for which 0 is a setting that is left out.
func readTemporal(f *form) {
	f.base = cmp.Or(f.time("initialInterval", 0, 0), time.Second)
	zeroOrFromOne := func(x float64) bool { return x == 0 || x >= 1 }
	f.factor = cmp.Or(f.number("backoffCoefficient", "1 or more, or 0 for 2", 0, zeroOrFromOne), 2)
	f.cap = f.time("maximumInterval", 0, 0)
	if f.cap > 0 && f.cap < f.base {
		f.fault("maximumInterval", f.cap, say("at least the initialInterval, %v", f.base))
	}
	f.cap = cmp.Or(f.cap, saturate.Mul(100, f.base))
	f.attempts = cmp.Or(f.whole("maximumAttempts", 0, math.MaxInt32, 0), retry.Unlimited)
	f.skip("", "nonRetryableErrorTypes")
}

// readGRPC reads the retryPolicy of a service config.
func readGRPC(f *form) {
	const write = "codes such as UNAVAILABLE"
	f.needed, f.around, f.jitter = true, true, retry.Proportional(0.2)
	f.attempts = f.whole("maxAttempts", 2, math.MaxInt32, 0)
	f.base = f.time("initialBackoff", 1, 0)
	f.cap = f.time("maxBackoff", 1, 0)
	aboveZero := func(x float64) bool { return x > 0 }
	f.factor = f.number("backoffMultiplier", "a number above 0", 0, aboveZero)
	failures(f, "retryableStatusCodes", write, list[any](f, "retryableStatusCodes", write), isGRPCCode)
	if f.retryOn != strings.ToUpper(f.retryOn) {
		f.b.warn(refused, "retryableStatusCodes", "retryableStatusCodes: grpc-go refuses the whole "+
			"config for codes in lower case: write "+strings.ToUpper(f.retryOn))
	}
	if f.attempts > 5 {
		f.b.warn(noEffect, "maxAttempts",
			fmt.Sprintf("maxAttempts: gRPC clients cut %d to 5", f.attempts))
		f.attempts = 5
	}
	f.throttling()
}

// throttling reads the settings around a retryPolicy.
func (f *form) throttling() {
	if f.b.beside == nil {
		return
	}
	method := f.b.beside
	if method.key == "methodConfig" && !hasKey(method.node, "name") {
		f.b.warn(noEffect, "maxAttempts",
			"this has no effect: gRPC skips its entry of methodConfig, which has no name; write name: [{}] "+
				"for all methods")
	}
	if method.up != nil && method.up.key == "serviceConfig" {
		f.b.note("serviceConfig",
			"this is the form of a DNS record: as a default config in code it has no effect")
	}
	if e, ok := method.get(strings.ToLower, "hedgingPolicy"); ok {
		f.b.lines[e.key] = e.line
		f.b.warn(refused, e.key,
			"hedgingPolicy: gRPC does not allow it next to a retryPolicy: write only one of them")
	}
	if e, ok := method.get(strings.ToLower, "retryThrottling"); ok && method.up != nil {
		f.b.lines[e.key] = e.line
		f.b.warn(noEffect, e.key,
			"retryThrottling: inside methodConfig it has no effect: write it next to methodConfig")
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
		f.b.warn(refused, e.key,
			"retryThrottling: grpc-go refuses the whole config: write maxTokens above 0 and up to 1000, "+
				"and a tokenRatio above 0")
	case size < 1:
		f.b.warn(noEffect, e.key,
			fmt.Sprintf("retryThrottling: with maxTokens %v no retry is allowed: the first failure leaves "+
				"half of the tokens or less", most))
	default:
		f.budget = &retry.Budget{Size: size, Ratio: min(1, ratio)}
		f.b.note(e.key,
			fmt.Sprintf("here a budget of %d retries; in gRPC, failures that are not retried take from it "+
				"too, and to recover it needs up to %.0f successes",
				size, math.Ceil(most/2/ratio)))
	}
}

var grpcCodes = strings.Fields(`OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND
	ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE
	UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED
	0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16`)

// isGRPCCode reports whether a text is the name or the number of a status code.
func isGRPCCode(name string) bool {
	return slices.Contains(grpcCodes, strings.ToUpper(name))
}

// envoyConditions are the names in retry_on that Envoy knows. It ignores other names silently.
var envoyConditions = strings.Fields(`5xx gateway-error reset reset-before-request connect-failure
	envoy-ratelimited retriable-4xx refused-stream retriable-status-codes retriable-headers
	http3-post-connect-failure cancelled deadline-exceeded internal resource-exhausted unavailable`)

// isEnvoyCondition reports whether Envoy knows a condition.
func isEnvoyCondition(name string) bool { return slices.Contains(envoyConditions, name) }

// isIstioCondition reports whether Istio accepts a condition: a condition of Envoy, or a status
// code.
func isIstioCondition(name string) bool {
	status, _ := strconv.Atoi(name)
	return isEnvoyCondition(name) || http.StatusText(status) != ""
}

// mesh reads what Envoy and Istio share, because Istio configures Envoy: the conditions and the
// delays. A delay is drawn from 0 to an interval in whole milliseconds. The interval doubles, up to
// ten times the first interval.
func (f *form) mesh(key, write string, valid func(string) bool, base, most time.Duration) {
	write += strings.Join(envoyConditions, ", ")
	isComma := func(r rune) bool { return r == ',' }
	names := strings.FieldsFunc(take[string](f, key, write, "", nil), isComma)
	for i := range names {
		if key == "retry_on" { // Istio accepts no blanks
			names[i] = strings.TrimSpace(names[i])
		}
	}
	failures(f, key, write, names, valid)
	f.base = max(time.Millisecond, base.Truncate(time.Millisecond))
	f.factor, f.jitter = 2, retry.FullJitter
	f.cap = saturate.Mul(10, f.base)
	if most > 0 {
		f.cap = max(time.Millisecond, most.Truncate(time.Millisecond))
	}
}

// readEnvoy reads the retry policy of a route.
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
		f.b.warn(noEffect, "retry_on",
			"this has no effect: without retry_on Envoy retries nothing, unless a request asks for it in "+
				"x-envoy-retry-on")
	}
	for list, word := range map[string]string{
		"retriable_status_codes": "retriable-status-codes",
		"retriable_headers":      "retriable-headers",
	} {
		switch written := f.retries(word); {
		case f.has(list) && !written:
			f.b.warn(noEffect, list, fmt.Sprintf("%s: it has no effect without %s in retry_on", list, word))
		case written && !f.has(list):
			f.b.warn(noEffect, "retry_on", fmt.Sprintf("retry_on: %s has no effect without %s", word, list))
		}
	}
	f.skip("", "retriable_status_codes", "retriable_headers")
	f.skip("only requests with these headers are retried", "retriable_request_headers")
	f.finalTimeout("per_try_timeout")
	if f.attempts > 1 {
		f.clusters()
	}
	f.skip(routing, "retry_priority", "retry_host_predicate", "retry_options_predicates",
		"host_selection_retry_max_attempts")
	f.skip("a policy limits the whole attempt, not the time without data", "per_try_idle_timeout")
	f.skip("in a policy, max_retry_after limits the wait that a server asks for",
		"rate_limited_retry_back_off")
}

// retries reports whether a failure is retried.
func (f *form) retries(name string) bool {
	return slices.Contains(strings.Split(f.retryOn, ","), name)
}

// finalTimeout warns if Envoy does not retry an attempt that its own timeout has ended. This end is
// a reset, which only the conditions 5xx, gateway-error and reset include.
func (f *form) finalTimeout(key string) {
	hedges, _ := f.b.beside.get(snake, "hedge_policy", "hedge_on_per_try_timeout")
	hedged := hedges.value != nil && hedges.value.Value == "true"
	if f.timeout > 0 && f.attempts != 1 && !hedged && !f.retries("5xx") &&
		!f.retries("gateway-error") && !f.retries("reset") {
		f.b.warn(noEffect, key,
			key+" ends an attempt, and Envoy does not retry it then: add reset to the conditions, or 5xx "+
				"or gateway-error")
	}
}

// some returns the entries of a list next to b, at most mostBeside.
func (f *form) some(key string, list *yaml.Node) []entry {
	all := entries(list)
	if len(all) > mostBeside {
		f.b.note(key, fmt.Sprintf("of these %d, the first %d are looked at here", len(all), mostBeside))
		all = all[:mostBeside]
	}
	return all
}

// istioDefault are the failures that Istio retries by default.
const istioDefault = "connect-failure,refused-stream,unavailable,cancelled"

// readHTTPRoute reads the retry of a rule of an HTTPRoute. The Gateway API leaves much to its
// implementations.
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
		f.b.note("codes", "it is left out, so only failures of the connection are retried")
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
		f.b.note("backoff",
			"it is the first delay; the implementation decides how delays grow, and about jitter")
		return
	}
	f.base, f.factor, f.cap, f.jitter = 25*time.Millisecond, 2, 250*time.Millisecond, retry.FullJitter
	f.b.note("backoff",
		"it is left out, and the implementation decides; here it is the backoff of Envoy")
}

// readIstio reads the retries of a VirtualService.
func readIstio(f *form) {
	f.attempts = 1 + f.whole("attempts", 0, math.MaxInt32, 0) // attempts counts retries
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

// readStepFunctions reads a retrier of a state.
func readStepFunctions(f *form) {
	const write = `names of errors as a list, such as ["States.ALL"]`
	f.needed = true
	isName := func(name string) bool { return name != "" }
	failures(f, "ErrorEquals", write, list[string](f, "ErrorEquals", write), isName)
	f.needed = false
	if f.retries("States.ALL") && strings.Contains(f.retryOn, ",") {
		f.fault("ErrorEquals", f.retryOn, "States.ALL alone")
	}
	f.attempts = 1 + f.whole("MaxAttempts", 0, stepMostAttempts, 3)
	f.base = time.Duration(f.whole("IntervalSeconds", 1, stepMostAttempts, 1)) * time.Second
	f.factor = f.number("BackoffRate", "1 or more", 2, fromOne)
	f.cap = time.Duration(f.whole("MaxDelaySeconds", 1, stepMostDelay, 0)) * time.Second
	if f.cap > 0 && f.cap <= f.base {
		f.fault("MaxDelaySeconds", int(f.cap.Seconds()),
			fmt.Sprintf("more than the IntervalSeconds, %d", int(f.base.Seconds())))
	}
	isStrategy := func(j string) bool { return j == "FULL" || j == "NONE" }
	if take(f, "JitterStrategy", `"FULL" or "NONE"`, "", isStrategy) == "FULL" {
		f.jitter = retry.FullJitter
	}
	f.skip("", "Comment")
	f.retriers()
	f.layers()
}

// mostBeside is how many retriers or templates are read for each block. In a file with many blocks,
// the work would otherwise grow with the square.
const mostBeside = 300

// retriers notes how the other retriers of a state affect this retrier.
func (f *form) retriers() {
	if f.b.beside == nil {
		return
	}
	if limit, ok := f.b.beside.get(exactly, "TimeoutSeconds"); ok && f.attempts != 1 &&
		!f.retries("States.ALL") && !f.retries("States.Timeout") {
		f.b.note("ErrorEquals",
			fmt.Sprintf("an attempt that TimeoutSeconds, %s, ends is not retried by this retrier: add "+
				"States.Timeout", limit.value.Value))
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
			f.b.warn(noEffect, "ErrorEquals",
				fmt.Sprintf("ErrorEquals: %s has no effect here: an earlier retrier of the state lists it, "+
					"and no later retrier is tried", name))
		}
	}
	f.b.note("MaxAttempts",
		fmt.Sprintf("each retrier counts its own retries: with the other retriers, the state makes up "+
			"to %d attempts", attempts))
}

// retriesOf returns how many retries a retrier of a state allows.
func (f *form) retriesOf(retrier *place) int {
	return int(min(stepMostAttempts, f.amount(retrier, "MaxAttempts", 3)))
}

// layers warns if a state around this state is retried as a whole.
func (f *form) layers() {
	for p := f.b.beside; p != nil && p.up != nil; p = p.up {
		more := 0
		for _, outer := range f.all(p.up, "Retry.*") {
			more = min(math.MaxInt32, more+f.retriesOf(outer))
		}
		if more > 0 && f.attempts != 1 {
			f.b.warn(multiply, "MaxAttempts",
				fmt.Sprintf("attempts multiply: the state around this state is retried as a whole, up to %d "+
					"times, so up to %d attempts of this state run",
					more, f.attempts*(more+1)))
		}
	}
}

// readOTel reads the retry_on_failure of an exporter or a receiver.
func readOTel(f *form) {
	f.attempts = retry.Unlimited
	// A receiver does not retry by default.
	receiver := f.b.beside != nil && f.b.beside.up != nil && f.b.beside.up.key == "receivers"
	first := 5 * time.Second
	if receiver {
		first = time.Second
	}
	f.base = f.time("initial_interval", 0, first)
	isShare := func(x float64) bool { return x >= 0 && x <= 1 }
	spread := f.number("randomization_factor", "a share from 0 to 1", 0.5, isShare)
	if spread > 0 {
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
		f.fault("max_elapsed_time", f.elapsed,
			say("at least the initial_interval and the max_interval, %v, or 0s for no bound", longest))
	}
	if f.base > f.cap {
		f.delays = retry.Schedule{f.base, f.cap} // max_interval does not limit the first delay
	}
}

// textWhole takes a whole number, which may be written as text.
func (f *form) textWhole(key string, missing int) int {
	n := uint64(missing)
	take(f, key, "a whole number, such as 3", nil, func(value json.RawMessage) bool {
		var err error
		n, err = strconv.ParseUint(strings.Trim(string(value), `"`), 10, 31)
		return err == nil
	})
	return int(n)
}

// readArgo reads the retryStrategy of a template or of a containerSet.
func readArgo(f *form) {
	f.factor = 1
	if f.b.beside != nil && f.b.beside.key == "containerSet" { // a containerSet has its own settings
		f.attempts, f.base = 1+f.textWhole("retries", 0), f.time("duration", 0, 0)
		return
	}
	f.attempts = 1 + f.textWhole("limit", -2) // -1: unlimited
	written := func(key string) bool { return f.has(key) || f.b.templates[key] }
	limited := written("limit")
	policies := []string{"Always", "OnFailure", "OnError", "OnTransientError"}
	isPolicy := func(p string) bool { return slices.Contains(policies, p) }
	policy := take(f, "retryPolicy", "one of "+strings.Join(policies, ", "), "", isPolicy)
	if policy == "" && limited && !written("expression") && !written("retryPolicy") {
		f.b.note("retryPolicy",
			"it is left out, so it is OnFailure: a pod that was evicted, or that the controller lost, is "+
				"not retried")
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

// callers warns if another template is retried and runs this template, which is retried too.
func (f *form) callers() {
	whole, name := f.b.beside.outermost(), f.text(f.b.beside, "name")
	templates := f.all(whole, "spec.templates.*")
	templates = append(templates, f.all(whole, "spec.workflowSpec.templates.*")...) // a CronWorkflow
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
						"each attempt", f.text(other, "name")))
			}
			return calls
		})
	}
}

// readNATS reads the settings of a JetStream consumer.
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
			f.fault("backoff", fmt.Sprintf("a list of %d", len(list)),
				fmt.Sprintf("at most max_deliver delays, %d", f.attempts))
		}
	}
	f.b.note("max_deliver",
		"each delay starts at the delivery, so it includes the work; after a Nak the message comes "+
			"again at once")
	kubernetes := f.text(f.b.beside, "kind") == "Consumer"
	if kubernetes && !f.has("ack_wait") && !f.has("backoff") {
		f.delays = retry.Schedule{time.Millisecond}
		f.b.warn(shortDelays, "max_deliver",
			"ackWait: it is left out, and the default of the CRD is 1ns: a message that is not "+
				"acknowledged within about 1ms is delivered again; set ackWait")
	}
	if least := f.delays[0]; least < time.Millisecond {
		f.b.warn(shortDelays, "ack_wait",
			fmt.Sprintf("ack_wait: the first delay is %v: numbers are nanoseconds", least))
	}
	isPolicy := func(p string) bool { return p == "none" || p == "all" || p == "explicit" }
	policy := take(f, "ack_policy", `"none", "all" or "explicit"`, "none", isPolicy)
	if policy == "none" && f.attempts != 1 {
		f.attempts = 1
		f.b.warn(noEffect, "max_deliver",
			"this has no effect: ack_policy is none, which is also its default, so nothing is delivered "+
				"again; set it to explicit")
	}
	for _, key := range f.left() { // a consumer has many other keys, and new versions add more
		if nearest(key, []string{"max_deliver", "ack_wait", "backoff", "ack_policy"}) == "" {
			f.skip("", key)
		}
	}
}

// readAsynq reads the retries of a task. After n retries, asynq draws a delay from n^4+15 to
// n^4+15+29(n+1) seconds.
func readAsynq(f *form) {
	f.attempts = 1 + f.whole("max_retry", 0, 1000, 25)
	f.timeout = time.Duration(f.whole("timeout_seconds", 0, math.MaxInt32, 0)) * time.Second
	if f.timeout == 0 && !f.has("deadline") {
		f.timeout = 30 * time.Minute
		f.b.note("timeout_seconds", "30m, the default of asynq without a deadline, ends each attempt")
	}
	for n := range uint64(f.attempts - 1) {
		f.delays = append(f.delays, saturate.Mul(2*n*n*n*n+30+29*(n+1), time.Second/2))
	}
	if last := time.Duration(29*(f.attempts-1)) * time.Second / 2; last > 0 {
		f.b.note("max_retry",
			say("asynq draws each delay from a range; here a delay is the middle of its range, so the "+
				"first may be off by 14.5s, and the last by %v", last))
	}
	f.skip("", strings.Fields(`id queue type payload state start_time retried last_failed_at
		error_message deadline next_process_at ttl_seconds completed_at result group is_orphaned`)...)
}

// spells reports whether the format accepts a text as a spelling of its key.
func (s *format) spells(key, text string) bool {
	return key == text || len(text) < longestKey && s.plain(key) == s.plain(text)
}

// keys returns the keys of the format, with keys of inner mappings such as "backoff.duration".
func (s *format) keys() []string {
	f := &form{settings: newSettings(s.plain), times: s.times, b: new(Block)}
	f.b.reset()
	f.b.node = new(yaml.Node)
	s.read(f)
	return *f.listed
}

// policy reads the policy in a node, and sets Notes and warnings of b.
func (s *format) policy(node *yaml.Node, b *Block) (p retry.Policy, err error) {
	b.reset()
	node = resolved(node)
	read := *b
	read.original, read.unnoted = node, s.expands
	if read.node = read.expanded(node, ""); read.node == nil {
		read.node = node // a template in place of all settings is not a mapping
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
