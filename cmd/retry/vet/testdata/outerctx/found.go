package outerctx

import (
	"context"
	"database/sql"
	"net/http"
	"os/exec"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

var policy = retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Second}

func ping(ctx context.Context) error { return ctx.Err() }

func closure(ctx context.Context) error {
	return retry.Do(ctx, policy, func(context.Context) error {
		return ping(ctx) // want `ping gets the context of all attempts, so AttemptTimeout does not end it: name the context parameter of the function, as in func\(ctx context.Context\), and pass it`
	})
}

func named(ctx context.Context) error {
	return retry.Do(ctx, policy, func(attempt context.Context) error {
		if err := ping(context.TODO()); err != nil { // want `context.TODO\(\) ends neither with the attempt .* pass attempt`
			return err
		}
		return ping(ctx) // want `pass attempt, the context of this attempt`
	})
}

func generic[T any](ctx context.Context, p retry.Policy, load func(context.Context) (T, error)) (T, error) {
	return retry.DoValue(ctx, p, func(attempt context.Context) (T, error) {
		return load(ctx) // want `load gets the context of all attempts`
	})
}

func assigned(ctx context.Context, p retry.Policy) error {
	op := func(inner context.Context) error {
		bounded, cancel := context.WithTimeout(ctx, time.Second) // want `context.WithTimeout gets the context .* pass inner`
		defer cancel()
		return ping(bounded)
	}
	return retry.Do(retry.WithBudget(ctx, &retry.Budget{Size: 3}), p, op)
}

func command(ctx context.Context) error {
	return retry.Do(ctx, policy, func(c context.Context) error {
		if err := ping(c); err != nil {
			return err
		}
		return exec.CommandContext(ctx, "true").Run() // want `exec.CommandContext gets .* pass c`
	})
}

type session struct {
	ctx    context.Context
	policy retry.Policy
}

func (s *session) open() error { return retry.Do(s.ctx, s.policy, s.dial) }

func (s *session) dial(ctx context.Context) error {
	return ping(s.ctx) // want `ping gets .* pass ctx`
}

func derived(ctx context.Context, start func(context.Context, string) (context.Context, func())) error {
	return retry.Do(ctx, policy, func(context.Context) error {
		ctx, end := start(ctx, "ping") // want `start gets the context of all attempts`
		defer end()
		return ping(ctx)
	})
}

func hidden(ctx context.Context) error {
	return retry.Do(ctx, policy, func(attempt context.Context) error {
		for attempt := range 3 {
			if attempt > 0 {
				return ping(ctx) // want `ping gets .* name the context parameter of the function`
			}
		}
		return ping(attempt)
	})
}

var root = context.Background()

func function() error { return retry.Do(root, policy, step) }

func step(context.Context) error {
	return ping(root) // want `ping gets`
}

func request(r *http.Request) error {
	return retry.Do(r.Context(), policy, func(context.Context) error {
		return ping(r.Context()) // want `ping gets`
	})
}

func transaction(ctx context.Context, db *sql.DB) error {
	return retrysql.Tx(ctx, db, nil, policy, func(c context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE t SET n = 1") // want `tx.ExecContext gets .* pass c`
		return err
	})
}
