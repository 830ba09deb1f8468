// A module of its own, so that users of the library do not download the tests of queues.
module github.com/goretry/retry/adapters/jobtest

go 1.25

replace github.com/goretry/retry => ../..

require (
	github.com/goretry/retry v0.0.0
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
