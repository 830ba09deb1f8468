package retryamqp

import (
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// errTooLarge is the error for a message that is too large to be copied.
var errTooLarge = errors.New("the message is too large to be copied to another queue")

// sizeOf returns an upper bound for the size of the frame that contains the headers and
// properties of p, in bytes. A frame that is too long would end the connection of the client
// that sends or receives it.
func sizeOf(p amqp.Publishing) int {
	size := added + 64 // 64 bytes for the fields of the frame itself, and for the numeric properties
	for _, text := range []string{
		p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo, p.MessageId, p.Type, p.AppId,
	} {
		size += 1 + len(text)
	}
	return size + sizeOfField(p.Headers)
}

// `added` is the number of bytes that are reserved for headers of the server. The server adds
// headers when it moves or redelivers a copy. For example, x-death contains the names of
// queues.
const added = 2 << 10

func sizeOfField(value any) (size int) {
	size = 5 // one byte for the type of the value, and four for its length
	switch value := value.(type) {
	case string:
		return size + len(value)
	case []byte:
		return size + len(value)
	case []any:
		for _, element := range value {
			size += sizeOfField(element)
		}
		return size
	case amqp.Table:
		for name, element := range value {
			size += 1 + len(name) + sizeOfField(element)
		}
		return size
	default:
		return 9 // the largest size of a value of any other type
	}
}
