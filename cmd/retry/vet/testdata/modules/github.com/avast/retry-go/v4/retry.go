// Package retry has the names of github.com/avast/retry-go/v4 that the cases use.
package retry

import "time"

type Config struct{}

func Unrecoverable(err error) error { return err }

func IsRecoverable(error) bool { return false }

func BackOffDelay(uint, error, *Config) time.Duration { return 0 }
