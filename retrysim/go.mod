// A module of its own: it is young, so it stays v0 while the library promises its
// API. It needs the standard library and the library alone, and testify in tests.
module github.com/goretry/retry/retrysim

go 1.25

replace github.com/goretry/retry => ..

require (
	github.com/goretry/retry v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
