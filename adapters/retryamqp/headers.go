package retryamqp

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry/retryjob"
)

// MaxAttemptsHeader is the header with a message's own limit on attempts, a whole
// number of at least 1. It can only lower the policy's limit.
const MaxAttemptsHeader = "retry-max-attempts"

// The headers of a message that has been handled.
const (
	attemptsHeader = "retry-attempts"    // the number of attempts that have ended
	beganHeader    = "retry-began"       // when MaxElapsed starts to count, in Unix milliseconds
	dueHeader      = "retry-due"         // when a wait longer than its step ends, in Unix milliseconds
	classesHeader  = "retry-classes"     // the number of failed attempts of each class, as JSON
	deadHeader     = "retry-dead-letter" // why a message is a dead letter, as JSON
	leftOutHeader  = "retry-left-out"    // which parts of its message a dead letter lacks
)

// DeadLetterOf returns the dead letter that the headers of a message describe. It returns
// an error if the header of a dead letter is missing or cannot be read.
func DeadLetterOf(headers amqp.Table) (retryjob.DeadLetter, error) {
	text, _ := headers[deadHeader].(string)
	if text == "" {
		return retryjob.DeadLetter{}, fmt.Errorf(
			"retryamqp: not a dead letter: the header %s is missing", deadHeader)
	}
	var d retryjob.DeadLetter
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return retryjob.DeadLetter{}, fmt.Errorf("retryamqp: header %s: %w", deadHeader, err)
	}
	return d, nil
}

// AttemptOf returns the number of the attempt that a delivery is for. The first attempt
// is 1. A dead letter that was moved back to the queue starts again at 1.
func AttemptOf(d amqp.Delivery) int {
	ended, _ := number(d.Headers, attemptsHeader) // the handling of the message reports an error
	if isDead(d) {
		ended = 0
	}
	cut, _ := number(d.Headers, "x-delivery-count") // the first delivery lacks this header
	const most = math.MaxInt32 / 2
	return 1 + int(max(0, min(ended, most))+max(0, min(cut, most)))
}

// isDead reports whether d is, or was, a dead letter.
func isDead(d amqp.Delivery) bool {
	_, dead := d.Headers[deadHeader]
	return dead
}

// number returns the value of a header that is a whole number, 0 if it is missing.
func number(headers amqp.Table, name string) (int64, error) {
	value := headers[name]
	if value == nil {
		return 0, nil
	}
	n, err := strconv.ParseInt(fmt.Sprint(value), 10, 64) // AMQP has several types of numbers
	if err != nil {
		return 0, fmt.Errorf("header %s is %.100v: write a whole number", name, value)
	}
	return n, nil
}

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
