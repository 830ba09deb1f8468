// Package retry has the names of the real one that can be rewritten.
package retry

import (
	"context"
	"time"
)

type Backoff interface{ Next() (time.Duration, bool) }

func NewConstant(d time.Duration) Backoff                                         { return nil }
func NewFibonacci(d time.Duration) Backoff                                        { return nil }
func WithMaxRetries(n uint64, b Backoff) Backoff                                  { return b }
func WithJitter(d time.Duration, b Backoff) Backoff                               { return b }
func WithJitterPercent(j uint64, b Backoff) Backoff                               { return b }
func RetryableError(err error) error                                              { return err }
func Do(ctx context.Context, b Backoff, op func(ctx context.Context) error) error { return op(ctx) }
