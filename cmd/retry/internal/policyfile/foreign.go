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
	"github.com/goretry/retry/internal/saturate"
	"github.com/goretry/retry/internal/strict"
)

// A format is how another system that retries by itself writes its settings.
type format struct {
	name, title, example string
	plain                func(string) string // the same for each spelling of a key that the system takes
	times                style
	read                 func(*form)
	marks                []string // the keys that show it by themselves
	places               []string // the keys under which whole files have it
	certain              bool     // it is there without a mark, too
	limit                string   // the key beside the settings that bounds all attempts and waits together; "": none
	attemptLimit         string   // the key that bounds each attempt, where the limit can make it useless; "": none
}

var formats = []format{
	{name: "temporal", title: "Temporal", example: `{"maximumAttempts": 3}`, plain: snake, times: protoTimes, read: readTemporal, places: []string{"retryPolicy"},
		limit: "scheduleToCloseTimeout",
		marks: []string{"initialInterval", "backoffCoefficient", "maximumInterval", "maximumAttempts", "nonRetryableErrorTypes"}},
	{name: "grpc", title: "gRPC", example: `{"maxAttempts": 3, ...}`, plain: strings.ToLower, times: protoTimes, read: readGRPC, places: []string{"retryPolicy"}, limit: "timeout",
		marks: []string{"initialBackoff", "backoffMultiplier", "retryableStatusCodes"}},
	{name: "envoy", title: "Envoy", example: `{"num_retries": 2}`, plain: snake, times: protoTimes, read: readEnvoy, places: []string{"retry_policy", "retryPolicy"},
		limit: "timeout", attemptLimit: "per_try_timeout",
		marks: []string{"num_retries", "retry_on", "retry_back_off", "per_try_timeout"}},
	{name: "istio", title: "Istio", example: `{"attempts": 2}`, plain: snake, times: goTimes, read: readIstio, places: []string{"retries"},
		limit: "timeout", attemptLimit: "perTryTimeout",
		marks: []string{"retryOn", "perTryTimeout"}},
	{name: "stepfunctions", title: "Step Functions", example: `{"ErrorEquals": ["States.ALL"]}`, plain: exactly, read: readStepFunctions, places: []string{"Retry"},
		marks: []string{"ErrorEquals", "IntervalSeconds", "BackoffRate"}},
	{name: "otel", title: "the OpenTelemetry Collector", example: `{"max_elapsed_time": "5m"}`, plain: exactly, times: otelTimes, read: readOTel,
		places: []string{"retry_on_failure"}, certain: true, marks: []string{"initial_interval", "randomization_factor", "max_elapsed_time"}},
	{name: "argo", title: "Argo Workflows", example: `{"limit": 3}`, plain: exactly, times: argoTimes, read: readArgo, places: []string{"retryStrategy"}, certain: true},
	{name: "nats", title: "NATS", example: `{"max_deliver": 3}`, plain: snake, times: natsTimes, read: readNATS, marks: []string{"max_deliver"},
		places: []string{"config", "spec"}}, // in what "nats consumer info" prints, and of a Kubernetes Consumer
	{name: "asynq", title: "asynq", example: `{"max_retry": 25}`, plain: exactly, read: readAsynq, marks: []string{"max_retry"}},
}

var upper = regexp.MustCompile(`[A-Z]`)

// snake makes of camelCase the snake_case that protocol buffers take too.
func snake(key string) string {
	return upper.ReplaceAllStringFunc(key, func(c string) string { return "_" + strings.ToLower(c) })
}

func exactly(key string) string { return key }

// An unreadSystem has settings that retry does not read: keys that show it, and what its retries do.
type unreadSystem struct {
	keys        *regexp.Regexp
	title, does string
}

var unread = []unreadSystem{
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
	times   style
	needed  bool     // nothing stands in for the keys that are taken
	notes   []string // what a policy does not have
	retryOn string   // which failures are retried

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

// policy returns the policy that decides as f. It adds a note if there is none.
func (f *form) policy() retry.Policy {
	p := retry.Policy{MaxAttempts: f.attempts, AttemptTimeout: f.timeout}
	if f.attempts == 1 {
		return p
	}
	p.MaxElapsed, p.Jitter = f.elapsed, f.jitter
	if f.cap > 0 && f.base >= f.cap && f.factor >= 1 {
		f.base, f.factor = f.cap, 1
	}
	switch {
	case f.delays != nil:
		p.Backoff = f.delays
		return p
	case f.factor == 1 || f.base == 0:
		p.Backoff = retry.Fixed(f.base)
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
	case f.factor < 1:
		f.Fault("multiplier", f.factor, "1 or more, because delays that become shorter are not a policy")
	default:
		p.Backoff = retry.Exponential{Base: f.base, Factor: f.factor}
		if len(list) == longestList {
			p.MaxDelay = f.cap
			f.note("jitter", fmt.Sprintf("the longest delays go up to %v beyond %v: here at most that", f.jitter, f.cap))
		}
	}
	return p
}

// note adds something that the policy does not have. It begins with its key.
func (f *form) note(key, text string) { f.notes = append(f.notes, key+": "+text) }

// skip takes keys that have no place in a policy, and notes why it matters.
func (f *form) skip(why string, keys ...string) {
	for _, key := range keys {
		v := take[json.RawMessage](f, key, "", nil, nil)
		if why != "" && v != nil && string(v) != "[]" && string(v) != "{}" {
			f.note(key, why)
		}
	}
}

// take takes the value of a key, or what the system puts in its place.
func take[T any](f *form, key, write string, missing T, valid func(T) bool) T {
	read := strict.Take[T]
	if f.needed {
		read = strict.Need[T]
	}
	if v, ok := read(f.Mapping, key, write, valid); ok {
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
	protoTimes = style{`seconds as text, such as "0.2s"`, regexp.MustCompile(`^(\d+(\.\d{0,9})?|\.\d{1,9})s$`), 0, 0}
	goTimes    = style{`a duration as text, such as "200ms" or "1m30s"`, nil, 0, 0}
	otelTimes  = style{`a duration as text, such as "200ms", or nanoseconds`, nil, 0, 1} // so that 0 is one
	argoTimes  = style{`a duration as text, such as "30s" or "5m"`, nil, time.Second, 0}
	natsTimes  = style{`nanoseconds, such as 30000000000, or text, such as "30s"`, nil, 0, 1}
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
	text, isText := strict.Text(value)
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

// InCode ends the notes about what no policy says in any system: which failures to
// retry.
const (
	InCode  = "a policy does not say which failures to retry; code does"
	routing = "a policy does not say where a retry goes"
)

// failures takes which failures are retried. Each must be valid.
func failures[T any](f *form, key, write string, names []T, valid func(string) bool) {
	var all []string
	for _, one := range names {
		all = append(all, fmt.Sprint(one))
		if name := all[len(all)-1]; !valid(name) {
			f.Fault(key, fmt.Sprintf("%.60q", name), write)
		}
	}
	if f.retryOn = strings.Join(all, ","); f.retryOn != "" {
		f.note(key, InCode)
	}
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
		f.Fault("maximumInterval", f.cap, fmt.Sprintf("at least the initialInterval, %v", f.base))
	}
	f.cap = cmp.Or(f.cap, saturate.Mul(100, f.base))
	f.attempts = cmp.Or(f.whole("maximumAttempts", 0, math.MaxInt32, 0), retry.Unlimited)
	f.skip(InCode, "nonRetryableErrorTypes")
}

func readGRPC(f *form) {
	const write = "codes such as UNAVAILABLE"
	f.needed, f.around, f.jitter = true, true, retry.Proportional(0.2)
	f.attempts = f.whole("maxAttempts", 2, math.MaxInt32, 0)
	f.base = f.time("initialBackoff", 1, 0)
	f.cap = f.time("maxBackoff", 1, 0)
	f.factor = f.number("backoffMultiplier", "a number above 0", 0, func(x float64) bool { return x > 0 })
	failures(f, "retryableStatusCodes", write, list[any](f, "retryableStatusCodes", write), isGRPCCode)
	if f.attempts > 5 {
		f.note("maxAttempts", fmt.Sprintf("gRPC clients cut %d to 5", f.attempts))
		f.attempts = 5
	}
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

// IsIstioCondition reports whether Istio takes a name: a condition of Envoy, or a
// status.
func IsIstioCondition(name string) bool {
	status, _ := strconv.Atoi(name)
	return IsEnvoyCondition(name) || http.StatusText(status) != ""
}

// mesh reads what Envoy and Istio, which configures Envoy, share: what they retry,
// and a delay that counts whole milliseconds, and is drawn from nothing to an
// interval that doubles, up to ten times the first.
func (f *form) mesh(key, write string, valid func(string) bool, base, most time.Duration) {
	write += strings.Join(EnvoyConditions, ", ")
	names := strings.FieldsFunc(take[string](f, key, write, "", nil), func(r rune) bool { return r == ',' || r == ' ' })
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
	if inner := f.Inner("retry_back_off", `a mapping such as {"base_interval": "0.025s"}`); inner != nil {
		in := &form{Mapping: inner, times: f.times, needed: true}
		base = in.time("base_interval", 1, 0)
		in.needed = false
		if most = in.time("max_interval", 1, 0); most > 0 && most < base {
			in.Fault("max_interval", most, fmt.Sprintf("at least the base_interval, %v", base))
		}
		inner.RejectRest("retry_back_off")
	}
	f.mesh("retry_on", "conditions of Envoy, which ignores others: ", IsEnvoyCondition, base, most)
	if f.retryOn == "" {
		f.note("retry_on", "it is missing, and Envoy retries nothing without it")
	}
	f.skip(InCode, "retriable_status_codes", "retriable_headers", "retriable_request_headers")
	f.skip(routing, "retry_priority", "retry_host_predicate", "retry_options_predicates", "host_selection_retry_max_attempts")
	f.skip("a policy bounds the whole attempt, not its silence", "per_try_idle_timeout")
	f.skip("a policy waits for what a server asks by its max_retry_after", "rate_limited_retry_back_off")
}

func readIstio(f *form) {
	f.attempts = 1 + f.whole("attempts", 0, math.MaxInt32, 0) // which counts retries, whatever its name says
	if f.attempts == 1 {
		f.note("attempts", "with 0, or without it, Istio retries nothing")
	}
	f.timeout = f.time("perTryTimeout", time.Millisecond, 0)
	f.mesh("retryOn", "a status such as 503, or one of ", IsIstioCondition,
		f.time("backoff", time.Millisecond, 25*time.Millisecond), 0)
	f.skip(routing, "retryRemoteLocalities", "retryIgnorePreviousHosts")
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
	f.attempts = 1 + f.whole("MaxAttempts", 0, stepMostAttempts, 3)
	f.base = time.Duration(f.whole("IntervalSeconds", 1, stepMostAttempts, 1)) * time.Second
	f.factor = f.number("BackoffRate", "1 or more", 2, fromOne)
	f.cap = time.Duration(f.whole("MaxDelaySeconds", 1, stepMostDelay, 0)) * time.Second
	if f.cap > 0 && f.cap <= f.base {
		f.Fault("MaxDelaySeconds", int(f.cap.Seconds()), fmt.Sprintf("more than the IntervalSeconds, %d", int(f.base.Seconds())))
	}
	if take(f, "JitterStrategy", `"FULL" or "NONE"`, "", func(j string) bool { return j == "FULL" || j == "NONE" }) == "FULL" {
		f.jitter = retry.FullJitter
	}
	f.skip("", "Comment")
}

func readOTel(f *form) {
	f.attempts = retry.Unlimited
	f.base = f.time("initial_interval", 0, 5*time.Second)
	if spread := f.number("randomization_factor", "a share from 0 to 1", 0.5, func(x float64) bool { return x >= 0 && x <= 1 }); spread > 0 {
		f.jitter, f.around = retry.Proportional(spread), true
	}
	f.factor = f.number("multiplier", "1 or more", 1.5, fromOne)
	f.cap = f.time("max_interval", 0, 30*time.Second)
	f.elapsed = f.time("max_elapsed_time", 0, 5*time.Minute)
	if !take(f, "enabled", "true or false", true, nil) {
		f.attempts = 1
		return
	}
	if longest := max(f.base, f.cap); f.elapsed > 0 && f.elapsed < longest {
		f.Fault("max_elapsed_time", f.elapsed, fmt.Sprintf("at least the initial_interval and the max_interval, %v, or 0s for no bound", longest))
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
	f.attempts, f.factor = 1+f.textWhole("limit", -2), 1 // -1: unlimited
	policies := []string{"Always", "OnFailure", "OnError", "OnTransientError"}
	if take(f, "retryPolicy", "one of "+strings.Join(policies, ", "), "", func(p string) bool { return slices.Contains(policies, p) }) != "" {
		f.note("retryPolicy", InCode)
	}
	if inner := f.Inner("backoff", `a mapping such as {"duration": "30s"}`); inner != nil {
		in := &form{Mapping: inner, times: f.times, needed: true}
		f.base = in.time("duration", 0, 0)
		in.needed = false
		f.factor = float64(max(1, in.textWhole("factor", 1)))
		f.cap = in.time("cap", 0, 0)
		f.elapsed = in.time("maxDuration", 0, 0)
		inner.RejectRest("backoff")
	}
	f.skip(InCode, "expression")
	f.skip(routing, "affinity")
}

func readNATS(f *form) {
	f.attempts = cmp.Or(f.whole("max_deliver", -1, math.MaxInt32, -1), retry.Unlimited)
	f.delays = retry.Schedule{f.time("ack_wait", 1, 30*time.Second)}
	if list := list[json.RawMessage](f, "backoff", "a list of delays"); list != nil {
		f.delays = nil
		for i, value := range list {
			d, ok := f.times.parse(value)
			if !ok || d < 1 {
				f.Fault(fmt.Sprintf("backoff[%d]", i), fmt.Sprintf("%.60s", value), f.times.write)
			}
			f.delays = append(f.delays, d)
		}
		if f.attempts > 0 && len(list) > f.attempts {
			f.Fault("backoff", fmt.Sprintf("a list of %d", len(list)), fmt.Sprintf("at most max_deliver delays, %d", f.attempts))
		}
	}
	f.note("max_deliver", "each delay starts at the delivery, so that the work is part of it; a Nak is delivered again at once")
	f.skip("", strings.Fields(`name durable_name durable description deliver_policy opt_start_seq opt_start_time ack_policy filter_subject
		filter_subjects replay_policy rate_limit_bps sample_freq max_waiting max_ack_pending headers_only max_batch max_expires max_bytes
		inactive_threshold num_replicas mem_storage metadata deliver_subject deliver_group flow_control idle_heartbeat pause_until stream_name`)...)
}

// readAsynq reads the retries of a task under asynq's own delays, which it draws
// from n^4+15 to n^4+15+29(n+1) seconds after n retries.
func readAsynq(f *form) {
	f.attempts = 1 + f.whole("max_retry", 0, 1000, 25)
	f.timeout = time.Duration(f.whole("timeout_seconds", 0, math.MaxInt32, 0)) * time.Second
	for n := range uint64(f.attempts - 1) {
		f.delays = append(f.delays, saturate.Mul(2*n*n*n*n+30+29*(n+1), time.Second/2))
	}
	if last := time.Duration(29*(f.attempts-1)) * time.Second / 2; last > 0 {
		f.note("max_retry", fmt.Sprintf("asynq draws each delay from a range: here its middle, which is off by up to 14.5s at first and %v at last", last))
	}
	f.skip("", strings.Fields(`id queue type payload state start_time retried last_failed_at error_message deadline next_process_at
		ttl_seconds completed_at result group is_orphaned`)...)
}

// spells reports whether the format takes a text for one of its keys.
func (s *format) spells(key, text string) bool {
	return key == text || len(text) < strict.LongestKey && s.plain(key) == s.plain(text)
}

// policy reads the policy in a node, and sets the notes of b.
func (s *format) policy(node *yaml.Node, b *Block) (p retry.Policy, err error) {
	data, err := strict.YAML(ofPolicy, node.Decode)
	if err != nil {
		return p, err
	}
	f := &form{times: s.times}
	err = strict.Decode(f, data, ofPolicy, s.example, func(f *form, m *strict.Mapping) {
		f.Mapping, m.Plain = m, s.plain
		s.read(f)
		p = f.policy()
		m.RejectRest(s.title)
	})
	b.Notes, b.RetryOn = f.notes, f.retryOn
	return p, err
}
