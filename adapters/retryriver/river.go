// Package retryriver retries the jobs of River (riverqueue.com) according to a
// [retry.Policy]. If a job fails, the policy decides whether and when the job runs again.
// The row of a job that is not retried says why.
//
//	plugin, err := retryriver.New(policy)
//	if err != nil {
//		return err
//	}
//	config := &river.Config{Workers: workers, Queues: queues}
//	plugin.Configure(config)
//	client, err := river.NewClient(riverpgxv5.New(pool), config)
//
// Configure clients that only insert jobs in the same way.
//
// # What happens to a job
//
// Workers return errors as usual, and may mark errors with [retry.Permanent] and
// [retry.After]. A job that is retried waits as long as the policy says. A job that is not
// retried is canceled if its error is permanent, and otherwise discarded. The key "retry" of
// its metadata and the last of its errors then say why: see [DeadLetterOf]. The same happens
// if the metadata under that key cannot be read. [Redrive] lets dead letters run again. A job
// that an operator lets run again with JobRetry keeps its count of attempts.
//
// River's own signals keep their meaning. river.JobCancel is a permanent error.
// river.JobSnooze is neither an attempt nor a failure. Snoozes have no limit, so return
// retry.After instead if a server asks for a wait. An attempt that is interrupted because
// the client stops does not count either. The metadata count the failures of each
// [retry.Class].
//
// # Limits
//
// The MaxAttempts of a job lowers the policy's limit. River's default of 25 is treated as not
// set. docs/queues.md in the library's repository describes what all queues share.
//
// The column max_attempts is one above the limit. So if a worker dies in a job's last
// attempt, River delivers the job once more, and this package refuses the job with a reason.
// Jobs that were inserted by a client without this package have River's own max_attempts. If a
// worker dies in the last attempt of such a job, River discards the job without a reason.
//
// MaxElapsed counts from the start of the first attempt. If the worker of that attempt died,
// MaxElapsed counts from when River noticed. If a worker has its own NextRetry, that
// overrides the policy's delay.
package retryriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

const metadataKey = "retry"

// metadata is the value that this package stores in the metadata of a job, under metadataKey.
type metadata struct {
	// MaxAttempts is the job's own limit; 0 means that it has none.
	MaxAttempts int `json:"max_attempts"`

	// Classes is how many attempts failed with an error of each class.
	Classes map[string]int `json:"classes,omitempty"`

	// Earlier is how many of the row's errors are older than the last Redrive.
	Earlier int `json:"earlier,omitempty"`

	// Dead says why the job does not run again; nil means that it may run.
	Dead *retryjob.DeadLetter `json:"dead,omitempty"`

	// DeadAttempt is the row's attempt when Dead was written. If the row has another attempt
	// now, an operator let the job run again.
	DeadAttempt int `json:"dead_attempt,omitempty"`
}

// metadataOf returns the metadata of a job, nil if it has none. canceled says that an operator
// has canceled the job since it was last allowed to run. River stores this in the metadata too.
func metadataOf(job *rivertype.JobRow) (m *metadata, canceled bool, err error) {
	all, err := fieldsOf(job.Metadata)
	if mine := all[metadataKey]; len(mine) > 0 {
		err = json.Unmarshal(mine, &m)
	}
	return m, all["cancel_attempted_at"] != nil, err
}

// DeadLetterOf returns why a job does not run again. It returns an error if this package did
// not end the job, for example because an operator canceled it. It also returns an error if an
// operator let the job run again after this package had ended it.
func DeadLetterOf(job *rivertype.JobRow) (retryjob.DeadLetter, error) {
	m, canceled, err := metadataOf(job)
	finalized := job.State == rivertype.JobStateCancelled || job.State == rivertype.JobStateDiscarded
	switch {
	case err != nil:
	case m == nil || m.Dead == nil:
		err = fmt.Errorf("its metadata have no %q in %q", "dead", metadataKey)
	case !finalized || m.DeadAttempt != job.Attempt || canceled:
		err = fmt.Errorf("after its end in attempt %d, it was canceled, or allowed to run again",
			m.DeadAttempt)
	default:
		return *m.Dead, nil
	}
	return retryjob.DeadLetter{}, fmt.Errorf(
		"retryriver: job %d is not a dead letter of this package: %w", job.ID, err)
}

// fieldsOf reads the metadata of a job, which are a JSON object or empty.
func fieldsOf(metadata []byte) (all map[string]json.RawMessage, err error) {
	if len(metadata) > 0 {
		err = json.Unmarshal(metadata, &all)
	}
	return all, err
}

// A Plugin applies policies to the jobs of a client. As middleware it sees each insert and each
// attempt. It is also the client's RetryPolicy. Several clients may share a Plugin. Its methods
// are safe for concurrent use once the policies are set.
type Plugin struct {
	river.MiddlewareDefaults
	policies retryjob.Policies
}

// New returns a Plugin that applies policy to jobs of every kind. It returns an
// error if policy is invalid, or has none of MaxAttempts, MaxRetries and MaxElapsed.
func New(policy retry.Policy) (*Plugin, error) {
	policies, err := retryjob.NewPolicies("retryriver", policy)
	if err != nil {
		return nil, err
	}
	return &Plugin{policies: policies}, nil
}

// SetKind sets the policy for jobs of one kind. It returns an error if policy is invalid, or
// has none of MaxAttempts, MaxRetries and MaxElapsed. Call it before the client starts.
func (p *Plugin) SetKind(kind string, policy retry.Policy) error {
	return p.policies.Set("retryriver: kind", kind, policy)
}

// Configure sets p as the RetryPolicy in the configuration of a client, and appends p to its
// Plugins.
func (p *Plugin) Configure(config *river.Config) {
	config.RetryPolicy = p
	config.Plugins = append(config.Plugins, p)
}

// InsertMany implements rivertype.JobInsertMiddleware. It stores the jobs' own
// limits in their metadata, and sets their MaxAttempts to one above the limit.
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

// ownLimit returns a job's own limit, 0 if it has none.
func ownLimit(maxAttempts int) int {
	if maxAttempts == river.MaxAttemptsDefault {
		return 0
	}
	return maxAttempts
}

// oneMore returns the value for the column max_attempts, which is a smallint: one above limit.
func oneMore(limit int) int {
	if limit == retry.Unlimited || limit >= math.MaxInt16 {
		return math.MaxInt16
	}
	return limit + 1
}

// withMetadata adds m to the metadata of a job.
func withMetadata(fields []byte, m metadata) ([]byte, error) {
	before, err := fieldsOf(fields)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	for key, value := range before {
		all[key] = value
	}
	all[metadataKey] = m
	return json.Marshal(all)
}

// Work implements rivertype.WorkerMiddleware. It makes one attempt of a job. If the job ends
// without success, Work sets row.MaxAttempts to row.Attempt. If the failure was permanent, the
// error is a *river.JobCancelError. Only a client of River should call Work.
func (p *Plugin) Work(
	ctx context.Context, row *rivertype.JobRow, do func(context.Context) error,
) (result error) {
	// River and its middleware share row, and River decides by it. If Attempt is not below
	// MaxAttempts, River discards the job. Otherwise River calls NextRetry with the row. So Work
	// tells River its decision by changing the row.
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
		changed := m.Dead != nil // an operator let a dead letter run again: remove its reason
		m.Dead, m.DeadAttempt = nil, 0
		switch {
		case o.Err == nil:
			result = snoozed
		case o.Interrupted():
			result = o.Err // River looks for the context's error, which o.Err wraps
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

// storable returns err with a text that PostgreSQL can store. If the text contains a NUL,
// River cannot store it, and the job stays running until River rescues it.
func storable(err error) error {
	if err == nil {
		return nil
	}
	if text := retryjob.TextOf(err); text != err.Error() {
		return &stored{err, text}
	}
	return err
}

// storableValue does the same for the value of a panic. River stores its text too.
func storableValue(value any) any {
	text := fmt.Sprint(value)
	if short := retryjob.TextOf(errors.New(text)); short != text {
		return short
	}
	return value
}

// A stored is an error with the text of [retryjob.TextOf].
type stored struct {
	error
	text string
}

func (e *stored) Error() string { return e.text }
func (e *stored) Unwrap() error { return e.error }

// read returns the job and the metadata of a row. A producer that writes to the table can
// write anything into the metadata, so read corrects impossible counts. If read returns an
// error, the row is malformed, and becomes a dead letter.
func read(row *rivertype.JobRow) (j retryjob.Job, m metadata, malformed error) {
	switch kept, _, err := metadataOf(row); {
	case row.Attempt < 1:
		malformed = fmt.Errorf("retryriver: job %d: attempt is %d", row.ID, row.Attempt)
	case err != nil:
		malformed = fmt.Errorf("retryriver: metadata of job %d: %w", row.ID, err)
	case kept == nil: // a client without this package has inserted the row
		m.MaxAttempts = ownLimit(row.MaxAttempts)
	default:
		m = *kept
	}
	m.MaxAttempts = max(0, m.MaxAttempts)
	if m.Earlier < 0 || m.Earlier > len(row.Errors) {
		m.Earlier = 0 // with len(row.Errors), MaxElapsed would count anew from each attempt
	}
	if m.Classes == nil {
		m.Classes = map[string]int{} // not nil: the counts of all classes are known to be 0
	}
	j = retryjob.Job{
		Key:         strconv.FormatInt(row.ID, 10),
		Attempt:     max(1, row.Attempt),
		MaxAttempts: m.MaxAttempts,
		Began:       began(row, m.Earlier),
		Classes:     m.Classes,
	}
	return j, m, malformed
}

// began returns when the first attempt after the row's earlier errors began. It ignores times
// that are zero or in the future, because MaxElapsed would never end such a job.
func began(row *rivertype.JobRow, earlier int) time.Time {
	now := time.Now()
	for _, failed := range row.Errors[earlier:] {
		if !failed.At.IsZero() && !failed.At.After(now) {
			return failed.At
		}
	}
	if row.AttemptedAt != nil {
		return *row.AttemptedAt
	}
	return time.Time{}
}

// NextRetry returns when a job runs again. Normally Work has decided this. If the worker died,
// or if River could not read the job, NextRetry asks the policy. It never returns a time in the
// past, because River would replace such a time with the time of its default policy.
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
