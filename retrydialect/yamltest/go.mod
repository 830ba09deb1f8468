// The tests of retrydialect with YAML libraries. A module of its own, so that
// they do not become requirements of the library.
module github.com/goretry/retry/retrydialect/yamltest

go 1.25

replace github.com/goretry/retry => ../..

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/goretry/retry v0.0.0
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5
)
