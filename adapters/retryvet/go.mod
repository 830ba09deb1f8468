// A module of its own, because golangci-lint imports it and should not require the rest of the
// command.
module github.com/goretry/retry/adapters/retryvet

go 1.26.0

replace (
	github.com/goretry/retry => ../..
	github.com/goretry/retry/cmd/retry => ../../cmd/retry
	github.com/goretry/retry/retrydialect => ../../retrydialect
	github.com/goretry/retry/retryflow => ../../retryflow
	github.com/goretry/retry/retrysim => ../../retrysim
)

require (
	github.com/golangci/plugin-module-register v0.1.2
	github.com/goretry/retry/cmd/retry v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	golang.org/x/tools v0.52.0
)

require (
	github.com/goretry/retry v0.0.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
