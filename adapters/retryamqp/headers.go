package retryamqp

import (
	"slices"
	"strings"
)

// leftOut reports whether a copy does without a header: this package or RabbitMQ has written
// it about the delivery that ends, or RabbitMQ or one of its plugins would send the copy
// elsewhere, or later. All other headers belong to the producer, whatever they are called.
func leftOut(name string) bool {
	return slices.Contains(ofTheDelivery, name) || slices.ContainsFunc(ofTheServer,
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

var ofTheDelivery = []string{
	dueHeader, deadHeader, classesHeader, leftOutHeader,
	"CC", "BCC", // RabbitMQ sends the message to these queues too
	"x-death",                              // RabbitMQ drops a message that it has dead-lettered in a circle
	"x-delivery-count",                     // quorum queues count deliveries
	"x-acquired-count",                     // so they do from 4.3 on
	"x-delay",                              // the plugin for delayed messages writes a negative one
	"x-received-from",                      // federation drops what has come a long way
	"x-routed-by",                          // the node that has routed the message
	"x-shovelled", "x-shovelled-timestamp", // the shovels that have moved the message
	"x-stream-offset",                  // where the message was in a stream
	"x-invalid-headers",                // headers of which RabbitMQ could not add to a list
	"x-mqtt-dup", "x-mqtt-publish-qos", // the MQTT plugin reads them
}

var ofTheServer = []string{
	"x-first-death-", "x-last-death-",
	"x-original-", // federation of queues
	"x-opt-",      // annotations of AMQP 1.0; x-opt-delivery-time delays a message
}
