// A module of its own, so that the client of RabbitMQ does not become a
// requirement of the library.
module github.com/goretry/retry/adapters/retryamqp

go 1.25

replace github.com/goretry/retry => ../..

replace github.com/goretry/retry/adapters/jobtest => ../../adapters/jobtest

require (
	github.com/goretry/retry v0.0.0
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/goretry/retry/adapters/jobtest v0.0.0
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
