module github.com/goretry/retry/examples/plan

go 1.25

replace github.com/goretry/retry => ../..

require (
	github.com/goretry/retry v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.6
)
