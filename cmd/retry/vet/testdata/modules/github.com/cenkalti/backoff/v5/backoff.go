// Package backoff has the names of github.com/cenkalti/backoff/v5 that the cases use.
package backoff

type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }

func Permanent(err error) error { return &PermanentError{err} }
