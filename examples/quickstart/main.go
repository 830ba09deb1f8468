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
var policy = retry.Policy{ // a struct of plain data: calls may share it
	MaxAttempts: 4, // the first attempt and up to three retries
	Backoff:     retry.Exponential{Base: 100 * time.Millisecond},
	MaxDelay:    time.Second,
	Jitter:      retry.FullJitter,
}

func main() {
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if wrong := new(net.AddrError); errors.As(err, &wrong) {
			return retry.Permanent(err) // the address is invalid, so Do makes no further attempt
		}
		if err != nil {
			return err // another attempt follows
		}
		return conn.Close()
	})
	fmt.Println(retry.ReasonOf(err))
	fmt.Println(err)
}
