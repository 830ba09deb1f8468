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

// MaxAttemptsHeader is the header that contains a message's own limit on attempts. The limit is
// a whole number of at least 1. It can lower the policy's limit, but never raise it.
const MaxAttemptsHeader = "retry-max-attempts"

// The package writes these headers into its copies of messages.
const (
	attemptsHeader = "retry-attempts"    // the number of attempts that have ended
	beganHeader    = "retry-began"       // the time from which MaxElapsed counts, in Unix milliseconds
	dueHeader      = "retry-due"         // when the next attempt is due, in Unix milliseconds
	classesHeader  = "retry-classes"     // the number of failed attempts of each class, as JSON
	deadHeader     = "retry-dead-letter" // the retryjob.DeadLetter, as JSON
	leftOutHeader  = "retry-left-out"    // the parts of the message that a dead letter lacks
)

// DeadLetterOf returns the dead letter from the headers of a message in the queue of dead
// letters. It returns an error if the header with the dead letter is missing or cannot be
// parsed.
func DeadLetterOf(headers amqp.Table) (retryjob.DeadLetter, error) {
	text, _ := headers[deadHeader].(string)
	if text == "" {
		return retryjob.DeadLetter{}, fmt.Errorf(
			"retryamqp: the message is not a dead letter: the header %s is missing", deadHeader)
	}
	var d retryjob.DeadLetter
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return retryjob.DeadLetter{}, fmt.Errorf("retryamqp: header %s: %w", deadHeader, err)
	}
	return d, nil
}

// AttemptOf returns the number of the attempt that the delivery d starts. The first attempt has
// number 1. If a dead letter was moved back to the queue, its next attempt has number 1 again.
func AttemptOf(d amqp.Delivery) int {
	ended, _ := number(d.Headers, attemptsHeader) // messageOf reports the error
	if isDead(d) {
		ended = 0
	}
	cut, _ := number(d.Headers, "x-delivery-count") // the first delivery lacks this header
	const most = math.MaxInt32 / 2
	return 1 + int(max(0, min(ended, most))+max(0, min(cut, most)))
}

// isDead reports whether d is a dead letter, or was a dead letter before it was moved.
func isDead(d amqp.Delivery) bool {
	_, dead := d.Headers[deadHeader]
	return dead
}

// The function `number` returns the value of a header that contains a whole number. If the header
// is missing, it returns 0.
func number(headers amqp.Table, name string) (int64, error) {
	value := headers[name]
	if value == nil {
		return 0, nil
	}
	n, err := strconv.ParseInt(fmt.Sprint(value), 10, 64) // AMQP has many types of numbers
	if err != nil {
		return 0, fmt.Errorf("header %s is %.100v: write a whole number", name, value)
	}
	return n, nil
}

// leftOut reports whether copies leave out the header with this name. Copies leave out headers
// that this package or RabbitMQ has written about a single delivery. They also leave out
// headers that would make RabbitMQ or a plugin send the copy to another queue, or send it
// later. All other headers belong to the producer, so copies keep them.
func leftOut(name string) bool {
	return slices.Contains(ofTheDelivery, name) || slices.ContainsFunc(ofTheServer,
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// ofTheDelivery lists the headers that describe or direct a single delivery.
var ofTheDelivery = []string{
	dueHeader, deadHeader, classesHeader, leftOutHeader,
	"CC", "BCC", // RabbitMQ also sends the message to the queues in these headers
	"x-death",                              // RabbitMQ drops a message if this header shows a cycle
	"x-delivery-count",                     // quorum queues count deliveries here
	"x-acquired-count",                     // since RabbitMQ 4.3, quorum queues count deliveries here
	"x-delay",                              // the delay that a plugin has already applied
	"x-received-from",                      // federation drops messages that passed too many servers
	"x-routed-by",                          // the node that has routed the message
	"x-shovelled", "x-shovelled-timestamp", // shovels that have moved the message
	"x-stream-offset",                  // the position of the message in a stream
	"x-invalid-headers",                // headers that RabbitMQ could not append to
	"x-mqtt-dup", "x-mqtt-publish-qos", // the MQTT plugin reads these headers
}

// ofTheServer lists the prefixes of headers that RabbitMQ and its plugins write.
var ofTheServer = []string{
	"x-first-death-", "x-last-death-",
	"x-original-", // federated queues write these headers
	"x-opt-",      // annotations of AMQP 1.0, such as x-opt-delivery-time, which delays a message
}
