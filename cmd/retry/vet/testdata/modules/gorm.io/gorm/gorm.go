// Package gorm has the names of the real one that the checks know.
package gorm

import "context"

type DB struct{ Error error }

func (db *DB) WithContext(ctx context.Context) *DB     { return db }
func (db *DB) Create(value any) *DB                    { return db }
func (db *DB) Begin() *DB                              { return db }
func (db *DB) Commit() *DB                             { return db }
func (db *DB) Rollback() *DB                           { return db }
func (db *DB) Transaction(fn func(tx *DB) error) error { return fn(db) }
