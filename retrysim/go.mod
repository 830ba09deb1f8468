// A module of its own: it is young, so it stays v0 while the library promises its
// API. It needs the standard library and the library alone, and testify in tests.
module github.com/goretry/retry/retrysim

go 1.25

replace github.com/goretry/retry => ..

replace github.com/goretry/retry/retrydialect => ../retrydialect

require (
	github.com/goretry/retry v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/goretry/retry/retrydialect v0.0.0
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
