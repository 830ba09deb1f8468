module github.com/goretry/retry

go 1.25

// The lowest versions under which the tests pass, so that this module raises nothing
// in the go.mod of a program. Before v1.7.5 testify needs a yaml.v3 with CVE-2022-28948.
require (
	github.com/cenkalti/backoff/v4 v4.3.0
	github.com/stretchr/testify v1.7.5
	golang.org/x/exp v0.0.0-20220303212507-bbda1eaf7a17
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
