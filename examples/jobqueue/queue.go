package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// A job is PENDING until a worker claims it and RUNNING while it has a lease;
// then DONE, or PENDING again, or FAILED. The FAILED jobs are the dead letters.
// Times are microseconds since 1970 by the database's clock, so that workers
// need not agree on one.
const schema = `
CREATE TABLE IF NOT EXISTS jobs (
	id           TEXT PRIMARY KEY,
	payload      TEXT NOT NULL,
	max_attempts BIGINT NOT NULL, -- its own limit, which the policy's caps; 0: none
	status       TEXT NOT NULL,
	attempts     BIGINT NOT NULL, -- claims: a worker that dies has used one up
	requeues     BIGINT NOT NULL, -- how often it came back from the dead letters
	run_at       BIGINT,          -- not before; NULL: now
	lease_until  BIGINT,          -- RUNNING: when it may be taken from its worker
	first_run_at BIGINT,
	ended_at     BIGINT,          -- when an attempt last ended
	last_error   TEXT,
	reason       TEXT             -- FAILED: why
);
CREATE INDEX IF NOT EXISTS jobs_due ON jobs (COALESCE(lease_until, run_at, 0), id)
	WHERE status IN ('PENDING', 'RUNNING')`

// The claim is one statement: it takes the job that is due longest, counts the
// attempt and returns the count. A job that may not run again, for its worker
// died in the last attempt it had, goes to the dead letters instead.
const claim = `
UPDATE jobs SET
	status       = CASE WHEN {eligible} THEN 'RUNNING' ELSE 'FAILED' END,
	attempts     = CASE WHEN {eligible} THEN attempts + 1 ELSE attempts END,
	lease_until  = CASE WHEN {eligible} THEN {now} + $1 END,
	reason       = CASE WHEN NOT {eligible} THEN $2 END,
	last_error   = CASE WHEN status = 'RUNNING' THEN $3 ELSE last_error END,
	ended_at     = CASE WHEN status = 'RUNNING' THEN {now} ELSE ended_at END,
	first_run_at = COALESCE(first_run_at, {now})
WHERE id = (
	SELECT id FROM jobs
	WHERE status IN ('PENDING', 'RUNNING') AND COALESCE(lease_until, run_at, 0) <= {now}
	ORDER BY COALESCE(lease_until, run_at, 0), id LIMIT 1 {lock}
)
RETURNING id, payload, max_attempts, status, attempts, requeues, {now}, first_run_at, last_error`

// A Queue keeps jobs in a table. It decides nothing: the worker asks the
// policy, and the claim asks it by retrysql.Eligible.
type Queue struct {
	db     *sql.DB
	policy retry.Policy
	sql    *strings.Replacer // fills in {now}, {lock} and {eligible}
	usedUp retry.Reason      // why the claim refuses a job
}

// NewQueue returns the queue in db, whose jobs are retried by policy.
func NewQueue(db *sql.DB, d dialect, policy retry.Policy) (*Queue, error) {
	eligible, err := retrysql.Eligible(policy, retrysql.Columns{Attempts: "attempts", MaxAttempts: "max_attempts"})
	if err != nil {
		return nil, err
	}
	if policy.AttemptTimeout > 0 || policy.Budget != nil {
		return nil, errors.New("jobqueue: the policy has an AttemptTimeout or a Budget, which this queue does not know: bound the time in the job, leave the Budget nil")
	}
	return &Queue{
		db:     db,
		policy: policy,
		sql:    strings.NewReplacer("{now}", d.now, "{lock}", d.lock, "{eligible}", eligible),
		usedUp: policy.ForJob(1).Next(retry.Attempt{Number: 1}).Reason,
	}, nil
}

// Create creates the table where there is none. Call it before the workers
// start, not from each: PostgreSQL may refuse one of two that come at once.
func (q *Queue) Create(ctx context.Context) error {
	_, err := q.exec(ctx, schema)
	return err
}

// exec executes a statement for which no lease is waiting: a file that is
// locked is waited for until ctx ends.
func (q *Queue) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return retry.DoValue(ctx, retry.Policy{
		MaxRetries: retry.Unlimited,
		Backoff:    retry.Fixed(20 * time.Millisecond),
		Jitter:     retry.FullJitter,
		RetryIf:    busy,
	}, func(ctx context.Context) (sql.Result, error) {
		return q.db.ExecContext(ctx, q.sql.Replace(query), args...)
	})
}

// Enqueue adds a job that runs after delay at the earliest. A maxAttempts of 0
// leaves the limit to the policy. A job of that id that is there already stays
// as it is, so that Enqueue can be repeated when its answer was lost.
func (q *Queue) Enqueue(ctx context.Context, id, payload string, maxAttempts int, delay time.Duration) error {
	_, err := q.exec(ctx, `
		INSERT INTO jobs (id, payload, max_attempts, status, attempts, requeues, run_at)
		VALUES ($1, $2, $3, 'PENDING', 0, 0, {now} + $4)
		ON CONFLICT (id) DO NOTHING`, id, payload, maxAttempts, delay.Microseconds())
	return err
}

// A Job is a job as it was claimed.
type Job struct {
	ID, Payload string
	MaxAttempts int
	Attempts    int       // this one included
	ClaimedAt   time.Time // by the database's clock, as all times
	FirstRunAt  time.Time // when its first attempt was claimed

	status    string
	requeues  int
	lastError sql.NullString
}

// errWorkerDied is what an attempt failed with whose lease has expired.
var errWorkerDied = errors.New("the lease expired: the worker died or lost the database")

// Claim takes the job that is due longest for lease, or reports that none is
// by returning nil. A job that it returns as FAILED has gone to the dead
// letters and must not run.
func (q *Queue) Claim(ctx context.Context, lease time.Duration) (*Job, error) {
	var j Job
	var now, first int64
	err := q.db.QueryRowContext(ctx, q.sql.Replace(claim), lease.Microseconds(), q.usedUp.String(), errWorkerDied.Error()).
		Scan(&j.ID, &j.Payload, &j.MaxAttempts, &j.status, &j.Attempts, &j.requeues, &now, &first, &j.lastError)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j.ClaimedAt, j.FirstRunAt = time.UnixMicro(now), time.UnixMicro(first)
	return &j, nil
}

// ErrLost says that a job is no longer its worker's: the lease expired and the
// claim is another's, or an earlier write whose answer was lost has ended it.
var ErrLost = errors.New("jobqueue: the claim is lost")

// Renew lets the lease of a claimed job end after lease from now.
func (q *Queue) Renew(ctx context.Context, j *Job, lease time.Duration) error {
	_, err := q.update(ctx, j, "lease_until = {now} + $1", lease.Microseconds())
	return err
}

// Finish ends a claimed job that succeeded. Like Fail and Bury it returns when
// that was.
func (q *Queue) Finish(ctx context.Context, j *Job) (time.Time, error) {
	return q.update(ctx, j, "status = 'DONE', lease_until = NULL, ended_at = {now}")
}

// Fail gives a claimed job back, to run again after delay.
func (q *Queue) Fail(ctx context.Context, j *Job, failure error, delay time.Duration) (time.Time, error) {
	return q.update(ctx, j, "status = 'PENDING', last_error = $1, run_at = {now} + $2, lease_until = NULL, ended_at = {now}",
		text(failure), delay.Microseconds())
}

// Bury moves a claimed job to the dead letters.
func (q *Queue) Bury(ctx context.Context, j *Job, failure error, reason retry.Reason) (time.Time, error) {
	return q.update(ctx, j, "status = 'FAILED', last_error = $1, reason = $2, lease_until = NULL, ended_at = {now}",
		text(failure), reason.String())
}

// update writes to a claimed job, if the claim is still this one.
func (q *Queue) update(ctx context.Context, j *Job, set string, args ...any) (time.Time, error) {
	n := len(args)
	query := fmt.Sprintf("UPDATE jobs SET %s WHERE id = $%d AND attempts = $%d AND requeues = $%d AND status = 'RUNNING' RETURNING {now}", set, n+1, n+2, n+3)
	var now int64
	err := q.db.QueryRowContext(ctx, q.sql.Replace(query), append(args, j.ID, j.Attempts, j.requeues)...).Scan(&now)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrLost
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("job %s, attempt %d: %w", j.ID, j.Attempts, err)
	}
	return time.UnixMicro(now), nil
}

// Open returns how many jobs are neither done nor dead letters.
func (q *Queue) Open(ctx context.Context) (n int, err error) {
	err = q.db.QueryRowContext(ctx, "SELECT count(*) FROM jobs WHERE status IN ('PENDING', 'RUNNING')").Scan(&n)
	return n, err
}

// A DeadLetter is a job that will not run again by itself.
type DeadLetter struct {
	ID, Payload string
	Reason      retry.Reason
	Attempts    int
	Error       string // what the last attempt failed with
}

// DeadLetters returns the dead letters in the order in which their last
// attempts ended.
func (q *Queue) DeadLetters(ctx context.Context) ([]DeadLetter, error) {
	rows, err := q.db.QueryContext(ctx, `
		SELECT id, payload, reason, attempts, COALESCE(last_error, '') FROM jobs
		WHERE status = 'FAILED' ORDER BY ended_at, id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var letters []DeadLetter
	for rows.Next() {
		var l DeadLetter
		var reason string
		if err := rows.Scan(&l.ID, &l.Payload, &reason, &l.Attempts, &l.Error); err != nil {
			return nil, err
		}
		if err := l.Reason.UnmarshalText([]byte(reason)); err != nil {
			return nil, fmt.Errorf("job %s: %w", l.ID, err)
		}
		letters = append(letters, l)
	}
	return letters, rows.Err()
}

// Requeue makes a dead letter runnable now, with the attempts that it has left
// or, if reset, with all of them; MaxElapsed counts anew in both cases. The
// count of requeues tells a worker that still holds the first claim of an
// earlier life from one that holds the first claim of this one. If an answer
// was lost, Requeue once more says that the job is no dead letter.
func (q *Queue) Requeue(ctx context.Context, id string, reset bool) error {
	set, where := "", " AND {eligible}"
	if reset {
		set, where = ", attempts = 0", ""
	}
	result, err := q.exec(ctx, `
		UPDATE jobs SET status = 'PENDING', run_at = NULL, first_run_at = NULL, reason = NULL, last_error = NULL, requeues = requeues + 1`+set+`
		WHERE id = $1 AND status = 'FAILED'`+where, id)
	if err != nil {
		return err
	}
	switch n, err := result.RowsAffected(); {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("jobqueue: %q is no dead letter, or has no attempt left: then requeue it with reset", id)
	default:
		return nil
	}
}
