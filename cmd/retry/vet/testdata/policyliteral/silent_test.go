package policyliteral

import "github.com/goretry/retry"

var invalid = retry.Policy{MaxAttempts: -2}
