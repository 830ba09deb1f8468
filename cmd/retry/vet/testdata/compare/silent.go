package compare

import (
	"context"
	"errors"
	"io"

	"github.com/goretry/retry"
)

// nil, and the ways that see through.
func seesThrough(ctx context.Context, p retry.Policy) bool {
	err := retry.Do(ctx, p, ping)
	var code *codeError
	return err == nil || err != nil && (errors.Is(err, io.EOF) || errors.As(err, &code) || retry.Unwrap(err) == io.EOF)
}

// An error of another call in the same variable.
func otherCall(ctx context.Context, p retry.Policy, r io.Reader) error {
	err := retry.Do(ctx, p, ping)
	if err != nil {
		return err
	}
	_, err = r.Read(nil)
	if err == io.EOF {
		return nil
	}
	return err
}

func before(ctx context.Context, p retry.Policy) error {
	err := ping(ctx)
	if err == io.EOF {
		err = retry.Do(ctx, p, ping)
	}
	return err
}

// The type that Do returns.
func reason(ctx context.Context, p retry.Policy) retry.Reason {
	err := retry.Do(ctx, p, ping)
	if e, ok := err.(*retry.Error); ok {
		return e.Reason
	}
	switch e := err.(type) {
	case *retry.Error:
		return e.Reason
	}
	switch err.(type) {
	case nil:
	case error: // which any error is
		return retry.ReasonOf(err)
	}
	return ""
}

// Whether two calls returned the same error.
func identity(ctx context.Context, p retry.Policy) bool {
	first := retry.Do(ctx, p, ping)
	second := retry.Do(ctx, p, ping)
	return first == second
}

var judges = retry.Policy{
	RetryIf: func(err error) bool {
		return err != nil && (err == io.EOF || errors.Is(err, io.EOF))
	},
	Classify: func(err error) *retry.Class {
		err = retry.Unwrap(err)
		if err == io.EOF {
			return nil
		}
		return &retry.Class{NonRetryable: true}
	},
}

// A function that walks the tree itself.
func walks(err error) bool {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return walks(e.Unwrap())
	case interface{ Unwrap() []error }:
		return len(e.Unwrap()) > 0
	}
	return false
}

var walker = retry.Policy{RetryIf: walks}

// A field of the same name in another type.
type settings struct{ RetryIf func(error) bool }

var other = settings{RetryIf: func(err error) bool { return err == io.EOF }}

// Errors that only this package makes, as its operations return them.
var errBusy = errors.New("busy")

var ownErrors = retry.Policy{
	RetryIf: func(err error) bool { return err == errBusy },
	Classify: func(err error) *retry.Class {
		switch err := err.(type) {
		case nil:
		case *codeError:
			return &retry.Class{MaxAttempts: err.code}
		}
		return nil
	},
}
