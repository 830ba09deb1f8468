// A module of its own, so that Connect does not become a requirement of the
// library.
module github.com/goretry/retry/adapters/retryconnect

go 1.26.0

replace github.com/goretry/retry => ../..

replace github.com/goretry/retry/adapters/retryrpc => ../../adapters/retryrpc

require (
	connectrpc.com/connect v1.21.1
	github.com/goretry/retry v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/goretry/retry/adapters/retryrpc v0.0.0
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
