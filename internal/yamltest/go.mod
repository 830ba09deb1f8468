// The tests of the text form with YAML libraries. A module of its own, so that
// they do not become requirements of the library.
module github.com/goretry/retry/internal/yamltest

go 1.25

replace github.com/goretry/retry => ../..

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/goretry/retry v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.6
	go.yaml.in/yaml/v4 v4.0.0-rc.6
	sigs.k8s.io/yaml v1.6.0
)

require go.yaml.in/yaml/v2 v2.4.2 // indirect
