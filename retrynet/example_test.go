package retrynet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynet"
)

func ExampleTransient() {
	policy := retry.Policy{MaxAttempts: 3, RetryIf: retrynet.Transient}

	answers := []error{syscall.ECONNREFUSED, io.ErrUnexpectedEOF, nil}
	err := retry.Do(context.Background(), policy, func(context.Context) error {
		answer := answers[0]
		answers = answers[1:]
		fmt.Println("tried:", answer)
		return answer
	})
	fmt.Println(err)

	err = retry.Do(context.Background(), policy, func(context.Context) error {
		return &net.DNSError{Err: "no such host", Name: "db.invalid", IsNotFound: true}
	})
	fmt.Println(err)
	// Output:
	// tried: connection refused
	// tried: unexpected EOF
	// tried: <nil>
	// <nil>
	// retry: rejected by RetryIf after 1 attempt: lookup db.invalid: no such host
}

// If AttemptTimeout ends an attempt, its error is context.DeadlineExceeded, as if the caller's
// deadline had passed. This RetryIf may accept the error, because Do stops when the caller's own
// context is done.
func ExampleTransient_attemptTimeout() {
	policy := retry.Policy{
		MaxAttempts:    3,
		AttemptTimeout: time.Millisecond,
		RetryIf: func(err error) bool {
			return retrynet.Transient(err) || errors.Is(err, context.DeadlineExceeded)
		},
	}
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		<-ctx.Done() // a server that never answers
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// retry: attempts exhausted after 3 attempts (attempt 3 ran out of its 1ms): context deadline exceeded
}

// This policy retries every error that is not certain to happen again. Use it for a client whose
// errors are unknown to Transient.
func ExamplePermanent() {
	policy := retry.Policy{
		MaxAttempts: 3,
		RetryIf:     func(err error) bool { return !retrynet.Permanent(err) },
	}
	err := retry.Do(context.Background(), policy, func(context.Context) error {
		return errors.New("proprietary protocol: code 17")
	})
	fmt.Println(err)
	_, err = net.Dial("tcp", "127.0.0.1")
	fmt.Println(retrynet.Transient(err), retrynet.Permanent(err))
	// Output:
	// retry: attempts exhausted after 3 attempts: proprietary protocol: code 17
	// false true
}
