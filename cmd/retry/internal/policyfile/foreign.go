package policyfile

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/saturate"
	"github.com/goretry/retry/internal/strict"
)

// A format is how another system that retries by itself writes its settings.
type format struct {
	name, title string
	keys        []string                     // the keys of a block
	spelled     func(key, other string) bool // whether it takes another spelling of a key
	example     string
	read        func(*form)
}

var formats = []format{
	{"temporal", "Temporal", []string{"initialInterval", "backoffCoefficient", "maximumInterval", "maximumAttempts", "nonRetryableErrorTypes"},
		eitherCase, `{"maximumAttempts": 3}`, readTemporal},
	{"grpc", "gRPC", []string{"maxAttempts", "initialBackoff", "maxBackoff", "backoffMultiplier", "retryableStatusCodes"},
		strings.EqualFold, `{"maxAttempts": 3, ...}`, readGRPC},
	{"envoy", "Envoy", []string{
		"retry_on", "num_retries", "per_try_timeout", "retry_back_off", "retriable_status_codes", "per_try_idle_timeout", "retry_priority",
		"retry_host_predicate", "retry_options_predicates", "host_selection_retry_max_attempts", "rate_limited_retry_back_off",
		"retriable_headers", "retriable_request_headers",
	}, eitherCase, `{"num_retries": 2}`, readEnvoy},
	{"istio", "Istio", []string{"attempts", "perTryTimeout", "retryOn", "backoff", "retryRemoteLocalities", "retryIgnorePreviousHosts"},
		eitherCase, `{"attempts": 2}`, readIstio},
	{"stepfunctions", "Step Functions", []string{"ErrorEquals", "IntervalSeconds", "MaxAttempts", "BackoffRate", "MaxDelaySeconds", "JitterStrategy", "Comment"},
		exactly, `{"ErrorEquals": ["States.ALL"]}`, readStepFunctions},
	{"otel", "the OpenTelemetry Collector", []string{"enabled", "initial_interval", "randomization_factor", "multiplier", "max_interval", "max_elapsed_time"},
		exactly, `{"max_elapsed_time": "5m"}`, readOTel},
	{"argo", "Argo Workflows", []string{"limit", "retryPolicy", "backoff", "expression", "affinity"}, exactly, `{"limit": 3}`, readArgo},
	{"nats", "NATS", append([]string{"max_deliver", "ack_wait", "backoff"}, natsOther...), eitherCase, `{"max_deliver": 3}`, readNATS},
	{"asynq", "asynq", append([]string{"max_retry", "timeout_seconds"}, asynqOther...), exactly, `{"max_retry": 25}`, readAsynq},
}

// The settings of a NATS consumer and of an asynq task that are not about
// retries.
var (
	natsOther = strings.Fields(`name durable_name durable description deliver_policy opt_start_seq opt_start_time ack_policy filter_subject
		filter_subjects replay_policy rate_limit_bps sample_freq max_waiting max_ack_pending headers_only max_batch max_expires max_bytes
		inactive_threshold num_replicas mem_storage metadata deliver_subject deliver_group flow_control idle_heartbeat pause_until stream_name`)
	asynqOther = strings.Fields(`id queue type payload state start_time retried last_failed_at error_message deadline next_process_at
		ttl_seconds completed_at result group is_orphaned`)
)

// marks are the keys that show a format by themselves.
var marks = regexp.MustCompile(`^(initialInterval|initial_interval|backoffCoefficient|backoff_coefficient|maximumInterval|maximum_interval|` +
	`maximumAttempts|maximum_attempts|nonRetryableErrorTypes|retryPolicy|(?i:initialBackoff|backoffMultiplier|retryableStatusCodes)|` +
	`num_retries|numRetries|retry_on|retry_back_off|retryBackOff|per_try_timeout|perTryTimeout|retryOn|` +
	`ErrorEquals|IntervalSeconds|BackoffRate|randomization_factor|max_elapsed_time|max_deliver|maxDeliver|max_retry)$`)

// carriers are the keys under which whole files have the settings of a format.
// Without certain, the value must have a mark too.
var carriers = map[string]struct {
	formats []string
	certain bool
}{
	"retry_policy":     {[]string{"envoy"}, false},
	"retryPolicy":      {[]string{"grpc", "temporal", "envoy"}, false},
	"retries":          {[]string{"istio"}, false},
	"Retry":            {[]string{"stepfunctions"}, false},
	"retry_on_failure": {[]string{"otel"}, true},
	"retryStrategy":    {[]string{"argo"}, true},
	"config":           {[]string{"nats"}, false}, // of what "nats consumer info" prints
	"spec":             {[]string{"nats"}, false}, // of a Kubernetes Consumer
}

// unread are systems whose settings retry does not read, with keys that show
// them and what their retries do.
var unread = []struct {
	keys        *regexp.Regexp
	title, does string
}{
	{regexp.MustCompile(`^backoffLimit(PerIndex)?$`), "a Kubernetes Job", "its pods start again after 10s, 20s, 40s and so on, at most 6m, backoffLimit times"},
	{regexp.MustCompile(`^(MaxRetryAttempts|BackoffType|UseJitter|Polly)$`), "Polly", "MaxRetryAttempts counts retries, and MaxDelay cuts before a jitter of ±25 %"},
	{regexp.MustCompile(`^(resilience4j(\..*)?|wait-?[dD]uration|enable-?[eE]xponential-?[bB]ackoff|exponential-?[bB]ackoff-?[mM]ultiplier)$`), "Resilience4j", "maxAttempts counts the first attempt, and waitDuration is 500ms if it is left out"},
	{regexp.MustCompile(`^(spring(\..*)?|max-attempts|initial-interval|max-interval)$`), "Spring", "max-attempts counts the first attempt in Spring Retry, and not in Spring Framework 7"},
	{regexp.MustCompile(`^(autoretry_for|retry_backoff(_max)?|retry_jitter|default_retry_delay|interval_(start|step|max)|task_acks_late)$`), "Celery", "max_retries is 3 and the delay 3m if they are left out"},
	{regexp.MustCompile(`^(:max_retries|:concurrency|:queues|sidekiq|sidekiq_options)$`), "Sidekiq", "a job is retried 25 times in about 21 days"},
}

const ofPolicy = "retry: invalid policy"

// A form is the settings of a format, while they are read.
type form struct {
	*strict.Mapping
	curve
	has     map[string]any
	notes   []string // what a policy does not have
	retryOn string   // which failures are retried
}

// A curve is what the formats share.
type curve struct {
	attempts int // including the first; -1: unlimited
	base     time.Duration
	factor   float64
	cap      time.Duration // 0: none
	jitter   retry.Jitter
	around   bool // the jitter goes beyond the cap
	timeout  time.Duration
	elapsed  time.Duration
	delays   retry.Schedule // in place of base, factor and cap
}

// longestList is how many delays a policy is given as a list.
const longestList = 100

// policy returns the policy that decides as c. It adds a note if there is none.
func (f *form) policy() retry.Policy {
	c := f.curve
	p := retry.Policy{MaxAttempts: c.attempts, AttemptTimeout: c.timeout}
	if c.attempts == 1 {
		return p
	}
	p.MaxElapsed, p.Jitter, p.Backoff = c.elapsed, c.jitter, c.delays
	if c.delays != nil {
		return p
	}
	if c.cap > 0 && c.base >= c.cap && c.factor >= 1 {
		c.base, c.factor = c.cap, 1
	}
	if c.factor == 1 || c.base == 0 {
		p.Backoff = retry.Fixed(c.base)
		return p
	}
	if !c.around && c.factor > 1 {
		p.Backoff, p.MaxDelay = retry.Exponential{Base: c.base, Factor: c.factor}, c.cap
		return p
	}

	// A MaxDelay cuts the jitter too. Only a list has delays whose jitter goes
	// beyond a cap, or that become shorter.
	var list retry.Schedule
	reached := false
	for d := float64(c.base); len(list) < longestList && (c.attempts < 0 || len(list) < c.attempts-1) && !reached; d *= c.factor {
		reached = c.factor > 1 && d >= float64(c.cap) || d < 1
		list = append(list, time.Duration(min(d, float64(c.cap))))
	}
	switch {
	case reached || c.factor < 1 && len(list) == c.attempts-1:
		p.Backoff = list
	case c.factor < 1:
		f.Fault("multiplier", c.factor, "1 or more, because delays that become shorter are not a policy")
	default:
		p.Backoff = retry.Exponential{Base: c.base, Factor: c.factor}
		if len(list) == longestList {
			p.MaxDelay = c.cap
			f.note("jitter", fmt.Sprintf("the longest delays go up to %v beyond %v: here at most that", c.jitter, c.cap))
		}
	}
	return p
}

// note adds something that the policy does not have. It begins with its key.
func (f *form) note(key, text string) { f.notes = append(f.notes, key+": "+text) }

// skip takes keys that have no place in a policy.
func (f *form) skip(why string, keys ...string) {
	for _, key := range keys {
		if v, ok := strict.Take[json.RawMessage](f.Mapping, key, "", nil); ok && string(v) != "[]" && string(v) != "{}" {
			f.note(key, why)
		}
	}
}

// failures takes a list of the failures to retry, in one text or in several.
func (f *form) failures(key, write string, valid func(string) bool) {
	value, ok := strict.Take[json.RawMessage](f.Mapping, key, write, nil)
	if !ok {
		return
	}
	var list []any
	if text, isText := strict.Text(value); isText {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
	} else if json.Unmarshal(value, &list) != nil || len(list) == 0 {
		f.Fault(key, short(value), write)
		return
	}
	var all []string
	for _, one := range list {
		name := fmt.Sprint(one)
		if !valid(name) {
			f.Fault(key, fmt.Sprintf("%.60q", name), write)
		}
		all = append(all, name)
	}
	f.retryOn = strings.Join(all, ",")
}

// short returns a value for an error: a file may have one of megabytes.
func short(value json.RawMessage) string { return fmt.Sprintf("%.60s", value) }

// whole takes a whole number.
func (f *form) whole(key string, least, most int64, missing int) int {
	write := fmt.Sprintf("a whole number from %d to %d", least, most)
	if n, ok := strict.Take(f.Mapping, key, write, func(n int64) bool { return n >= least && n <= most }); ok {
		return int(min(n, math.MaxInt-1))
	}
	return missing
}

// need adds a fault for each key that is missing.
func (f *form) need(keys ...string) {
	for _, key := range keys {
		if _, ok := f.has[key]; !ok {
			f.Fault(key, "missing", "it, because nothing stands in for it")
		}
	}
}

func (f *form) number(key, write string, missing float64, valid func(float64) bool) float64 {
	if x, ok := strict.Take(f.Mapping, key, write, valid); ok {
		return x
	}
	return missing
}

var protoSeconds = regexp.MustCompile(`^(\d+(\.\d{0,9})?|\.\d{1,9})s$`)

// protoTime takes a duration as protocol buffers write it: 0.2s, but not 200ms.
func (f *form) protoTime(key string, least, missing time.Duration) time.Duration {
	write := `seconds as text, such as "0.2s"`
	if least > 0 {
		write += ", above 0s"
	}
	return f.duration(key, write, least, missing, func(text string) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil && protoSeconds.MatchString(text)
	})
}

// goTime takes a duration as Go writes it: 1m30s.
func (f *form) goTime(key string, least, missing time.Duration) time.Duration {
	return f.duration(key, fmt.Sprintf(`a duration as text, such as "200ms" or "1m30s", at least %v`, least), least, missing, func(text string) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil
	})
}

func (f *form) duration(key, write string, least, missing time.Duration, parse func(string) (time.Duration, bool)) (d time.Duration) {
	value, ok := strict.Take[json.RawMessage](f.Mapping, key, write, nil)
	if !ok {
		return missing
	}
	text, isText := strict.Text(value)
	if d, ok = parse(text); !isText || !ok || d < least {
		if meant, err := time.ParseDuration(text); err == nil && meant >= least && !ok {
			write = strconv.Quote(strconv.FormatFloat(meant.Seconds(), 'f', -1, 64) + "s")
		}
		f.Fault(key, short(value), write)
	}
	return d
}

func atLeast(least float64) func(float64) bool {
	return func(x float64) bool { return x >= least && x <= math.MaxFloat64 }
}

// InCode ends the notes about what no policy says in any system: which failures to
// retry.
const (
	InCode  = "a policy does not say which failures to retry; code does"
	routing = "a policy does not say where a retry goes"
)

// readTemporal fills in what Temporal's server fills in, which takes 0 for a
// setting that is left out.
func readTemporal(f *form) {
	f.base = f.protoTime("initialInterval", 0, 0)
	if f.base == 0 {
		f.base = time.Second
	}
	f.factor = f.number("backoffCoefficient", "1 or more, or 0 for 2", 0, func(x float64) bool { return x == 0 || atLeast(1)(x) })
	if f.factor == 0 {
		f.factor = 2
	}
	f.cap = f.protoTime("maximumInterval", 0, 0)
	if f.cap > 0 && f.cap < f.base {
		f.Fault("maximumInterval", f.cap, fmt.Sprintf("at least the initialInterval, %v", f.base))
	}
	if f.cap == 0 {
		f.cap = saturate.Mul(100, f.base)
	}
	f.attempts = f.whole("maximumAttempts", 0, math.MaxInt32, 0)
	if f.attempts == 0 {
		f.attempts = retry.Unlimited
	}
	f.skip(InCode, "nonRetryableErrorTypes")
}

func readGRPC(f *form) {
	f.attempts, f.around, f.jitter = f.whole("maxAttempts", 2, math.MaxInt32, 0), true, retry.Proportional(0.2)
	f.base = f.protoTime("initialBackoff", 1, 0)
	f.cap = f.protoTime("maxBackoff", 1, 0)
	f.factor = f.number("backoffMultiplier", "a number above 0", 0, func(x float64) bool { return x > 0 && atLeast(0)(x) })
	f.failures("retryableStatusCodes", "codes such as UNAVAILABLE", isGRPCCode)
	f.need("maxAttempts", "initialBackoff", "maxBackoff", "backoffMultiplier", "retryableStatusCodes")
	if f.attempts > 5 {
		f.note("maxAttempts", fmt.Sprintf("gRPC clients cut %d to 5", f.attempts))
		f.attempts = 5
	}
	f.note("retryableStatusCodes", InCode)
}

func isGRPCCode(name string) bool {
	return slices.Contains(strings.Fields(`OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED
		RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED
		0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16`), name)
}

// EnvoyConditions are what Envoy retries on; it ignores other names without a
// word.
var EnvoyConditions = strings.Fields(`5xx gateway-error reset reset-before-request connect-failure envoy-ratelimited retriable-4xx refused-stream
	retriable-status-codes retriable-headers http3-post-connect-failure cancelled deadline-exceeded internal resource-exhausted unavailable`)

// IsEnvoyCondition reports whether Envoy retries on a name.
func IsEnvoyCondition(name string) bool { return slices.Contains(EnvoyConditions, name) }

// IsIstioCondition reports whether Istio retries on a name: a condition of Envoy,
// or a status.
func IsIstioCondition(name string) bool {
	status, err := strconv.Atoi(name)
	return IsEnvoyCondition(name) || err == nil && status >= 100 && status < 600
}

// envoyCurve reads a delay as Envoy does: it counts whole milliseconds, and draws
// from nothing to an interval that doubles, up to ten times the first.
func (f *form) envoyCurve(base, most time.Duration) {
	f.base, f.factor, f.jitter = max(time.Millisecond, base.Truncate(time.Millisecond)), 2, retry.FullJitter
	f.cap = saturate.Mul(10, f.base)
	if most > 0 {
		f.cap = max(time.Millisecond, most.Truncate(time.Millisecond))
	}
}

func readEnvoy(f *form) {
	f.failures("retry_on", "conditions of Envoy, which ignores others: "+strings.Join(EnvoyConditions, ", "),
		IsEnvoyCondition)
	if f.retryOn == "" {
		f.note("retry_on", "it is missing, and Envoy retries nothing without it")
	} else {
		f.note("retry_on", InCode)
	}
	f.attempts = 1 + f.whole("num_retries", 0, math.MaxUint32, 1)
	f.timeout = f.protoTime("per_try_timeout", 0, 0).Truncate(time.Millisecond)
	base, most := 25*time.Millisecond, time.Duration(0)
	if inner := f.Inner("retry_back_off", `a mapping such as {"base_interval": "0.025s"}`); inner != nil {
		in := &form{Mapping: inner}
		if base = in.protoTime("base_interval", 1, -1); base < 0 {
			in.Fault("base_interval", "missing", `it, such as "0.025s"`)
		}
		if most = in.protoTime("max_interval", 1, 0); most > 0 && most < base {
			in.Fault("max_interval", most, fmt.Sprintf("at least the base_interval, %v", base))
		}
		inner.RejectRest("retry_back_off")
	}
	f.envoyCurve(base, most)
	f.skip(InCode, "retriable_status_codes", "retriable_headers", "retriable_request_headers")
	f.skip(routing, "retry_priority", "retry_host_predicate", "retry_options_predicates", "host_selection_retry_max_attempts")
	f.skip("a policy bounds the whole attempt, not its silence", "per_try_idle_timeout")
	f.skip("a policy waits for what a server asks by its max_retry_after", "rate_limited_retry_back_off")
}

func readIstio(f *form) {
	retries := f.whole("attempts", 0, math.MaxInt32, 0) // which counts retries, whatever its name says
	if retries == 0 {
		f.note("attempts", "with 0, or without it, Istio retries nothing")
	}
	f.attempts = 1 + retries
	f.timeout = f.goTime("perTryTimeout", time.Millisecond, 0)
	f.failures("retryOn", "statuses, or conditions of Envoy, which ignores others: "+strings.Join(EnvoyConditions, ", "), IsIstioCondition)
	if f.retryOn != "" {
		f.note("retryOn", InCode)
	}
	f.envoyCurve(f.goTime("backoff", time.Millisecond, 25*time.Millisecond), 0)
	f.skip(routing, "retryRemoteLocalities", "retryIgnorePreviousHosts")
}

// The limits of the Amazon States Language.
const (
	stepMostAttempts = 99_999_999
	stepMostDelay    = 31_622_400
)

func readStepFunctions(f *form) {
	f.failures("ErrorEquals", `names of errors as a list, such as ["States.ALL"]`, func(name string) bool { return name != "" })
	f.need("ErrorEquals")
	f.note("ErrorEquals", InCode)
	f.attempts = 1 + f.whole("MaxAttempts", 0, stepMostAttempts, 3)
	f.base = time.Duration(f.whole("IntervalSeconds", 1, stepMostAttempts, 1)) * time.Second
	f.factor = f.number("BackoffRate", "1 or more", 2, atLeast(1))
	f.cap = time.Duration(f.whole("MaxDelaySeconds", 1, stepMostDelay, 0)) * time.Second
	if f.cap > 0 && f.cap <= f.base {
		f.Fault("MaxDelaySeconds", int(f.cap.Seconds()), fmt.Sprintf("more than the IntervalSeconds, %d", int(f.base.Seconds())))
	}
	if j, _ := strict.Take(f.Mapping, "JitterStrategy", `"FULL" or "NONE"`, func(j string) bool { return j == "FULL" || j == "NONE" }); j == "FULL" {
		f.jitter = retry.FullJitter
	}
	_, _ = strict.Take[string](f.Mapping, "Comment", "text", nil)
}

func readOTel(f *form) {
	f.attempts, f.around = retry.Unlimited, true
	f.base = f.goTime("initial_interval", 0, 5*time.Second)
	if spread := f.number("randomization_factor", "a share from 0 to 1", 0.5, func(x float64) bool { return x >= 0 && x <= 1 }); spread > 0 {
		f.jitter = retry.Proportional(spread)
	}
	f.factor = f.number("multiplier", "1 or more", 1.5, atLeast(1))
	f.cap = f.goTime("max_interval", 0, 30*time.Second)
	f.elapsed = f.goTime("max_elapsed_time", 0, 5*time.Minute)
	if enabled, ok := strict.Take[bool](f.Mapping, "enabled", "true or false", nil); ok && !enabled {
		f.attempts = 1
		return
	}
	if longest := max(f.base, f.cap); f.elapsed > 0 && f.elapsed < longest {
		f.Fault("max_elapsed_time", f.elapsed, fmt.Sprintf("at least the initial_interval and the max_interval, %v, or 0s for no bound", longest))
	}
	if f.base > f.cap {
		f.delays = retry.Schedule{f.base, f.cap} // the first is not cut
	}
	f.around = f.jitter != nil
}

// argoTime reads a duration of Argo, where a bare number is seconds.
func (f *form) argoTime(key string, missing time.Duration) time.Duration {
	return f.duration(key, `a duration as text, such as "30s" or "5m"`, 0, missing, func(text string) (time.Duration, bool) {
		if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
			return time.Duration(seconds) * time.Second, true
		}
		d, err := time.ParseDuration(text)
		return d, err == nil
	})
}

// argoWhole takes a whole number, which may be text.
func (f *form) argoWhole(key string, missing int) int {
	const write = "a whole number, such as 3"
	value, ok := strict.Take[json.RawMessage](f.Mapping, key, write, nil)
	if !ok {
		return missing
	}
	n, err := strconv.ParseUint(strings.Trim(string(value), `"`), 10, 31)
	if err != nil {
		f.Fault(key, short(value), write)
	}
	return int(n)
}

func readArgo(f *form) {
	f.attempts, f.factor = retry.Unlimited, 1
	if limit := f.argoWhole("limit", -1); limit >= 0 {
		f.attempts = 1 + limit
	}
	policies := []string{"Always", "OnFailure", "OnError", "OnTransientError"}
	_, has := strict.Take(f.Mapping, "retryPolicy", "one of "+strings.Join(policies, ", "), func(p string) bool { return slices.Contains(policies, p) })
	if has {
		f.note("retryPolicy", InCode)
	}
	if inner := f.Inner("backoff", `a mapping such as {"duration": "30s"}`); inner != nil {
		in := &form{Mapping: inner}
		f.base = in.argoTime("duration", -1)
		if f.base < 0 {
			in.Fault("duration", "missing", `the first delay, such as "30s"`)
		}
		f.factor = float64(max(1, in.argoWhole("factor", 1)))
		f.cap = in.argoTime("cap", 0)
		f.elapsed = in.argoTime("maxDuration", 0)
		inner.RejectRest("backoff")
	}
	f.skip(InCode, "expression")
	f.skip(routing, "affinity")
}

// natsTime reads a duration of NATS, which counts nanoseconds, or is text in
// Kubernetes.
func natsTime(value json.RawMessage) (time.Duration, bool) {
	if text, ok := strict.Text(value); ok {
		d, err := time.ParseDuration(text)
		return d, err == nil && d > 0
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return time.Duration(n), err == nil && n > 0
}

func readNATS(f *form) {
	const write = `nanoseconds, such as 30000000000, or text, such as "30s"`
	f.attempts = f.whole("max_deliver", -1, math.MaxInt32, -1)
	if f.attempts == 0 {
		f.attempts = retry.Unlimited
	}
	f.delays = retry.Schedule{30 * time.Second}
	if value, ok := strict.Take[json.RawMessage](f.Mapping, "ack_wait", write, nil); ok {
		if f.delays[0], ok = natsTime(value); !ok {
			f.Fault("ack_wait", short(value), write)
		}
	}
	if list, ok := strict.Take(f.Mapping, "backoff", "a list of delays", func(list []json.RawMessage) bool { return len(list) > 0 }); ok {
		f.delays = nil
		for i, value := range list {
			d, ok := natsTime(value)
			if !ok {
				f.Fault(fmt.Sprintf("backoff[%d]", i), short(value), write)
			}
			f.delays = append(f.delays, d)
		}
		if f.attempts > 0 && len(list) > f.attempts {
			f.Fault("backoff", fmt.Sprintf("a list of %d", len(list)), fmt.Sprintf("at most max_deliver delays, %d", f.attempts))
		}
	}
	f.note("max_deliver", "each delay starts at the delivery, so that the work is part of it; a Nak is delivered again at once")
	for _, key := range natsOther {
		_, _ = strict.Take[json.RawMessage](f.Mapping, key, "", nil)
	}
}

// readAsynq reads the retries of a task under asynq's own delays, which it draws
// from n^4+15 to n^4+15+29(n+1) seconds after n retries.
func readAsynq(f *form) {
	f.attempts = 1 + f.whole("max_retry", 0, 1000, 25)
	f.timeout = time.Duration(f.whole("timeout_seconds", 0, math.MaxInt32, 0)) * time.Second
	for n := range f.attempts - 1 {
		f.delays = append(f.delays, time.Duration(2*n*n*n*n+30+29*(n+1))*time.Second/2)
	}
	if last := time.Duration(29*(f.attempts-1)) * time.Second / 2; last > 0 {
		f.note("max_retry", fmt.Sprintf("asynq draws each delay from a range: here its middle, which is off by up to 14.5s at first and %v at last", last))
	}
	for _, key := range asynqOther {
		_, _ = strict.Take[json.RawMessage](f.Mapping, key, "", nil)
	}
}

// renamed returns a mapping whose keys are spelled as in keys, if the format
// accepts both spellings. It is for the outer and the inner keys.
func (s *format) renamed(value any) any {
	m, ok := value.(map[string]any)
	if !ok {
		return value
	}
	known := slices.Concat(s.keys, []string{"base_interval", "max_interval"})
	for key, inner := range m {
		i := slices.IndexFunc(known, func(k string) bool { return k != key && s.spelled(k, key) })
		if i < 0 {
			m[key] = s.renamed(inner)
			continue
		}
		if _, both := m[known[i]]; !both {
			delete(m, key)
			m[known[i]] = s.renamed(inner)
		}
	}
	return m
}

func exactly(key, other string) bool { return key == other }

// eitherCase takes camelCase and snake_case, as protocol buffers do.
func eitherCase(key, other string) bool { return snake(key) == other || key == snake(other) }

var upper = regexp.MustCompile(`[A-Z]`)

func snake(key string) string {
	return upper.ReplaceAllStringFunc(key, func(c string) string { return "_" + strings.ToLower(c) })
}

// read reads the settings in a node.
func (s *format) readNode(node *yaml.Node, b *Block) (retry.Policy, error) {
	data, err := strict.YAML(ofPolicy, func(v any) error {
		err := node.Decode(v)
		if p, ok := v.(*any); ok {
			*p = s.renamed(*p)
		}
		return err
	})
	if err != nil {
		return retry.Policy{}, err
	}
	var p retry.Policy
	f := form{has: map[string]any{}}
	_ = json.Unmarshal(data, &f.has) // Decode says what is wrong
	err = strict.Decode(&f, data, ofPolicy, s.example, func(f *form, m *strict.Mapping) {
		f.Mapping = m
		s.read(f)
		p = f.policy()
		m.RejectRest(s.title)
	})
	b.Notes, b.RetryOn = f.notes, f.retryOn
	return p, err
}
