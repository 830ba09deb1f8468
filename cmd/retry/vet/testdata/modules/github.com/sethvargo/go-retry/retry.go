// Package retry has the names of github.com/sethvargo/go-retry that the cases use.
package retry

import (
	"context"
	"time"
)

type Backoff interface{ Next() (time.Duration, bool) }

func RetryableError(err error) error { return err }

func NewConstant(time.Duration) Backoff { return nil }

func Do(context.Context, Backoff, func(context.Context) error) error { return nil }

func Fibonacci(context.Context, time.Duration, func(context.Context) error) error { return nil }
