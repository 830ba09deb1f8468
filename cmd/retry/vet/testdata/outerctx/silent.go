package outerctx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"

	"github.com/goretry/retry"
)

var last error

// A call that wraps an error or reads values cannot end early, and cleanup should
// not end with the attempt.
func wrapped(ctx context.Context, wrap func(context.Context, error) error, db *sql.DB) error {
	return retry.Do(ctx, policy, func(attempt context.Context) error {
		if _, err := userFromContext(ctx); err != nil {
			return wrap(ctx, err)
		}
		if err := ping(attempt); err != nil {
			return errors.Join(fmt.Errorf("in %v: %w", ctx, err), shutdown{}.Close(ctx))
		}
		return ping(context.WithoutCancel(ctx))
	})
}

func userFromContext(context.Context) (string, error) { return "", nil }

type shutdown struct{}

func (shutdown) Close(context.Context) error { return nil }

// The context of the attempt may be checked in any way.
func switched(ctx context.Context, v any) error {
	return retry.Do(ctx, policy, func(ctx context.Context) error {
		switch v := v.(type) {
		case error:
			return v
		}
		return ping(ctx)
	})
}

// A third context is passed on purpose.
func other(ctx, shutdown context.Context) error {
	return retry.Do(ctx, policy, func(attempt context.Context) error { return ping(shutdown) })
}

// Cleanup, and work that goes on, must not end with the attempt.
func detachedFrom(ctx context.Context) error {
	return retry.Do(ctx, policy, func(attempt context.Context) error {
		defer ping(ctx)
		go func() { last = ping(ctx) }()
		return ping(attempt)
	})
}

type stream struct{}

func (*stream) Close() error { return nil }

func open(context.Context) (*stream, error) { return new(stream), nil }

// A stream would end with the context of the attempt that opened it.
func opened(ctx context.Context) (s *stream, err error) {
	err = retry.Do(ctx, policy, func(context.Context) (err error) {
		s, err = open(ctx)
		return err
	})
	return s, err
}

func response(ctx context.Context) (*http.Response, error) {
	return retry.DoValue(ctx, policy, func(context.Context) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://localhost", nil)
		if err != nil {
			return nil, err
		}
		return http.DefaultClient.Do(req)
	})
}

// Without an AttemptTimeout both contexts end at the same time.
func same(ctx context.Context) error {
	brief := retry.Policy{MaxAttempts: 2}
	return errors.Join(
		retry.Do(ctx, retry.Default(), func(context.Context) error { return ping(ctx) }),
		retry.Do(ctx, brief, func(context.Context) error { return ping(ctx) }))
}
