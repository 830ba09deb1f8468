package retryriver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/goretry/retry/retryjob"
)

// Redrive runs the dead letters of this package again. Each job gets all its attempts again, and
// runs at the time within o.Window that [retryjob.Spread] computes from the ID of the job. The jobs
// keep their IDs and the errors of their attempts. Redrive skips these jobs:
//
//   - jobs that somebody else has discarded or canceled;
//   - unique jobs, if another job with the same unique key exists.
//
// If PostgreSQL refuses to change the row of a job, Redrive leaves this dead letter and goes on
// with the other jobs. The error of Redrive then names this job.
//
// Redrive moves a job with a single statement, which changes nothing if the row is no longer the
// dead letter that Redrive has read. So no job is lost and no job is moved twice if Redrive fails,
// if its process is killed, or if two calls run at once. Call Redrive again for the rest.
//
// The client may be a client that only inserts jobs. Redrive needs PostgreSQL. It uses River's
// driver, whose API is not stable.
func Redrive[TTx any](
	ctx context.Context, client *river.Client[TTx], o retryjob.RedriveOptions,
) (retryjob.RedriveResult, error) {
	return o.Walk("retryriver", func(walk *retryjob.Walk) error {
		return redriveAll(ctx, client, walk)
	})
}

func redriveAll[TTx any](
	ctx context.Context, client *river.Client[TTx], walk *retryjob.Walk,
) error {
	schema := client.Schema()
	if schema != "" {
		schema += "."
	}
	database := client.Driver().GetExecutor()
	total := 0
	if err := database.QueryRow(ctx, "SELECT count(*) FROM "+schema+"river_job "+
		"WHERE state IN ('cancelled', 'discarded')").Scan(&total); err != nil {
		return err
	}
	const page = 1000
	params := river.NewJobListParams().
		States(rivertype.JobStateCancelled, rivertype.JobStateDiscarded).
		OrderBy(river.JobListOrderByID, river.SortOrderAsc).
		First(page)
	for {
		jobs, err := client.JobList(ctx, params)
		if err != nil {
			return err
		}
		for _, row := range jobs.Jobs {
			d, unreadable := DeadLetterOf(row)
			if err := walk.Look(d, unreadable, total, func(due time.Time) (moved bool, err error) {
				metadata, err := anew(row)
				if err != nil {
					return false, retryjob.Stuck(err)
				}
				wait := max(0, time.Until(due)).Microseconds() + 1
				err = database.QueryRow(ctx, moving(schema),
					row.ID, metadata, wait, row.FinalizedAt).Scan(&moved)
				return moved, refusal(row.ID, err)
			}); err != nil {
				return fmt.Errorf("job %d: %w", row.ID, err)
			}
		}
		if len(jobs.Jobs) < page {
			return nil
		}
		params = params.After(jobs.LastCursor)
	}
}

// The function `moving` returns the SQL statement that moves a job back to the queue. The statement
// changes nothing if the row is no longer the dead letter that Redrive has read. River's scheduler
// runs every 5 seconds. So if the job is due within 5 seconds, the statement makes the job
// available at once, as River does. Workers still do not take the job before scheduled_at.
func moving(schema string) string {
	return `
		WITH moved AS (
			UPDATE ` + schema + `river_job
			SET attempt = 0, finalized_at = NULL, metadata = $2,
				scheduled_at = now() + $3 * interval '1 microsecond',
				state = CASE WHEN $3 > 5000000 THEN 'scheduled' ELSE 'available' END
					::` + schema + `river_job_state
			WHERE id = $1 AND state IN ('cancelled', 'discarded') AND finalized_at = $4
			RETURNING 1
		)
		SELECT count(*) > 0 FROM moved`
}

// The function `refusal` returns the error that is reported for a job. The parameter err says why
// the job was not moved, or is nil. If another job has the same unique key, `refusal` returns nil.
// If PostgreSQL refuses the job for another reason, it wraps err with retryjob.Stuck. It returns
// any other error unchanged.
func refusal(id int64, err error) error {
	var refused interface{ SQLState() string } // errors of PostgreSQL have this method
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.SQLState() == uniqueViolation:
		return nil
	default:
		return retryjob.Stuck(fmt.Errorf("job %d: %w", id, err))
	}
}

// The function `anew` returns the metadata for a dead letter that is moved back to the queue.
func anew(row *rivertype.JobRow) (string, error) {
	_, m, err := read(row)
	if err != nil {
		return "", err
	}
	fields, err := withMetadata(row.Metadata, metadata{
		MaxAttempts: m.MaxAttempts, Earlier: len(row.Errors),
	})
	return string(fields), err
}

// uniqueViolation is the SQLSTATE that PostgreSQL returns if a row violates a unique index.
const uniqueViolation = "23505"
