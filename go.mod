module github.com/goretry/retry

go 1.25

require (
	github.com/cenkalti/backoff/v4 v4.3.0
	github.com/stretchr/testify v1.12.1
	// For tests. Not to be upgraded: newer versions raise the go line above, and
	// with it that of every consumer.
	golang.org/x/exp v0.0.0-20230224173230-c95f2b4c22f2
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
