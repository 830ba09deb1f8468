// A module of its own, because retryflow is one.
module github.com/goretry/retry/examples/pagination

go 1.25

replace (
	github.com/goretry/retry => ../..
	github.com/goretry/retry/retryflow => ../../retryflow
)

require (
	github.com/goretry/retry v0.0.0-00010101000000-000000000000
	github.com/goretry/retry/retryflow v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.6 // indirect
