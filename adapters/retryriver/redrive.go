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

// Redrive lets the dead letters of this package run again, each with all its attempts
// and at its moment in o.Window. The jobs keep their IDs, and the errors of their
// attempts. Jobs that were discarded or canceled by anyone else are skipped, and so are
// those that River's unique jobs do not allow beside another. A job that cannot go back
// stays. Redrive goes on with the others, and returns an error that names it.
//
// Each goes back in one statement, if it is still this dead letter: if Redrive is killed or
// fails, or two run at once, no job is lost and none goes back twice. Call it again to
// move the rest. It needs PostgreSQL, and works with a client that only inserts.
func Redrive[TTx any](ctx context.Context, client *river.Client[TTx], o retryjob.RedriveOptions) (retryjob.RedriveResult, error) {
	return o.Walk("retryriver", func(walk *retryjob.Walk) error { return redriveAll(ctx, client, walk) })
}

func redriveAll[TTx any](ctx context.Context, client *river.Client[TTx], walk *retryjob.Walk) error {
	schema := client.Schema()
	if schema != "" {
		schema += "."
	}
	database := client.Driver().GetExecutor()
	total := 0
	if err := database.QueryRow(ctx, "SELECT count(*) FROM "+schema+"river_job WHERE state IN ('cancelled', 'discarded')").Scan(&total); err != nil {
		return err
	}
	const page = 1000
	params := river.NewJobListParams().States(rivertype.JobStateCancelled, rivertype.JobStateDiscarded).OrderBy(river.JobListOrderByID, river.SortOrderAsc).First(page)
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
				// Like River itself, what is due within the interval of its scheduler is
				// available already: workers do not take it before scheduled_at.
				err = database.QueryRow(ctx, `
					WITH moved AS (
						UPDATE `+schema+`river_job SET attempt = 0, finalized_at = NULL, metadata = $2, scheduled_at = now() + $3 * interval '1 microsecond',
							state = CASE WHEN $3 > 5000000 THEN 'scheduled' ELSE 'available' END::`+schema+`river_job_state
						WHERE id = $1 AND state IN ('cancelled', 'discarded') AND finalized_at = $4 RETURNING 1)
					SELECT count(*) > 0 FROM moved`, row.ID, metadata, max(0, time.Until(due)).Microseconds()+1, row.FinalizedAt).Scan(&moved)
				var refused interface{ SQLState() string } // by PostgreSQL
				switch {
				case !errors.As(err, &refused):
					return moved, err
				case refused.SQLState() == uniqueViolation: // another job has the place of this unique one
					return false, nil
				default:
					return false, retryjob.Stuck(fmt.Errorf("job %d: %w", row.ID, err))
				}
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

// anew returns the metadata of a dead letter for its new life.
func anew(row *rivertype.JobRow) (string, error) {
	_, m, err := read(row)
	if err != nil {
		return "", err
	}
	fields, err := withMetadata(row.Metadata, metadata{MaxAttempts: m.MaxAttempts, Earlier: len(row.Errors)})
	return string(fields), err
}

const uniqueViolation = "23505" // an SQLSTATE
