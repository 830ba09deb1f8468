// Nats sends mail with NATS JetStream:
//
//	NATS_URL=nats://localhost go run ./nats
//
// It uses two new streams, which it deletes at the end.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/goretry/retry/adapters/retrynats"
	"github.com/goretry/retry/examples/queues/mail"
)

func main() {
	if err := run(context.Background(), os.Stdout, cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL)); err != nil {
		fmt.Fprintln(os.Stderr, "nats:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, url string) (err error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	name := "mail_" + rand.Text()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{name + ".jobs"}, Retention: jetstream.WorkQueuePolicy,
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, js.DeleteStream(context.WithoutCancel(ctx), name)) }()
	letters, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name + "_dead", Subjects: []string{name + ".dead"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, js.DeleteStream(context.WithoutCancel(ctx), name+"_dead")) }()

	for _, to := range mail.People {
		if _, err := js.Publish(ctx, name+".jobs", []byte(to)); err != nil {
			return err
		}
	}
	retries, err := retrynats.New(mail.Policy, name+".dead")
	if err != nil {
		return err
	}
	consumer, err := js.CreateConsumer(ctx, name, retries.ConsumerConfig("mailer"))
	if err != nil {
		return err
	}
	var post mail.Post
	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- retries.Consume(working, js, consumer, func(ctx context.Context, msg jetstream.Msg) error {
			return post.Send(ctx, string(msg.Data()))
		})
		stop()
	}()
	err = mail.Wait(working, func(ctx context.Context) (int, error) {
		info, err := consumer.Info(ctx)
		if err != nil {
			return 0, err
		}
		return int(info.NumPending) + info.NumAckPending, nil
	})
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	dead, err := deadLetters(ctx, letters)
	if err != nil {
		return err
	}
	post.Report(out, dead)
	return nil
}

// deadLetters reads the stream of the dead letters.
func deadLetters(ctx context.Context, stream jetstream.Stream) (dead []mail.Letter, err error) {
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, err
	}
	for n := range info.State.Msgs {
		msg, err := stream.GetMsg(ctx, n+1)
		if err != nil {
			return nil, err
		}
		d, err := retrynats.DeadLetterOf(msg.Header)
		if err != nil {
			return nil, err
		}
		dead = append(dead, mail.Letter{To: string(msg.Data), Reason: d.Reason, Attempts: d.Attempts, Error: d.Err})
	}
	return dead, nil
}
