package retry_test

import (
	_ "github.com/cenkalti/backoff/v4"
	_ "github.com/stretchr/testify/require"
	_ "golang.org/x/exp/rand"
)
