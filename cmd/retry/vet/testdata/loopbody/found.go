package loopbody

import (
	"context"
	"log"

	"github.com/goretry/retry"
)

func ping(context.Context) error { return nil }

func read(context.Context) ([]byte, error) { return nil, nil }

func shadowed(ctx context.Context, p retry.Policy) error {
	var err error
	for _, ctx := range retry.Loop(ctx, p, &err) {
		err := ping(ctx) // want `this err is not the one that retry.Loop reads, so the loop does not see what failed: assign it with = instead of :=`
		log.Println(err)
	}
	return err
}

func two(ctx context.Context, p retry.Policy) (data []byte, err error) {
	for _, ctx := range retry.Loop(ctx, p, &err) {
		more, err := read(ctx) // want `declare more before, and assign with = instead of :=`
		if err != nil {
			continue
		}
		data = more
	}
	return data, err
}

func condition(ctx context.Context, p retry.Policy) (err error) {
	for _, ctx := range retry.Loop(ctx, p, &err) {
		if err := ping(ctx); err != nil { // want `assign it with = instead of :=`
			continue
		}
		_, err = read(ctx)
	}
	return err
}

func blank[T any](ctx context.Context, p retry.Policy, load func(context.Context) (T, error)) error {
	var failed error
	for attempt, ctx := range retry.Loop(ctx, p, &failed) {
		_, failed := load(ctx) // want `this failed is not the one .* assign it with = instead of :=`
		if failed != nil {
			log.Println(attempt, failed)
		}
	}
	return failed
}

func after(ctx context.Context, p retry.Policy) (err error) {
	for _, ctx := range retry.Loop(ctx, p, &err) {
		if err = ping(ctx); err != nil {
			continue
		}
		data, err := read(ctx) // want `declare data before`
		log.Println(data, err)
	}
	return err
}

func declared(ctx context.Context, p retry.Policy) (err error) {
	for _, ctx := range retry.Loop(ctx, p, &err) {
		var err error // want `do not declare it again`
		err = ping(ctx)
		log.Println(err)
	}
	return err
}

func label(ctx context.Context, p retry.Policy) (err error) {
attempts:
	for _, ctx := range retry.Loop(ctx, p, &err) {
		for range 2 {
			if err := ping(ctx); err != nil { // want `assign it with =`
				continue attempts
			}
		}
		err = nil
	}
	return err
}

func unassigned(ctx context.Context, p retry.Policy) error {
	var last error
	for _, ctx := range retry.Loop(ctx, p, &last) { // want `the body never assigns last, which retry.Loop reads after each iteration, so there is only one attempt: assign what the attempt failed with`
		if err := ping(ctx); err == nil {
			return nil
		}
	}
	return last
}

func unread(ctx context.Context, p retry.Policy) {
	var err error
	for _, ctx := range retry.Loop(ctx, p, &err) { // want `err is not read after the loop, so it goes unnoticed that all attempts failed: return err, or check it there`
		err = ping(ctx)
	}
}

func (s *store) unread(ctx context.Context) []byte {
	var err error
	for _, ctx := range retry.Loop(ctx, s.policy, &err) { // want `err is not read after the loop`
		if s.data, err = read(ctx); err != nil {
			log.Println(err)
		}
	}
	return s.data
}

type store struct {
	policy retry.Policy
	data   []byte
	err    error
}
