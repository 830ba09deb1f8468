package retryriver

import (
	"errors"
	"fmt"

	"github.com/goretry/retry/retryjob"
)

// The function `storable` returns err with a text that PostgreSQL can store. River cannot store a
// text that contains a NUL, and the job would stay in the state running until River rescues it.
func storable(err error) error {
	if err == nil {
		return nil
	}
	if text := retryjob.TextOf(err); text != err.Error() {
		return &storedError{err, text}
	}
	return err
}

// storableValue returns the value of a panic, or a text in its place if PostgreSQL cannot store the
// text of the value. River stores this text as the error of the attempt.
func storableValue(value any) any {
	text := fmt.Sprint(value)
	if short := retryjob.TextOf(errors.New(text)); short != text {
		return short
	}
	return value
}

// A storedError is an error whose text is the result of [retryjob.TextOf].
type storedError struct {
	error
	text string
}

func (e *storedError) Error() string { return e.text }

func (e *storedError) Unwrap() error { return e.error }
