package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The database's clock counts microseconds since 1970, with a part of a second, and
// stands still within a statement. How far it is from this machine's does not
// matter.
func TestDatabaseClock(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db := s.open(t)
		us, parts := int64(0), false
		for range 100 { // because some may fall on a whole second
			require.NoError(t, db.QueryRowContext(t.Context(), "SELECT "+s.dialect.now).Scan(&us))
			parts = parts || us%1_000_000 != 0
		}
		assert.WithinDuration(t, time.Now(), time.UnixMicro(us), 24*time.Hour)
		assert.True(t, parts)

		var first, n, last int64
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT "+s.dialect.now+`,
			(WITH RECURSIVE slow(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM slow WHERE n < 10000) SELECT count(*) FROM slow),
			`+s.dialect.now).Scan(&first, &n, &last))
		assert.Equal(t, first, last)
	})
}

// openSQLite waits only briefly for a lock, makes commits survive a power failure,
// and keeps the writers of a process from waiting for each other.
func TestOpenSQLite(t *testing.T) {
	db := server{place: t.TempDir() + "/jobs.db"}.open(t)
	for pragma, want := range map[string]string{"busy_timeout": "100", "journal_mode": "wal", "synchronous": "2"} {
		var got string
		require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
		assert.Equal(t, want, got, pragma)
	}
	assert.Equal(t, 1, db.Stats().MaxOpenConnections)
}

func TestTransient(t *testing.T) {
	for _, err := range []error{nil, errors.New("no"), context.Canceled, ErrLost} {
		assert.False(t, transient(err), err)
	}
	assert.True(t, transient(context.DeadlineExceeded))

	// SQLite's own: a database that another writer holds for too long.
	s := server{dialect: sqliteDialect, place: t.TempDir() + "/jobs.db"}
	holder, other := s.open(t), s.open(t)
	_, err := holder.Exec("CREATE TABLE t (x INTEGER); BEGIN IMMEDIATE")
	require.NoError(t, err)
	_, err = other.Exec("INSERT INTO t VALUES (1)")
	require.Error(t, err)
	assert.True(t, transient(err), err)

	// It has another code if another writer came between reading and writing.
	_, err = holder.Exec("COMMIT; BEGIN; SELECT * FROM t")
	require.NoError(t, err)
	_, err = other.Exec("INSERT INTO t VALUES (1)")
	require.NoError(t, err)
	_, err = holder.Exec("INSERT INTO t VALUES (2)")
	require.ErrorContains(t, err, "(517)")
	assert.True(t, transient(err), err)

	_, err = other.Exec("INSERT INTO no_such_table VALUES (1)")
	require.Error(t, err)
	assert.False(t, transient(err), err)
}

// Enqueue waits for a locked file until the context ends.
func TestLockedFile(t *testing.T) {
	t.Parallel()
	s := server{dialect: sqliteDialect, place: t.TempDir() + "/jobs.db"}
	queue, _ := s.queue(t)
	holder := s.open(t)
	_, err := holder.Exec("BEGIN IMMEDIATE")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, queue.Enqueue(ctx, "too late", "", 0, 0), context.DeadlineExceeded)

	time.AfterFunc(150*time.Millisecond, func() { _, _ = holder.Exec("COMMIT") })
	require.NoError(t, queue.Enqueue(t.Context(), "job", "", 0, 0))
	open, err := queue.Open(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, open)
}
