package retryriver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryriver"
	"github.com/goretry/retry/retryjob"
)

func TestNewRefusesAnInvalidPolicy(t *testing.T) {
	_, err := retryriver.New(retry.Policy{MaxAttempts: -2})
	assert.ErrorContains(t, err, "retryriver: invalid policy: MaxAttempts is -2")
	plugin, err := retryriver.New(retry.Default())
	require.NoError(t, err)
	assert.ErrorContains(t, plugin.SetKind("email", retry.Policy{MaxDelay: -1}), "retryriver: kind email: invalid policy: MaxDelay is -1ns")
}

var (
	errBoom = errors.New("boom")
	quick   = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(20 * time.Millisecond)}
)

// other is a second kind of job.
type other struct{}

func (other) Kind() string { return "other" }

// A service is a River client with workers and its own schema.
type service struct {
	*testing.T
	*queue
	plugin  *retryriver.Plugin
	client  *river.Client[pgx.Tx]
	updates <-chan *river.Event
}

// newService starts workers for both kinds of jobs.
func newService(t *testing.T, work river.Worker[args], also river.Worker[other]) *service {
	t.Helper()
	q, err := open(t.Context(), databaseURL(t), "retryriver_"+fmt.Sprint(time.Now().UnixNano()))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, q.Close(context.Background(), true)) })
	plugin, err := retryriver.New(quick)
	require.NoError(t, err)
	require.NoError(t, plugin.SetKind("other", retry.Policy{NonRetryable: true}))
	workers := river.NewWorkers()
	river.AddWorker(workers, work)
	river.AddWorker(workers, also)
	config := &river.Config{
		Schema: q.schema, Logger: quiet, Workers: workers,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}},
		FetchPollInterval: 20 * time.Millisecond, FetchCooldown: 10 * time.Millisecond,
	}
	plugin.Configure(config)
	client, err := river.NewClient(riverpgxv5.New(q.pool), config)
	require.NoError(t, err)
	updates, cancel := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobCancelled, river.EventKindJobFailed, river.EventKindJobSnoozed)
	t.Cleanup(cancel)
	require.NoError(t, client.Start(context.Background()))
	t.Cleanup(func() { assert.NoError(t, client.StopAndCancel(context.Background())) })
	return &service{t, q, plugin, client, updates}
}

func (s *service) insert(args river.JobArgs, opts *river.InsertOpts) *rivertype.JobRow {
	s.Helper()
	inserted, err := s.client.Insert(s.Context(), args, opts)
	require.NoError(s, err)
	return inserted.Job
}

// end waits until a job is completed, canceled or discarded, and returns its row.
func (s *service) end(id int64) *rivertype.JobRow {
	s.Helper()
	for {
		row, err := s.client.JobGet(s.Context(), id)
		require.NoError(s, err)
		if row.FinalizedAt != nil {
			return row
		}
		select {
		case <-s.updates:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func work[T river.JobArgs](do func(ctx context.Context, job *river.Job[T]) error) river.Worker[T] {
	return river.WorkFunc(do)
}

func fails[T river.JobArgs](context.Context, *river.Job[T]) error { return errBoom }

func TestAPolicyForEachKind(t *testing.T) {
	t.Parallel()
	s := newService(t, work(fails[args]), work(fails[other]))
	first := s.insert(args{"a"}, nil)
	second := s.insert(other{}, nil)

	row := s.end(first.ID)
	assert.Equal(t, rivertype.JobStateDiscarded, row.State)
	d, err := retryriver.DeadLetterOf(row)
	require.NoError(t, err)
	assert.Equal(t, retryjob.DeadLetter{Key: fmt.Sprint(row.ID), Reason: retry.ReasonExhausted, Attempts: 3,
		Err: "retry: attempts exhausted after 3 attempts: boom", Began: row.Errors[0].At.UTC(), Ended: d.Ended}, d)
	require.Len(t, row.Errors, 3)
	assert.Equal(t, "boom", row.Errors[0].Error, "the error of an attempt that is retried is what the worker returned")
	assert.Equal(t, "retry: attempts exhausted after 3 attempts: boom", row.Errors[2].Error)

	d, err = retryriver.DeadLetterOf(s.end(second.ID))
	require.NoError(t, err)
	assert.Equal(t, [...]any{retry.ReasonNonRetryable, 1}, [...]any{d.Reason, d.Attempts})
}

func TestInsert(t *testing.T) {
	t.Parallel()
	s := newService(t, work(fails[args]), work(fails[other]))
	later := time.Now().Add(time.Hour)
	for _, row := range []struct {
		name       string
		opts       river.InsertOpts
		kind       river.JobArgs
		maxAttempt int
		metadata   string
	}{
		{"no limit of its own", river.InsertOpts{}, args{}, 4, `{"retry": {"max_attempts": 0}}`},
		{"River's default", river.InsertOpts{MaxAttempts: 25}, args{}, 4, `{"retry": {"max_attempts": 0}}`},
		{"a lower limit", river.InsertOpts{MaxAttempts: 2}, args{}, 3, `{"retry": {"max_attempts": 2}}`},
		{"a higher limit", river.InsertOpts{MaxAttempts: 50}, args{}, 4, `{"retry": {"max_attempts": 50}}`},
		{"not retryable", river.InsertOpts{}, other{}, 2, `{"retry": {"max_attempts": 0}}`},
		{"metadata", river.InsertOpts{Metadata: []byte(`{"user": [1, "x"]}`)}, args{}, 4, `{"user": [1, "x"], "retry": {"max_attempts": 0}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.opts.ScheduledAt = later
			inserted := s.insert(row.kind, &row.opts)
			assert.Equal(t, row.maxAttempt, inserted.MaxAttempts)
			assert.JSONEq(t, row.metadata, string(inserted.Metadata))
		})
	}
	_, err := s.client.Insert(t.Context(), args{}, &river.InsertOpts{Metadata: []byte(`[`)})
	assert.ErrorContains(t, err, "retryriver: metadata of a job of kind jobtest")
}

// MaxElapsed also ends a job whose row lacks the time of the first attempt, or has a time in
// the future.
func TestMaxElapsedOfAForgedRow(t *testing.T) {
	t.Parallel()
	s := newService(t, work(fails[args]), work(fails[other]))
	require.NoError(t, s.plugin.SetKind("other", retry.Policy{MaxElapsed: 300 * time.Millisecond, Backoff: retry.Fixed(100 * time.Millisecond)}))
	for name, row := range map[string]struct{ metadata, errors string }{
		"nothing":           {`{}`, `{}`},
		"earlier errors":    {`{"retry": {"earlier": 9223372036854775807}}`, `{}`},
		"an error to come":  {`{}`, `{"{\"at\": \"9999-12-31T23:59:59Z\", \"attempt\": 1, \"error\": \"boom\", \"trace\": \"\"}"}`},
		"an error of never": {`{}`, `{"{\"at\": \"0001-01-01T00:00:00Z\", \"attempt\": 1, \"error\": \"boom\", \"trace\": \"\"}"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var id int64
			require.NoError(t, s.pool.QueryRow(t.Context(), "INSERT INTO "+s.schema+`.river_job (kind, args, max_attempts, metadata, errors)
				VALUES ('other', '{}', 32767, $1, $2::text::jsonb[]) RETURNING id`, row.metadata, row.errors).Scan(&id))
			d, err := retryriver.DeadLetterOf(s.end(id))
			require.NoError(t, err)
			assert.Equal(t, retry.ReasonElapsed, d.Reason)
			assert.Less(t, d.Attempts, 6)
		})
	}
}

// River keeps at most 8 KiB of the error of each attempt, as a dead letter does.
func TestALongError(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	s := newService(t, work(func(context.Context, *river.Job[args]) error { return errors.New(long) }), work(fails[other]))
	row := s.end(s.insert(args{"a"}, nil).ID)
	d, err := retryriver.DeadLetterOf(row)
	require.NoError(t, err)
	assert.Len(t, d.Err, 8<<10)
	require.Len(t, row.Errors, 3)
	assert.Equal(t, long[:8<<10], row.Errors[0].Error)
	assert.Len(t, row.Errors[2].Error, 8<<10)
}

// Jobs that a client without the Plugin inserted have River's own max_attempts and
// no Metadata.
func TestJobsOfAnotherClient(t *testing.T) {
	t.Parallel()
	s := newService(t, work(fails[args]), work(fails[other]))
	plain, err := river.NewClient(riverpgxv5.New(s.pool), &river.Config{Schema: s.schema, Logger: quiet})
	require.NoError(t, err)
	for maxAttempts, attempts := range map[int]int{0: 3, 2: 2} {
		inserted, err := plain.Insert(t.Context(), args{"a"}, &river.InsertOpts{MaxAttempts: maxAttempts})
		require.NoError(t, err)
		_, err = retryriver.DeadLetterOf(inserted.Job)
		assert.ErrorContains(t, err, `the metadata of the job have no key "dead" under the key "retry"`)
		d, err := retryriver.DeadLetterOf(s.end(inserted.Job.ID))
		require.NoError(t, err)
		assert.Equal(t, [...]any{retry.ReasonExhausted, attempts}, [...]any{d.Reason, d.Attempts})
	}
}

// The special errors of River have their usual effect.
func TestSignals(t *testing.T) {
	t.Parallel()
	runs := 0
	s := newService(t, work(func(_ context.Context, job *river.Job[args]) error {
		if runs++; runs <= 5 { // more than the policy's limit
			return river.JobSnooze(10 * time.Millisecond)
		}
		assert.Equal(t, 1, job.Attempt)
		return fmt.Errorf("job: %w", river.JobCancel(errBoom))
	}), work(fails[other]))
	inserted := s.insert(args{"a"}, nil)
	row := s.end(inserted.ID)
	assert.Equal(t, 6, runs)
	assert.Equal(t, rivertype.JobStateCancelled, row.State)
	d, err := retryriver.DeadLetterOf(row)
	require.NoError(t, err)
	assert.Equal(t, [...]any{retry.ReasonPermanent, 1}, [...]any{d.Reason, d.Attempts})
}

// A `later` is a River worker with its own NextRetry.
type later struct{ river.WorkerDefaults[args] }

func (later) Work(context.Context, *river.Job[args]) error { return errBoom }
func (later) NextRetry(*river.Job[args]) time.Time         { return time.Now().Add(time.Hour) }

func TestAWorkersOwnNextRetry(t *testing.T) {
	t.Parallel()
	s := newService(t, &later{}, work(fails[other]))
	inserted := s.insert(args{"a"}, nil)
	e := <-s.updates
	assert.Equal(t, inserted.ID, e.Job.ID)
	assert.Equal(t, rivertype.JobStateRetryable, e.Job.State)
	assert.Greater(t, time.Until(e.Job.ScheduledAt), 59*time.Minute)
}

// NextRetry decides on jobs without a decision of Work, because their worker died.
func TestNextRetryAfterTheWorkerDied(t *testing.T) {
	plugin, err := retryriver.New(retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Hour}, Jitter: retry.EqualJitter})
	require.NoError(t, err)
	attempted := time.Now().Add(-time.Minute)
	for attempt, delay := range map[int]time.Duration{
		1: retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Hour}, Jitter: retry.EqualJitter}.
			Next(retry.Attempt{Number: 1, Seed: retry.SeedOf("7")}).Delay,
		3: 0, // at once, so that a worker ends the job
	} {
		row := &rivertype.JobRow{ID: 7, Attempt: attempt, MaxAttempts: 4, AttemptedAt: &attempted, ScheduledAt: attempted}
		before := time.Now()
		next := plugin.NextRetry(row)
		assert.GreaterOrEqual(t, next.Sub(before), delay)
		assert.LessOrEqual(t, time.Until(next), delay)
	}
}

// The value of a panic is stored like an error.
func TestAPanicWithALongText(t *testing.T) {
	t.Parallel()
	s := newService(t, work(func(context.Context, *river.Job[args]) error { panic("a\x00" + strings.Repeat("x", 1<<20)) }), work(fails[other]))
	row := s.end(s.insert(args{"a"}, nil).ID)
	_, err := retryriver.DeadLetterOf(row)
	require.NoError(t, err)
	require.Len(t, row.Errors, 3)
	for _, failed := range row.Errors {
		assert.Equal(t, "a\uFFFD"+strings.Repeat("x", 8<<10-4), failed.Error)
		assert.Contains(t, failed.Trace, "TestAPanicWithALongText")
	}
}
