// A module of its own for two reasons. It is young, so it stays v0 when the API of the library becomes
// stable. And noetl needs YAML and Unicode libraries, which must not become requirements of the
// library.
module github.com/goretry/retry/retryflow

go 1.25

replace github.com/goretry/retry => ..

require (
	github.com/goretry/retry v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/text v0.34.0 // the newest version that needs only go 1.24; later versions raise the go line above
)
