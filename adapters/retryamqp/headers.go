package retryamqp

import (
	"slices"
	"strings"
)

// leftOut reports whether a copy lacks a header. A header is left out if this package or
// RabbitMQ wrote it about the delivery that ends, or if it would make RabbitMQ or a plugin
// send the copy elsewhere, or later. All other headers belong to the producer, whatever their
// names are.
func leftOut(name string) bool {
	return slices.Contains(ofTheDelivery, name) || slices.ContainsFunc(ofTheServer,
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// ofTheDelivery has the names of headers that describe one delivery.
var ofTheDelivery = []string{
	dueHeader, deadHeader, classesHeader, leftOutHeader,
	"CC", "BCC", // RabbitMQ sends the message to these queues too
	"x-death",                              // RabbitMQ drops a message dead-lettered in a circle
	"x-delivery-count",                     // quorum queues count deliveries here
	"x-acquired-count",                     // quorum queues from 4.3 on count deliveries here
	"x-delay",                              // the plugin for delayed messages writes a negative delay
	"x-received-from",                      // federation drops a message that passed too many servers
	"x-routed-by",                          // the node that has routed the message
	"x-shovelled", "x-shovelled-timestamp", // the shovels that have moved the message
	"x-stream-offset",                  // where the message was in a stream
	"x-invalid-headers",                // headers to which RabbitMQ could not append
	"x-mqtt-dup", "x-mqtt-publish-qos", // the MQTT plugin reads these headers
}

// ofTheServer has the prefixes of headers that RabbitMQ and its plugins write.
var ofTheServer = []string{
	"x-first-death-", "x-last-death-",
	"x-original-", // federated queues write these headers
	"x-opt-",      // annotations of AMQP 1.0; x-opt-delivery-time delays a message
}
