package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/goretry/retry/retryjob"
)

// A DeadLetter is a job that will not run again, unless somebody requeues it.
type DeadLetter struct {
	retryjob.DeadLetter
	ID, Payload string

	requeues int
}

// DeadLetters returns the dead letters. They are sorted by the end of their last attempt. If an
// operator has made a dead letter by hand, the dead letter may have no Reason.
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

// setPending makes a dead letter runnable again. It increments the column `requeues`, because the
// columns `requeues` and `attempts` together identify a claim. Without this increment, a worker
// with an old claim of attempt 1 could write its result for the new attempt 1.
const setPending = "status = 'PENDING', first_run_at = NULL, dead_letter = NULL, " +
	"last_error = NULL, requeues = requeues + 1"

// setNew makes a dead letter runnable again, and counts its attempts from 1 again.
const setNew = setPending + ", attempts = 0, classes = NULL"

// Redrive makes dead letters runnable again. o.Filter selects these dead letters. The attempts of
// each job count from 1 again. The jobs start at different times within o.Window. Redrive executes
// one SQL statement for each job. The statement does nothing if the job is no longer a dead letter.
// So no job is lost or moved twice, even if Redrive is killed or two calls run at the same time.
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
			changed, err := q.change(ctx, "UPDATE jobs SET "+setNew+", "+
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

// Requeue makes a dead letter runnable now. If `reset` is false, the earlier attempts of the job
// still count, so only its remaining attempts are made. If `reset` is true, the attempts count from
// 1 again. In both cases the time that MaxElapsed limits starts from zero again. Suppose that the
// answer of the database is lost and you call Requeue again. Then the second call fails, because
// the job is no longer a dead letter.
func (q *Queue) Requeue(ctx context.Context, id string, reset bool) error {
	set, where := setPending, " AND {eligible}"
	if reset {
		set, where = setNew, ""
	}
	query := "UPDATE jobs SET " + set + ", run_at = NULL WHERE id = $1 AND status = 'FAILED'" + where
	changed, err := q.change(ctx, query, id)
	if err == nil && !changed {
		err = fmt.Errorf("jobqueue: %q is not a dead letter, or has no attempts left: "+
			"if it has no attempts left, requeue it with reset = true", id)
	}
	return err
}
