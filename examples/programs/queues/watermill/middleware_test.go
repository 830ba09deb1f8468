package watermill_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	own "github.com/goretry/retry/examples/programs/queues/watermill"
)

// The test runs a router with the middleware, as a program that uses Watermill does.
func TestRetry(t *testing.T) {
	pubsub := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(t, err)
	poison, err := middleware.PoisonQueue(pubsub, "poison")
	require.NoError(t, err)
	router.AddMiddleware(poison, own.Retry(retry.Policy{
		MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond), AttemptTimeout: time.Minute,
	}))
	var mu sync.Mutex
	attempts := map[string]int{}
	sent := make(chan string, 2)
	router.AddConsumerHandler("mailer", "mail", pubsub, func(msg *message.Message) error {
		_, bounded := msg.Context().Deadline()
		assert.True(t, bounded, "AttemptTimeout")
		mu.Lock()
		defer mu.Unlock()
		to := string(msg.Payload)
		attempts[to]++
		switch {
		case to == "bob" && attempts[to] < 3:
			return errors.New("450 mailbox busy")
		case to == "dave":
			return retry.Permanent(errors.New("550 no such user"))
		}
		sent <- to
		return nil
	})
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	poisoned, err := pubsub.Subscribe(ctx, "poison")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx) }()
	<-router.Running()
	for _, to := range []string{"ann", "bob", "dave"} {
		require.NoError(t, pubsub.Publish("mail", message.NewMessage(to, []byte(to))))
	}
	dead := <-poisoned
	dead.Ack()
	assert.Equal(t, "dave", string(dead.Payload))
	assert.Equal(t, "retry: permanent error after 1 attempt: 550 no such user", dead.Metadata.Get(middleware.ReasonForPoisonedKey))
	assert.ElementsMatch(t, []string{"ann", "bob"}, []string{<-sent, <-sent})
	require.NoError(t, router.Close())
	require.NoError(t, <-ended)
	assert.Equal(t, map[string]int{"ann": 1, "bob": 3, "dave": 1}, attempts)
}
