package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// A request that is rejected gets one more attempt with a new token. If that is
// rejected too, the token was not the reason, and a retry cannot help.
func ExampleDo_refreshToken() {
	errUnauthorized := errors.New("401 Unauthorized")
	token := "old"
	get := func(ctx context.Context) error { // stands for a request
		fmt.Println("GET /orders with the", token, "token")
		if token == "old" {
			return errUnauthorized
		}
		return nil
	}

	policy := retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Millisecond)}
	refreshed := false
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		err := get(ctx)
		switch {
		case !errors.Is(err, errUnauthorized):
			return err
		case refreshed:
			return retry.Permanent(err)
		default:
			token, refreshed = "new", true // stands for asking for a token
			return err
		}
	})
	fmt.Println(err)
	// Output:
	// GET /orders with the old token
	// GET /orders with the new token
	// <nil>
}
