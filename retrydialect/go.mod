// A module of its own, because it changes when the settings of other systems change. So it stays v0
// when the API of the library becomes stable.
module github.com/goretry/retry/retrydialect

go 1.25

replace github.com/goretry/retry => ..

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/goretry/retry v0.0.0
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5
)
