package loopbody

import (
	"context"
	"errors"
	"log"

	"github.com/goretry/retry"
)

var errNotReady = errors.New("not ready")

func assigned(ctx context.Context, p retry.Policy) error {
	var err error
	for _, ctx := range retry.Loop(ctx, p, &err) {
		err = ping(ctx)
	}
	return err
}

// An error that is not the attempt's has a scope of its own.
func inner(ctx context.Context, p retry.Policy) (err error) {
	for _, ctx := range retry.Loop(ctx, p, &err) {
		if err := ping(ctx); err != nil {
			log.Println("the warm-up failed:", err)
		}
		_, err = read(ctx)
	}
	return err
}

// The variable has a value where the iteration ends.
func before(ctx context.Context, p retry.Policy) (err error) {
	for _, ctx := range retry.Loop(ctx, p, &err) {
		err = errNotReady
		if err := ping(ctx); err != nil {
			continue
		}
		err = nil
	}
	return err
}

// The loop inside goes on, not the Loop.
func twice(ctx context.Context, p retry.Policy) (err error) {
	for _, ctx := range retry.Loop(ctx, p, &err) {
		for range 2 {
			if err := ping(ctx); err != nil {
				continue
			}
			break
		}
		_, err = read(ctx)
	}
	return err
}

// It is left with the error.
func left(ctx context.Context, p retry.Policy) (err error) {
	for _, ctx := range retry.Loop(ctx, p, &err) {
		if err = ping(ctx); err != nil {
			continue
		}
		data, err := read(ctx)
		if err != nil {
			return err
		}
		log.Println(data)
	}
	return err
}

func first(ctx context.Context, p retry.Policy) (err error) {
	for _, ctx := range retry.Loop(ctx, p, &err) {
		err := ping(ctx)
		log.Println(err)
		return err
	}
	return err
}

// A closure assigns it, or the holder of a pointer.
func elsewhere(ctx context.Context, p retry.Policy) error {
	var err error
	step := func(ctx context.Context) { err = ping(ctx) }
	for _, ctx := range retry.Loop(ctx, p, &err) {
		step(ctx)
	}
	var other error
	set := func(to *error) { *to = ping(ctx) }
	for range retry.Loop(ctx, p, &other) {
		set(&other)
	}
	return errors.Join(err, other)
}

func (s *store) field(ctx context.Context) {
	for _, ctx := range retry.Loop(ctx, s.policy, &s.err) {
		err := ping(ctx)
		s.err = err
	}
}

// To fall out of the loop says that it failed.
func fallen(ctx context.Context, p retry.Policy) ([]byte, error) {
	var err error
	var data []byte
	for _, ctx := range retry.Loop(ctx, p, &err) {
		if data, err = read(ctx); err == nil {
			return data, nil
		}
	}
	return nil, errNotReady
}

// A discarded error was looked at.
func discarded(ctx context.Context, p retry.Policy) {
	var err error
	for _, ctx := range retry.Loop(ctx, p, &err) {
		err = ping(ctx)
	}
	_ = err
}

func named(ctx context.Context, p retry.Policy) (err error) {
	for _, ctx := range retry.Loop(ctx, p, &err) {
		err = ping(ctx)
	}
	return
}

func captured(ctx context.Context, p retry.Policy) (err error) {
	func() {
		for _, ctx := range retry.Loop(ctx, p, &err) {
			err = ping(ctx)
		}
	}()
	return
}

// A closure has its own variables.
func closure(ctx context.Context, p retry.Policy) (err error) {
	for _, ctx := range retry.Loop(ctx, p, &err) {
		err = func() error {
			data, err := read(ctx)
			log.Println(data)
			return err
		}()
	}
	return err
}

// The range of another iterator is not a Loop.
func other(p retry.Policy) error {
	var err error
	for range 3 {
		err := ping(context.Background())
		log.Println(err)
	}
	return err
}
