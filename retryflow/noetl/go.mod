// A module of its own, so that the YAML library does not become a requirement
// of the library.
module github.com/goretry/retry/retryflow/noetl

go 1.25

replace github.com/goretry/retry => ../..

require (
	github.com/goretry/retry v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/text v0.34.0 // the newest that needs no more than go 1.24: later ones raise the go line above
)

require golang.org/x/exp v0.0.0-20240719175910-8a7402abbf56 // indirect
