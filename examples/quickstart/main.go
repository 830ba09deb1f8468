// Quickstart is the first program of the README.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/goretry/retry"
)

var address = "127.0.0.1:80"
var policy = retry.Policy{ // a value: share it, copy it, change the copy
	MaxAttempts: 4, // counts the first one
	Backoff:     retry.Exponential{Base: 100 * time.Millisecond},
	MaxDelay:    time.Second,
	Jitter:      retry.FullJitter,
}

func main() {
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if wrong := new(net.AddrError); errors.As(err, &wrong) {
			return retry.Permanent(err) // a wrong address stays wrong: no further attempt
		}
		if err != nil {
			return err // another attempt follows
		}
		return conn.Close()
	})
	fmt.Println(retry.ReasonOf(err))
	fmt.Println(err)
}
