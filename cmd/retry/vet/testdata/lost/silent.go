package lost

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/goretry/retry"
)

func bestEffort(ctx context.Context, p retry.Policy, ping func(context.Context) error, get func(context.Context) (string, error)) string {
	// The other end finds out by itself.
	_ = retry.Do(ctx, p, ping)
	defer func() { _ = retry.Do(ctx, p, ping) }()
	if name, _ := retry.DoValue(ctx, p, get); name != "" {
		return name
	}
	return "nobody"
}

func kept(ctx context.Context, p retry.Policy, ping func(context.Context) error) error {
	var last error
	_ = retry.Do(ctx, p, func(ctx context.Context) error {
		last = ping(ctx)
		return last
	})
	return last
}

func asks(ctx context.Context, p retry.Policy, ping func(context.Context) error, again func(retry.Decision)) {
	d, err := retry.Once(ctx, p, retry.Attempt{Number: 1}, ping)
	if err != nil && d.Reason == retry.ReasonRetry {
		log.Println(d.Delay)
	}
	e := p.Next(retry.Attempt{Number: 1, Err: err})
	log.Println(e.Delay)
	again(e)
}

func changed(ctx context.Context, p retry.Policy, s *settings, ping func(context.Context) error) (q retry.Policy) {
	p.MaxAttempts = 3
	s.Policy.MaxAttempts = 3
	q.MaxAttempts = 3
	for n := range 3 {
		// Best effort.
		_ = retry.Do(ctx, p, ping)
		p.MaxAttempts = n
	}
	r := p
	defer func() { log.Println(r) }()
	r.MaxAttempts = 1
	return
}

func other(ctx context.Context, p retry.Policy, find func(context.Context) (*user, error)) (found *user, err error) {
	err = retry.Do(ctx, p, func(ctx context.Context) error {
		u, err := find(ctx)
		found = u
		return err
	})
	return
}

// An attempt that fails in another way, a fallback, and an error that is kept.
func nils(ctx context.Context, p retry.Policy, get func(context.Context) (string, error), cached string) (string, error) {
	var errs []error
	return retry.DoValue(ctx, p, func(ctx context.Context) (string, error) {
		name, err := get(ctx)
		if err != nil && errors.Is(err, errGone) {
			return "", nil
		}
		if err != nil {
			errs = append(errs, err)
			return cached, nil
		}
		if name == "" {
			return "", fmt.Errorf("empty: %w", retry.Permanent(errGone))
		}
		return name, nil
	})
}

func texts(err error) error { return fmt.Errorf("%d%%: %v: %w", 7, err, retry.Permanent(err)) }
