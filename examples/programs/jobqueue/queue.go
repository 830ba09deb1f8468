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

// The status of a job is PENDING until a worker claims the job, and RUNNING while the worker has a
// lease. After the attempt the status is DONE, PENDING or FAILED. Jobs with the status FAILED are
// the dead letters. Times are in microseconds since 1970. All times come from the database's clock,
// because the clocks of the workers may differ.
const schema = `
CREATE TABLE IF NOT EXISTS jobs (
	id           TEXT PRIMARY KEY,
	payload      TEXT NOT NULL,
	max_attempts BIGINT NOT NULL, -- the job's own limit, in addition to the policy's limit; 0: none
	status       TEXT NOT NULL,
	attempts     BIGINT NOT NULL, -- incremented by each claim, before the job runs
	requeues     BIGINT NOT NULL, -- incremented when attempts is lowered, so a claim is never repeated
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

// The constant `claim` is the statement that claims a job. It claims the job that has been due for
// the longest time. If no such job is due, it claims a job whose run_at is NULL. It increments the
// column `attempts` before the attempt is made, so an attempt counts even if its worker dies.
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

// A Queue stores jobs in a table. The worker decides about retries, with retryjob.Run and the
// policy of the Queue. The Queue itself uses the policy only in Requeue.
type Queue struct {
	db     *sql.DB
	policy retry.Policy
	tick   time.Duration     // the resolution of the database's clock
	sql    *strings.Replacer // fills in {now}, {lock} and {eligible}
}

// NewQueue returns the queue in the database db. The parameter `policy` decides about the retries
// of its jobs.
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

// Create creates the table if it does not exist. Call Create once, before the workers start. Do not
// call it twice at the same time, because PostgreSQL may then refuse one of the calls.
func (q *Queue) Create(ctx context.Context) error {
	_, err := q.exec(ctx, schema)
	return err
}

// The method `exec` executes a statement. It may wait for a locked SQLite file until ctx ends, so
// do not use it for a statement that must end before a lease ends.
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

// Enqueue adds a job. The job does not run before the time `delay` has passed. If maxAttempts is 0,
// only the policy limits the attempts. If there is a job with this id, Enqueue does nothing. So a
// program may call Enqueue again if the answer of the database was lost.
func (q *Queue) Enqueue(
	ctx context.Context, id, payload string, maxAttempts int, delay time.Duration,
) error {
	_, err := q.exec(ctx, `
		INSERT INTO jobs (id, payload, max_attempts, status, attempts, requeues, run_at)
		VALUES ($1, $2, $3, 'PENDING', 0, 0, {now} + CAST($4 AS BIGINT))
		ON CONFLICT (id) DO NOTHING`, id, payload, maxAttempts, q.wait(delay))
	return err
}

// A Job is a job that a worker has claimed.
type Job struct {
	ID, Payload string
	MaxAttempts int
	Attempts    int       // the number of this attempt
	ClaimedAt   time.Time // when a worker claimed the job, by the clock of the database
	FirstRunAt  time.Time // when a worker first claimed the job
	Classes     map[string]int

	requeues int
}

// Claim claims a job that is due. The claim ends when the time `lease` has passed. If no job is
// due, Claim returns nil. The returned job may have no attempts left, because its worker may have
// died in the last attempt.
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
	_ = json.Unmarshal(classes, &j.Classes) // invalid JSON: earlier failures count for no class
	return &j, nil
}

// ErrLost means that a worker no longer holds the claim of a job. The lease may have expired, so
// that another worker has claimed the job. Or this worker may already have written the result, but
// the answer of the database was lost.
var ErrLost = errors.New("jobqueue: this worker no longer holds the claim of the job")

// Renew extends the claim of a job. The claim then lasts for the time `lease` from now on.
func (q *Queue) Renew(ctx context.Context, j *Job, lease time.Duration) error {
	return q.update(ctx, j, "lease_until = {now} + $1", lease.Microseconds())
}

// Finish sets a claimed job to DONE.
func (q *Queue) Finish(ctx context.Context, j *Job) error {
	return q.update(ctx, j, "status = 'DONE', lease_until = NULL, ended_at = {now}")
}

// Fail returns a claimed job to the queue. The job runs again when the time `delay` has passed. The
// map `classes` maps the name of each error class to the number of failed attempts of this class.
func (q *Queue) Fail(
	ctx context.Context, j *Job, failure error, classes map[string]int, delay time.Duration,
) error {
	return q.update(ctx, j, "status = 'PENDING', last_error = $1, classes = $2, "+
		"run_at = {now} + CAST($3 AS BIGINT), lease_until = NULL, ended_at = {now}",
		text(failure), jsonOf(classes), q.wait(delay))
}

// GiveBack returns a claimed job to the queue without counting the attempt. The job may run again
// now. GiveBack increments the column `requeues`, because the next claim has the same number of
// attempts. Otherwise a GiveBack that is executed twice could end the claim of another worker.
func (q *Queue) GiveBack(ctx context.Context, j *Job, interrupted error) error {
	return q.update(ctx, j, "status = 'PENDING', last_error = $1, attempts = attempts - 1, "+
		"requeues = requeues + 1, run_at = NULL, lease_until = NULL, ended_at = {now}",
		text(interrupted))
}

// Bury makes a claimed job a dead letter. If `ran` is false, the job did not run: the claim does
// not count as an attempt, and the column last_error is unchanged.
func (q *Queue) Bury(
	ctx context.Context, j *Job, ran bool, failure error, letter retryjob.DeadLetter,
) error {
	const buried = "status = 'FAILED', dead_letter = $1, lease_until = NULL, ended_at = {now}"
	if !ran {
		return q.update(ctx, j, buried+", attempts = attempts - 1", jsonOf(letter))
	}
	return q.update(ctx, j, buried+", last_error = $2", jsonOf(letter), text(failure))
}

// jsonOf returns the number of failures of each error class, or a dead letter, as JSON text.
func jsonOf(value any) string {
	text, _ := json.Marshal(value) // Marshal cannot fail for these types
	return string(text)
}

// The function `text` returns the text of an error in a form that PostgreSQL can store. PostgreSQL
// refuses a NUL and text that is not UTF-8. A job whose error cannot be stored would never end.
func text(err error) string {
	return strings.ToValidUTF8(strings.ReplaceAll(fmt.Sprint(err), "\x00", "\uFFFD"), "\uFFFD")
}

// The method `wait` returns a delay in microseconds. If the delay is 0 or below, it returns NULL,
// so that a job without a delay runs even if the clock is set back. The method adds one tick of the
// clock, because the clock may be slow by up to a tick, and a job must not run early.
func (q *Queue) wait(delay time.Duration) (us sql.NullInt64) {
	if delay > 0 {
		us = sql.NullInt64{Int64: (delay + q.tick + time.Microsecond - 1).Microseconds(), Valid: true}
	}
	return us
}

// The method `update` changes the row of a claimed job. It returns ErrLost if the worker no longer
// holds the claim.
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

// The method `change` executes a statement. It reports whether the statement has changed a row.
func (q *Queue) change(ctx context.Context, query string, args ...any) (bool, error) {
	result, err := q.exec(ctx, query, args...)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows > 0, err
}
