package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTransient(t *testing.T) {
	for _, err := range []error{nil, errors.New("no"), context.Canceled, ErrLost} {
		assert.False(t, transient(err), err)
	}
	assert.True(t, transient(context.DeadlineExceeded))

	// In SQLite, another writer locks the database for too long.
	s := server{dialect: sqliteDialect, place: t.TempDir() + "/jobs.db"}
	holder, other := s.open(t), s.open(t)
	_, err := holder.Exec("CREATE TABLE t (x INTEGER); BEGIN IMMEDIATE")
	require.NoError(t, err)
	_, err = other.Exec("INSERT INTO t VALUES (1)")
	require.Error(t, err)
	assert.True(t, transient(err), err)

	// If another writer wrote between the read and the write, SQLite returns an extended code.
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
