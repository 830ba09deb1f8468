// Package retryriver lets a [retry.Policy] decide on the jobs of River
// (riverqueue.com): whether a job that failed runs again, when, and why not.
//
//	plugin, err := retryriver.New(policy)
//	if err != nil {
//		return err
//	}
//	config := &river.Config{Workers: workers, Queues: queues}
//	plugin.Configure(config)
//	client, err := river.NewClient(riverpgxv5.New(pool), config)
//
// Configure the clients that insert jobs too, not only those that work them.
//
// # What happens to a job
//
// Workers return errors as always, and may mark them with [retry.Permanent] and
// [retry.After]. A job that is retried waits as long as the policy says. One that
// is not is discarded, or canceled if its error is permanent.
// Its metadata then say why, under [MetadataKey], and the last of its errors too.
//
// River's own signals keep their meaning: river.JobCancel is a permanent error,
// and river.JobSnooze counts neither as an attempt nor as a failure. It has no
// limit, so return retry.After instead where a server asks to wait. An attempt
// that is interrupted because the client stops does not count either.
//
// # Limits
//
// A job's own MaxAttempts lowers the policy's limit, and never raises it. 25,
// which is River's default, counts as not set. In the table max_attempts is one
// more than the limit: a job whose worker died in its last attempt is handed out
// once more, so that this package can refuse it and say so. Without that River
// discards it without a reason, which is what happens to jobs that another
// client inserted.
//
// MaxElapsed counts from the start of the first attempt; if the worker died in
// it, from when River noticed. A worker's own NextRetry goes before the policy's
// delay.
package retryriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// MetadataKey is the key in a job's metadata with what this package keeps there.
const MetadataKey = "retry"

// Metadata is what this package keeps in the metadata of a job.
type Metadata struct {
	MaxAttempts int          `json:"max_attempts"`       // the job's own limit; 0: none
	Reason      retry.Reason `json:"reason,omitempty"`   // why the job does not run again; 0: it may
	Attempts    int          `json:"attempts,omitempty"` // that were made when Reason was set
}

// MetadataOf returns what this package keeps in the metadata of a job. It
// returns an error if the job has no metadata of this package, as when another
// client inserted it.
func MetadataOf(job *rivertype.JobRow) (Metadata, error) {
	var all struct {
		Retry *Metadata `json:"retry"`
	}
	if err := json.Unmarshal(job.Metadata, &all); err != nil {
		return Metadata{}, fmt.Errorf("retryriver: metadata of job %d: %w", job.ID, err)
	}
	if all.Retry == nil {
		return Metadata{}, fmt.Errorf("retryriver: metadata of job %d have no key %q", job.ID, MetadataKey)
	}
	return *all.Retry, nil
}

// A Plugin applies policies to the jobs of a client: as middleware it sees each
// insert and each attempt, and it is the client's RetryPolicy. It may be shared
// by clients.
type Plugin struct {
	river.MiddlewareDefaults
	policy retry.Policy
	kinds  map[string]retry.Policy
}

// New returns a Plugin that applies policy to jobs of every kind. A policy that
// does not validate is an error.
func New(policy retry.Policy) (*Plugin, error) {
	if err := policy.Validate(); err != nil {
		return nil, fmt.Errorf("retryriver: %w", err)
	}
	return &Plugin{policy: policy, kinds: map[string]retry.Policy{}}, nil
}

// SetKind sets the policy for jobs of one kind. Call it before the client starts.
func (p *Plugin) SetKind(kind string, policy retry.Policy) error {
	if err := policy.Validate(); err != nil {
		return fmt.Errorf("retryriver: kind %s: %w", kind, err)
	}
	p.kinds[kind] = policy
	return nil
}

// Configure adds p to the configuration of a client, in the place of its
// RetryPolicy and as the last of its plugins.
func (p *Plugin) Configure(config *river.Config) {
	config.RetryPolicy = p
	config.Plugins = append(config.Plugins, p)
}

func (p *Plugin) of(kind string) retry.Policy {
	if policy, ok := p.kinds[kind]; ok {
		return policy
	}
	return p.policy
}

// InsertMany notes the limits of jobs that are inserted.
func (p *Plugin) InsertMany(ctx context.Context, jobs []*rivertype.JobInsertParams, do func(context.Context) ([]*rivertype.JobInsertResult, error)) ([]*rivertype.JobInsertResult, error) {
	for _, job := range jobs {
		own := ownLimit(job.MaxAttempts)
		metadata, err := withMetadata(job.Metadata, Metadata{MaxAttempts: own})
		if err != nil {
			return nil, fmt.Errorf("retryriver: metadata of a job of kind %s: %w", job.Kind, err)
		}
		job.Metadata = metadata
		job.MaxAttempts = oneMore(p.of(job.Kind).ForJob(own).EffectiveMax())
	}
	return do(ctx)
}

// ownLimit returns the limit that a job has of its own, 0 for none.
func ownLimit(maxAttempts int) int {
	if maxAttempts == river.MaxAttemptsDefault {
		return 0
	}
	return maxAttempts
}

// oneMore returns what max_attempts is in the table, which is a smallint.
func oneMore(limit int) int {
	if limit == retry.Unlimited || limit >= math.MaxInt16 {
		return math.MaxInt16
	}
	return limit + 1
}

// withMetadata adds m to the metadata of a job, a JSON object or nothing.
func withMetadata(metadata []byte, m Metadata) ([]byte, error) {
	all := map[string]any{}
	if len(metadata) > 0 {
		raw := map[string]json.RawMessage{}
		if err := json.Unmarshal(metadata, &raw); err != nil {
			return nil, err
		}
		for key, value := range raw {
			all[key] = value
		}
	}
	all[MetadataKey] = m
	return json.Marshal(all)
}

// Work makes an attempt of a job.
func (p *Plugin) Work(ctx context.Context, row *rivertype.JobRow, do func(context.Context) error) (result error) {
	var snoozed error
	retryjob.Run(ctx, p.of(row.Kind), job(row), func(ctx context.Context) error {
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
		switch {
		case o.Err == nil:
			result = snoozed
		case o.Interrupted():
			result = o.Err // River looks for the context's error in it
		case o.Retry():
			again(row, o.Delay)
			result = retry.LastError(o.Err)
		default:
			result = end(ctx, row, o)
		}
	})
	return storable(result)
}

// storable returns err with a text that PostgreSQL can store. River fails to
// store a NUL, and then leaves the job running until it is rescued.
func storable(err error) error {
	if err == nil || !strings.Contains(err.Error(), "\x00") {
		return err
	}
	return &withoutNUL{err}
}

type withoutNUL struct{ error }

func (e *withoutNUL) Error() string { return strings.ReplaceAll(e.error.Error(), "\x00", "\uFFFD") }
func (e *withoutNUL) Unwrap() error { return e.error }

// job returns what River knows of a job.
func job(row *rivertype.JobRow) retryjob.Job {
	j := retryjob.Job{
		Key:         strconv.FormatInt(row.ID, 10),
		Attempt:     row.Attempt,
		MaxAttempts: ownLimit(row.MaxAttempts),
	}
	if m, err := MetadataOf(row); err == nil {
		j.MaxAttempts = m.MaxAttempts
	}
	if len(row.Errors) > 0 {
		j.Began = row.Errors[0].At
	}
	return j
}

// River decides by the row that it has in memory, which is the one that its
// middleware gets: it discards a job if Attempt is not below MaxAttempts, and
// asks NextRetry with the row otherwise. The tests against River show that.

// again lets a job run after delay.
func again(row *rivertype.JobRow, delay time.Duration) {
	row.MaxAttempts = max(row.MaxAttempts, row.Attempt+1)
	row.ScheduledAt = time.Now().Add(delay)
}

// end lets a job not run again, and returns the error for River.
func end(ctx context.Context, row *rivertype.JobRow, o retryjob.Outcome) error {
	var failure *retry.Error
	errors.As(o.Err, &failure)
	m := Metadata{MaxAttempts: job(row).MaxAttempts, Reason: o.Reason, Attempts: failure.Attempts}
	row.MaxAttempts = row.Attempt
	err := o.Err
	if o.Reason == retry.ReasonPermanent {
		err = river.JobCancel(err)
	}
	if unset := river.MetadataSet(ctx, MetadataKey, m); unset != nil {
		err = errors.Join(err, unset)
	}
	return err
}

// NextRetry returns when a job runs again: when Work has decided, or now where
// that has passed, because River takes a time in the past for a mistake. A job
// that no Work has decided on was left by a worker that died, or cannot be read.
func (p *Plugin) NextRetry(row *rivertype.JobRow) time.Time {
	now := time.Now()
	due := row.ScheduledAt
	if row.AttemptedAt == nil || !due.After(*row.AttemptedAt) {
		j := job(row)
		d := p.of(row.Kind).ForJob(j.MaxAttempts).Next(retry.Attempt{Number: j.Attempt, Seed: retry.SeedOf(j.Key)})
		due = now
		if d.Retry() {
			due = now.Add(d.Delay)
		}
	}
	if due.Before(now) {
		return now
	}
	return due
}
