// The tests of retrynet on QUIC connections. A module of its own, so that
// quic-go does not become a requirement of the library.
module github.com/goretry/retry/retrynet/quictest

go 1.26.0

replace github.com/goretry/retry => ../..

require (
	github.com/goretry/retry v0.0.0-00010101000000-000000000000
	github.com/quic-go/quic-go v0.65.0
	github.com/stretchr/testify v1.12.1
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
