package retryriver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/jobtest"
	"github.com/goretry/retry/adapters/jobtest/servers"
	"github.com/goretry/retry/adapters/retryriver"
	"github.com/goretry/retry/retryjob"
)

func TestEngine(t *testing.T) {
	t.Parallel()
	jobtest.Run(t, engine(t))
}

// .ci/soak runs these tests with more jobs and kills.

func TestLoad(t *testing.T) {
	t.Parallel()
	jobtest.Load(t, engine(t), servers.Amount(t, "RETRY_JOBS", 1000))
}

func TestKills(t *testing.T) {
	t.Parallel()
	jobtest.Kills(t, engine(t), servers.Amount(t, "RETRY_KILLS", 30))
}

func TestRedrive(t *testing.T) {
	t.Parallel()
	jobtest.Redrive(t, engine(t), servers.Amount(t, "RETRY_KILLS", 10))
}

func databaseURL(t *testing.T) string { return servers.Shared(t, "RETRY_TEST_POSTGRES") }

const rescueAfter = 3 * time.Second

func engine(t *testing.T) jobtest.Engine { return engineAt(databaseURL(t)) }

func engineAt(url string) jobtest.Engine {
	return jobtest.Engine{
		Open: func(ctx context.Context, name string) (jobtest.Queue, error) { return open(ctx, url, name) },
		Unit: 100 * time.Millisecond,
		Late: 30 * time.Second, // because the machine may be busy
		// If the leader is killed, electing another takes up to 21 s. The new leader looks for stuck jobs
		// every 30 s.
		Lease:     rescueAfter + time.Minute,
		Uncounted: true,
		Classes:   true,
	}
}

// A queue is a schema with River's tables.
type queue struct {
	pool   *pgxpool.Pool
	schema string
	insert func() (*river.Client[pgx.Tx], error) // a client that only inserts
}

func open(ctx context.Context, url, schema string) (*queue, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 4 // a dozen queues are open at once
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	q := &queue{pool: pool, schema: schema}
	q.insert = sync.OnceValues(func() (*river.Client[pgx.Tx], error) { return q.client(retry.Default(), &river.Config{}) })
	if err := q.migrate(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return q, nil
}

func (q *queue) migrate(ctx context.Context) error {
	if _, err := q.pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+q.schema); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(q.pool), &rivermigrate.Config{Schema: q.schema, Logger: quiet})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

type args struct {
	Key string `json:"key"`
}

func (args) Kind() string { return "jobtest" }

// client returns a River client with a Plugin for p.
func (q *queue) client(p retry.Policy, config *river.Config) (*river.Client[pgx.Tx], error) {
	plugin, err := retryriver.New(p)
	if err != nil {
		return nil, err
	}
	config.Schema, config.Logger = q.schema, quiet
	plugin.Configure(config)
	return river.NewClient(riverpgxv5.New(q.pool), config)
}

func (q *queue) Enqueue(ctx context.Context, key string, maxAttempts int) error {
	client, err := q.insert()
	if err != nil {
		return err
	}
	_, err = client.Insert(ctx, args{key}, &river.InsertOpts{MaxAttempts: maxAttempts})
	return err
}

// Plant inserts rows with impossible metadata.
func (q *queue) Plant(ctx context.Context, keys []string) error {
	for i, key := range keys {
		metadata := []string{`{"retry": {"earlier": -1}}`, `{"retry": {"earlier": 9223372036854775807}}`, `{"retry": {"classes": {"a": -1}}}`, `{"retry": 5}`,
			`{"retry": {"dead": {"reason": ""}}}`, `{"retry": {"dead_attempt": 1, "dead": {"reason": "planted"}}}`,
			`{"retry": {"max_attempts": -7}}`, `{"retry": {"earlier": 9223372036854775808}}`, `{"retry": {"earlier": "1"}}`}[i%9]
		if _, err := q.pool.Exec(ctx, "INSERT INTO "+q.schema+`.river_job (kind, args, max_attempts, metadata) VALUES ('jobtest', jsonb_build_object('key', $1::text), 4, $2)`, key, metadata); err != nil {
			return err
		}
	}
	return nil
}

// Forge inserts discarded and canceled rows. Their metadata have no dead letter, or the dead
// letter of another end.
func (q *queue) Forge(ctx context.Context, keys []string) error {
	const dead = `"dead": {"reason": "permanent_error"}`
	for i, key := range keys {
		metadata := []string{`{}`, `{"retry": 5}`, `{"retry": {"dead_attempt": 2, "dead": {"attempts": 1}}}`, `{"retry": {"dead_attempt": 1, ` + dead + `}}`,
			`{"retry": {"dead_attempt": 3, ` + dead + `}}`, `{"cancel_attempted_at": "x", "retry": {"dead_attempt": 2, ` + dead + `}}`}[i%6]
		state := []rivertype.JobState{rivertype.JobStateDiscarded, rivertype.JobStateCancelled}[i/6%2]
		if _, err := q.pool.Exec(ctx, "INSERT INTO "+q.schema+`.river_job (kind, args, max_attempts, attempt, state, finalized_at, metadata)
			VALUES ('jobtest', jsonb_build_object('key', $1::text), 4, 2, $2, now(), $3)`, key, state, metadata); err != nil {
			return err
		}
	}
	return nil
}

func (q *queue) Work(ctx context.Context, p retry.Policy, do func(context.Context, string, int) error) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[args]) error {
		return do(ctx, job.Args.Key, job.Attempt)
	}))
	client, err := q.client(p, &river.Config{
		Workers:              workers,
		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		FetchPollInterval:    50 * time.Millisecond,
		FetchCooldown:        10 * time.Millisecond,
		PollOnly:             true, // listening would take a connection for each of a dozen clients
		JobTimeout:           rescueAfter - time.Second,
		RescueStuckJobsAfter: rescueAfter,
	})
	if err != nil {
		return err
	}
	background := context.WithoutCancel(ctx)
	if err := client.Start(background); err != nil {
		return err
	}
	<-ctx.Done()
	return client.StopAndCancel(background)
}

func (q *queue) Open(ctx context.Context) (n int, err error) {
	err = q.pool.QueryRow(ctx, "SELECT count(*) FROM "+q.schema+".river_job WHERE state NOT IN ('completed', 'cancelled', 'discarded')").Scan(&n)
	return n, err
}

func (q *queue) Dead(ctx context.Context) (map[string]retryjob.DeadLetter, error) {
	client, err := q.insert()
	if err != nil {
		return nil, err
	}
	letters := map[string]retryjob.DeadLetter{}
	params := river.NewJobListParams().States(rivertype.JobStateCancelled, rivertype.JobStateDiscarded).First(10_000)
	for {
		jobs, err := client.JobList(ctx, params)
		if err != nil {
			return nil, err
		}
		for _, row := range jobs.Jobs {
			key, letter, err := letterOf(row)
			if strings.HasPrefix(key, jobtest.ForgedPrefix) || err != nil && strings.Contains(string(row.Metadata), "cancel_attempted_at") {
				continue // Stop has canceled it
			}
			if err != nil {
				return nil, err
			}
			letters[key] = letter
		}
		if len(jobs.Jobs) < 10_000 {
			return letters, nil
		}
		params = params.After(jobs.LastCursor)
	}
}

func letterOf(row *rivertype.JobRow) (key string, l retryjob.DeadLetter, err error) {
	var a args
	if err := json.Unmarshal(row.EncodedArgs, &a); err != nil {
		return "", l, err
	}
	l, err = retryriver.DeadLetterOf(row)
	return a.Key, l, err
}

func (q *queue) Redrive(ctx context.Context, o retryjob.RedriveOptions) (retryjob.RedriveResult, error) {
	client, err := q.insert()
	if err != nil {
		return retryjob.RedriveResult{}, err
	}
	return retryriver.Redrive(ctx, client, o)
}

func (q *queue) Stop(ctx context.Context, key string) (stopped bool, err error) {
	client, err := q.insert()
	if err != nil {
		return false, err
	}
	err = pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		var id int64
		var state rivertype.JobState
		err := tx.QueryRow(ctx, "SELECT id, state FROM "+q.schema+".river_job WHERE args->>'key' = $1 FOR UPDATE", key).Scan(&id, &state)
		if err != nil || state == rivertype.JobStateRunning || state == rivertype.JobStateCompleted {
			return err
		}
		if _, err := client.JobRetryTx(ctx, tx, id); err != nil {
			return err
		}
		stopped = true
		_, err = client.JobCancelTx(ctx, tx, id)
		return err
	})
	return stopped && err == nil, err
}

func (q *queue) Close(ctx context.Context, remove bool) error {
	defer q.pool.Close()
	if !remove {
		return nil
	}
	_, err := q.pool.Exec(ctx, "DROP SCHEMA "+q.schema+" CASCADE")
	return err
}

// PostgreSQL restarts under load. Every second restart follows a crash.
func TestRestarts(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t)
	url := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", s.Address)
	jobtest.Restarts(t, engineAt(url), 200, servers.Amount(t, "RETRY_RESTARTS", 2), func(n int) error {
		if n%2 == 0 {
			s.Stop()
		} else {
			s.Crash()
		}
		s.Start()
		return nil
	})
}
