package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/jobtest"
)

// The queue passes the same conformance table as the adapters for other queues.

func TestEngineSQLite(t *testing.T) {
	jobtest.Run(t, engine(sqliteDialect, func(name string) (*sql.DB, func() error, error) {
		directory := filepath.Join(os.TempDir(), "retry_"+name) // other processes open it too
		if err := os.MkdirAll(directory, 0o700); err != nil {
			return nil, nil, err
		}
		db, err := openSQLite(filepath.Join(directory, "jobs.db"))
		return db, func() error { return os.RemoveAll(directory) }, err
	}))
}

func TestEnginePostgres(t *testing.T) {
	url := postgresURL(t)
	jobtest.Run(t, engine(postgresDialect, func(name string) (*sql.DB, func() error, error) {
		db, err := openPostgres(url, name)
		if err != nil {
			return nil, nil, err
		}
		if _, err := db.Exec("CREATE SCHEMA IF NOT EXISTS " + name); err != nil {
			return nil, nil, errors.Join(err, db.Close())
		}
		db.SetMaxOpenConns(3) // a dozen queues are open at once
		return db, func() error {
			_, err := db.Exec("DROP SCHEMA " + name + " CASCADE")
			return err
		}, nil
	}))
}

// The queue limits each statement to a part of the lease. A machine that is busy
// for a second must not exceed these limits.
const engineLease = 8 * time.Second

func engine(d dialect, open func(name string) (db *sql.DB, remove func() error, err error)) jobtest.Engine {
	return jobtest.Engine{
		Open: func(_ context.Context, name string) (jobtest.Queue, error) {
			db, remove, err := open(name)
			return &engineQueue{d, db, remove}, err
		},
		Unit:  50 * time.Millisecond,
		Late:  4 * time.Second, // the poll interval, and the race detector on a busy machine
		Lease: engineLease,
	}
}

type engineQueue struct {
	dialect dialect
	db      *sql.DB
	remove  func() error
}

// queue returns the queue, and creates its table if there is none.
func (q *engineQueue) queue(ctx context.Context, p retry.Policy) (*Queue, error) {
	queue, err := NewQueue(q.db, q.dialect, p)
	if err != nil {
		return nil, err
	}
	return queue, queue.Create(ctx)
}

func (q *engineQueue) Enqueue(ctx context.Context, key string, maxAttempts int) error {
	queue, err := q.queue(ctx, retry.Policy{})
	if err != nil {
		return err
	}
	return queue.Enqueue(ctx, key, "", maxAttempts, 0)
}

func (q *engineQueue) Work(ctx context.Context, p retry.Policy, do func(context.Context, string, int) error) error {
	queue, err := q.queue(ctx, p)
	if err != nil {
		return err
	}
	w := Worker{
		Queue: queue, Lease: engineLease, Poll: 100 * time.Millisecond,
		Run: func(ctx context.Context, job *Job) error { return do(ctx, job.ID, job.Attempts) },
	}
	var workers sync.WaitGroup
	errs := make([]error, 2) // a row has only one job
	for i := range errs {
		workers.Go(func() { errs[i] = w.Work(ctx) })
	}
	workers.Wait()
	return errors.Join(errs...)
}

func (q *engineQueue) Open(ctx context.Context) (int, error) {
	queue, err := q.queue(ctx, retry.Policy{})
	if err != nil {
		return 0, err
	}
	return queue.Open(ctx)
}

func (q *engineQueue) Dead(ctx context.Context) (map[string]jobtest.Letter, error) {
	queue, err := q.queue(ctx, retry.Policy{})
	if err != nil {
		return nil, err
	}
	dead, err := queue.DeadLetters(ctx)
	letters := map[string]jobtest.Letter{}
	for _, l := range dead {
		letters[l.ID] = jobtest.Letter{Reason: retry.Reason(l.Reason), Attempts: l.Attempts, Error: l.Error}
	}
	return letters, err
}

func (q *engineQueue) Close(_ context.Context, remove bool) error {
	var err error
	if remove {
		err = q.remove()
	}
	return errors.Join(err, q.db.Close())
}
