// The command is a module because it requires a YAML library. It has no replace, because go install
// refuses a module that has a replace: see ../go.work.
module github.com/goretry/retry/cmd/retry

go 1.26.0

require (
	github.com/goretry/retry v0.0.0
	github.com/goretry/retry/retrydialect v0.0.0
	github.com/goretry/retry/retrysim v0.0.0
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/term v0.47.0
	golang.org/x/tools v0.52.0
)

require (
	github.com/agnivade/levenshtein v1.2.1
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
