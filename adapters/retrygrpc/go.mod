// A module of its own, so that gRPC does not become a requirement of the
// library.
module github.com/goretry/retry/adapters/retrygrpc

go 1.26.0

replace github.com/goretry/retry => ../..

replace github.com/goretry/retry/adapters/retryrpc => ../../adapters/retryrpc

require (
	github.com/goretry/retry v0.0.0
	github.com/stretchr/testify v1.12.1
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/goretry/retry/adapters/retryrpc v0.0.0
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
