// A module of its own: it is young, so it stays v0 while the library promises its
// API, and noetl needs YAML and Unicode libraries that must not become requirements
// of the library.
module github.com/goretry/retry/retryflow

go 1.25

replace github.com/goretry/retry => ..

require (
	github.com/goretry/retry v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/text v0.34.0 // the newest that needs no more than go 1.24: later ones raise the go line above
)
