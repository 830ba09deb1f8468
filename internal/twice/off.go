//go:build !retrytwice || plan9

package twice

import (
	"context"
	"time"
)

const On = false

type Lost struct{ error }

func Not(ctx context.Context) context.Context { return ctx }

func Lossy(_ context.Context, _ func(int, time.Duration) (time.Duration, bool), fn, _ func(context.Context) error) func(context.Context) error {
	return fn
}

func Loses(context.Context) bool { return false }
