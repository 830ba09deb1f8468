// A module of its own, so that the libraries in the comparison do not become requirements of the
// library.
module github.com/goretry/retry/benchmarks

go 1.26.0

replace (
	github.com/goretry/retry => ..
	github.com/goretry/retry/retrydialect => ../retrydialect
	github.com/goretry/retry/retrysim => ../retrysim
)

require (
	github.com/avast/retry-go/v5 v5.1.1
	github.com/cenkalti/backoff/v5 v5.0.3
	github.com/cenkalti/backoff/v7 v7.0.3
	github.com/cristalhq/hedgedhttp v0.9.2
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/goretry/retry v0.0.0
	github.com/goretry/retry/retrysim v0.0.0-00010101000000-000000000000
	github.com/hashicorp/go-retryablehttp v0.7.8
	github.com/jpillora/backoff v1.1.0
	github.com/launchdarkly/eventsource v1.11.0
	github.com/openai/openai-go/v3 v3.96.0
	github.com/r3labs/sse/v2 v2.10.0
	github.com/sethvargo/go-retry v0.5.0
	github.com/stretchr/testify v1.12.1
	github.com/tmaxmax/go-sse v0.12.0
	k8s.io/apimachinery v0.37.2
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/goretry/retry/retrydialect v0.0.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.60.0 // indirect
	gopkg.in/cenkalti/backoff.v1 v1.1.0 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
	k8s.io/utils v0.0.0-20260626114624-be93311217bd // indirect
)
