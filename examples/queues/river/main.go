// River sends mail with River, a job queue in PostgreSQL:
//
//	DATABASE_URL=postgres://user:password@localhost/database go run ./river
//
// It uses a new schema, which it drops at the end.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/goretry/retry/adapters/retryriver"
	"github.com/goretry/retry/examples/queues/mail"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Getenv("DATABASE_URL")); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

// Mail is a job.
type Mail struct {
	To string `json:"to"`
}

// Kind names the job.
func (Mail) Kind() string { return "mail" }

func run(ctx context.Context, out io.Writer, url string) (err error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	schema := "queues_" + strings.ToLower(rand.Text())
	if err := migrate(ctx, pool, schema); err != nil {
		return err
	}
	defer func() {
		_, dropped := pool.Exec(context.WithoutCancel(ctx), "DROP SCHEMA "+schema+" CASCADE")
		err = errors.Join(err, dropped)
	}()

	plugin, err := retryriver.New(mail.Policy)
	if err != nil {
		return err
	}
	var post mail.Post
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[Mail]) error {
		return post.Send(ctx, job.Args.To)
	}))
	config := &river.Config{
		Schema:            schema,
		Workers:           workers,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		FetchPollInterval: 100 * time.Millisecond,
		Logger:            slog.New(slog.DiscardHandler),
	}
	plugin.Configure(config)
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		return err
	}
	for _, to := range mail.People {
		if _, err := client.Insert(ctx, Mail{to}, nil); err != nil {
			return err
		}
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	err = mail.Wait(ctx, func(ctx context.Context) (n int, err error) {
		err = pool.QueryRow(ctx, "SELECT count(*) FROM "+schema+".river_job WHERE finalized_at IS NULL").Scan(&n)
		return n, err
	})
	if err := errors.Join(err, client.Stop(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	dead, err := deadLetters(ctx, client)
	if err != nil {
		return err
	}
	post.Report(out, dead)
	return nil
}

func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// deadLetters returns the dead letters. River keeps them in its table, with the
// reason in the metadata.
func deadLetters(ctx context.Context, client *river.Client[pgx.Tx]) (dead []mail.Letter, err error) {
	jobs, err := client.JobList(ctx, river.NewJobListParams().States(rivertype.JobStateDiscarded, rivertype.JobStateCancelled))
	if err != nil {
		return nil, err
	}
	for _, job := range jobs.Jobs {
		var args Mail
		if err := json.Unmarshal(job.EncodedArgs, &args); err != nil {
			return nil, err
		}
		d, err := retryriver.DeadLetterOf(job)
		if err != nil {
			return nil, err
		}
		dead = append(dead, mail.Letter{To: args.To, Reason: d.Reason, Attempts: d.Attempts, Error: d.Err})
	}
	return dead, nil
}
