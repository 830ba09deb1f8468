package compare

import (
	"errors"

	"github.com/goretry/retry"
)

var ErrTest = errors.New("a test")

var testPolicy = retry.Policy{RetryIf: func(err error) bool { return err == ErrTest }}
