package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// A request that is rejected gets one more attempt with a new token. If that is
// rejected too, the token was not the reason, and a retry cannot help. A 503 in
// between changes nothing: the failures of a class with a name are counted apart.
func ExampleDo_refreshToken() {
	errUnauthorized, errUnavailable := errors.New("401 Unauthorized"), errors.New("503 Service Unavailable")
	token, requests := "old", 0
	get := func(ctx context.Context) error { // stands for a request
		requests++
		fmt.Println("GET /orders with the", token, "token")
		switch {
		case requests == 1:
			return errUnavailable
		case token == "old":
			token = "new" // stands for asking for a token
			return errUnauthorized
		default:
			return nil
		}
	}

	unauthorized := &retry.Class{Name: "unauthorized", Policy: &retry.Policy{MaxAttempts: 2}}
	policy := retry.Policy{
		MaxAttempts: 4,
		Backoff:     retry.Fixed(time.Millisecond),
		Classify: func(err error) *retry.Class {
			if errors.Is(err, errUnauthorized) {
				return unauthorized
			}
			return nil
		},
	}
	fmt.Println(retry.Do(context.Background(), policy, get))
	// Output:
	// GET /orders with the old token
	// GET /orders with the old token
	// GET /orders with the new token
	// <nil>
}
