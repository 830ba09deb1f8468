// The settings of other systems. A module of its own, because they change when
// those systems do, and so it stays v0 where the library promises its API.
module github.com/goretry/retry/retrydialect

go 1.25

replace github.com/goretry/retry => ..

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/goretry/retry v0.0.0
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5
)
