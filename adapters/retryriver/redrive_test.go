package retryriver_test

import (
	"context"
	"encoding/json"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/adapters/retryriver"
	"github.com/goretry/retry/retryjob"
)

// Redrive may have read a row before the job ran again and ended again. Then the row is a
// different dead letter, and Redrive leaves it.
func TestRedriveLeavesALaterDeadLetter(t *testing.T) {
	t.Parallel()
	s := newService(t, work(fails[args]), work(fails[other]))
	inserted := s.insert(other{}, nil)
	s.end(inserted.ID)
	result, err := retryriver.Redrive(t.Context(), s.client, retryjob.RedriveOptions{Filter: func(retryjob.DeadLetter) bool {
		result, err := retryriver.Redrive(t.Context(), s.client, retryjob.RedriveOptions{})
		assert.NoError(t, err)
		assert.Equal(t, retryjob.RedriveResult{Found: 1, Moved: 1}, result)
		assert.Len(t, s.end(inserted.ID).Errors, 2)
		return true
	}})
	require.NoError(t, err)
	assert.Equal(t, retryjob.RedriveResult{Found: 1, Skipped: 1}, result)
}

// A moved job gets all its attempts again, and keeps its own limit and its errors. If another
// job has the same unique key, the job stays a dead letter.
func TestRedriveKeepsTheJob(t *testing.T) {
	t.Parallel()
	s := newService(t, work(fails[args]), work(fails[other]))
	unique := river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{rivertype.JobStateAvailable, rivertype.JobStatePending,
		rivertype.JobStateRunning, rivertype.JobStateRetryable, rivertype.JobStateScheduled}}
	first := s.insert(args{"a"}, &river.InsertOpts{MaxAttempts: 2, Metadata: []byte(`{"tenant":"acme","retries":{"n":1}}`), Tags: []string{"x-tenant"}, Priority: 3})
	second := s.insert(args{"b"}, &river.InsertOpts{UniqueOpts: unique})
	s.end(first.ID)
	s.end(second.ID)
	s.insert(args{"b"}, &river.InsertOpts{UniqueOpts: unique, ScheduledAt: time.Now().Add(time.Hour)})

	result, err := retryriver.Redrive(t.Context(), s.client, retryjob.RedriveOptions{})
	require.NoError(t, err)
	assert.Equal(t, retryjob.RedriveResult{Found: 2, Moved: 1, Skipped: 1}, result)
	row := s.end(first.ID)
	d, err := retryriver.DeadLetterOf(row)
	require.NoError(t, err)
	assert.Equal(t, 2, d.Attempts)
	require.Len(t, row.Errors, 4)
	assert.Equal(t, row.Errors[2].At.UTC(), d.Began)
	assert.Regexp(t, `"earlier": 2\b.*"max_attempts": 2\b`, string(row.Metadata))
	var kept struct {
		Tenant  string
		Retries map[string]int
	}
	require.NoError(t, json.Unmarshal(row.Metadata, &kept))
	assert.Equal(t, [...]any{"acme", map[string]int{"n": 1}, []string{"x-tenant"}, 3}, [...]any{kept.Tenant, kept.Retries, row.Tags, row.Priority})
}

// A deaf connection gets no answers while its server hangs.
type deaf struct {
	net.Conn
	hangs *atomic.Bool
}

func (d deaf) Read(b []byte) (int, error) {
	for {
		n, err := d.Conn.Read(b)
		if err != nil || !d.hangs.Load() {
			return n, err
		}
	}
}

// If PostgreSQL hangs, Redrive still ends with its context, and a later Redrive moves the rest.
func TestRedriveOfADatabaseThatHangs(t *testing.T) {
	t.Parallel()
	s := newService(t, work(fails[args]), work(fails[other]))
	for range 3 {
		s.end(s.insert(other{}, nil).ID)
	}
	hangs, seen := new(atomic.Bool), 0
	config, err := pgxpool.ParseConfig(databaseURL(t))
	require.NoError(t, err)
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return deaf{conn, hangs}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: s.schema, Logger: quiet})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = retryriver.Redrive(ctx, client, retryjob.RedriveOptions{Window: time.Hour, Filter: func(retryjob.DeadLetter) bool {
		if seen++; seen == 2 {
			hangs.Store(true)
			time.AfterFunc(50*time.Millisecond, cancel) // while Redrive waits for an answer
		}
		return true
	}})
	assert.ErrorIs(t, err, context.Canceled)
	result, err := retryriver.Redrive(t.Context(), s.client, retryjob.RedriveOptions{Window: time.Hour})
	require.NoError(t, err)
	assert.Contains(t, []int{1, 2}, result.Moved) // PostgreSQL may have moved the second job
}

// If a row cannot go back, Redrive still goes on. In one row, the number of the attempt is
// impossible. The database refuses to change another row.
func TestRedriveOfAStrangersRows(t *testing.T) {
	t.Parallel()
	s := newService(t, work(fails[args]), work(fails[other]))
	const insert = `.river_job (kind, args, max_attempts, attempt, state, finalized_at, metadata, tags) VALUES ('jobtest', '{}', 4, $1::int, 'discarded', now(),
		jsonb_build_object('retry', jsonb_build_object('dead_attempt', $1::int, 'dead', jsonb_build_object('key', $2::text, 'reason', 'planted'))), ARRAY[$2::text])`
	for key, attempt := range map[string]int{"no attempt": 0, "refused": 1, "good": 1} {
		_, err := s.pool.Exec(t.Context(), "INSERT INTO "+s.schema+insert, attempt, key)
		require.NoError(t, err)
	}
	_, err := s.pool.Exec(t.Context(), "ALTER TABLE "+s.schema+".river_job ADD CONSTRAINT refuses CHECK (tags <> ARRAY['refused'::varchar(255)] OR state = 'discarded')")
	require.NoError(t, err)
	result, err := retryriver.Redrive(t.Context(), s.client, retryjob.RedriveOptions{Window: time.Hour})
	assert.ErrorContains(t, err, "retryriver: redrive: 2 of 3 dead letters cannot go back to the queue, and stay dead letters: ")
	assert.ErrorContains(t, err, `"no attempt": retryriver: job `)
	assert.ErrorContains(t, err, `"refused": job `)
	assert.Equal(t, retryjob.RedriveResult{Found: 3, Moved: 1, Skipped: 2}, result)
}
