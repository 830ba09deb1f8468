package lost

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

type user struct{ name string }

type settings struct{ Policy retry.Policy }

func dropped(ctx context.Context, p retry.Policy, ping func(context.Context) error, get func(context.Context) (string, error)) string {
	_ =
		retry.Do(ctx, p, ping) // want `the error of retry.Do is dropped`
	go retry.Do(ctx, p, ping)                 // want `the error of retry.Do is dropped`
	retry.Once(ctx, p, retry.Attempt{}, ping) // want `the error of retry.Once is dropped`

	name, _ := retry.DoValue(ctx, p, get) // want `the error of retry.DoValue is dropped`
	return name
}

func next(ctx context.Context, p retry.Policy, ping func(context.Context) error) {
	for n := 1; ; n++ {
		d, err := retry.Once(ctx, p, retry.Attempt{Number: n}, ping)
		if err == nil {
			return
		}
		select {
		case <-time.After(d.Delay): // want `nothing asks d.Retry`
		case <-ctx.Done():
			return
		}
	}
}

func nextAtOnce(p retry.Policy, err error) {
	time.Sleep(p.Next(retry.Attempt{Number: 1, Err: err}).Delay) // want `Delay is also set where there is no retry`
}

func ranged(all []retry.Policy) {
	for _, p := range all {
		p.MaxAttempts = 3 // want `p is a copy that nothing uses after this`
	}
}

func (s settings) limit(n int) {
	s.Policy.MaxAttempts = n // want `s is a copy that nothing uses after this`
}

func late(ctx context.Context, ping func(context.Context) error) error {
	p := retry.Default()
	err := retry.Do(ctx, p, ping)
	p.MaxAttempts = 9 // want `p is a copy that nothing uses after this`
	return err
}

func named(ctx context.Context, p retry.Policy, find func(context.Context) (*user, error)) (found *user, err error) {
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		found, err := find(ctx) // want `this found hides the one outside of retry.Do`
		if err == nil {
			log.Println(found.name)
		}
		return err
	})
	return
}

func swallowed(ctx context.Context, p retry.Policy, ping func(context.Context) error) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		if err := ping(ctx); err != nil {
			log.Println("ping", err)
			return nil // want `retry.Do takes nil for success`
		}
		return nil
	})
}

func ignored(ctx context.Context, p retry.Policy, ping func(context.Context) error) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		_ = ping(ctx) // want `returns nil whether or not this fails`
		return nil
	})
}

func first(ctx context.Context, p retry.Policy, get func(context.Context) (*user, error), save func(context.Context, *user) error) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		u, err := get(ctx)
		if err != nil {
			log.Println("get", err)
			return nil // want `retry.Do takes nil for success`
		}
		return save(ctx, u)
	})
}

var errGone = errors.New("gone")

func text(ctx context.Context, p retry.Policy, ping func(context.Context) error) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		err := ping(ctx)
		if errors.Is(err, errGone) {
			return fmt.Errorf("ping: %v", retry.Permanent(err)) // want `%v keeps the text of retry.Permanent\(err\)`
		}
		if err := check(ctx); err != nil {
			return fmt.Errorf("check %d: %s", 1, err) // want `%s keeps the text of err and drops its mark`
		}
		return err
	})
}

func check(context.Context) error { return retry.Permanent(errGone) }

func inTx(ctx context.Context, db retrysql.Beginner, p retry.Policy) {
	retrysql.Tx(ctx, db, nil, p, nil) // want `the error of retrysql.Tx is dropped`
}

func fallsThrough(ctx context.Context, p retry.Policy, ping func(context.Context) error) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		if err := ping(ctx); err != nil {
			log.Println("ping", err)
		}
		return nil // want `retry.Do takes nil for success`
	})
}

func hidden(ctx context.Context, p retry.Policy, ping func(context.Context) error) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		err := ping(ctx)
		if errors.Is(err, errGone) {
			err := retry.Permanent(err) // want `the marked error is in a new err that nothing returns`
			log.Println(err)
		}
		return err
	})
}
