// Package mail is the work of the jobs in these programs: they send mail to four
// people, two of whom cannot be reached.
package mail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/goretry/retry"
)

// Policy is the policy of all the programs.
var Policy = retry.Policy{
	MaxAttempts: 3,
	Backoff:     retry.Exponential{Base: 200 * time.Millisecond},
	Jitter:      retry.Proportional(0.2),
}

// People are the recipients of the mail.
var People = []string{"ann", "bob", "carol", "dave"}

// A Post sends mail and counts the attempts. The zero Post is ready to use. It is
// safe for concurrent use.
type Post struct {
	mu       sync.Mutex // guards attempts
	attempts map[string]int
}

// Send makes one attempt.
func (p *Post) Send(_ context.Context, to string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attempts == nil {
		p.attempts = map[string]int{}
	}
	p.attempts[to]++
	switch {
	case to == "bob" && p.attempts[to] == 1:
		return retry.After(300*time.Millisecond, errors.New("450 mailbox busy"))
	case to == "carol":
		return errors.New("connection refused")
	case to == "dave":
		return retry.Permanent(errors.New("550 no such user"))
	default:
		return nil
	}
}

// A Letter is a dead letter, as the program finds it where its queue keeps it.
type Letter struct {
	To       string
	Reason   retry.Reason
	Attempts int
	Error    string
}

// Report prints what happened to the mail.
func (p *Post) Report(out io.Writer, dead []Letter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, to := range People {
		i := slices.IndexFunc(dead, func(l Letter) bool { return l.To == to })
		if i < 0 {
			fmt.Fprintf(out, "%-5s  sent in attempt %d\n", to, p.attempts[to])
			continue
		}
		fmt.Fprintf(out, "%-5s  %v, %d of %d: %s\n", to, dead[i].Reason, dead[i].Attempts, p.attempts[to], dead[i].Error)
	}
}

var errOpen = errors.New("jobs are open")

// Wait waits until open reports that no job is open.
func Wait(ctx context.Context, open func(context.Context) (int, error)) error {
	return retry.Do(ctx, retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Fixed(50 * time.Millisecond),
		RetryIf:     func(err error) bool { return errors.Is(err, errOpen) },
	}, func(ctx context.Context) error {
		n, err := open(ctx)
		if err == nil && n > 0 {
			err = errOpen
		}
		return err
	})
}

// Want is what Report prints at the end of each program.
const Want = `ann    sent in attempt 1
bob    sent in attempt 2
carol  attempts_exhausted, 3 of 3: retry: attempts exhausted after 3 attempts: connection refused
dave   permanent_error, 1 of 1: retry: permanent error after 1 attempt: 550 no such user
`
