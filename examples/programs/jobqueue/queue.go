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

// A job is PENDING until a worker claims it and RUNNING while it has a lease;
// then DONE, or PENDING again, or FAILED. The FAILED jobs are the dead letters.
// Times are microseconds since 1970 by the database's clock, so that workers
// need not agree on one.
const schema = `
CREATE TABLE IF NOT EXISTS jobs (
	id           TEXT PRIMARY KEY,
	payload      TEXT NOT NULL,
	max_attempts BIGINT NOT NULL, -- its own limit, capped by the policy's; 0: none
	status       TEXT NOT NULL,
	attempts     BIGINT NOT NULL, -- claims: a worker that dies has used one up
	requeues     BIGINT NOT NULL, -- how often it came back from the dead letters
	run_at       BIGINT,          -- the earliest time; NULL: now, whatever the clock says
	lease_until  BIGINT,          -- RUNNING: when it may be taken from its worker
	first_run_at BIGINT,
	ended_at     BIGINT,          -- when an attempt last ended
	classes      TEXT,            -- how many attempts failed with an error of each class, as JSON
	last_error   TEXT,
	dead_letter  TEXT             -- FAILED: why, a retryjob.DeadLetter as JSON
);
CREATE INDEX IF NOT EXISTS jobs_due ON jobs (COALESCE(lease_until, run_at), id)
	WHERE status IN ('PENDING', 'RUNNING')`

// The claim is one statement: it takes the job that has been due the longest, or
// else one without a time, counts the attempt and returns the count. So a worker
// that dies has used up an attempt.
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
RETURNING id, payload, max_attempts, attempts, requeues, {now}, first_run_at, COALESCE(classes, '{}')`

// A Queue keeps jobs in a table. It makes no decisions: the worker does, with
// retryjob.Run, and Requeue asks the policy with retrysql.Eligible.
type Queue struct {
	db     *sql.DB
	policy retry.Policy
	tick   time.Duration     // of the database's clock
	sql    *strings.Replacer // fills in {now}, {lock} and {eligible}
}

// NewQueue returns the queue in db, whose jobs are retried by policy.
func NewQueue(db *sql.DB, d dialect, policy retry.Policy) (*Queue, error) {
	eligible, err := retrysql.Eligible(policy, retrysql.Columns{Attempts: "attempts", MaxAttempts: "max_attempts"})
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

// Create creates the table if there is none. Call it before the workers start, not
// from each of them: PostgreSQL may refuse one of two calls at the same time.
func (q *Queue) Create(ctx context.Context) error {
	_, err := q.exec(ctx, schema)
	return err
}

// exec executes a statement outside of any lease, so it may wait for a locked file
// until ctx ends.
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
// leaves the limit to the policy. If there is already a job with that id, it stays
// unchanged, so that Enqueue can be repeated when its answer was lost.
func (q *Queue) Enqueue(ctx context.Context, id, payload string, maxAttempts int, delay time.Duration) error {
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
	Attempts    int       // including this one
	ClaimedAt   time.Time // by the database's clock, like all times
	FirstRunAt  time.Time // when its first attempt was claimed
	Classes     map[string]int

	requeues int
}

// errWorkerDied is the error of an attempt whose lease has expired.
var errWorkerDied = errors.New("the lease expired: the worker died or lost the database")

// Claim takes a job that is due, for the time of lease. It returns nil if none is
// due. The job may have no attempts left, because its worker died in the last one.
func (q *Queue) Claim(ctx context.Context, lease time.Duration) (*Job, error) {
	var j Job
	var now, first int64
	var classes []byte
	err := q.db.QueryRowContext(ctx, q.sql.Replace(claim), lease.Microseconds(), errWorkerDied.Error()).
		Scan(&j.ID, &j.Payload, &j.MaxAttempts, &j.Attempts, &j.requeues, &now, &first, &classes)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j.ClaimedAt, j.FirstRunAt = time.UnixMicro(now), time.UnixMicro(first)
	_ = json.Unmarshal(classes, &j.Classes) // what cannot be read is not known
	return &j, nil
}

// ErrLost means that a job no longer belongs to its worker: the lease expired and
// another worker has claimed it, or an earlier write whose answer was lost has
// ended it.
var ErrLost = errors.New("jobqueue: the claim is lost")

// Renew extends the lease of a claimed job, which then ends after lease from now.
func (q *Queue) Renew(ctx context.Context, j *Job, lease time.Duration) error {
	return q.update(ctx, j, "lease_until = {now} + $1", lease.Microseconds())
}

// Finish ends a claimed job that succeeded.
func (q *Queue) Finish(ctx context.Context, j *Job) error {
	return q.update(ctx, j, "status = 'DONE', lease_until = NULL, ended_at = {now}")
}

// Fail gives a claimed job back, to run again after delay, with the failures of each
// class so far.
func (q *Queue) Fail(ctx context.Context, j *Job, failure error, classes map[string]int, delay time.Duration) error {
	return q.update(ctx, j, "status = 'PENDING', last_error = $1, classes = $2, run_at = {now} + CAST($3 AS BIGINT), lease_until = NULL, ended_at = {now}",
		text(failure), jsonOf(classes), q.wait(delay))
}

// Bury moves a claimed job to the dead letters. If it did not run, the claim is not
// counted as an attempt, and the error of the attempt before it stays.
func (q *Queue) Bury(ctx context.Context, j *Job, ran bool, failure error, letter retryjob.DeadLetter) error {
	const buried = "status = 'FAILED', dead_letter = $1, lease_until = NULL, ended_at = {now}"
	if !ran {
		return q.update(ctx, j, buried+", attempts = attempts - 1", jsonOf(letter))
	}
	return q.update(ctx, j, buried+", last_error = $2", jsonOf(letter), text(failure))
}

// jsonOf returns counts or a dead letter as text for a column.
func jsonOf(value any) string {
	text, _ := json.Marshal(value) // neither has anything that JSON has no form for
	return string(text)
}

// wait returns a delay in microseconds, or NULL for none, so that a job without a
// delay runs even if the clock is set back. The clock may be nearly a tick behind,
// so it adds one tick to keep the job from running early.
func (q *Queue) wait(delay time.Duration) (us sql.NullInt64) {
	if delay > 0 {
		us = sql.NullInt64{Int64: (delay + q.tick + time.Microsecond - 1).Microseconds(), Valid: true}
	}
	return us
}

// update writes to a claimed job, if the claim is still this one.
func (q *Queue) update(ctx context.Context, j *Job, set string, args ...any) error {
	n := len(args)
	query := fmt.Sprintf("UPDATE jobs SET %s WHERE id = $%d AND attempts = $%d AND requeues = $%d AND status = 'RUNNING'", set, n+1, n+2, n+3)
	result, err := q.db.ExecContext(ctx, q.sql.Replace(query), append(args, j.ID, j.Attempts, j.requeues)...)
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
	err = q.db.QueryRowContext(ctx, "SELECT count(*) FROM jobs WHERE status IN ('PENDING', 'RUNNING')").Scan(&n)
	return n, err
}

// A DeadLetter is a job that will not run again by itself.
type DeadLetter struct {
	retryjob.DeadLetter
	ID, Payload string

	requeues int
}

// DeadLetters returns the dead letters in the order in which their last attempts
// ended. One that an operator wrote by hand may have no Reason.
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

// back makes a dead letter a job again. The count of requeues distinguishes a worker
// that still holds the first claim from before from one that holds the first claim
// after it.
const back = "status = 'PENDING', first_run_at = NULL, dead_letter = NULL, last_error = NULL, requeues = requeues + 1"

// anew is back with all attempts.
const anew = back + ", attempts = 0, classes = NULL"

// Redrive makes the dead letters that o picks runnable again, with all their
// attempts, each at its moment in o.Window. Each goes back in one statement, if it is
// still a dead letter: if Redrive is killed or fails, or two run at once, no job is
// lost and none goes back twice.
func (q *Queue) Redrive(ctx context.Context, o retryjob.RedriveOptions) (retryjob.RedriveResult, error) {
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
			changed, err := q.change(ctx, "UPDATE jobs SET "+anew+", run_at = {now} + CAST($1 AS BIGINT) WHERE id = $2 AND requeues = $3 AND status = 'FAILED'",
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

// change executes a statement and reports whether there was a row for it.
func (q *Queue) change(ctx context.Context, query string, args ...any) (bool, error) {
	result, err := q.exec(ctx, query, args...)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows > 0, err
}

// Requeue makes a dead letter runnable now, with the attempts that it has left
// or, if reset, with all of them. MaxElapsed starts from zero in both cases. If an
// answer was lost, a second Requeue reports that the job is not a dead letter.
func (q *Queue) Requeue(ctx context.Context, id string, reset bool) error {
	set, where := back, " AND {eligible}"
	if reset {
		set, where = anew, ""
	}
	changed, err := q.change(ctx, "UPDATE jobs SET "+set+", run_at = NULL WHERE id = $1 AND status = 'FAILED'"+where, id)
	if err == nil && !changed {
		err = fmt.Errorf("jobqueue: %q is not a dead letter, or has no attempts left: requeue it with reset", id)
	}
	return err
}
