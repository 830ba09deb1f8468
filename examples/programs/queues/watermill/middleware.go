// Package watermill shows a policy as a middleware of Watermill, which runs a
// handler again in the process that has the message.
package watermill

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/goretry/retry"
)

// Retry calls a handler again as policy says. Put it inside a middleware that keeps
// messages that cannot be handled, such as Watermill's PoisonQueue, which then gets
// the *retry.Error. The message is not acknowledged until the last attempt has
// ended, so after a crash the broker delivers it again, with all its attempts.
func Retry(policy retry.Policy) message.HandlerMiddleware {
	return func(handle message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			own := msg.Context()
			defer msg.SetContext(own)
			return retry.DoValue(own, policy, func(ctx context.Context) ([]*message.Message, error) {
				msg.SetContext(ctx) // which ends with AttemptTimeout
				return handle(msg)
			})
		}
	}
}
