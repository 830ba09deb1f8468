// Package watermill shows a policy as a middleware of Watermill. It retries a handler in the
// process that has received the message.
package watermill

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/goretry/retry"
)

// Retry retries a handler according to a policy. Put it inside a middleware that keeps failed
// messages, such as Watermill's PoisonQueue. That middleware gets the *retry.Error. The message
// is acknowledged after the last attempt. So after a crash the broker delivers the message
// again, and its attempts start from 1.
func Retry(policy retry.Policy) message.HandlerMiddleware {
	return func(handle message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			own := msg.Context()
			defer msg.SetContext(own)
			return retry.DoValue(own, policy, func(ctx context.Context) ([]*message.Message, error) {
				msg.SetContext(ctx) // this context ends after AttemptTimeout
				return handle(msg)
			})
		}
	}
}
