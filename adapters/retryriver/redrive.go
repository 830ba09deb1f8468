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

// Redrive lets the dead letters of this package run again. Each job gets all its attempts
// again, and runs at its moment in o.Window. The jobs keep their IDs, and the errors of their
// attempts. Redrive skips
//
//   - jobs that were discarded or canceled by anyone else;
//   - unique jobs, if another job has their place.
//
// A job that cannot go back stays a dead letter. Redrive goes on with the other jobs, and
// returns an error that names this job.
//
// A job goes back in one statement, if it is still the same dead letter. So if Redrive is
// killed or fails, or if two run at once, no job is lost, and no job goes back twice. Call
// Redrive again for the rest. It works with a client that only inserts. It needs PostgreSQL,
// and uses River's driver, whose API is not stable.
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

// moving returns the statement that lets a job run again if it still is the same dead letter.
// Like River itself, it makes a job available that is due within the interval of River's
// scheduler. Workers do not take the job before scheduled_at.
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

// refusal returns the error for a job that could not be moved because of err. It returns nil if
// the job is unique and another job has its place. If PostgreSQL refuses the job for another
// reason, refusal wraps err in retryjob.Stuck. Any other err is returned unchanged.
func refusal(id int64, err error) error {
	var refused interface{ SQLState() string } // an error of PostgreSQL
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.SQLState() == uniqueViolation:
		return nil
	default:
		return retryjob.Stuck(fmt.Errorf("job %d: %w", id, err))
	}
}

// anew returns the metadata that a dead letter has when it runs again.
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

// uniqueViolation is the SQLSTATE of a row that violates a unique index.
const uniqueViolation = "23505"
