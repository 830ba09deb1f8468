package sharedsource

import (
	"math/rand/v2"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// Tests run one after the other.
var testPolicy = retry.Policy{MaxAttempts: 3, Source: rand.NewPCG(1, 2).Uint64}

var testTransport = &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3, Source: rand.NewPCG(1, 2).Uint64}}
