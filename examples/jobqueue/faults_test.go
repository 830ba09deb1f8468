//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/servers"
)

// The jobs record their runs here. Each run has its own key, so that an insert can
// be repeated if its answer is lost.
const records = `
CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, job TEXT NOT NULL, attempt BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS collisions (run TEXT PRIMARY KEY, job TEXT NOT NULL, attempt BIGINT NOT NULL)`

// faultPolicy and faultLease are those of all workers here. The lease is much longer
// than a job, so that it never expires while its worker lives.
var faultPolicy = retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: 20 * time.Millisecond}, Jitter: retry.Proportional(0.5)}

const faultLease = 2 * time.Second

// A place is where workers meet: the database, and a directory of locks.
type place struct {
	server
	locks  string
	during func() // called in each run; nil: nothing
}

func (p place) worker(db *sql.DB, policy retry.Policy) (*Worker, error) {
	queue, err := NewQueue(db, p.dialect, policy)
	if err != nil {
		return nil, err
	}
	run := func(ctx context.Context, job *Job) error { return p.run(ctx, db, job) }
	return &Worker{Queue: queue, Run: run, Lease: faultLease, Poll: 5 * time.Millisecond}, nil
}

// begin makes the tables, and returns the database with its first worker.
func (p place) begin(t *testing.T, policy retry.Policy) (*sql.DB, *Worker) {
	t.Helper()
	db := p.open(t)
	w, err := p.worker(db, policy)
	require.NoError(t, err)
	require.NoError(t, w.Queue.Create(t.Context()))
	_, err = db.ExecContext(t.Context(), records)
	require.NoError(t, err)
	return db, w
}

// run is a job. It takes a lock of the operating system, which is released when the
// process ends and not later. A job that finds the lock taken runs twice at once.
func (p place) run(ctx context.Context, db *sql.DB, job *Job) error {
	lock, err := os.OpenFile(filepath.Join(p.locks, job.ID), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return retry.Permanent(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if err := p.record(ctx, db, "collisions", job); err != nil {
			return err
		}
	}
	if err := p.record(ctx, db, "runs", job); err != nil {
		return err
	}
	if p.during != nil {
		p.during()
	}
	return outcome(job)
}

func (p place) record(ctx context.Context, db *sql.DB, table string, job *Job) error {
	run := rand.Text()
	policy := retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(10 * time.Millisecond), RetryIf: transient}
	return retry.Do(ctx, policy, func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1, $2, $3) ON CONFLICT (run) DO NOTHING", run, job.ID, job.Attempts)
		return err
	})
}

// outcome returns what the payload demands.
func outcome(job *Job) error {
	switch {
	case job.Payload == "fails", job.Payload == "fails once" && job.Attempts == 1:
		return errors.New("down")
	case job.Payload == "is beyond help":
		return retry.Permanent(errors.New("no such user"))
	default:
		return nil
	}
}

var payloads = []string{"succeeds", "fails", "fails once", "is beyond help"}

// enqueue adds n jobs of each payload to those that are there, even if the database
// fails meanwhile.
func (p place) enqueue(ctx context.Context, queue *Queue, jobs *atomic.Int64, n int) error {
	policy := retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(10 * time.Millisecond), RetryIf: transient}
	for range n {
		for _, payload := range payloads {
			id := fmt.Sprint("job-", jobs.Add(1))
			err := retry.Do(ctx, policy, func(ctx context.Context) error { return queue.Enqueue(ctx, id, payload, 0, 0) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// verify checks every job once none is open. Attempts may have been lost, but no
// job.
func verify(t *testing.T, db *sql.DB, jobs int) {
	t.Helper()
	count := func(query string) (n int) {
		t.Helper()
		require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n))
		return n
	}
	assert.Equal(t, jobs, count("SELECT count(*) FROM jobs WHERE status IN ('DONE', 'FAILED')"), "none is lost")
	assert.Equal(t, jobs, count("SELECT count(*) FROM jobs"), "none is new")
	assert.Zero(t, count("SELECT count(*) FROM runs WHERE attempt > 4"), "none ran more often than it may")
	assert.Zero(t, count("SELECT count(*) FROM (SELECT job FROM runs GROUP BY job HAVING count(*) > 4) often"), "none ran more often than it may")
	assert.Zero(t, count("SELECT count(*) FROM (SELECT job FROM runs GROUP BY job, attempt HAVING count(*) > 1) twice"), "no attempt ran twice")
	assert.Zero(t, count("SELECT count(*) FROM collisions"), "none ran twice at once")
	assert.Zero(t, count("SELECT count(*) FROM runs JOIN jobs ON id = job WHERE attempt > attempts"), "every run is counted")
	assert.Zero(t, count("SELECT count(*) FROM jobs WHERE lease_until IS NOT NULL"), "no lease is left")

	assert.Zero(t, count(`SELECT count(*) FROM jobs WHERE status = 'DONE' AND
		(payload IN ('fails', 'is beyond help') OR NOT EXISTS (SELECT 1 FROM runs WHERE job = id AND attempt = attempts))`), "what is done has run, and can be done")
	assert.Zero(t, count(`SELECT count(*) FROM jobs WHERE status = 'FAILED' AND NOT (
		reason = 'attempts_exhausted' AND attempts >= 4 AND last_error IN ('down', '`+errWorkerDied.Error()+`')
		OR reason = 'permanent_error' AND payload = 'is beyond help' AND last_error = 'no such user')`), "a dead letter says why")
}

// TestMain becomes a worker if TestFaultKill has started this process.
func TestMain(m *testing.M) {
	if point := os.Getenv("RETRY_TEST_KILL"); point != "" {
		fmt.Println(workUntilKilled(point))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

var killPoints = []string{"between claim and result", "in the job", "during the sleep", "before the result is written", "at random"}

// workUntilKilled works until it kills itself at the point. It returns only if
// something goes wrong.
func workUntilKilled(point string) error {
	kill := sync.OnceFunc(func() {
		fmt.Print("killed") // shows that the process did not die in another way
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	})
	p := place{server: server{url: os.Getenv("RETRY_TEST_URL"), place: os.Getenv("RETRY_TEST_PLACE")}, locks: os.Getenv("RETRY_TEST_LOCKS")}
	p.dialect = sqliteDialect
	if p.url != "" {
		p.dialect = postgresDialect
	}
	policy := faultPolicy
	policy.OnEvent = func(_ context.Context, e retry.Event) {
		switch {
		case point == "between claim and result" && e.Kind == retry.AttemptStarted:
			kill()
		case point == "during the sleep" && e.Kind == retry.RetryScheduled && e.Delay > 0:
			time.AfterFunc(e.Delay/2, kill)
		case point == "before the result is written" && (e.Kind == retry.RetryScheduled || e.Kind == retry.Stopped):
			kill()
		}
	}
	switch point {
	case "in the job":
		p.during = kill
	case "at random":
		time.AfterFunc(mathrand.N(60*time.Millisecond), kill)
	}
	db, err := p.connect()
	if err != nil {
		return err
	}
	w, err := p.worker(db, policy)
	if err != nil {
		return err
	}
	return w.Work(context.Background())
}

// Two worker processes at a time are killed with SIGKILL and replaced. No job is
// lost, runs more often than it may, or runs twice at once.
func TestFaultKill(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		kills := servers.Amount(t, "RETRY_KILLS", 10)
		p := place{server: s, locks: t.TempDir()}
		db, w := p.begin(t, faultPolicy)

		began := time.Now()
		var jobs, started atomic.Int64
		var slots sync.WaitGroup
		died := make([]error, kills)
		for range 2 {
			slots.Go(func() {
				for k := int(started.Add(1)) - 1; k < kills; k = int(started.Add(1)) - 1 {
					if died[k] = p.enqueue(t.Context(), w.Queue, &jobs, 1); died[k] == nil {
						died[k] = p.process(t.Context(), killPoints[k%len(killPoints)])
					}
				}
			})
		}
		slots.Wait()
		require.NoError(t, errors.Join(died...))
		work(t, w, 2)
		verify(t, db, int(jobs.Load()))
		report(t, db, began, fmt.Sprintf("%d workers killed", kills))
	})
}

// process starts a worker that dies at the point, and returns an error if it
// ends otherwise.
func (p place) process(ctx context.Context, point string) error {
	// A worker that does not get a job to die in is a failure too.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "RETRY_TEST_KILL="+point, "RETRY_TEST_URL="+p.url, "RETRY_TEST_PLACE="+p.place, "RETRY_TEST_LOCKS="+p.locks)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL && out.String() == "killed" {
		return nil
	}
	return fmt.Errorf("%s: %v: %s%s", point, err, out.String(), errs.String())
}

// work lets n workers run until no job is open.
func work(t *testing.T, w *Worker, n int) {
	t.Helper()
	require.NoError(t, start(t, w, n)())
}

// start starts n workers, and returns a function that waits until no job is
// open and ends them.
func start(t *testing.T, w *Worker, n int) func() error {
	ctx, end := context.WithCancel(t.Context())
	errs := make([]error, n)
	var workers sync.WaitGroup
	for i := range errs {
		workers.Go(func() {
			if errs[i] = w.Work(ctx); errs[i] != nil {
				end()
			}
		})
	}
	return func() error {
		err := done(ctx, w.Queue)
		end()
		workers.Wait()
		return cmp.Or(errors.Join(errs...), err)
	}
}

// report logs the numbers that the README has.
func report(t *testing.T, db *sql.DB, began time.Time, what string) {
	took := time.Since(began)
	var jobs, done, attempts, runs int
	require.NoError(t, db.QueryRowContext(t.Context(), `
		SELECT count(*), count(CASE WHEN status = 'DONE' THEN 1 END), sum(attempts), (SELECT count(*) FROM runs) FROM jobs`).
		Scan(&jobs, &done, &attempts, &runs))
	t.Logf("%s: %s in %.1fs: %d jobs, %d done, %d dead letters, %d attempts, %d runs", t.Name(), what, took.Seconds(), jobs, done, jobs-done, attempts, runs)
}

// Eight workers run jobs. 30 % of the attempts fail, chosen by job and attempt, so
// that the counts are known in advance.
func TestFaultLoad(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		n := servers.Amount(t, "RETRY_JOBS", 500)
		policy := retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Millisecond), Jitter: retry.FullJitter}
		fails := func(id string, attempt int) bool { return retry.SeedOf(fmt.Sprint(id, "/", attempt))%10 < 3 }

		type outcome struct {
			Status   string
			Attempts int
			Reason   string
		}
		want := map[outcome]int{}
		runs := 0
		for i := range n {
			o := outcome{Status: "DONE", Attempts: 1}
			for fails(fmt.Sprint("job-", i), o.Attempts) && o.Status == "DONE" {
				if o.Attempts == 4 {
					o.Status, o.Reason = "FAILED", "attempts_exhausted"
				} else {
					o.Attempts++
				}
			}
			want[o]++
			runs += o.Attempts
		}

		p := place{server: s, locks: t.TempDir()}
		db, w := p.begin(t, policy)
		w.Lease = 10 * time.Minute
		w.Run = func(ctx context.Context, job *Job) error {
			if err := p.run(ctx, db, job); err != nil {
				return err
			}
			if fails(job.ID, job.Attempts) {
				return errors.New("down")
			}
			return nil
		}
		for i := range n {
			require.NoError(t, w.Queue.Enqueue(t.Context(), fmt.Sprint("job-", i), "fails now and then", 0, 0))
		}

		began := time.Now()
		work(t, w, 8)
		report(t, db, began, "8 workers")
		verify(t, db, n)
		rows, err := db.QueryContext(t.Context(), "SELECT status, attempts, COALESCE(reason, ''), count(*) FROM jobs GROUP BY status, attempts, reason")
		require.NoError(t, err)
		defer rows.Close()
		got := map[outcome]int{}
		for rows.Next() {
			var o outcome
			var count int
			require.NoError(t, rows.Scan(&o.Status, &o.Attempts, &o.Reason, &count))
			got[o] = count
		}
		require.NoError(t, rows.Err())
		assert.Equal(t, want, got)
		var recorded int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM runs").Scan(&recorded))
		assert.Equal(t, runs, recorded)
	})
}

// One answer of the database in ten is lost: the statement is executed, but the
// worker gets an error. A job whose claim was lost that way waits for the end of its
// lease, by a clock that moves when nothing is runnable.
func TestFaultLostAnswers(t *testing.T) {
	t.Parallel()
	url := postgresURL(t)
	b := newBench(t, server{dialect: postgresDialect, url: url, place: newSchema(t, url)}, faultPolicy)
	b.exec(records)
	var statements atomic.Int64
	lossy := through(t, b.open(t), func(_ context.Context, query string, do func(string) error) error {
		err := do(query)
		if err == nil && statements.Add(1)%10 == 0 {
			err = syscall.ECONNRESET
		}
		return err
	})
	p := place{server: b.server, locks: t.TempDir()}
	w, err := p.worker(lossy, faultPolicy)
	require.NoError(t, err)
	w.Lease = 20 * time.Second
	var jobs atomic.Int64
	require.NoError(t, p.enqueue(t.Context(), w.Queue, &jobs, 75))
	for b.number("SELECT count(*) FROM jobs WHERE status IN ('PENDING', 'RUNNING')") > 0 {
		var workers sync.WaitGroup
		var errs [4]error
		for i := range errs {
			workers.Go(func() {
				for errs[i] = w.workOff(t.Context()); transient(errs[i]); {
					errs[i] = w.workOff(t.Context())
				}
			})
		}
		workers.Wait()
		for _, err := range errs {
			require.ErrorIs(t, err, errIdle)
		}
		b.pass(w.Lease)
	}
	verify(t, b.db, int(jobs.Load()))
	assert.Positive(t, b.number("SELECT sum(attempts) - (SELECT count(*) FROM runs) FROM jobs"), "claims were lost")
}

// PostgreSQL is restarted while workers work, in turn by a clean shutdown and by a
// crash that it has to recover from. The server belongs to this test.
func TestFaultRestart(t *testing.T) {
	t.Parallel()
	restarts := servers.Amount(t, "RETRY_RESTARTS", 2)
	c := servers.Postgres(t)
	url := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", c.Address)

	p := place{server: server{dialect: postgresDialect, url: url}, locks: t.TempDir()}
	db, w := p.begin(t, faultPolicy)

	began := time.Now()
	var jobs, runs atomic.Int64
	w.Run = func(ctx context.Context, job *Job) error {
		runs.Add(1)
		return p.run(ctx, db, job)
	}
	require.NoError(t, p.enqueue(t.Context(), w.Queue, &jobs, 20))
	wait := start(t, w, 4)
	for i := range restarts {
		require.NoError(t, p.enqueue(t.Context(), w.Queue, &jobs, 20))
		load := runs.Load()
		require.NoError(t, retry.Do(t.Context(), retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(time.Millisecond)}, func(context.Context) error {
			if runs.Load() < load+10 {
				return errors.New("not under load yet")
			}
			return nil
		}))
		if i%2 == 0 {
			c.Stop()
		} else {
			c.Crash()
		}
		c.Start()
	}
	require.NoError(t, wait())
	verify(t, db, int(jobs.Load()))
	report(t, db, began, fmt.Sprintf("%d restarts", restarts))
}
