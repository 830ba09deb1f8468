// Package watermill shows a retry policy as a middleware of Watermill. The middleware retries a
// handler in the process that has received the message.
package watermill

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/goretry/retry"
)

// Retry retries a handler according to a policy. Add it after a middleware that stores failed
// messages, such as Watermill's PoisonQueue. The PoisonQueue gets the *retry.Error. The message is
// acknowledged only after the last attempt. So after a crash the broker delivers the message again,
// and the attempts start from 1.
func Retry(policy retry.Policy) message.HandlerMiddleware {
	return func(handle message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			own := msg.Context()
			defer msg.SetContext(own)
			return retry.DoValue(own, policy, func(ctx context.Context) ([]*message.Message, error) {
				msg.SetContext(ctx) // ctx ends after AttemptTimeout
				return handle(msg)
			})
		}
	}
}
