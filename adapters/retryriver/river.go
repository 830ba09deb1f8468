// Package retryriver retries the jobs of River (riverqueue.com) according to a retry.Policy.
// If a job fails, the policy decides whether and when the job runs again. If a failed job is
// not retried, the row of the job contains the reason.
//
//	plugin, err := retryriver.New(policy)
//	if err != nil {
//		return err
//	}
//	config := &river.Config{Workers: workers, Queues: queues}
//	plugin.Configure(config)
//	client, err := river.NewClient(riverpgxv5.New(pool), config)
//
// Call Configure for clients that only insert jobs, too.
//
// # What happens to a job
//
// Workers return errors as usual, and may wrap errors with [retry.Permanent] and [retry.After]. A
// job that is retried waits as long as the policy says. A failed job that is not retried is
// canceled if its error is permanent, and discarded otherwise. In both cases, the reason is stored
// in two places: under the key "retry" in the metadata of the job, and in the last error of the
// job. See [DeadLetterOf]. If the value of the key "retry" is malformed before an attempt, the job
// is canceled and does not run.
//
// [Redrive] runs dead letters again, with a new count of attempts. If an operator runs a job
// again with River's JobRetry, the job keeps its count of attempts.
//
// The special errors of River have their usual effect. river.JobCancel is a permanent error. An
// attempt that returns river.JobSnooze does not count, so the number of snoozes has no limit.
// If a server asks for a wait, return [retry.After] instead. An attempt that is interrupted
// because the client stops does not count either. The failures of each [retry.Class] are counted
// in the metadata of the job.
//
// # Limits
//
// The MaxAttempts of a job can lower the policy's limit. A MaxAttempts of 25, which is River's
// default, is treated as not set. docs/queues.md in the library's repository explains what all
// adapters for queues have in common.
//
// The package sets the column max_attempts to one above the limit. So if a worker dies in the last
// attempt of a job, River delivers the job once more, and this package discards the job and stores
// the reason. A job that was inserted by a client without this package has River's own
// max_attempts. If a worker dies in the last attempt of such a job, River discards the job and
// stores no reason.
//
// MaxElapsed counts from the start of the first attempt. If the worker died in the first attempt,
// MaxElapsed counts from the time when River noticed the death of the worker. If a River worker
// implements NextRetry, its NextRetry replaces the policy's delay.
package retryriver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// A Plugin applies policies to the jobs of a client. It is a middleware for inserts and for
// attempts, and also the RetryPolicy of the client. Several clients may share a Plugin. After the
// last call of SetKind, the methods of the Plugin are safe for concurrent use.
type Plugin struct {
	river.MiddlewareDefaults
	policies retryjob.Policies
}

// New returns a Plugin that applies the policy to jobs of every kind. It returns an error if the
// policy is invalid or has no limit, as [retryjob.NewPolicies] does.
func New(policy retry.Policy) (*Plugin, error) {
	policies, err := retryjob.NewPolicies("retryriver", policy)
	if err != nil {
		return nil, err
	}
	return &Plugin{policies: policies}, nil
}

// SetKind sets the policy for jobs of one kind. It returns an error if the policy is invalid or has
// no limit, as [retryjob.NewPolicies] does. Call SetKind before the client starts.
func (p *Plugin) SetKind(kind string, policy retry.Policy) error {
	return p.policies.Set("retryriver: kind", kind, policy)
}

// Configure changes the configuration of a client: it sets RetryPolicy to p, and appends p to
// Plugins.
func (p *Plugin) Configure(config *river.Config) {
	config.RetryPolicy = p
	config.Plugins = append(config.Plugins, p)
}

// InsertMany implements rivertype.JobInsertMiddleware. It stores each job's own limit in the
// metadata of the job, and sets MaxAttempts of the job to one above the limit.
func (p *Plugin) InsertMany(
	ctx context.Context, jobs []*rivertype.JobInsertParams,
	do func(context.Context) ([]*rivertype.JobInsertResult, error),
) ([]*rivertype.JobInsertResult, error) {
	for _, job := range jobs {
		own := ownLimit(job.MaxAttempts)
		fields, err := withMetadata(job.Metadata, metadata{MaxAttempts: own})
		if err != nil {
			return nil, fmt.Errorf("retryriver: metadata of a job of kind %s: %w", job.Kind, err)
		}
		job.Metadata = fields
		job.MaxAttempts = oneMore(p.policies.Of(job.Kind).ForJob(own).EffectiveMax())
	}
	return do(ctx)
}

// ownLimit returns a job's own limit. It returns 0 if the limit is River's default.
func ownLimit(maxAttempts int) int {
	if maxAttempts == river.MaxAttemptsDefault {
		return 0
	}
	return maxAttempts
}

// The function `oneMore` returns `limit` + 1 for the column max_attempts. The column is a smallint,
// so the result is at most 32,767.
func oneMore(limit int) int {
	if limit == retry.Unlimited || limit >= math.MaxInt16 {
		return math.MaxInt16
	}
	return limit + 1
}

// Work implements rivertype.WorkerMiddleware. It makes one attempt of a job. If the attempt
// fails and the job is not retried, Work sets row.MaxAttempts to row.Attempt. If the failure is
// permanent, the returned error is a *river.JobCancelError. Only a client of River should call
// Work.
func (p *Plugin) Work(
	ctx context.Context, row *rivertype.JobRow, do func(context.Context) error,
) (result error) {
	// Work tells River its decision by changing `row`, which is a pointer to River's own data. If
	// Attempt is below MaxAttempts, River calls NextRetry with the row. If Attempt has reached
	// MaxAttempts, River discards the job.
	defer func() {
		if value := recover(); value != nil {
			panic(storableValue(value))
		}
	}()
	var snoozed error
	j, m, malformed := read(row)
	retryjob.Run(ctx, p.policies.Of(row.Kind), j, func(ctx context.Context) error {
		if malformed != nil {
			return retry.Permanent(malformed)
		}
		err := do(ctx)
		var snooze *river.JobSnoozeError
		var cancel *river.JobCancelError
		switch {
		case errors.As(err, &snooze):
			snoozed, err = err, nil
		case errors.As(err, &cancel):
			err = retry.Permanent(err)
		}
		return err
	}, func(o retryjob.Outcome) {
		// If m.Dead is set, an operator has run a dead letter again. m.Dead is removed here, so the
		// metadata of the job change.
		changed := m.Dead != nil
		m.Dead, m.DeadAttempt = nil, 0
		switch {
		case o.Err == nil:
			result = snoozed
		case o.Interrupted():
			result = o.Err // River finds the context's error in o.Err, and does not count the attempt
		case o.Retry():
			result = retry.Unwrap(o.Err)
			row.MaxAttempts = max(row.MaxAttempts, row.Attempt+1)
			row.ScheduledAt = time.Now().Add(o.Delay)
			m.Classes, changed = o.Classes, changed || o.Class != ""
		default:
			result = o.Err
			row.MaxAttempts = row.Attempt
			dead := o.DeadLetter(j)
			m.Dead, m.DeadAttempt, changed = &dead, row.Attempt, true
			if o.Reason == retry.ReasonPermanent {
				result = river.JobCancel(o.Err)
			}
		}
		if !changed {
			return
		}
		if unset := river.MetadataSet(ctx, metadataKey, m); unset != nil {
			result = errors.Join(result, unset)
		}
	})
	return storable(result)
}

// NextRetry returns the time at which a job runs again. Usually this is the time that Work has
// decided. If the worker died, or if River could not decode the job, NextRetry asks the policy.
// It never returns a time in the past, because River would replace such a time with the time of
// its default policy.
func (p *Plugin) NextRetry(row *rivertype.JobRow) time.Time {
	now := time.Now()
	due := row.ScheduledAt
	if row.AttemptedAt == nil || !due.After(*row.AttemptedAt) {
		j, _, malformed := read(row)
		d := p.policies.Of(row.Kind).ForJob(j.MaxAttempts).Next(retry.Attempt{
			Number: j.Attempt, Seed: retry.SeedOf(j.Key),
		})
		due = now
		if d.Retry() && malformed == nil {
			due = now.Add(d.Delay)
		}
	}
	if due.Before(now) {
		return now
	}
	return due
}
