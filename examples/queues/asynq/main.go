// Asynq sends mail with asynq, a task queue in Redis:
//
//	REDIS_ADDR=localhost:6379 go run ./asynq
//
// It uses a new queue, which it deletes at the end.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/goretry/retry/adapters/retryasynq"
	"github.com/goretry/retry/examples/queues/mail"
)

func main() {
	if err := run(context.Background(), os.Stdout, cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")); err != nil {
		fmt.Fprintln(os.Stderr, "asynq:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, address string) (err error) {
	redis := asynq.RedisClientOpt{Addr: address}
	queue := "mail_" + strings.ToLower(rand.Text())
	client := asynq.NewClient(redis)
	defer client.Close()
	for _, to := range mail.People {
		task := retryasynq.NewTask("mail", []byte(to), asynq.Queue(queue))
		if _, err := client.EnqueueContext(ctx, task); err != nil {
			return err
		}
	}
	inspector := asynq.NewInspector(redis)
	defer inspector.Close()
	defer func() { err = errors.Join(err, inspector.DeleteQueue(queue, true)) }()

	retries, err := retryasynq.New(mail.Policy)
	if err != nil {
		return err
	}
	config := asynq.Config{
		Queues:                   map[string]int{queue: 1},
		DelayedTaskCheckInterval: 200 * time.Millisecond,
		LogLevel:                 asynq.FatalLevel,
	}
	retries.Configure(&config)
	var post mail.Post
	mux := asynq.NewServeMux()
	mux.Use(retries.Middleware)
	mux.HandleFunc("mail", func(ctx context.Context, task *asynq.Task) error {
		return post.Send(ctx, string(task.Payload()))
	})
	server := asynq.NewServer(redis, config)
	if err := server.Start(mux); err != nil {
		return err
	}
	err = mail.Wait(ctx, func(context.Context) (int, error) {
		info, err := inspector.GetQueueInfo(queue)
		if err != nil {
			return 0, err
		}
		return info.Pending + info.Active + info.Retry + info.Scheduled, nil
	})
	server.Shutdown()
	if err != nil {
		return err
	}

	// asynq keeps its dead letters in the archive.
	archived, err := inspector.ListArchivedTasks(queue)
	if err != nil {
		return err
	}
	var dead []mail.Letter
	for _, task := range archived {
		d, err := retryasynq.DeadLetterOf(task)
		if err != nil {
			return err
		}
		dead = append(dead, mail.Letter{To: string(task.Payload), Reason: d.Reason, Attempts: d.Attempts, Error: d.Err})
	}
	post.Report(out, dead)
	return nil
}
