package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrysql"
)

// The status of a job is PENDING until a worker claims it, and RUNNING while it has a lease. Then
// the status is DONE, PENDING again, or FAILED. The FAILED jobs are the dead letters. Times are
// microseconds since 1970. All times come from the database's clock, because the clocks of the
// workers may differ.
const schema = `
CREATE TABLE IF NOT EXISTS jobs (
	id           TEXT PRIMARY KEY,
	payload      TEXT NOT NULL,
	max_attempts BIGINT NOT NULL, -- the limit of the job, at most the limit of the policy; 0: none
	status       TEXT NOT NULL,
	attempts     BIGINT NOT NULL, -- claims, so the attempt of a worker that dies counts
	requeues     BIGINT NOT NULL, -- how often the job was a dead letter and was requeued
	run_at       BIGINT,          -- the earliest time of the next attempt; NULL: now
	lease_until  BIGINT,          -- RUNNING: when another worker may claim the job
	first_run_at BIGINT,
	ended_at     BIGINT,          -- when the last attempt ended
	classes      TEXT,            -- how many attempts failed with an error of each class: JSON
	last_error   TEXT,
	dead_letter  TEXT             -- FAILED: a retryjob.DeadLetter as JSON
);
CREATE INDEX IF NOT EXISTS jobs_due ON jobs (COALESCE(lease_until, run_at), id)
	WHERE status IN ('PENDING', 'RUNNING')`

// claim is the statement that claims a job. It takes the job that has been due for the longest
// time, or else a job whose run_at is NULL. It counts the attempt and returns the count. So the
// attempt of a worker that dies counts.
const claim = `
UPDATE jobs SET
	status       = 'RUNNING',
	attempts     = attempts + 1,
	lease_until  = {now} + $1,
	last_error   = CASE WHEN status = 'RUNNING' THEN $2 ELSE last_error END,
	ended_at     = CASE WHEN status = 'RUNNING' THEN {now} ELSE ended_at END,
	first_run_at = COALESCE(first_run_at, {now})
WHERE id = COALESCE((
	SELECT id FROM jobs
	WHERE status IN ('PENDING', 'RUNNING') AND COALESCE(lease_until, run_at) <= {now}
	ORDER BY COALESCE(lease_until, run_at), id LIMIT 1 {lock}
), (
	SELECT id FROM jobs
	WHERE status IN ('PENDING', 'RUNNING') AND COALESCE(lease_until, run_at) IS NULL
	ORDER BY id LIMIT 1 {lock}
))
RETURNING id, payload, max_attempts, attempts, requeues, {now}, first_run_at,
	COALESCE(classes, '{}')`

// A Queue keeps jobs in a table. It does not decide about retries: the worker does, with
// retryjob.Run. Requeue asks the policy with retrysql.Eligible.
type Queue struct {
	db     *sql.DB
	policy retry.Policy
	tick   time.Duration     // the resolution of the database's clock
	sql    *strings.Replacer // fills in {now}, {lock} and {eligible}
}

// NewQueue returns the queue in db. Its jobs are retried according to policy.
func NewQueue(db *sql.DB, d dialect, policy retry.Policy) (*Queue, error) {
	columns := retrysql.Columns{Attempts: "attempts", MaxAttempts: "max_attempts"}
	eligible, err := retrysql.Eligible(policy, columns)
	if err != nil {
		return nil, err
	}
	return &Queue{
		db:     db,
		policy: policy,
		tick:   d.tick,
		sql:    strings.NewReplacer("{now}", d.now, "{lock}", d.lock, "{eligible}", eligible),
	}, nil
}

// Create creates the table if it does not exist. Call it once before the workers start: PostgreSQL
// may refuse one of two calls at the same time.
func (q *Queue) Create(ctx context.Context) error {
	_, err := q.exec(ctx, schema)
	return err
}

// exec executes a statement that holds no lease, so it may wait for a locked file until ctx ends.
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

// Enqueue adds a job that runs after delay at the earliest. If maxAttempts is 0, only the policy
// limits the attempts. A job with the same id is unchanged, so a program may call Enqueue again
// if the answer of the database was lost.
func (q *Queue) Enqueue(
	ctx context.Context, id, payload string, maxAttempts int, delay time.Duration,
) error {
	_, err := q.exec(ctx, `
		INSERT INTO jobs (id, payload, max_attempts, status, attempts, requeues, run_at)
		VALUES ($1, $2, $3, 'PENDING', 0, 0, {now} + CAST($4 AS BIGINT))
		ON CONFLICT (id) DO NOTHING`, id, payload, maxAttempts, q.wait(delay))
	return err
}

// A Job is a claimed job.
type Job struct {
	ID, Payload string
	MaxAttempts int
	Attempts    int       // the attempts so far, with this attempt
	ClaimedAt   time.Time // on the database's clock, as all times
	FirstRunAt  time.Time // when a worker claimed the first attempt
	Classes     map[string]int

	requeues int
}

// errWorkerDied is the error of an attempt whose lease has expired.
var errWorkerDied = errors.New("the lease expired: the worker died or lost the database")

// Claim claims a job that is due, for the time of lease. It returns nil if no job is due. The job
// may have no attempts left, because its worker died in the last attempt.
func (q *Queue) Claim(ctx context.Context, lease time.Duration) (*Job, error) {
	var j Job
	var now, first int64
	var classes []byte
	row := q.db.QueryRowContext(ctx, q.sql.Replace(claim),
		lease.Microseconds(), errWorkerDied.Error())
	err := row.Scan(&j.ID, &j.Payload, &j.MaxAttempts, &j.Attempts, &j.requeues,
		&now, &first, &classes)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j.ClaimedAt, j.FirstRunAt = time.UnixMicro(now), time.UnixMicro(first)
	_ = json.Unmarshal(classes, &j.Classes) // invalid JSON counts as no failures
	return &j, nil
}

// ErrLost means that a worker no longer holds the claim of a job. Either the lease expired and
// another worker has claimed the job, or the worker has written the result already and the
// answer of the database was lost.
var ErrLost = errors.New("jobqueue: the claim is lost")

// Renew extends the lease of a claimed job. The lease then ends a time of lease from now.
func (q *Queue) Renew(ctx context.Context, j *Job, lease time.Duration) error {
	return q.update(ctx, j, "lease_until = {now} + $1", lease.Microseconds())
}

// Finish ends a claimed job that succeeded.
func (q *Queue) Finish(ctx context.Context, j *Job) error {
	return q.update(ctx, j, "status = 'DONE', lease_until = NULL, ended_at = {now}")
}

// Fail gives a claimed job back, to run again after delay. classes is how many attempts failed
// with an error of each class.
func (q *Queue) Fail(
	ctx context.Context, j *Job, failure error, classes map[string]int, delay time.Duration,
) error {
	return q.update(ctx, j, "status = 'PENDING', last_error = $1, classes = $2, "+
		"run_at = {now} + CAST($3 AS BIGINT), lease_until = NULL, ended_at = {now}",
		text(failure), jsonOf(classes), q.wait(delay))
}

// Bury makes a claimed job a dead letter. If the job did not run, the claim does not count as an
// attempt, and last_error is unchanged.
func (q *Queue) Bury(
	ctx context.Context, j *Job, ran bool, failure error, letter retryjob.DeadLetter,
) error {
	const buried = "status = 'FAILED', dead_letter = $1, lease_until = NULL, ended_at = {now}"
	if !ran {
		return q.update(ctx, j, buried+", attempts = attempts - 1", jsonOf(letter))
	}
	return q.update(ctx, j, buried+", last_error = $2", jsonOf(letter), text(failure))
}

// jsonOf returns counts or a dead letter as text for a column.
func jsonOf(value any) string {
	text, _ := json.Marshal(value) // cannot fail for these types
	return string(text)
}

// wait returns a delay in microseconds. It returns NULL for no delay, so that a job without a
// delay runs even if the clock is set back. The clock may be slow by up to a tick, so wait adds a
// tick: no job runs early.
func (q *Queue) wait(delay time.Duration) (us sql.NullInt64) {
	if delay > 0 {
		us = sql.NullInt64{Int64: (delay + q.tick + time.Microsecond - 1).Microseconds(), Valid: true}
	}
	return us
}

// update writes to a claimed job. It returns ErrLost if the worker no longer holds the claim.
func (q *Queue) update(ctx context.Context, j *Job, set string, args ...any) error {
	n := len(args)
	query := fmt.Sprintf("UPDATE jobs SET %s WHERE id = $%d AND attempts = $%d "+
		"AND requeues = $%d AND status = 'RUNNING'", set, n+1, n+2, n+3)
	args = append(args, j.ID, j.Attempts, j.requeues)
	result, err := q.db.ExecContext(ctx, q.sql.Replace(query), args...)
	if err == nil {
		var rows int64
		if rows, err = result.RowsAffected(); err == nil && rows == 0 {
			err = ErrLost
		}
	}
	if err != nil {
		return fmt.Errorf("job %s, attempt %d: %w", j.ID, j.Attempts, err)
	}
	return nil
}

// Open returns how many jobs are neither done nor dead letters.
func (q *Queue) Open(ctx context.Context) (n int, err error) {
	const query = "SELECT count(*) FROM jobs WHERE status IN ('PENDING', 'RUNNING')"
	err = q.db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

// A DeadLetter is a job that will not run again by itself.
type DeadLetter struct {
	retryjob.DeadLetter
	ID, Payload string

	requeues int
}

// DeadLetters returns the dead letters, in the order in which their last attempts ended. A dead
// letter that an operator wrote by hand may have no Reason.
func (q *Queue) DeadLetters(ctx context.Context) ([]DeadLetter, error) {
	rows, err := q.db.QueryContext(ctx, `
		SELECT id, payload, requeues, COALESCE(dead_letter, '') FROM jobs
		WHERE status = 'FAILED' ORDER BY ended_at, id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var letters []DeadLetter
	for rows.Next() {
		var l DeadLetter
		var letter []byte
		if err := rows.Scan(&l.ID, &l.Payload, &l.requeues, &letter); err != nil {
			return nil, err
		}
		if json.Unmarshal(letter, &l.DeadLetter) != nil {
			l.Key = l.ID
		}
		letters = append(letters, l)
	}
	return letters, rows.Err()
}

// back makes a dead letter a job again. requeues is part of a claim: a worker that claimed the
// first attempt before the requeue must not write the result of the first attempt after it.
const back = "status = 'PENDING', first_run_at = NULL, dead_letter = NULL, " +
	"last_error = NULL, requeues = requeues + 1"

// anew makes a dead letter a job that has all its attempts again.
const anew = back + ", attempts = 0, classes = NULL"

// Redrive makes the dead letters that o.Filter picks runnable again, with all their attempts.
// The jobs start at different times within o.Window. One statement moves a job, if the job is
// still a dead letter. So no job is lost or moved twice if Redrive fails or is killed, or if two
// calls run at the same time.
func (q *Queue) Redrive(
	ctx context.Context, o retryjob.RedriveOptions,
) (retryjob.RedriveResult, error) {
	var result retryjob.RedriveResult
	began := time.Now()
	letters, err := q.DeadLetters(ctx)
	if err != nil {
		return result, err
	}
	for i, l := range letters {
		moved := o.Filter == nil || o.Filter(l.DeadLetter)
		if moved && !o.DryRun {
			delay := time.Until(began.Add(retryjob.Spread(l.Key, o.Window)))
			changed, err := q.change(ctx, "UPDATE jobs SET "+anew+", "+
				"run_at = {now} + CAST($1 AS BIGINT) "+
				"WHERE id = $2 AND requeues = $3 AND status = 'FAILED'",
				q.wait(delay), l.ID, l.requeues)
			if err != nil {
				return result, err
			}
			moved = changed
		}
		result.Found++
		if moved {
			result.Moved++
		} else {
			result.Skipped++
		}
		if o.OnProgress != nil {
			o.OnProgress(i+1, len(letters))
		}
	}
	return result, nil
}

// change executes a statement, and reports whether it changed a row.
func (q *Queue) change(ctx context.Context, query string, args ...any) (bool, error) {
	result, err := q.exec(ctx, query, args...)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows > 0, err
}

// Requeue makes a dead letter runnable now, with its remaining attempts. If reset is true, the
// job has all its attempts again. MaxElapsed starts from zero in both cases. If the answer of the
// database was lost, a second Requeue returns the error that the job is not a dead letter.
func (q *Queue) Requeue(ctx context.Context, id string, reset bool) error {
	set, where := back, " AND {eligible}"
	if reset {
		set, where = anew, ""
	}
	query := "UPDATE jobs SET " + set + ", run_at = NULL WHERE id = $1 AND status = 'FAILED'" + where
	changed, err := q.change(ctx, query, id)
	if err == nil && !changed {
		err = fmt.Errorf("jobqueue: %q is not a dead letter, or has no attempts left: "+
			"requeue it with reset", id)
	}
	return err
}
