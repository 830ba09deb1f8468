package compare

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

type codeError struct{ code int }

func (e *codeError) Error() string { return "code" }

type store struct{ policy retry.Policy }

func (s *store) get(ctx context.Context) error { return io.ErrUnexpectedEOF }

func methodValue(ctx context.Context, s *store) error {
	err := retry.Do(ctx, s.policy, s.get)
	if err == io.ErrUnexpectedEOF { // want `retry.Do returns a \*retry.Error around the last error, which == never matches: use errors.Is\(err, io.ErrUnexpectedEOF\)`
		return nil
	}
	return err
}

func inIf(ctx context.Context, p retry.Policy) error {
	if err := retry.Do(ctx, p, ping); err != nil && err != os.ErrNotExist { // want `!= never matches: use !errors.Is\(err, os.ErrNotExist\)`
		return err
	}
	return nil
}

func ping(ctx context.Context) error { return retry.After(0, syscall.ECONNREFUSED) }

func generic[T any](ctx context.Context, p retry.Policy, load func(context.Context) (T, error)) (v T, err error) {
	switch v, err = retry.DoValue(ctx, p, load); err { // want `retry.DoValue returns .* which a switch never matches: use errors.Is\(err, ...\), or switch on retry.Unwrap\(err\)`
	case nil, io.EOF:
		return v, nil
	default:
		return v, err
	}
}

func assigned(ctx context.Context, p retry.Policy) (code int) {
	op := func(context.Context) error { return &codeError{404} }
	err := retry.Do(ctx, p, op)
	if code, ok := err.(*codeError); ok { // want `which a type assertion never matches: use errors.As\(err, &target\), or look at retry.Unwrap\(err\)`
		return code.code
	}
	switch e := err.(type) { // want `which a type switch never matches: use errors.As\(err, &target\), or switch on retry.Unwrap\(err\)`
	case nil:
		return 0
	case *codeError:
		return e.code
	case net.Error:
		return 1
	case error:
		return 2
	}
	return 3
}

func reversed(ctx context.Context, p retry.Policy) error {
	var err error
	err = retry.Do(ctx, p, ping)
	if syscall.ECONNREFUSED == err { // want `retry.Do returns .* use errors.Is\(err, syscall.ECONNREFUSED\)`
		return nil
	}
	return err
}

func direct(ctx context.Context, p retry.Policy, db retrysql.Beginner) bool {
	return retry.Do(ctx, p, ping) == ctx.Err() || // want `use errors.Is\(err, ctx.Err\(\)\)`
		retrysql.Tx(ctx, db, nil, p, nil) == io.EOF // want `retrysql.Tx returns`
}

var policy = retry.Policy{
	MaxAttempts: 3,
	RetryIf: func(err error) bool {
		return err == io.ErrUnexpectedEOF || // want `RetryIf gets the error as the operation returned it, and == does not see through one that is wrapped, as by retry.After: use errors.Is\(err, io.ErrUnexpectedEOF\)`
			err != os.ErrClosed // want `RetryIf gets .* use !errors.Is\(err, os.ErrClosed\)`
	},
	Classify: classify,
}

func classify(err error) *retry.Class {
	switch err.(type) { // want `Classify gets the error as the operation returned it, and a type switch does not see`
	case *net.OpError:
		return &retry.Class{Name: "network"}
	}
	return nil
}

func (s *store) retryable(err error) bool {
	e, ok := err.(net.Error) // want `RetryIf gets .* a type assertion`
	return ok && e.Timeout()
}

func fields(s *store) {
	s.policy.RetryIf = s.retryable
}
