package policyfile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
)

// A format describes the settings of another system that retries.
type format struct {
	name, title, example string
	plain                func(string) string // maps each accepted spelling of a key to the same text
	times                durationStyle
	read                 func(*form)
	marks                []string // the keys that are typical of the format
	certain              bool     // whether the place in a file is enough to recognize the format
	beside               []sibling
	attemptLimit         string   // the key of the timeout of an attempt; "" if there is none
	expands              []string // the keys whose templates the system expands itself

	ignoresLong bool // the system ignores an attempt's timeout that is not below the total timeout
	refusesLong bool // the system refuses an attempt's timeout above the timeout of all attempts
	fillsLong   bool // by default, an attempt's timeout is the timeout of all attempts

	terms terms
}

// formats lists the formats of all systems whose settings this package reads.
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

// hasPlaceUnder reports whether the format has a place for settings under this key.
func (s *format) hasPlaceUnder(key string) bool {
	return slices.ContainsFunc(shapes, func(of shape) bool {
		return of.system == s.name && of.path != "" && s.spells(of.last(), key)
	})
}

// spells reports whether the format accepts the parameter `text` as a spelling of the parameter
// `key`.
func (s *format) spells(key, text string) bool {
	return key == text || len(text) < longestKey && s.plain(key) == s.plain(text)
}

// keys returns the keys of the format, including the keys of inner mappings, such as
// "backoff.duration".
func (s *format) keys() []string {
	f := &form{settings: newSettings(s.plain), times: s.times, b: new(Block)}
	f.b.reset()
	f.b.node = new(yaml.Node)
	s.read(f)
	return *f.listed
}

// policy reads the policy in a node, and sets the fields Notes and warnings of b.
func (s *format) policy(node *yaml.Node, b *Block) (p retry.Policy, err error) {
	b.reset()
	node = resolved(node)
	read := *b
	read.original, read.unnoted = node, s.expands
	if read.node = read.expanded(node, ""); read.node == nil {
		read.node = node // the whole node is an unknown template, which the finding below quotes
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
