package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/jobtest"
	"github.com/goretry/retry/adapters/jobtest/servers"
	"github.com/goretry/retry/retryjob"
)

// The queue passes the same table of cases and the same fault runs as the adapters of other
// queues. .ci/soak runs the fault runs with more jobs, kills and restarts.

func TestEngine(t *testing.T) { onEngines(t, jobtest.Run) }

func TestLoad(t *testing.T) {
	jobs := servers.Amount(t, "RETRY_JOBS", 500)
	onEngines(t, func(t *testing.T, e jobtest.Engine) { jobtest.Load(t, e, jobs) })
}

func TestKills(t *testing.T) {
	kills := servers.Amount(t, "RETRY_KILLS", 5)
	onEngines(t, func(t *testing.T, e jobtest.Engine) { jobtest.Kills(t, e, kills) })
}

func TestRedrive(t *testing.T) {
	kills := servers.Amount(t, "RETRY_KILLS", 2)
	onEngines(t, func(t *testing.T, e jobtest.Engine) { jobtest.Redrive(t, e, kills) })
}

func onEngines(t *testing.T, test func(*testing.T, jobtest.Engine)) {
	t.Parallel()
	for name, url := range map[string]func(*testing.T) string{
		"sqlite":   func(*testing.T) string { return "" },
		"postgres": postgresURL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, engine(url(t)))
		})
	}
}

// PostgreSQL is restarted while workers work: by a clean shutdown and by a crash, in turn. No other
// test uses this server.
func TestRestarts(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t)
	e := engine("postgres://postgres@" + s.Address + "/postgres?sslmode=disable")
	jobtest.Restarts(t, e, 200, servers.Amount(t, "RETRY_RESTARTS", 2), func(n int) error {
		if n%2 == 0 {
			s.Stop()
		} else {
			s.Crash()
		}
		s.Start()
		return nil
	})
}

// The queue limits each statement to a part of the lease. The lease is long, so that a machine that
// is busy for a second does not exceed these limits.
const engineLease = 8 * time.Second

func engine(url string) jobtest.Engine {
	return jobtest.Engine{
		Open: func(ctx context.Context, name string) (jobtest.Queue, error) {
			s := server{dialect: postgresDialect, url: url, place: name}
			if url == "" {
				s = server{dialect: sqliteDialect, place: filepath.Join(os.TempDir(), "retry_"+name, "jobs.db")} // other processes open this file too
				if err := os.MkdirAll(filepath.Dir(s.place), 0o700); err != nil {
					return nil, err
				}
			}
			db, err := s.connect()
			if err == nil && url != "" {
				db.SetMaxOpenConns(3) // a dozen queues are open at the same time
				_, err = db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+name)
			}
			if err != nil {
				return nil, err
			}
			queue, err := NewQueue(db, s.dialect, retry.Policy{})
			if err == nil {
				err = queue.Create(ctx)
			}
			return &engineQueue{queue, s}, err
		},
		Unit:  50 * time.Millisecond,
		Late:  4 * time.Second, // because of the poll interval, and of the race detector on a busy machine
		Lease: engineLease,

		Classes:   true,
		Uncounted: true,
	}
}

type engineQueue struct {
	*Queue // its policy is zero: each worker gets its own policy
	server
}

func (q *engineQueue) Enqueue(ctx context.Context, key string, maxAttempts int) error {
	return q.Queue.Enqueue(ctx, key, "", maxAttempts, 0)
}

func (q *engineQueue) Work(ctx context.Context, p retry.Policy, do func(context.Context, string, int) error) error {
	queue, err := NewQueue(q.db, q.dialect, p)
	if err != nil {
		return err
	}
	w := Worker{
		Queue: queue, Lease: engineLease, Poll: 100 * time.Millisecond,
		Run: func(ctx context.Context, job *Job) error { return do(ctx, job.ID, job.Attempts) },
	}
	var workers sync.WaitGroup
	errs := make([]error, 2) // each row of the table of cases has only one job
	for i := range errs {
		workers.Go(func() { errs[i] = w.Work(ctx) })
	}
	workers.Wait()
	return errors.Join(errs...)
}

func (q *engineQueue) Dead(ctx context.Context) (map[string]retryjob.DeadLetter, error) {
	dead, err := q.DeadLetters(ctx)
	letters := map[string]retryjob.DeadLetter{}
	for _, l := range dead {
		letters[l.ID] = l.DeadLetter
	}
	return letters, err
}

func (q *engineQueue) Close(ctx context.Context, remove bool) (err error) {
	switch {
	case remove && q.url == "":
		err = os.RemoveAll(filepath.Dir(q.place))
	case remove:
		_, err = q.db.ExecContext(ctx, "DROP SCHEMA "+q.place+" CASCADE")
	}
	return errors.Join(err, q.db.Close())
}
