// Package retry has the names of the real one that can be rewritten.
package retry

import (
	"context"
	"time"
)

type Config struct{}

type Option func(*Config)

type DelayTypeFunc func(n uint, err error, c *Config) time.Duration

func FixedDelay(n uint, err error, c *Config) time.Duration  { return 0 }
func RandomDelay(n uint, err error, c *Config) time.Duration { return 0 }
func DelayType(f DelayTypeFunc) Option                       { return nil }
func Attempts(n uint) Option                                 { return nil }
func Delay(d time.Duration) Option                           { return nil }
func MaxDelay(d time.Duration) Option                        { return nil }
func Context(ctx context.Context) Option                     { return nil }
func LastErrorOnly(only bool) Option                         { return nil }
func OnRetry(f func(n uint, err error)) Option               { return nil }
func Unrecoverable(err error) error                          { return err }
func Do(op func() error, opts ...Option) error               { return op() }
