// Rabbitmq sends mail with RabbitMQ:
//
//	AMQP_URL=amqp://localhost go run ./rabbitmq
//
// It declares the queue mail, a queue for its dead letters, and one for each delay,
// and does not delete them.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryamqp"
	"github.com/goretry/retry/examples/queues/mail"
)

func main() {
	if err := run(context.Background(), os.Stdout, cmp.Or(os.Getenv("AMQP_URL"), "amqp://localhost"), "mail"); err != nil {
		fmt.Fprintln(os.Stderr, "rabbitmq:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, url, queue string) (err error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()

	// AMQP does not say how many messages the workers have, so this
	// counts the jobs that have ended.
	var ended atomic.Int64
	policy := mail.Policy
	policy.OnEvent = func(_ context.Context, e retry.Event) {
		if e.Kind == retry.CallFinished {
			ended.Add(1)
		}
	}
	retries, err := retryamqp.New(policy, queue)
	if err != nil {
		return err
	}
	if err := retries.Declare(conn); err != nil {
		return err
	}
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	for _, to := range mail.People {
		p := amqp.Publishing{Body: []byte(to), DeliveryMode: amqp.Persistent}
		if err := channel.PublishWithContext(ctx, "", queue, false, false, p); err != nil {
			return err
		}
	}

	var post mail.Post
	working, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan error, 1)
	go func() {
		result <- retries.Consume(working, conn, func(ctx context.Context, d amqp.Delivery) error {
			return post.Send(ctx, string(d.Body))
		})
		stop()
	}()
	err = mail.Wait(working, func(context.Context) (int, error) { return len(mail.People) - int(ended.Load()), nil })
	stop()
	if err := errors.Join(err, <-result); err != nil {
		return err
	}

	var dead []mail.Letter
	for {
		d, ok, err := channel.Get(queue+".dead", true)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		l, err := retryamqp.DeadLetterOf(d.Headers)
		if err != nil {
			return err
		}
		dead = append(dead, mail.Letter{To: string(d.Body), Reason: l.Reason, Attempts: l.Attempts, Error: l.Err})
	}
	post.Report(out, dead)
	return nil
}
